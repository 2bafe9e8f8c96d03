"""A model's reply as items.

What was received from this API is replayed as received. Reasoning and the item that it led to are one unit: if the
item is left out, so is the reasoning, and what else the response brought after it goes without ids, or not at all
where its type needs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import beside_content, remainder
from normalizer.projection import Adjustment
from normalizer.providers.openai_responses import (
    decoding,
    quotes,
    reasoning,
    schema_keys,
    server_tools,
    tool_results,
    wire,
)
from normalizer.reading.truncation import begins_json
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import ToolCall
    from normalizer.projecting.incremental import Step
    from normalizer.providers.openai_responses.decoding import Item
    from normalizer.providers.openai_responses.render import Out, Renderer
    from normalizer.transcript import Entry

TOLD: Final = "told"
_ITEM: Final = frozenset({"server_tool_call", "server_tool_result", "reasoning", "opaque"})


class Piece:
    """What becomes one item: its first part, its key if it is a call, and its item unless it is left out."""

    __slots__ = ("item", "key", "number", "part")

    def __init__(self, number: int, part: Any, key: str | None) -> None:
        self.number = number
        self.part = part
        self.key = key
        self.item: Item | None = None


def render(renderer: Renderer, step: Step, out: Out) -> None:
    """Fill `out` with the reply's items, and the answers to its calls."""
    entry = step.reply
    assert entry is not None  # noqa: S101 - the caller has looked
    fact: Any = entry.fact
    own = fact.api in (None, wire.API)
    if not own and getattr(fact, "stop_reason", None) == "refusal":
        _refused(renderer, entry, out)
        return
    if not own and (rest := beside_content(fact)) is not None:
        note(
            entry,
            out,
            "trimmed",
            "a message says more than this API has a place for",
            "OAR-STRUCT-006",
            None,
            rest,
        )
    pieces = _pieces(entry, out)
    void = _void(pieces) if not own else -1
    for piece in pieces:
        kind = piece.part.kind
        if kind == "text":
            _text(entry, piece, out, own=own)
        elif kind == "tool_call":
            if piece.number < void:
                _void_call(renderer, entry, piece, out)
            else:
                _call(renderer, entry, piece, out, own=own)
        elif kind in ("server_tool_call", "server_tool_result"):
            server_tools.choose(renderer, step, entry, piece, out, own=own)
            if kind == "server_tool_call" and not own and renderer.options.server_tools == "quote":
                out.quotes.append(quotes.quote(renderer.server_calls[piece.key or ""]))
        elif kind == "reasoning":
            reasoning.choose(renderer, entry, piece, out, own=own)
        elif kind == "media":
            drop(
                entry,
                piece,
                out,
                "dropped_server_tool",
                "a file in a reply has no form here",
                "OAR-CONTENT-001",
            )
        else:
            _opaque(renderer, entry, piece, out, own=own)
    for piece in pieces:
        _unique(renderer, entry, piece, out)
    reasoning.units(renderer, entry, pieces, out)
    while server_tools.pairs(renderer, entry, pieces, out) or server_tools.inner_calls(
        renderer, entry, pieces, out
    ):
        reasoning.units(renderer, entry, pieces, out)
    if len(out.told) > 1:
        out.told.sort(key=lambda found: entry.calls.index(found[0].key))
    for piece in pieces:
        if piece.item is not None:
            out.items.append(piece.item)
            if piece.part.kind == "tool_call":
                out.calls.append(renderer.calls[piece.key or ""])


def _pieces(entry: Entry, out: Out) -> list[Piece]:
    """The parts, those of one message together, with the keys of calls."""
    found: list[Piece] = []
    keys_of = iter(entry.calls)
    behind = 0
    for number, part in enumerate(entry.parts):
        if part.kind in ("tool_call", "server_tool_call", "server_tool_result"):
            key = next(keys_of)
            if key is None and part.kind == "tool_call":
                note(entry, out, "merged", f"call {named(part.id)} stands twice in one reply and is sent once",
                     "OAR-PAIR-004", part.id, None)  # fmt: skip
                continue
            found.append(Piece(number, part, key))
        elif behind:
            behind -= 1
        else:
            behind = decoding.pieces_behind(part) if _is_message(part) else 0
            found.append(Piece(number, part, None))
    return found


def _is_message(part: Any) -> bool:
    raw = part.raw.value if getattr(part, "raw", None) is not None else None
    return isinstance(raw, dict) and decoding.kind(raw) == "message"


# ---------------------------------------------------------------- messages


