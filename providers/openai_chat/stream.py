"""Chunks of a Chat Completions stream -> the facts of one reply.

A choice is whole once its `finish_reason` has come; chunks behind that, and chunks without choices, add nothing. What
cannot be understood is a leftover, so that everything that came is somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.facts import ModelReplied, ReplyCut
from normalizer.findings import Finding, Leftover, Reading
from normalizer.parts import Json
from normalizer.providers.openai_chat import wire
from normalizer.providers.openai_chat.choices import Choice
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.stream_assembler import Collector, plain
from normalizer.util.redaction import named
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.findings import Fragment

Event: TypeAlias = Mapping[str, Any]

_NOT_BESIDE: Final = frozenset({"choices", "object"})
# Errors by which the API refuses the request itself; before the reply begins nothing of it was read.
# https://platform.openai.com/docs/guides/error-codes
_REFUSING: Final = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "insufficient_quota",
        "not_found_error",
    }
)
_LONGEST_ERROR: Final = 200


class Assembler(Collector):
    """Collects the chunks of one reply.

    `feed` takes a parsed chunk, a chunk or event object of the SDK, or pieces of the SSE text. `choice` is the one
    that the application uses; the others are kept aside. The other arguments are for the fact that `reading` makes.
    """

    _END = "[DONE]"

    def __init__(
        self,
        *,
        choice: int | None = None,
        fact_id: str = "reply",
        seq: int = 1,
        turn_id: str | None = None,
        answers: str | None = None,
        source: str = wire.API,
    ) -> None:
        super().__init__()
        self._about: Final[dict[str, Any]] = {
            "fact_id": fact_id,
            "seq": seq,
            "turn_id": turn_id,
            "answers": answers,
            "source": source,
            "provider": wire.PROVIDER,
            "api": wire.API,
        }
        self._used = choice
        self._choices: dict[int, Choice] = {}
        self._beside: dict[str, Any] = {}
        self._error: str | None = None
        self._refused = False

    def _object(self, event: Any) -> None:
        if hasattr(event, "chunk"):  # the SDK's stream helper fires it in front of events about the same
            self._take(plain(event.chunk))
        elif hasattr(event, "choices"):
            self._take(plain(event))
        elif not hasattr(event, "type"):
            self._leave("unknown event", event)

    def _take(self, event: Event) -> None:
        taken = self._cleaned(event)
        if taken is None:
            return
        event = taken
        if isinstance(event.get("chunk"), Mapping):
            event = event["chunk"]
        if event.get("error") is not None:
            self._fail(event["error"])
        elif self._error is not None or not isinstance(event.get("choices"), list):
            self._leave("unexpected event" if self._error is not None else "unknown event", event)
        else:
            self._chunk(event)

    def _chunk(self, event: Event) -> None:
        for key, value in event.items():
            if (
                key not in _NOT_BESIDE
                and value not in (None, "", 0)
                and (key == "usage" or key not in self._beside)
            ):
                self._beside[key] = value
        for number, given in enumerate(event["choices"]):
            if not isinstance(given, dict):
                self._leave("unknown choice", given)
                continue
            index = given.get("index")
            index = index if isinstance(index, int) else number
            choice = self._choices.setdefault(index, Choice(index))
            delta = given.get("delta")
            for key, value in delta.items() if isinstance(delta, dict) else ():
                self._delta(choice, key, value)
            if isinstance(given.get("finish_reason"), str) and choice.finish is None:
                choice.finish = given["finish_reason"]

    def _delta(self, choice: Choice, key: str, value: Any) -> None:
        if value is None or value in ("", [], {}):
            if value == "" and key in wire.REASONING_KEYS:  # that nothing was thought is said, too
                choice.change(key, value)
            return
        if key != "role" and choice.finish is not None:
            self._leave("behind the end of its choice", {"index": choice.index, key: value})
        elif not choice.change(key, value):
            self._leave("unknown delta", {"index": choice.index, key: value})

    def _fail(self, error: Any) -> None:
        found = error if isinstance(error, Mapping) else {"message": str(error)}
        kind = str(found.get("type") or found.get("code") or "error")
        words = excerpt(str(found.get("message") or ""), _LONGEST_ERROR)
        self._error = f"{kind}: {words}" if words else kind
        self._refused = not self._choices and kind in _REFUSING
        self._leave("error event", {"error": error})

    # ------------------------------------------------------------ what has come so far

    def reading(self) -> Reading:
        """The facts of what has come so far, as if the stream ended here."""
        used = self._choices.get(
            min(self._choices, default=0) if self._used is None else self._used, Choice(0)
        )
        fact = self._fact(used)
        others = [choice for choice in self._choices.values() if choice is not used]
        fragments = [f for choice in (used, *others) for f in choice.fragments()]
        return Reading(
            format=wire.API,
            facts=(fact,),
            findings=(*self._findings, *(_finding(fragment, fact.fact_id) for fragment in fragments)),
            leftovers=(*self._leftovers, *_aside(others), *self._unfinished()),
            fragments=tuple(fragments),
            home=wire.API,
            turn="ended" if used.finish is not None else "refused" if self._refused else "cut",
            stop_reason=used.finish,
            calls_to_run=used.runnable(),
        )

    def _fact(self, used: Choice) -> ModelReplied | ReplyCut:
        model = self._beside.get("model")
        parts = used.parts()
        about = self._about | {
            "parts": parts,
            "model": model if isinstance(model, str) else None,
            "string": any(part.kind == "text" for part in parts),
            "raw": Json.of(dict(self._beside)) if self._beside else None,
        }
        if used.finish is not None:
            return ModelReplied(stop_reason=used.finish, **about)
        return ReplyCut(error=self._error, refused=self._refused, **about)


def _aside(others: list[Choice]) -> Iterator[Leftover]:
    """The whole parts of choices that are not used."""
    for choice in others:
        if choice.parts():
            value = {"index": choice.index, "finish_reason": choice.finish, "message": choice.message()}
            yield Leftover(
                "another choice than the one that is used",
                dump_any(value),
                pointer=f"/choices/{choice.index}",
            )


def _finding(fragment: Fragment, fact_id: str) -> Finding:
    what = f"call {named(fragment.call_id)}" if fragment.call_id else f"a part of type {fragment.type!r}"
    return Finding(
        "fragment", f"only the beginning of {what} arrived", call_id=fragment.call_id, facts=(fact_id,)
    )
