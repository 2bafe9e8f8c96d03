"""The name of every tool in the requests to one API: one name for one tool, in declarations and history alike.

A name that the API takes is sent as it is. Any other is made anew, and hits no name that was declared, called or sent.
What was sent once stays (law 4): a name that was made then belongs to its tool, even if one of that name comes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from normalizer.facts import RequestSent
    from normalizer.parts import Json, Tool
    from normalizer.projecting.dialect_policies import NamePolicy
    from normalizer.projecting.sent_history import SentHistory
    from normalizer.transcript import Transcript


class _Known(NamedTuple):
    """A name on record: `declared`, or that of a call. `ours`: a client's tool or call, whose name may be another on
    the wire. `seq` is that of its fact.
    """

    name: str
    seq: int
    declared: bool
    ours: bool = True


class _Caseless(set[str]):
    """Names that a made one must differ from in more than case: models and programs mix that up."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.casefold())

    def include(self, names: Iterable[str]) -> None:
        self.update(name.casefold() for name in names)


class ToolNames:
    """The names of one projection. `renamed` are those that are others on the wire, as recorded -> as sent.

    `contested`: among the names that were not sent yet, one would be given otherwise if a part of them had been sent.
    """

    __slots__ = ("_names", "_owners", "_policy", "contested", "renamed")

    def __init__(self, transcript: Transcript, history: SentHistory, policy: NamePolicy) -> None:
        self._policy = policy
        self._names: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self.contested = False
        self.renamed: dict[str, str] = {}
        if _all_fit(transcript, history, policy):
            return
        sent = [history.requests[fact_id] for fact_id in standing(transcript, history)]
        self._give(list(_known(transcript)), sent, transcript)
        self.renamed = {name: wire for name, wire in self._names.items() if name != wire}

    def _give(self, known: list[_Known], sent: list[RequestSent], transcript: Transcript) -> None:
        """The names in the order in which they were sent: request by request, then what is not sent yet."""
        taken = _Caseless()
        through = -1
        for request in (*sent, None):
            until = max(through, request.through) if request is not None else None
            new = [e for e in known if e.seq > through and (until is None or e.seq <= until)]
            told = _told(request, transcript) if request is not None else []
            for name, wire in told:
                if name != wire and name not in self._names and wire not in self._owners:
                    self._own(name, wire)
            taken.include(each.name for each in new)
            self.contested = False
            self._as_they_are(new)
            self._anew(new, taken)
            taken.include(wire for _, wire in told)
            through = until if until is not None else through

    def _own(self, name: str, wire: str) -> None:
        self._names[name] = wire
        self._owners[wire] = name

    def _as_they_are(self, new: list[_Known]) -> None:
        """Names that the API takes: unless one was made that way for another tool, and sent."""
        for each in new:
            name = each.name
            if not each.ours or not self._policy.fits(name) or name in self._names:
                continue
            own = self._owners.setdefault(name, name) == name
            self.contested |= not own
            if own or not each.declared:
                self._names[name] = name  # a call by a made name is a call of the tool that was sent so

    def _anew(self, new: list[_Known], taken: _Caseless) -> None:
        """Names that have to be others."""
        for each in new:
            name = each.name
            given = self._names.get(name)
            if not each.ours or (given is not None and not (each.declared and self._owners[given] != name)):
                continue
            made = self._policy.make(name, taken)
            self.contested |= made != self._policy.make(name, ())
            self._own(name, made)
            taken.include((made,))


def _all_fit(transcript: Transcript, history: SentHistory, policy: NamePolicy) -> bool:
    """Whether every name can be, and always was, sent as it is."""
    calls = transcript.calls
    names = {call.part.name for call in calls.values()}
    names.update(tool.name for _, tool in _declared(transcript) if _is_named(tool))
    return all(map(policy.fits, names)) and all(
        told.wire_name is None or key not in calls or told.wire_name == calls[key].part.name
        for key, told in history.told.items()
    )


def standing(transcript: Transcript, history: SentHistory) -> tuple[str, ...]:
    """The requests (`fact_id`) whose names stay: those behind the last one that the API refused."""
    sent = list(history.requests)
    refused = [number for number, fact_id in enumerate(sent) if fact_id in transcript.refusals]
    return tuple(sent[refused[-1] + 1 :] if refused else sent)


def _told(sent: RequestSent, transcript: Transcript) -> list[tuple[str, str]]:
    """The names of tools whose calls a request rendered, as recorded and as sent."""
    calls = transcript.calls
    return [
        (calls[told.call_id].part.name, told.wire_name)
        for told in sent.told
        if told.wire_name is not None and told.call_id in calls
    ]


def _known(transcript: Transcript) -> Iterator[_Known]:
    """All names on record: declared first, then called."""
    for seq, tool in _declared(transcript):
        if _is_named(tool):
            yield _Known(tool.name, seq, declared=True)
        for name in _names_in(_value(tool.raw)):
            yield _Known(name, seq, declared=True, ours=False)
    for entry in transcript.heads:
        for part in entry.parts:
            for name in _names_in(_value(part.raw)) if part.kind == "opaque" else ():
                # a system message may declare tools
                yield _Known(name, entry.fact.seq, declared=True, ours=False)
    said = {entry.fact.fact_id: entry.fact.seq for entry in transcript.entries if entry.kind == "reply"}
    for ours, calls in ((True, transcript.calls), (False, transcript.server_calls)):
        first: dict[str, Any] = {}
        for call in calls.values():
            first.setdefault(call.part.name, call)
        for name, call in first.items():
            yield _Known(name, said.get(call.reply, 0), declared=False, ours=ours)


def _declared(transcript: Transcript) -> Iterator[tuple[int, Tool]]:
    """All tools that were ever offered, each with the `seq` of its declaration."""
    for entry in transcript.heads:
        for tool in entry.fact.tools if entry.kind == "tools" else ():
            yield entry.fact.seq, tool


def _is_named(tool: Tool) -> bool:
    """Whether a tool has a name, though it may be an empty one."""
    return bool(tool.name) or "" in _names_in(_value(tool.raw))


def _value(raw: Json | None) -> Any:
    return raw.value if raw is not None and raw.valid else None


def _names_in(value: Any) -> Iterator[str]:
    """Every name in a declaration: one may hold others, as a namespace does."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _names_in(item)
