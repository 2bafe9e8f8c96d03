"""A model's reply as assistant messages, each with the calls that its tool messages answer.

What was received from this API is replayed as received, less the keys that it does not take back. A refusal stays a
refusal, reasoning never becomes words, and what another provider's server did is left out and reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import of_one_piece, remainder, whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import calls, quotes, reasoning, schema_keys, wire
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from normalizer.parts import Media, Reasoning, ServerToolCall, ServerToolResult, Text
    from normalizer.projecting.incremental import Step
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.openai_chat.render import Out, Renderer
    from normalizer.transcript import Call, Entry

_ABSENT: Final = object()
_NULLABLE: Final = frozenset({"refusal", "audio", "function_call"})


@dataclass(slots=True)
class Spoken:
    """One assistant message, and the calls in it. `legacy`: its one call has the form before `tool_calls`."""

    message: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    legacy: bool = False


@dataclass(slots=True)
class _Said:
    """The parts of a reply by kind."""

    words: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    thoughts: list[Reasoning] = field(default_factory=list)
    sound: str | None = None
    calls: list[tuple[Call, dict[str, Any]]] = field(default_factory=list)


def render(renderer: Renderer, step: Step, out: Out) -> list[Spoken]:
    """The messages of a step's reply."""
    entry = step.reply
    assert entry is not None  # noqa: S101 - the caller has looked
    fact: Any = entry.fact
    if fact.kind == "reply_cut" and not entry.parts:
        return []
    if fact.api not in (None, wire.API) and getattr(fact, "stop_reason", None) == "refusal":
        _refused(renderer, entry, out)
        return []
    said = _sorted(renderer, entry, out)
    if fact.kind == "reply_cut":
        _trim_end(entry, said, out)
    own = fact.api in (None, wire.API)
    skeleton = _skeleton(fact) if own else None
    contents, key_refusal = _contents(renderer, entry, said, skeleton, out)
    if not contents and not (said.calls or said.sound):
        _nothing_left(entry, out)
        return []
    *before, last = contents or [_no_words(renderer, entry, said, skeleton, out, own=own)]
    spoken = [Spoken({"role": "assistant", "content": content}) for content in before]
    thoughts = reasoning.fields(renderer, entry, said.thoughts, out, calls=_listed(entry, said))
    if last == "" and out.dropped and not said.calls and not said.sound and not thoughts:
        _nothing_left(entry, out)
        return spoken
    built: dict[str, Any] = {"role": "assistant"}
    if last is not _ABSENT:
        built["content"] = last
    if key_refusal is not None:
        built["refusal"] = key_refusal
    if said.sound is not None:
        built["audio"] = {"id": said.sound}
    built.update(thoughts)
    spoken.extend(_with_calls(renderer, entry, said, built, skeleton, out))
    return spoken


def _skeleton(fact: Any) -> dict[str, Any] | None:
    raw = fact.raw.value if fact.raw is not None else None
    return raw if isinstance(raw, dict) and raw.get("role") == "assistant" else None


# ---------------------------------------------------------------- parts


def _sorted(renderer: Renderer, entry: Entry, out: Out) -> _Said:
    """Every part in its place, or left out and reported."""
    said = _Said()
    own = entry.fact.api in (None, wire.API)
    keys_of = iter(entry.calls)
    border = _last_fallback(entry) if not own else -1
    called = False
    for at, part in enumerate(entry.parts):
        match part.kind:
            case "text":
                _text(renderer, entry, part, said, out, own=own)
                if called and part.text:
                    _note(entry, out, "moved", "words behind a call stand before it here", "OAC-OK-001")
            case "tool_call":
                key = next(keys_of)
                called = True
                if key is None:
                    _note(entry, out, "merged", f"call {named(part.id)} stands twice in one reply and is sent once",
                          "OAC-PAIR-006", call_id=part.id)  # fmt: skip
                elif at < border:
                    _note(entry, out, "dropped_turn", "a call before a fallback block is void", None, call_id=key,
                          content=f"{part.name} {part.arguments.text}")  # fmt: skip
                    out.aside.append(key)
                else:
                    said.calls.append((renderer.calls[key], calls.block(renderer, entry, key, part, out)))
            case "reasoning":
                said.thoughts.append(part)
            case "media":
                _medium(renderer, entry, part, said, out, own=own)
            case "opaque":
                _opaque(renderer, entry, part, said, out, own=own)
            case "server_tool_call" | "server_tool_result":
                _server(renderer, entry, part, next(keys_of), out)
    return said


def _text(renderer: Renderer, entry: Entry, part: Text, said: _Said, out: Out, *, own: bool) -> None:
    raw = part.raw.value if part.raw is not None else None
    if not part.text and not own:
        _note(
            entry,
            out,
            "dropped_empty",
            "an empty text is left out",
            "OAC-STRUCT-004",
            content=whole(part),
        )
        return
    said.words.append(text_block(renderer, entry, part.text, raw, out))


