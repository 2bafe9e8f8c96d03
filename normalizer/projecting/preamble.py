"""What stands before the history: instructions and tools, tool names, and what becomes of those that are set later.

The policy is the same for every API, and its data are in `PreamblePolicy`; how a tool or an instruction looks is for
the API's own `PreambleWire`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from normalizer.errors import CannotProject
from normalizer.parts import Json
from normalizer.projecting import canonical
from normalizer.projecting.reports import Reports
from normalizer.projecting.tools import ToolNames, standing
from normalizer.projecting.unmapped_fields import tool_keys, unmapped
from normalizer.util.ids import newest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from normalizer.facts import RequestSent
    from normalizer.parts import Tool
    from normalizer.projecting.dialect_policies import PreamblePolicy
    from normalizer.projecting.sent_history import SentHistory
    from normalizer.projection import Adjustment
    from normalizer.transcript import Entry, Transcript

Place: TypeAlias = Literal["top", "beside", "later", "in_place", "replaced"]
"""Where instructions stand: on top, with those on top (`beside`), in the history as something that came `later`, in the
history like all instructions of this API, or nowhere.
"""

_NO_TOOLS: Final = canonical.digest(canonical.tools_bytes({}))


@dataclass(frozen=True, slots=True)
class Basis:
    """What a preamble depends on beside the names of calls: as long as it is the same, so is the preamble.

    `said` is the `seq` of the first thing that anybody said. `bare`: tools may come later, since a request without any
    was sent. `replaced` are the `fact_id`s of instructions that others took the place of before anything was said.
    """

    heads: tuple[Entry, ...]
    said: int | None
    replaced: frozenset[str]
    bare: bool
    refusals: int

    def of_kind(self, kind: str) -> list[Entry]:
        """The instructions, or the declarations of tools."""
        return [entry for entry in self.heads if entry.kind == kind]


_NO_BASIS: Final = Basis((), None, frozenset(), bare=False, refusals=0)


@dataclass(slots=True)
class Preamble:
    """`instructions` and `tools` as sent. `later` holds, by `fact_id`, what stands in the history for those set later.

    `names` are those of tools that are others on the wire, as recorded -> as sent; `contested` are the requests that
    decide which name stays, where that matters. `used` and `served` are the names of the calls that were seen, the
    client's and the server's.
    """

    SEEN_BY_STEPS: ClassVar[tuple[str, ...]] = ("instructions", "tools", "later", "names", "adjustments")
    """What the rendering of a step looks at, beside what is on record."""

    instructions: Any = None
    tools: list[Any] | None = None
    later: dict[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    contested: tuple[str, ...] | None = None
    adjustments: list[Adjustment] = field(default_factory=list)
    basis: Basis = _NO_BASIS
    used: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    instructions_digest: str = ""
    tools_digest: str = ""

    @property
    def replaced(self) -> frozenset[str]:
        """The `fact_id`s of instructions that are not sent."""
        return self.basis.replaced

    @property
    def all_tools(self) -> list[Any] | None:
        """The tools, in whatever form this API has them."""
        return self.tools

    def renders_as(self, other: Preamble) -> bool:
        """Whether the steps come out the same under both."""
        return self is other or (
            len(self.basis.heads) == len(other.basis.heads)
            and all(map(is_, self.basis.heads, other.basis.heads))
            and all(getattr(self, name) == getattr(other, name) for name in self.SEEN_BY_STEPS)
        )


P = TypeVar("P", bound=Preamble)


class PreambleWire(ABC, Generic[P]):
    """How one API writes its preamble, and the preamble while it is put together. One object a projection."""

    def __init__(self, policy: PreamblePolicy, preamble: P) -> None:
        self.policy = policy
        self.preamble = preamble
        self.reports = Reports(policy.because, preamble.adjustments)
        self._reported: set[str] = set()

    # ------------------------------------------------------------ what an API writes

    @abstractmethod
    def instructions(self, placed: list[tuple[Entry, Place]]) -> None:
        """Put instructions on top (`preamble.instructions`) or among the later ones (`preamble.later`)."""

    def own_tool(self, entry: Entry, tool: Tool, raw: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """A declaration of this API, as received; None where it has to be written anew."""
        return raw

    @abstractmethod
    def tool(self, entry: Entry, tool: Tool) -> tuple[dict[str, Any], Collection[str] | None]:
        """A declaration of another API in this one's form, with the tool's name as recorded.

        Beside it, the keys of the received declaration that were consumed beside name, description and schema; None
        where the report has all of it already.
        """

    def named_part(self, declared: dict[str, Any]) -> str | None:
        """The key of the object in a declaration that holds the tool's name; None where the declaration itself does."""

    def later_tools(self, tools: list[Any], later: list[tuple[Entry, list[Any]]]) -> dict[str, Any] | None:
        """What says, by `fact_id`, that other tools are offered from there on; None where that cannot be said."""

    @abstractmethod
    def offer(self, tools: list[Any], first: Entry | None, used: Collection[str]) -> None:
        """Put the tools on top. `first` is the declaration before anything was said; `used` are the names of calls."""

    # ------------------------------------------------------------ the same for every API

    def named(self, name: str) -> str:
        """A tool's name on the wire; reported where it is another."""
        wire_name = self.preamble.names.get(name, name)
        if wire_name != name and name not in self._reported:
            self._reported.add(name)
            self.reports.add("renamed_tool", f"the tool name {name!r} is sent as {wire_name!r}", "tool-name")
        return wire_name

    def declare(
        self, entries: list[Entry], said: int | None, *, bare: bool
    ) -> tuple[list[Any], Entry | None]:
        """The tools on top, and the declaration that they were at first; later ones are appended where that can be.

        A declaration that was received as a message of this API is no list that could stand on top.
        """
        on_top = [e for e in entries if not self.in_history(e)]
        first = next((e for e in reversed(on_top) if said is None or e.fact.seq < said), None)
        if first is None and not bare and on_top and on_top[0] is entries[0]:
            first = entries[0]
        later = [e for e in entries if first is None or e.fact.seq > first.fact.seq]
        if later and self.policy.later_heads != "append":
            return self.declared(later[-1]), first
        begun, reported = len(self.reports.notes), set(self._reported)
        tools = self.declared(first) if first is not None else []
        changes = self.later_tools(tools, [(e, self._later(e)) for e in later]) if later else {}
        if changes is None:  # then only the newest are sent, and nothing is to be said of the others
            del self.reports.notes[begun:]
            self._reported = reported
            return self.declared(later[-1]), first
        self.preamble.later.update(changes)
        return tools, first

    def in_history(self, entry: Entry) -> bool:
        """Whether a declaration is a message of this API that stands in the history."""
        return entry.fact.raw is not None and entry.fact.api == self.policy.api

    def _later(self, entry: Entry) -> list[Any]:
        """The tools of a later declaration; of a message of this API, those that it added."""
        if not self.in_history(entry):
            return self.declared(entry)
        return [self.renamed(tool) for tool in entry.fact.raw.value.get("tools") or ()]

    def declared(self, entry: Entry) -> list[Any]:
        """The tools of one declaration in this API's form. Raises CannotProject where they are too many."""
        own = entry.fact.api == self.policy.api
        first_only = self.policy.repeated_tools == "first" or (
            self.policy.repeated_tools == "first_of_others" and not own
        )
        tools: list[Any] = []
        seen: set[str] = set()
        for tool in entry.fact.tools:
            made = self._one(entry, tool, own=own)
            if made is None:
                continue
            made = self.renamed(made)
            name = self.name_of(made)
            if name in seen and first_only:
                message = f"the tool {name!r} is declared twice; the first declaration stays"
                self.reports.entry(entry, "merged", message, "repeated-tool", Json.of(made).text)
                continue
            if name is not None:
                seen.add(name)
            tools.append(made)
        return tools

    def _one(self, entry: Entry, tool: Tool, *, own: bool) -> Any:
        """One tool as this API wants it; None where it has no counterpart."""
        raw = tool.raw.value if tool.raw is not None else None
        if own and isinstance(raw, dict) and (made := self.own_tool(entry, tool, raw)) is not None:
            return made
        if tool.server or not tool.name:
            message = f"the tool {tool.name!r} is run by another provider"
            content = tool.raw.text if tool.raw is not None else None
            self.reports.entry(entry, "dropped_server_tool", message, "foreign-server-tool", content)
            return None
        made, consumed = self.tool(entry, tool)
        if consumed is not None and (rest := unmapped(tool.raw, tool_keys(tool) | set(consumed))) is not None:
            message = f"the declaration of the tool {tool.name!r} says more than this API has a place for"
            self.reports.entry(entry, "trimmed", message, "unmapped-tool", rest)
        return made

    def name_of(self, declared: Any) -> str | None:
        """The name in a declaration."""
        if not isinstance(declared, dict):
            return None
        part = self.named_part(declared)
        holder = declared if part is None else declared.get(part)
        name = holder.get("name") if isinstance(holder, dict) else None
        return name if isinstance(name, str) else None

    def renamed(self, declared: Any) -> Any:
        """A declaration with the name that the tool has on the wire."""
        name = self.name_of(declared)
        if name is None or (wire_name := self.named(name)) == name:
            return declared
        part = self.named_part(declared)
        if part is None:
            return {**declared, "name": wire_name}
        return {**declared, part: {**declared[part], "name": wire_name}}

    def limited(self, tools: Sequence[Any]) -> None:
        """Raises CannotProject where these are more tools than the API takes."""
        most = self.policy.max_tools
        if most is not None and len(tools) > most:
            raise CannotProject(
                f"{len(tools)} tools are declared and {self.policy.title} takes {most}; offer fewer",
                reason="too_many_tools",
            )


