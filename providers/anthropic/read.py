"""Anthropic requests, responses and message lists -> facts.

Takes anything that can be made sense of: what is broken becomes a finding and a fact of what is known, and
what is no fact becomes a leftover. `raw` is kept where a block says more than its part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json, Text, Tool
from normalizer.providers.anthropic import user_decoding, wire
from normalizer.providers.anthropic.decoding import CALL_KEYS, RESULT_KEYS, TEXT_KEYS, call, make_text, part
from normalizer.reading import sanitizing
from normalizer.reading.fact_builder import Recorder, as_request
from normalizer.reading.sanitizing import sound

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.findings import Reading
    from normalizer.parts import Part
    from normalizer.provider import Origin

NONE: Final = Json("null")
"""The `raw` of instructions that a request does not have."""

_HISTORY: Final = frozenset({"messages", "system", "tools"})
# what other formats call the role of a message that holds a tool's result
_RESULT_ROLES: Final = frozenset({"tool", "function", "tool_result"})


def read(value: Any, origin: Origin) -> Reading:
    """Facts of a request, of a list of messages, or of one response. The value belongs to the reader from then on."""
    return _read(value, origin, lambda taken_over: taken_over)


def borrow(value: Any, origin: Origin) -> Reading:
    """Facts of a request that stays the caller's: what is kept is copied. Raises Unclean for the unusual."""
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise sanitizing.Unclean
    rest = sanitizing.own({key: item for key, item in value.items() if key != "messages"})
    return _read({key: messages if key == "messages" else rest[key] for key in value}, origin, sanitizing.own)


def _read(value: Any, origin: Origin, own: Callable[[Any], Any]) -> Reading:
    """`own` makes a message the reader's."""
    recorder = Recorder("import", provider=wire.PROVIDER, api=wire.API)
    whole = isinstance(value, dict) and ("messages" in value or "content" in value)
    if not whole:
        value = as_request(value, "messages")
    # messages are looked at one by one, the usual ones on the way
    sanitizing.look({key: item for key, item in value.items() if key != "messages"})
    if "messages" not in value:
        return _response(recorder, value, origin)
    messages = value["messages"] if isinstance(value["messages"], list) else [value["messages"]]
    system, tools = value.get("system"), value.get("tools")
    if system is not None:
        _system(recorder, system, "/system")
    elif whole:
        recorder.instructions("/system", (), raw=NONE)  # that there are none is on record too
    recorder.offered("/tools", tools, _tool)
    if tools is None and whole:
        recorder.tools("/tools", (), declared=False)
    last = len(messages) - 1
    origin = {**origin, "container": container} if (container := _container(value)) else origin
    newest = next((n for n in range(last, -1, -1) if _role(messages[n]) == "assistant"), last)
    for number, message in enumerate(messages):
        if number == newest or not _usual(recorder, number, message):
            _message(recorder, number, own(message), origin if number == newest else {})
    return recorder.reading(waiting=_pauses(messages, origin), request=value, history=_HISTORY)


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _container(value: dict[str, Any]) -> str | None:
    """The id of the container that the request names: it is that of the newest reply."""
    container = value.get("container")
    if isinstance(container, dict):
        container = container.get("id")
    return container if isinstance(container, str) and container else None


def _usual(recorder: Recorder, number: int, message: Any) -> bool:
    """The two messages that most histories consist of: a reply of this API's blocks, and nothing but plain results.

    Says False where the message has anything else in it, having done nothing.
    """
    if type(message) is not dict or len(message) != 2 or type(content := message.get("content")) is not list:
        return False
    role = message.get("role")
    if role == "assistant":
        parts: list[Part] = []
        wire_ids: list[str] = []
        for block in content:
            if type(block) is not dict:
                return False
            kind = block.get("type")
            if kind == "text" and len(block) == 2:
                text = block.get("text")
                if type(text) is not str or list(block) != TEXT_KEYS:
                    return False
                parts.append(make_text(sound(text)))
            elif kind == "tool_use" and len(block) == 4 and list(block) == CALL_KEYS:
                plain = type(block["name"]) is str and type(block["input"]) is dict
                made = call(block, block["name"]) if plain else None
                if made is None or not made.id:
                    return False
                sound(made.name)
                wire_ids.append(sound(made.id))
                parts.append(made)
            else:
                return False
        return recorder.usual_reply(f"/messages/{number}", tuple(parts), wire_ids, number)
    if role != "user" or recorder.server_ids:
        return False
    for block in content:
        if (
            type(block) is not dict
            or len(block) != 3
            or block.get("type") != "tool_result"
            or type(block.get("content")) is not str
            or type(block.get("tool_use_id")) is not str
            or list(block) != RESULT_KEYS[0]
        ):
            return False
    if not content:
        return False
    place = f"/messages/{number}/content/"
    for at, block in enumerate(content):
        text, wire_id = block["content"], block["tool_use_id"]
        recorder.usual_result(f"{place}{at}", sound(wire_id), sound(text), number)
    return True


def _pauses(messages: list[Any], origin: Origin) -> bool:
    """Whether the server still holds the last reply."""
    return bool(messages) and origin.get("stop_reason") == "pause_turn"