def text_block(renderer: Renderer, entry: Entry, text: str, raw: Any, out: Out) -> dict[str, Any]:
    """A text part, as received or anew, less the keys that the API does not know."""
    limited = renderer.limited(entry, text, out)
    if not isinstance(raw, dict):
        return {"type": "text", "text": limited}
    known = schema_keys.PART_KEYS["text"] | renderer.profile.part_keys
    kept = {key: value for key, value in raw.items() if key in known} if raw.get("type") == "text" else {}
    if rest := remainder(of_one_piece(Json.of(raw)), kept, text):
        _note(
            entry,
            out,
            "trimmed",
            "a text has keys that the API does not know",
            "OAC-STRUCT-006",
            content=rest,
        )
    if kept.get("text") != limited:
        return {"type": "text", "text": limited}
    return raw if raw.keys() <= known else kept


def _medium(renderer: Renderer, entry: Entry, part: Media, said: _Said, out: Out, *, own: bool) -> None:
    """A spoken reply is referred to while its server keeps it; else its transcript stands for it."""
    raw = part.raw.value if part.raw is not None else {}
    if own and part.media == "audio" and part.file_id is not None:
        said.sound = part.file_id
    elif isinstance(raw, dict) and isinstance(raw.get("transcript"), str) and raw["transcript"]:
        said.words.append({"type": "text", "text": renderer.limited(entry, raw["transcript"], out)})
        _note(entry, out, "told_as_text", "a spoken reply is sent as its transcript", "OAC-CONTENT-009",
              content=part.file_id)  # fmt: skip
    else:
        out.dropped = True
        _note(entry, out, "media_moved", f"a reply cannot hold a medium ({part.media}): it is left out",
              "OAC-CONTENT-003", content=whole(part))  # fmt: skip


def _opaque(renderer: Renderer, entry: Entry, part: Any, said: _Said, out: Out, *, own: bool) -> None:
    block = part.raw.value
    if part.type == "refusal" and isinstance(block, dict) and isinstance(block.get("refusal"), str):
        said.refusals.append(block["refusal"])
    elif own and renderer.profile.other_parts and wire.is_unknown(part.type):
        said.words.append(block)
    elif own or part.type != "message":  # the envelope of an item, whose parts stand beside it
        out.dropped = True
        _note(entry, out, "dropped_fragment", f"a part of type {part.type!r} is none of this API", "OAC-CONTENT-003",
              content=part.raw.text)  # fmt: skip


def _server(
    renderer: Renderer, entry: Entry, part: ServerToolCall | ServerToolResult, key: str | None, out: Out
) -> None:
    """What a provider's server did is left out, or told as a note of the user's side."""
    out.dropped = True
    raw = part.raw
    _note(entry, out, "dropped_server_tool", "a call that the provider's own server ran has no form here",
          "OAC-STATE-003", call_id=key, content=raw.text if raw is not None else whole(part))  # fmt: skip
    if renderer.options.server_tools == "quote":
        call = renderer.server_calls.get(key or "")
        if part.kind == "server_tool_call":
            out.quotes.append(quotes.asked(part))
        else:
            out.quotes.extend(quotes.found(part, call.name if call is not None else None))


def _last_fallback(entry: Entry) -> int:
    found = [n for n, p in enumerate(entry.parts) if p.kind == "opaque" and p.type == "fallback"]
    return found[-1] if found else -1


def _refused(renderer: Renderer, entry: Entry, out: Out) -> None:
    """A refused turn is no history; a call of it that was started is told in words."""
    content = Json.of([whole(part) for part in entry.parts]).text if entry.parts else None
    _note(
        entry,
        out,
        "dropped_turn",
        "the reply ended in a refusal: it is left out whole",
        None,
        content=content,
    )
    out.aside.extend(key for key in entry.calls if key is not None and key in renderer.calls)


def _trim_end(entry: Entry, said: _Said, out: Out) -> None:
    """The last text of a cut reply loses the white space at its end."""
    text = said.words[-1].get("text") if said.words else None
    if isinstance(text, str) and text != text.rstrip():
        _note(entry, out, "trimmed", "white space at the end of a cut text", None, content=text)
        said.words[-1] = {**said.words[-1], "text": text.rstrip()}
        if not text.rstrip():
            said.words.pop()


# ---------------------------------------------------------------- content


def _contents(
    renderer: Renderer, entry: Entry, said: _Said, skeleton: dict[str, Any] | None, out: Out
) -> tuple[list[Any], str | None]:
    """The contents of the reply's messages in order, and a refusal that stands in a key of its own."""
    fact: Any = entry.fact
    found: list[Any] = []
    if said.words:
        single = fact.string or fact.api not in (None, wire.API)
        found.append(renderer.content(entry, said.words, out, single=single))
    elif (
        fact.string
        and not (said.refusals or said.calls or said.sound)
        and fact.api in (None, wire.API)
        and not (skeleton is not None and skeleton.keys() & {"tool_calls", "function_call"})
    ):
        found.append("")
    if len(said.refusals) == 1 and found and skeleton is not None and "refusal" in skeleton:
        return found, said.refusals[0]
    if renderer.profile.refusal_key and said.refusals:
        return found or [""], "\n".join(said.refusals)
    found.extend([{"type": "refusal", "refusal": text}] for text in said.refusals)
    if len(found) > 1:
        _note(entry, out, "split", "words and a refusal stand in messages of their own", "OAC-CONTENT-003")
    return found, None