# ---------------------------------------------------------------- the whole


def build(
    wire: PreambleWire[P], transcript: Transcript, history: SentHistory, earlier: tuple[P, Transcript] | None
) -> P:
    """The preamble: that of an `earlier` transcript, if nothing that it depends on has changed."""
    basis = _basis(wire.policy, transcript, history)
    if earlier is not None and _holds(earlier[0], basis, transcript, history, earlier[1]):
        return earlier[0]
    names = ToolNames(transcript, history, wire.policy.names)
    used = dict.fromkeys(call.part.name for call in transcript.calls.values())
    preamble = wire.preamble
    preamble.basis, preamble.names = basis, names.renamed
    preamble.contested = standing(transcript, history) if names.contested else None
    preamble.used = frozenset(used)
    preamble.served = frozenset(call.part.name for call in transcript.server_calls.values())
    wire.instructions(_placed(wire.policy, basis))
    tools, first = wire.declare(basis.of_kind("tools"), basis.said, bare=basis.bare)
    for name in used:
        wire.named(name)
    wire.offer(tools, first, used)
    said, offered = {"instructions": preamble.instructions}, {"tools": preamble.all_tools}
    preamble.instructions_digest = canonical.digest(canonical.instructions_bytes(said))
    preamble.tools_digest = canonical.digest(canonical.tools_bytes(offered))
    return preamble