def _response(recorder: Recorder, value: dict[str, Any], origin: Origin) -> Reading:
    """One response as the only message."""
    _message(recorder, 0, value, origin, base="")
    reason = value.get("stop_reason")
    return recorder.reading(waiting=reason == "pause_turn", stop_reason=reason)


def _system(recorder: Recorder, system: Any, place: str) -> None:
    """The top-level instructions."""
    if isinstance(system, str):
        recorder.instructions(place, (Text(system),), string=True)
    elif isinstance(system, list):
        recorder.bare_texts(place, system)
        recorder.instructions(place, tuple(part(block) for block in system))
    else:
        recorder.leftover(place, "system is neither text nor blocks", system)


def _tool(tool: Any) -> Tool:
    """A declaration; the whole of it stays in `raw`."""
    if not isinstance(tool, dict):
        return Tool("", raw=Json.of(tool))
    name, schema = tool.get("name"), tool.get("input_schema")
    return Tool(
        name if isinstance(name, str) else "",
        tool.get("description") if isinstance(tool.get("description"), str) else None,
        Json.of(schema) if schema is not None else None,
        Json.of(tool),
        server=isinstance(tool.get("type"), str) and tool["type"] != "custom",
    )


# ---------------------------------------------------------------- messages


def _message(
    recorder: Recorder, number: int, message: Any, origin: Origin, *, base: str = "/messages/"
) -> None:
    place = f"{base}{number}" if base else ""
    sanitizing.look(message)
    if not isinstance(message, dict):
        recorder.no_object(place, message)
        return
    role, content = message.get("role"), message.get("content")
    recorder.bare_texts(f"{place}/content", content)
    extra = None
    if len(message) > 2 or "content" not in message:
        extra = {key: item for key, item in message.items() if key not in ("role", "content")}
    if role == "assistant":
        _assistant(recorder, place, content, extra, origin, number)
    elif role == "user":
        if extra:
            recorder.finding("unknown_block", "a message has keys that the API does not know", place)
            recorder.leftover(place, "keys of a message that the API does not know", extra)
        user_decoding.record(recorder, place, content, number)
    elif role == "system":
        _mid_system(recorder, place, message, number)
    elif isinstance(role, str) and role in _RESULT_ROLES:
        user_decoding.record_foreign_result(recorder, place, message, number)
    elif role == "developer":
        recorder.instructions(place, _parts(recorder, place, content), additional=True, group=number,
                              string=isinstance(content, str), raw=Json.of(message) if extra else None)  # fmt: skip
    else:
        recorder.unknown_role(place, message)


def _assistant(
    recorder: Recorder, place: str, content: Any, extra: dict[str, Any] | None, origin: Origin, number: int
) -> None:
    """A reply; result blocks in it open the user turn behind it, as the API would have wanted them."""
    more: dict[str, Any] = {}
    if extra:
        more = _reply_fields(extra)
    if origin:
        more.update({k: origin[k] for k in ("stop_reason", "container") if k in origin and k not in more})
    if type(content) is str:
        recorder.reply(place, (Text(content),) if content else (), string=True, group=number, **more)
        return
    if not isinstance(content, list):
        if content is not None:
            recorder.no_content(place, content)
        recorder.reply(place, (), group=number, **more)
        return
    if any(type(block) is dict and block.get("type") == "tool_result" for block in content):
        _split_assistant(recorder, place, content, more)
        return
    recorder.reply(place, tuple([part(block) for block in content]), group=number, **more)


def _split_assistant(recorder: Recorder, place: str, content: list[Any], more: dict[str, Any]) -> None:
    """An assistant message with results in it: each run of other blocks is a reply of its own."""
    recorder.finding("displaced_result", "a tool's result stands in an assistant message", place)
    run: list[Part] = []
    start = 0
    told = False
    for at, block in enumerate(content):
        if type(block) is dict and block.get("type") == "tool_result":
            if run:
                recorder.reply(f"{place}/content/{start}", tuple(run), **more)
                run, told = [], True
            user_decoding.record_result(recorder, f"{place}/content/{at}", block, None)
        else:
            start = start if run else at
            run.append(part(block))
    if run:
        recorder.reply(f"{place}/content/{start}", tuple(run), **more)
    elif not told and "raw" in more:
        recorder.leftover(place, "what stands beside results in an assistant message", more["raw"])


def _reply_fields(extra: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the content of a response."""
    more: dict[str, Any] = {}
    for key in ("stop_reason", "model"):
        if isinstance(extra.get(key), str):
            more[key] = extra[key]
    container = extra.get("container")
    if isinstance(container, dict) and isinstance(container.get("id"), str):
        more["container"] = container["id"]
    more["raw"] = Json.of(extra)
    return more


def _mid_system(recorder: Recorder, place: str, message: dict[str, Any], number: int) -> None:
    """Instructions beside those at the top, wherever they stand."""
    content = message.get("content")
    if content in (None, "", []):
        recorder.finding("unknown_block", "a system message says nothing", place)
    plain = set(message) <= {"role", "content"}
    recorder.instructions(
        place,
        _parts(recorder, place, content),
        additional=True,
        string=isinstance(content, str),
        raw=None if plain else Json.of(message),
        group=number,
    )


def _parts(recorder: Recorder, place: str, content: Any) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, list):
        return tuple(part(block) for block in content)
    if content is not None:
        recorder.no_content(place, content)
    return ()
