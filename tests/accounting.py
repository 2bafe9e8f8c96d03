"""Is every change reported? Answered from the facts and from the request as `views.py` sees it; nothing that projects
is asked.
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from record import texts_in
from views import Piece, strings, words

import normalizer
from normalizer.notices import read_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lawful import Case

    from normalizer.transcript import Call, Entry

SAYING: Final = frozenset({"user", "steering", "summary", "reply"})
"""Entries that say something at a place of the conversation."""


class Account:
    """A case with its request, ready to be compared."""

    def __init__(self, case: Case) -> None:
        assert case.projection is not None
        self.case = case
        self.notes = case.projection.adjustments
        self.ids = case.projection.ids
        self.pieces = case.pieces
        self.request = case.projection.request
        self.transcript = case.transcript

    @cached_property
    def entries(self) -> dict[str, Entry]:
        return {entry.fact.fact_id: entry for entry in self.transcript.entries}

    @cached_property
    def said(self) -> str:
        """Every string of the request."""
        return "\0".join(strings(self.request)) + "\0"

    @cached_property
    def where(self) -> dict[tuple[str, str], int]:
        """The place of each call and result, by kind and id on the wire."""
        places: dict[tuple[str, str], int] = {}
        for number, piece in enumerate(self.pieces):
            if piece.id is not None:
                places.setdefault((piece.kind, piece.id), number)
        return places

    def place_of(self, entry: Entry) -> int | None:
        """Where the first words of an entry stand that nobody else says."""
        for part in entry.parts:
            if part.kind == "text" and self.spoken[mark := part.text.strip()] == 1 and len(mark) > 1:
                found = [
                    n for n, piece in enumerate(self.pieces) if piece.kind == "text" and mark in piece.text
                ]
                if len(found) == 1:
                    return found[0]
        return None

    @cached_property
    def spoken(self) -> Counter[str]:
        """How often each text is said."""
        texts = [p.text.strip() for e in self.transcript.entries for p in e.parts if p.kind == "text"]
        return Counter(texts)

    def piece(self, kind: str, key: str) -> Piece | None:
        at = self.where.get((kind, self.ids.get(key, "")))
        return self.pieces[at] if at is not None else None

    def about(self, *kinds: str, call: str | None = None, fact: str | None = None, says: str = "") -> bool:
        """Whether an adjustment of these kinds (none: of any) names the call or the fact, and says the words."""
        return any(
            (not kinds or note.kind in kinds)
            and (call is None or call in (note.call_id, self.ids.get(note.call_id or "")))
            and (fact is None or fact in note.facts)
            and says in note.message + (note.content or "")
            for note in self.notes
        )


# ---------------------------------------------------------------- every change is reported


def unreported(account: Account) -> Iterator[str]:
    """What differs between the facts and the request and is named by no adjustment."""
    for entry in account.transcript.entries:
        for part, key in _with_keys(entry):
            if part.kind == "tool_call" and key is not None:
                yield from _call(account, entry, key, account.transcript.calls[key])
            elif part.kind == "text" and entry.kind in SAYING:
                yield from _text(account, entry, part)
    yield from _order(account)
    yield from _news(account)
    yield from _blanks(account)


def _news(account: Account) -> Iterator[str]:
    """Updates that stand in the request for the first time."""
    known = {news.text for f in account.case.told if f.kind == "request_sent" for news in f.news}
    read = {entry.fact.call_id for entry in account.transcript.entries if entry.kind == "news"}
    for piece in account.pieces:
        found = read_back(piece.text, None) if piece.kind == "text" else None
        if found is None or found.form != "late" or piece.text in known:
            continue
        reported = any(note.content == piece.text for note in account.notes)
        if not reported and not any(found.call_id in (key, account.ids.get(key)) for key in read):
            yield f"the update of call {found.call_id} is told"


def _blanks(account: Account) -> Iterator[str]:
    """Blank texts: nobody can say which is which, but as many are sent as are not reported."""
    for kind, side in (("user", "user"), ("reply", "reply")):
        unnamed = [
            entry.fact.fact_id
            for entry in account.transcript.entries
            for part in entry.parts
            if entry.kind == kind and part.kind == "text" and not part.text.strip()
            if not account.about(fact=entry.fact.fact_id)
        ]
        sent = [p for p in account.pieces if p.side == side and p.kind == "text" and not p.text.strip()]
        if len(unnamed) > len(sent):
            yield f"of the blank texts of {unnamed} only {len(sent)} are sent"


def _with_keys(entry: Entry) -> Iterator[tuple[Any, str | None]]:
    keys = iter(entry.calls)
    for part in entry.parts:
        called = part.kind in ("tool_call", "server_tool_call", "server_tool_result")
        yield part, next(keys, None) if called else None


def _text(account: Account, entry: Entry, part: Any) -> Iterator[str]:
    """Words that are not in the request as they were said, or with other keys beside them."""
    if not part.text.strip():
        return
    fact = entry.fact.fact_id
    side = "reply" if entry.kind == "reply" else "user"
    found = next(
        (p for p in account.pieces if p.kind == "text" and p.side == side and part.text in p.text), None
    )
    if found is None:
        if not account.about(fact=fact):
            yield f"the text {part.text!r} of {fact} is not sent as it was"
    elif part.raw is not None and isinstance(found.raw, dict) and found.text == part.text:
        yield from _keys(account, fact, part.raw.value, found.raw)


def _keys(account: Account, fact: str, raw: Any, sent: Any) -> Iterator[str]:
    """Keys of a block as it was received that are not sent, where it is a block of this API."""
    if not isinstance(raw, dict) or raw.get("type") != sent.get("type"):
        return
    for key, value in raw.items():
        if key != "cache_control" and key not in sent and value is not None and not account.about(says=key):
            yield f"the key {key!r} of {fact} is not sent"


def _call(account: Account, entry: Entry, key: str, call: Call) -> Iterator[str]:
    sent = account.piece("call", key)
    fact = entry.fact.fact_id
    if sent is None:
        own = any(p.kind == "call" and p.id is None and p.name == call.name for p in account.pieces)
        if not (own or account.about(call=key) or account.about("dropped_turn", "told_as_text", fact=fact)):
            yield f"call {key} is not sent"
        return
    if sent.id != call.id and not account.about("renamed_id", call=key, says=repr(sent.id)):
        yield f"call {key} has the id {sent.id!r}"
    renamed = f"{call.name!r} is sent as {sent.name!r}"
    if sent.name not in (None, call.name) and not account.about("renamed_tool", says=renamed):
        yield f"call {key} has the name {sent.name!r}"
    if call.part.raw is not None and isinstance(sent.raw, dict):
        yield from _keys(account, fact, call.part.raw.value, sent.raw)
    given = _arguments(call.part.arguments.text)
    if given not in (_arguments(sent.text), {"input": sent.text}) and not account.about(call=key):
        yield f"the arguments of call {key} are {sent.text!r}"
    yield from _result(account, entry, key, call)


def _arguments(text: str) -> Any:
    """What arguments say: their value, where they are JSON; nothing and `null` are no arguments."""
    value = normalizer.parts.Json(text)
    return (value.value or {} if value.valid else text) if text.strip() else {}


def _result(account: Account, entry: Entry, key: str, call: Call) -> Iterator[str]:
    sent = account.piece("result", key)
    if sent is None:
        return  # it stays open
    fact = call.result
    notice = next((n for text in texts_in(sent.text) if (n := read_back(text, sent.id))), None)
    if notice is not None:
        if not account.about("notice", call=key) and not _stands(call, notice.outcome):
            yield f"call {key} is told as {notice.outcome}"
        return
    if fact is None:
        yield f"call {key} has a result, and none is recorded"
        return
    content: Any = fact.content  # type: ignore[union-attr]
    recorded = (
        content if isinstance(content, str) else words([{"text": getattr(p, "text", None)} for p in content])
    )
    if recorded.strip() and recorded not in {sent.text, *texts_in(sent.text)}:
        parts = () if isinstance(content, str) else content
        whole = all(p.text in sent.text for p in parts if p.kind == "text") and parts
        if not whole and not account.about(fact=fact.fact_id):
            yield f"the result of call {key} is {sent.text!r}, not {recorded!r}"
    flagged = _says_failed(sent.raw) or account.about(call=key, says="is_error")
    if getattr(fact, "is_error", None) and not flagged:
        yield f"the result of call {key} is an error, and nothing says so"
    if displaced(account, entry, call, strict=True) and not account.about(
        "moved", call=key, fact=fact.fact_id
    ):
        yield f"the result of call {key} stands before what was said before it came"


def _stands(call: Call, outcome: str) -> bool:
    """Whether a notice was read that said this, so that the request says what was recorded."""
    return any(
        f.kind == "outcome_attested" and f.notice is not None and f.outcome == outcome for f in call.facts
    )


def displaced(account: Account, entry: Entry, call: Call, *, strict: bool) -> bool:
    """Whether something was said between a call's reply and its result that stands behind the result in the request.

    `strict`: it has to be seen there; else it is enough that it was said.
    """
    fact, at = call.result, account.where.get(("result", account.ids.get(call.key, "")))
    if fact is None or at is None:
        return False
    behind = False
    for other in account.transcript.entries:
        if other is entry:
            behind = True
        elif behind and other.kind != "tools" and other.fact.seq < fact.seq:
            place = account.place_of(other) if other.kind in SAYING else None
            if not strict or (place is not None and place > at):
                return True
    return False


def _says_failed(raw: Any) -> bool:
    """Whether a result has a flag, a status or an exit code by which its call failed."""
    output = raw.get("output") if isinstance(raw.get("output"), list) else []
    ended = [chunk.get("outcome") or {} for chunk in output if isinstance(chunk, dict)]
    by_code = any(outcome and outcome.get("exit_code") != 0 for outcome in ended)
    return "is_error" in raw or raw.get("status") == "failed" or by_code


def _order(account: Account) -> Iterator[str]:
    """Words that stand before others that were said before them."""
    for sides in (("reply",), ("user", "steering", "summary")):
        places = [(account.place_of(e), e) for e in account.transcript.entries if e.kind in sides]
        shown = [(place, entry) for place, entry in places if place is not None]
        for (first, one), (second, other) in itertools.pairwise(shown):
            if first > second and not account.about("moved", fact=one.fact.fact_id):
                yield f"{one.kind} {one.fact.fact_id} stands behind {other.kind} {other.fact.fact_id}"
    for reply in (e for e in account.transcript.entries if e.kind == "reply"):
        yield from _order_of_results(account, [key for key in reply.calls if key])


def _order_of_results(account: Account, keys: Sequence[str]) -> Iterator[str]:
    """The results of one reply stand as they came, as they were sent, or in the order of the calls."""
    sent = [
        key for key in keys if account.piece("result", key) is not None and key in account.transcript.calls
    ]
    order = sorted(sent, key=lambda key: account.where["result", account.ids[key]])
    came = sorted(sent, key=lambda key: min((f.seq for f in account.transcript.calls[key].facts), default=0))
    result = sorted(sent, key=lambda key: getattr(account.transcript.calls[key].result, "seq", 0))
    told = [told.call_id for f in account.case.told if f.kind == "request_sent" for told in f.told]
    before = sorted(sent, key=lambda key: told.index(key) if key in told else len(told))
    if order not in (sent, came, result, before) and not any(
        account.about("moved", call=key) for key in order
    ):
        yield f"the results of {sent} are sent in the order {order}"