def _no_words(
    renderer: Renderer, entry: Entry, said: _Said, skeleton: dict[str, Any] | None, out: Out, *, own: bool
) -> Any:
    """The content of a message that says nothing beside its calls: as received, as far as the server takes it."""
    value: Any = None
    if own and entry.fact.string:
        value = ""
    elif own and skeleton is not None and "content" not in skeleton:
        value = _ABSENT
    wanted, beside = renderer.profile.no_words, _listed(entry, said)
    if wanted == "null" and beside and value == "":
        _note(entry, out, "dropped_empty", "an empty content beside calls is sent as null", "OCX-KIMI-002")
        return None
    if value is _ABSENT:
        return "" if wanted in ("string", "key") or (wanted == "calls" and not beside) else value
    return "" if value is None and (wanted == "string" or (wanted == "calls" and not beside)) else value


def _nothing_left(entry: Entry, out: Out) -> None:
    held = "\n".join(words for part in entry.parts if (words := whole(part))) or None
    _note(
        entry, out, "dropped_empty", "a reply with nothing in it is left out", "OAC-STRUCT-004", content=held
    )


# ---------------------------------------------------------------- messages


def _with_calls(
    renderer: Renderer,
    entry: Entry,
    said: _Said,
    built: dict[str, Any],
    skeleton: dict[str, Any] | None,
    out: Out,
) -> list[Spoken]:
    """The last message of the reply with its calls; more than a message may hold go into further ones."""
    if said.calls and not _listed(entry, said):
        call, block = said.calls[0]
        built["function_call"] = block
        return [Spoken(_ordered(entry, built, skeleton, renderer, out), [call], legacy=True)]
    chunks = [said.calls[at : at + wire.MAX_CALLS] for at in range(0, len(said.calls), wire.MAX_CALLS)] or [
        []
    ]
    if len(chunks) > 1:
        _note(entry, out, "split", f"a message holds at most {wire.MAX_CALLS} calls", "OAC-LIMIT-002")
    found: list[Spoken] = []
    for number, chunk in enumerate(chunks):
        message = built if number == 0 else _further(renderer, entry, out)
        if chunk:
            message["tool_calls"] = [block for _, block in chunk]
        message = _ordered(entry, message, skeleton if number == 0 else None, renderer, out)
        found.append(Spoken(message, [call for call, _ in chunk]))
    return found


def _listed(entry: Entry, said: _Said) -> bool:
    """Whether the reply has calls under `tool_calls`."""
    return bool(said.calls) and not (len(said.calls) == 1 and calls.is_legacy(entry, said.calls[0][0].part))


def _further(renderer: Renderer, entry: Entry, out: Out) -> dict[str, Any]:
    content = "" if renderer.profile.no_words == "string" else None
    return {
        "role": "assistant",
        "content": content,
        **reasoning.fields(renderer, entry, [], out, calls=True),
    }


def _ordered(
    entry: Entry, built: dict[str, Any], skeleton: dict[str, Any] | None, renderer: Renderer, out: Out
) -> dict[str, Any]:
    """The keys in the order in which they were received, with those that only the message itself says."""
    if skeleton is None:
        return built
    message: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in skeleton.items():
        if key in built:
            message[key] = built.pop(key)
        elif key in _NULLABLE or key in renderer.profile.reasoning_keys:
            if not any(_of_key(part, key) for part in entry.parts):  # then it was null
                message[key] = None
        elif key == "name":
            renderer.put_name(entry, message, value, out)
        elif key not in ("content", "tool_calls", "response", *wire.REASONING_KEYS):
            extra[key] = value
    if extra:
        _note(entry, out, "trimmed", "a message has keys that the API does not take back", "OAC-STRUCT-006",
              content=Json.of(extra).text)  # fmt: skip
    message.update(built)
    return message


def _of_key(part: Any, key: str) -> bool:
    """Whether a part came in this key of its message."""
    kind: str = part.kind
    match key:
        case "refusal":
            return kind == "opaque" and bool(part.type == "refusal")
        case "audio":
            return kind == "media" and bool(part.media == "audio")
        case "function_call":
            return kind == "tool_call" and bool(part.form == calls.LEGACY)
    return kind == "reasoning"


def _note(
    entry: Entry, out: Out, kind: AdjustmentKind, message: str, because: str | None, *, call_id: str | None = None,
    content: str | None = None,
) -> None:  # fmt: skip
    out.notes.append(Adjustment(kind, message, because, call_id, (entry.fact.fact_id,), content))