def _holds(
    before: Preamble, basis: Basis, transcript: Transcript, history: SentHistory, earlier: Transcript
) -> bool:
    """Whether the preamble of an earlier transcript is that of this one."""
    if before.basis != basis or len(earlier.calls) > len(transcript.calls):
        return False
    if before.contested is not None and before.contested != standing(transcript, history):
        return False
    return (
        _new_names(transcript.calls, earlier.calls) <= before.used
        and _new_names(transcript.server_calls, earlier.server_calls) <= before.served
    )


def _new_names(calls: Mapping[str, Any], earlier: Mapping[str, Any]) -> set[str]:
    """The names of the calls that an earlier transcript does not have."""
    return {calls[key].part.name for key in newest(calls, len(earlier))}


def _basis(policy: PreamblePolicy, transcript: Transcript, history: SentHistory) -> Basis:
    said = next((e.fact.seq for e in transcript.entries if e.kind not in ("instructions", "tools")), None)
    in_place = policy.later_heads == "in_place"
    return Basis(
        transcript.heads,
        said,
        _replaced(transcript.heads, said, history.requests.values()) if in_place else frozenset(),
        policy.tools_without_top and history.base is not None and history.base.digest.tools == _NO_TOOLS,
        history.refusals,
    )


def _replaced(heads: tuple[Entry, ...], said: int | None, sent: Iterable[RequestSent]) -> frozenset[str]:
    """Instructions that are not sent any more: others took their place while nothing was said, and nothing was sent."""
    early = [e for e in heads if e.kind == "instructions" and (said is None or e.fact.seq < said)]
    cutoffs = [request.through for request in sent] if len(early) > 1 else []
    found: set[str] = set()
    for number, entry in enumerate(early):
        new: Any = next((e.fact for e in early[number + 1 :] if not e.fact.additional), None)
        if new is not None and not any(entry.fact.seq <= cutoff < new.seq for cutoff in cutoffs):
            found.add(entry.fact.fact_id)
    return frozenset(found)


def _placed(policy: PreamblePolicy, basis: Basis) -> list[tuple[Entry, Place]]:
    """All instructions with their place, in recorded order."""
    return [(entry, _place(entry, policy, basis)) for entry in basis.of_kind("instructions")]


def _place(entry: Entry, policy: PreamblePolicy, basis: Basis) -> Place:
    fact = entry.fact
    if policy.later_heads == "in_place":
        return "replaced" if fact.fact_id in basis.replaced else "in_place"
    late = basis.said is not None and fact.seq > basis.said
    if (late and policy.later_heads == "append") or (fact.additional and policy.added == "later"):
        return "later"
    return "beside" if fact.additional else "top"