def _text(entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """Words of the model: the message as received, or the short form."""
    part = piece.part
    if _is_message(part):
        piece.item = _own_message(part.raw.value, out, entry)
    elif not own and not part.text.strip():
        drop(entry, piece, out, "dropped_empty", "a blank text is left out", "OAR-STRUCT-004")
    else:
        piece.item = {"role": "assistant", "content": tool_results.cut(part.text)}
        if (rest := remainder(part.raw, part.text)) is not None:
            note(
                entry,
                out,
                "trimmed",
                "what stands beside a text does not go to this API",
                "OAR-STRUCT-005",
                None,
                rest,
            )


def _replayed(raw: Item, out: Out, entry: Entry) -> Item:
    return schema_keys.replay(raw, out.notes, entry.fact.fact_id)


def _own_message(raw: Item, out: Out, entry: Entry) -> Item:
    """A message of the model's, which has the role of one."""
    item = _replayed(raw, out, entry)
    if item.get("role") == "assistant":
        return item
    message = "the message of a reply goes back in the role of the assistant"
    note(entry, out, "trimmed", message, "OAR-STRUCT-002", None, Json.of(item.get("role")).text)
    return {**item, "role": "assistant"}


def _opaque(renderer: Renderer, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """Items of other kinds."""
    part = piece.part
    raw: Any = part.raw.value
    if part.type == "refusal" and isinstance(raw, dict) and isinstance(raw.get("refusal"), str):
        refusal = {"type": "refusal", "refusal": raw["refusal"]}
        piece.item = {"type": "message", "role": "assistant", "content": [refusal]}
    elif not own or part.type in wire.FOREIGN or not isinstance(raw, dict):
        drop(entry, piece, out, "dropped_fragment", f"a block of type {part.type!r} is no item of this API",
             "OAR-STRUCT-005")  # fmt: skip
    elif part.type == "item_reference" and renderer.options.stored is False:
        drop(
            entry, piece, out, "dropped_fragment", "nothing is stored that it could point to", "OAR-STATE-006"
        )
    elif part.type == "compaction" and renderer.options.account == "other":
        drop(entry, piece, out, "foreign_signature", "a compaction is bound to the account that it was made in",
             "OAR-REASON-006")  # fmt: skip
    elif part.type == "message" and not isinstance(raw.get("content"), str | list):
        drop(entry, piece, out, "dropped_empty", "a message that says nothing is left out", "OAR-STRUCT-004")
    else:
        made = _own_message if part.type == "message" else _replayed
        piece.item = made(raw, out, entry)
        if part.type in wire.ITEMS and not schema_keys.complete(piece.item):
            message = f"a {part.type} item lacks what its type demands"
            drop(entry, piece, out, "dropped_fragment", message, "OAR-STRUCT-008")


# ---------------------------------------------------------------- calls


def _call(renderer: Renderer, entry: Entry, piece: Piece, out: Out, *, own: bool) -> None:
    """A call of ours and what is told of it; one without a truthful output is told in words."""
    call = renderer.calls[piece.key or ""]
    found = tool_results.answer(renderer, call, own=own)
    item = _call_item(renderer, entry, piece, out, own=own)
    if (found.item is None and not found.open) or not schema_keys.complete(item):
        tell(renderer, entry, piece, out, found, "its output has no place for what is known of it")
        return
    piece.item = item
    out.answers[call.key] = found


def _call_item(renderer: Renderer, entry: Entry, piece: Piece, out: Out, *, own: bool) -> Item:
    """The call's item, as received, with the id and name that it has on the wire."""
    part: ToolCall = piece.part
    call = renderer.calls[piece.key or ""]
    wire_id, form = renderer.ids[call.key], tool_results.form_of(call)
    name = renderer.head.names.get(part.name, part.name)
    if wire_id != part.id and not (form == "tool_search_call" and part.id is None):
        note(entry, out, "renamed_id", f"the id {named(part.id)} of call {named(call.key)} is sent as {named(wire_id)}",
             "OAR-PAIR-004" if part.id and wire.CALL_ID.fullmatch(part.id) else "OAR-ID-004", call.key)  # fmt: skip
    raw = part.raw.value if part.raw is not None else None
    if isinstance(raw, dict) and raw.get("type") == form:
        item = schema_keys.replay(raw, out.notes, entry.fact.fact_id)
        changes: Item = {}
        if item.get("call_id") != wire_id and not (form == "tool_search_call" and part.id is None):
            changes["call_id"] = wire_id
        if "name" in item and item["name"] != name:
            changes["name"] = name
        if form == "function_call" and not isinstance(item.get("arguments"), str):
            changes["arguments"] = _arguments(part, own=False)
        if form == "function_call" and _looks_cut(part) and item.get("status") is None:
            changes["status"] = "completed"
        if form == "custom_tool_call" and not isinstance(item.get("input"), str):
            changes["input"] = Json.of(item.get("input")).text
        return {**item, **changes} if changes else item
    if form == "custom_tool_call":
        held = part.arguments.value if part.arguments.valid else None
        text = held.get("input") if isinstance(held, dict) else None
        given = text if isinstance(text, str) else part.arguments.text
        return {"type": form, "call_id": wire_id, "name": name, "input": given}
    made = {"type": "function_call", "call_id": wire_id, "name": name, "arguments": _arguments(part, own=own)}
    _note_rest(entry, call.key, part, out)
    return {**made, "status": "completed"} if _looks_cut(part) else made


def _note_rest(entry: Entry, key: str, part: ToolCall, out: Out) -> None:
    """Report what a call as received says beyond its id, name and arguments."""
    if (rest := remainder(part.raw, part.id, part.name, part.arguments.text)) is not None:
        note(
            entry,
            out,
            "trimmed",
            f"call {named(key)} says more than there is a place for",
            "OAR-STRUCT-006",
            key,
            rest,
        )


def _looks_cut(part: ToolCall) -> bool:
    """Whether arguments that arrived whole look like a beginning; the item's status then says that they are whole."""
    return not part.arguments.valid and begins_json(part.arguments.text)


def _arguments(part: ToolCall, *, own: bool) -> str:
    """Arguments as the text that arrived; none at all are an empty object."""
    text = part.arguments.text
    return "{}" if not own and text.strip() in ("", "null") else text


def tell(
    renderer: Renderer, entry: Entry, piece: Piece, out: Out, found: tool_results.Answer, message: str,
    because: str | None = None,
) -> None:  # fmt: skip
    """Leave a call out; what is known of it is told in words behind the reply."""
    call = renderer.calls[piece.key or ""]
    out.answers.pop(call.key, None)
    if found.text is None or found.item is not None or found.open:
        found = tool_results.in_words(renderer, call)
    piece.item = None
    _note_rest(entry, call.key, call.part, out)
    out.told.append((call, found))
    out.notes.append(
        Adjustment("told_as_text", f"call {named(call.key)} is told in words: {message}",
                   because or found.kind, call.key,
                   (entry.fact.fact_id, *(f.fact_id for f in call.facts)), found.text)
    )  # fmt: skip


# ---------------------------------------------------------------- left out


def _refused(renderer: Renderer, entry: Entry, out: Out) -> None:
    """A refused turn of another API is no history; a call of it that was started is told in words."""
    content = Json.of([_content(p) for p in entry.parts]).text if entry.parts else None
    note(
        entry,
        out,
        "dropped_turn",
        "the reply ended in a refusal: it is left out whole",
        "ANT-REF-001",
        None,
        content,
    )
    for number, key in enumerate(entry.calls):
        if key in renderer.calls:
            _void_call(renderer, entry, Piece(number, renderer.calls[key].part, key), out)  # type: ignore[index]


def _content(part: Any) -> Any:
    raw = getattr(part, "raw", None)
    return raw.value if raw is not None else getattr(part, "text", None) or getattr(part, "name", "")


def _void(pieces: list[Piece]) -> int:
    """Before which part the calls of another API's reply are void: behind a block that names another model."""
    return max(
        (p.number for p in pieces if p.part.kind == "opaque" and p.part.type == "fallback"), default=-1
    )


def _void_call(renderer: Renderer, entry: Entry, piece: Piece, out: Out) -> None:
    call = renderer.calls[piece.key or ""]
    started = call.facts and call.outcome.kind not in ("denied", "never_run")
    base = renderer.chain.base
    was_sent = base is not None and entry.fact.seq <= base.through and call.key not in renderer.chain.told
    if started and was_sent:
        out.aside.append(call.key)  # nothing may come between what was sent
    elif started:
        kind = tool_results.answer(renderer, call, own=False)
        tell(renderer, entry, piece, out, kind, "its reply is left out")
    else:
        drop(entry, piece, out, "dropped_turn", "a call before a fallback block is void", "ANT-REF-005")


def _unique(renderer: Renderer, entry: Entry, piece: Piece, out: Out) -> None:
    """An item whose id stands in the history already goes without it, or not at all."""
    item = piece.item
    item_id = item.get("id") if item is not None else None
    if (
        item is None
        or not isinstance(item_id, str)
        or renderer.owns(item_id, entry.fact.fact_id, piece.number)
    ):
        return
    if decoding.kind(item) in wire.NEEDS_ID or decoding.kind(item) in ("item_reference", "reasoning"):
        if piece.part.kind == "tool_call":
            call = renderer.calls[piece.key or ""]
            tell(renderer, entry, piece, out, out.answers[call.key], "its id is used twice", "OAR-ID-006")
        else:
            drop(
                entry,
                piece,
                out,
                "merged",
                f"the id {named(item_id)} stands in the history already",
                "OAR-ID-006",
            )
    else:
        message = f"the id {named(item_id)} stands in the history already"
        note(entry, out, "trimmed", message, "OAR-ID-006", piece.key, item_id)
        piece.item = schema_keys.without_id(item)


def drop(entry: Entry, piece: Piece, out: Out, kind: Any, message: str, because: str) -> None:
    """Leave a piece out, and say so. A call of the server's that was sent so stays out."""
    raw = getattr(piece.part, "raw", None)
    content = raw.text if raw is not None else getattr(piece.part, "text", None)
    piece.item = None
    if piece.part.kind == "server_tool_call" and piece.key is not None:
        out.choices.append((server_tools.CHOICE, piece.key, None))
        out.gone.add(piece.key)
        out.held.discard(piece.key)
        out.decisions.pop(piece.key, None)
    note(entry, out, kind, message, because, piece.key or getattr(piece.part, "call_id", None), content)


def note(
    entry: Entry,
    out: Out,
    kind: Any,
    message: str,
    because: str,
    call_id: str | None,
    content: str | None = None,
) -> None:
    """Report a difference about a reply."""
    out.notes.append(Adjustment(kind, message, because, call_id, (entry.fact.fact_id,), content))
