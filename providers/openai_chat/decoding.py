"""Pieces of Chat messages -> parts: content parts, calls, reasoning, stored audio.

`raw` is kept where a piece says more than its part, or where the part cannot say it. What is broken, or of a type
that is not known, is opaque and keeps its JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from normalizer.parts import Json, Media, Opaque, Reasoning, Text, ToolCall
from normalizer.providers.openai_chat import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.parts import Part

_TEXT_KEYS: Final = ["type", "text"]
_CALL_KEYS: Final = ["id", "type", "function"]
_FUNCTION_KEYS: Final = ["name", "arguments"]
_DATA_URL: Final = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?);base64,(.*)", re.DOTALL)

NO_ARGUMENTS: Final = Json("{}")


def part(block: Any) -> Part:
    """The part that a content part is."""
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        return Opaque("", Json.of(block))
    kind = block.get("type")
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    found = make(block) if make is not None else None
    return found if found is not None else Opaque(kind if isinstance(kind, str) else "", Json.of(block))


def _text(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    if not isinstance(text, str):
        return None
    return Text(text) if list(block) == _TEXT_KEYS else Text(text, Json.of(block))


def _plain_text(block: dict[str, Any]) -> Part | None:
    """A text part of the Responses API: the words are the same, its other keys have no place here."""
    text = block.get("text")
    return Text(text) if isinstance(text, str) else None


def _thinking(block: dict[str, Any]) -> Part | None:
    text = block.get("thinking", block.get("text"))
    return Reasoning(text if isinstance(text, str) else "", Json.of(block))


def _image(block: dict[str, Any]) -> Part | None:
    held = block.get("image_url")
    url = held.get("url") if isinstance(held, dict) else held
    raw = Json.of(block)
    if not isinstance(url, str):
        file_id = _word(block, "file_id")
        return Media("image", file_id=file_id, raw=raw) if file_id else None
    media_type, data = data_url(url)
    return Media("image", media_type, data, None if data is not None else url, raw=raw)


def _sound(block: dict[str, Any]) -> Part | None:
    held = block.get("input_audio")
    if not isinstance(held, dict):
        return None
    form = _word(held, "format")
    return Media("audio", f"audio/{form}" if form else None, _word(held, "data"), raw=Json.of(block))


def _file(block: dict[str, Any]) -> Part | None:
    held = block.get("file") if block.get("type") == "file" else block
    if not isinstance(held, dict):
        return None
    name, file_id, given = _word(held, "filename"), _word(held, "file_id"), _word(held, "file_data")
    if not (file_id or given or _word(held, "file_url")):
        return None
    media_type, data = data_url(given) if given else (None, None)
    media: Literal["document", "file"] = "document" if media_type == "application/pdf" else "file"
    return Media(
        media, media_type, data if data is not None else given, _word(held, "file_url"), file_id, name, Json.of(block)
    )  # fmt: skip


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], Part | None]]] = {
    "text": _text,
    "input_text": _plain_text,
    "output_text": _plain_text,
    "thinking": _thinking,
    "reasoning": _thinking,
    "image_url": _image,
    "input_image": _image,
    "input_audio": _sound,
    "file": _file,
    "input_file": _file,
}


def data_url(url: str) -> tuple[str | None, str | None]:
    """The media type and the base64 text of a data URL; None twice where it is none."""
    found = _DATA_URL.fullmatch(url)
    return (found[1] or None, found[3]) if found else (None, None)


# ---------------------------------------------------------------- what only the assistant says


def refusal(text: str) -> Opaque:
    """A model's refusal, which is no ordinary text; Chat and Responses write it alike."""
    return Opaque("refusal", Json.of({"type": "refusal", "refusal": text}))


def call(given: dict[str, Any]) -> ToolCall | None:
    """One element of `tool_calls`; None for one without a name, which nobody can have run."""
    wire_id = given.get("id")
    wire_id = wire_id if isinstance(wire_id, str) and wire_id else None
    if given.get("type") == "custom" or ("custom" in given and "function" not in given):
        return _custom(given, wire_id)
    function: Any = given.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        return None
    arguments = arguments_of(function.get("arguments"))
    if (
        wire_id is not None
        and list(given) == _CALL_KEYS
        and given["type"] == "function"
        and list(function) == _FUNCTION_KEYS
        and isinstance(function["arguments"], str)
    ):
        return ToolCall(wire_id, name, arguments)
    return ToolCall(wire_id, name, arguments, Json.of(given))


def _custom(given: dict[str, Any], wire_id: str | None) -> ToolCall | None:
    """A custom call: its free text is the one argument, `input`, so that it is JSON for everybody else."""
    custom: Any = given.get("custom")
    name = custom.get("name") if isinstance(custom, dict) else None
    if not isinstance(name, str) or not name:
        return None
    text = custom.get("input", "")
    text = text if isinstance(text, str) else Json.of(text).text
    return ToolCall(wire_id, name, Json.of({"input": text}), Json.of(given), "custom")


def legacy_call(given: Any) -> ToolCall | None:
    """A `function_call`, the form before `tool_calls`. It has no id."""
    name = given.get("name") if isinstance(given, dict) else None
    if not isinstance(name, str) or not name:
        return None
    return ToolCall(None, name, arguments_of(given.get("arguments")), form="function_call")


def arguments_of(given: Any) -> Json:
    """Arguments as the text that arrived; a value that is no text is written as one, null is none."""
    if isinstance(given, str):
        return Json(given)
    return NO_ARGUMENTS if given is None else Json.of(given)


def reasoning(message: dict[str, Any]) -> Reasoning | None:
    """What a compatible server sent as reasoning, under whatever key; `raw` has the keys as they came."""
    raw = {key: message[key] for key in wire.REASONING_KEYS if message.get(key) is not None}
    if not raw:
        return None
    words = next((value for value in raw.values() if isinstance(value, str)), None)
    return Reasoning(detailed(raw.get("reasoning_details")) if words is None else words, Json.of(raw))


def detailed(details: Any) -> str:
    """The readable words of `reasoning_details`."""
    found = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    return "".join(_word(detail, "text") or _word(detail, "summary") or "" for detail in found)


def stored_audio(given: Any) -> Media | None:
    """A spoken reply, which the server keeps for a while under an id."""
    if not isinstance(given, dict) or not _word(given, "id"):
        return None
    return Media("audio", data=_word(given, "data"), file_id=given["id"], raw=Json.of(given))


def _word(holder: dict[str, Any], key: str) -> str | None:
    found = holder.get(key)
    return found if isinstance(found, str) else None
