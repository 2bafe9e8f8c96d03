"""Is every adjustment true? What it names has to have changed, in the request and against the facts, for a reason of
this API.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, get_args

from accounting import Account, displaced
from record import texts_in

from normalizer.facts import OutcomeKind
from normalizer.notices import read_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.projection import Adjustment

OUTCOMES: Final = {*get_args(OutcomeKind), "running", "pending", "refused"}
_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")


def untrue(account: Account, rules: frozenset[str]) -> Iterator[str]:
    """Adjustments that name what did not change, or a reason that is none of this API's."""
    known = {fact.fact_id for fact in account.case.told} | {""}
    keys = {*account.transcript.calls, *account.transcript.server_calls, None}
    parts = [part for f in account.case.told for part in getattr(f, "parts", ())]
    ids = {getattr(part, name, None) for part in parts for name in ("id", "call_id")}
    for note in account.notes:
        reason = note.because if note.kind != "prefix_changed" else None  # that names the parts that differ
        if reason is not None and reason not in rules and reason not in OUTCOMES:
            yield f"{note}: {reason} is no rule of this API and no outcome"
        if not set(note.facts) <= known:
            yield f"{note}: there is no such fact"
        if note.call_id not in keys | ids:
            yield f"{note}: there is no such call"
        judge = TRUE.get(note.kind)
        if judge is not None and (wrong := judge(account, note)):
            yield f"{note}: {wrong}"


def _notice(account: Account, note: Adjustment) -> str | None:
    sent = account.piece("result", note.call_id or "")
    if sent is None:
        return "no result is sent for the call"
    found = next((n for text in texts_in(sent.text) if (n := read_back(text, sent.id))), None)
    if found is None:
        legacy = sent.id is None
        return None if legacy else "what is sent for the call is no notice"
    return None if found.outcome == note.because else f"the notice says {found.outcome}"


def _moved(account: Account, note: Adjustment) -> str | None:
    call = account.transcript.calls.get(note.call_id or "")
    if call is None:
        return None if note.facts else "it names neither a call nor a fact"
    if call.result is None or note.facts != (call.result.fact_id,):
        return "it does not name the result's fact"
    reply = account.entries[call.reply]
    return (
        None if displaced(account, reply, call, strict=False) else "nothing was said before the result came"
    )


def _renamed_id(account: Account, note: Adjustment) -> str | None:
    call = account.transcript.calls.get(note.call_id or "")
    wire_id = account.ids.get(note.call_id or "")
    if call is None or wire_id == call.id:
        return "the call has its id"
    sent = account.piece("call", note.call_id or "")
    if sent is None:
        return None  # it is told in words, under the id that it would have
    return None if f"is sent as {wire_id!r}" in note.message else f"it is sent as {wire_id!r}"


def _renamed_tool(account: Account, note: Adjustment) -> str | None:
    old, new = _quoted(note.message)[-2:]
    names = {
        part.name for f in account.case.told for part in getattr(f, "parts", ()) if hasattr(part, "name")
    }
    names |= {tool.name for f in account.case.told for tool in getattr(f, "tools", ())}
    if old not in names:
        return f"no tool was called {old!r}"
    return None if old != new else "the name is the same"


def _quoted(text: str) -> list[str]:
    return [one or other for one, other in _QUOTED.findall(text)]


def _gone(account: Account, note: Adjustment) -> str | None:
    """What an adjustment says was left out is not there, if it can be known from any other."""
    content = note.content or ""
    if content.startswith(("§", "[tool")) and any(
        p.text == content and p.kind == "text" for p in account.pieces
    ):
        return "its words are sent as they were"
    for part in ("signature", "encrypted_content"):
        for value in texts_in(content):
            if value.startswith(("gAAA", "seal-")) and part in content and f"\0{value}\0" in account.said:
                same = sum(value in text for f in account.case.told for text in _sealed(f))
                if same < 2:  # it may stand in another reply too
                    return f"{value!r} is sent"
    return None


def _sealed(fact: Any) -> Iterator[str]:
    for part in getattr(fact, "parts", ()):
        if part.kind == "reasoning" and part.raw is not None:
            yield part.raw.text


def _dropped_call(account: Account, note: Adjustment) -> str | None:
    if note.call_id in account.transcript.calls and account.piece("call", note.call_id or ""):
        return "the call is sent"
    return _gone(account, note)


def _told(account: Account, note: Adjustment) -> str | None:
    """A call that is told as text is no call in the request, and its words are there."""
    call = account.transcript.calls.get(note.call_id or "")
    if call is None or (note.content or "")[:1] == "{" or (note.because or "").startswith("OAC"):
        return None
    if account.piece("call", note.call_id or "") is not None and note.content and "[told," in note.content:
        return "the call is sent"
    if note.content and note.content.startswith("[tool outcome") and note.content not in account.said:
        return "its words are not sent"
    return None


def _late(account: Account, note: Adjustment) -> str | None:
    """News stands behind the newest reply that had been sent when it was told, in words that are sealed."""
    content = note.content or ""
    at = next((n for n, piece in enumerate(account.pieces) if content and content in piece.text), None)
    if not content:
        return None  # the output of a call that had been left open
    if at is None:
        return "its words are not sent"
    found = read_back(content, None)
    if found is None or found.outcome != note.because:
        return "its words are no news of that outcome"
    replies = [n for n, piece in enumerate(account.pieces) if piece.kind == "call" and n > at]
    return "a reply stands behind it" if replies else None


def _undeclared(account: Account, note: Adjustment) -> str | None:
    renamed = dict(_quoted(one.message)[-2:] for one in account.notes if one.kind == "renamed_tool")
    names = {renamed.get(name, name) for name in _quoted(note.message)}
    return (
        None if not names or any(f"\0{name}\0" in account.said for name in names) else "no such tool is sent"
    )


TRUE: Final[dict[str, Any]] = {
    "notice": _notice,
    "moved": _moved,
    "renamed_id": _renamed_id,
    "renamed_tool": _renamed_tool,
    "dropped_empty": _gone,
    "dropped_reasoning": _gone,
    "foreign_signature": _gone,
    "dropped_turn": _dropped_call,
    "dropped_orphan": _dropped_call,
    "told_as_text": _told,
    "late_news": _late,
    "withheld_news": _gone,
    "withheld_steering": _gone,
    "tools_not_declared": _undeclared,
}
"""By kind, what an adjustment says that can be looked at in the request."""
