"""Anthropic requests, responses and message lists -> facts.

Takes anything that can be made sense of: what is broken becomes a finding and a fact of what is known, and
what is no fact becomes a leftover. `raw` is kept where a block says more than its part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer import cleaning
from normalizer.facts import OutcomeAttested
from normalizer.frozen import maker
from normalizer.notices import MARK, read_back
from normalizer.parts import (
    Json,
    Media,
    Opaque,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    Tool,
    ToolCall,
)
from normalizer.reading import Reading
from normalizer.recording import Recorder
from normalizer.providers.anthropic import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.parts import Part
    from normalizer.provider import Origin

NONE: Final = Json("null")
"""The `raw` of instructions that a request does not have."""

make_text = maker(Text)
make_call = maker(ToolCall)

_TEXT_KEYS: Final = ["type", "text"]
_CALL_KEYS: Final = ["type", "id", "name", "input"]
_RESULT_KEYS: Final = (["type", "tool_use_id", "content"], ["type", "tool_use_id", "content", "is_error"])
# what other APIs call a block of words
_WORDS: Final = frozenset({"output_text", "input_text"})
_HISTORY: Final = frozenset({"messages", "system", "tools"})
_ROLES: Final = frozenset({"user", "assistant", "system"})
# what other formats call the role of a message that holds a tool's result
_RESULT_ROLES: Final = frozenset({"tool", "function", "tool_result"})


def sniff(value: Any) -> int:
    """How well a parsed value fits: a request, a list of messages, or one response."""
    if isinstance(value, dict):
        if value.get("type") == "message" and isinstance(value.get("content"), list):
            return 90
        messages = value.get("messages")
        if not isinstance(messages, list):
            return 0
        score = _sniff_messages(messages)
        if score and ("system" in value or "betas" in value or "claude" in str(value.get("model", ""))):
            return min(100, score + 25)
        return score
    return _sniff_messages(value) if isinstance(value, list) else 0


def _sniff_messages(messages: list[Any]) -> int:
    """Messages whose blocks are of this API's types; plain words alone fit several APIs."""
    score = 0
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return 0
        if message["role"] in ("tool", "function", "developer", "model") or "tool_calls" in message or "parts" in message:
            return 0
        content = message.get("content")
        if isinstance(content, list):
            for block in content:
                kind = block.get("type") if isinstance(block, dict) else None
                if not isinstance(kind, str) or kind in ("image_url", "input_text", "output_text", "tool-call"):
                    return 0
                score = max(score, 20 if kind == "text" else 75 if kind in _KNOWN else 0)
        elif isinstance(content, str):
            score = max(score, 20)
        elif content is not None:
            return 0
    return score


def read(value: Any, origin: Origin) -> Reading:
    """Facts of a request, of a list of messages, or of one response. The value belongs to the reader from then on."""
    recorder = Recorder("import", provider=wire.PROVIDER, api=wire.API)
    whole = isinstance(value, dict)
    if not whole:
        value = {"messages": value}
    if "messages" not in value and "content" in value:
        return _response(recorder, value, origin)
    messages = value["messages"] if isinstance(value["messages"], list) else [value["messages"]]
    system, tools = value.get("system"), value.get("tools")
    if system is not None:
        _system(recorder, system, "/system")
    elif whole:
        recorder.instructions("/system", (), raw=NONE)  # that there are none is on record too
    if isinstance(tools, list):
        recorder.tools("/tools", tuple(_tool(tool) for tool in tools))
    elif tools is not None:
        recorder.leftover("/tools", "tools are not a list", tools)
    elif whole:
        recorder.tools("/tools", (), declared=False)
    last = len(messages) - 1
    origin = {**origin, "container": container} if (container := _container(value)) else origin
    newest = next((n for n in range(last, -1, -1) if _role(messages[n]) == "assistant"), last)
    for number, message in enumerate(messages):
        if number != newest and type(message) is dict and len(message) == 2 and type(message.get("content")) is list:
            if _usual(recorder, number, message["role"] if "role" in message else None, message["content"]):
                continue
        _message(recorder, number, message, origin if number == newest else {}, last=number == last)
    waiting = _pauses(messages, origin)
    return Reading(
        format=wire.API,
        facts=recorder.close(waiting=waiting),
        findings=tuple(recorder.findings),
        leftovers=tuple(recorder.leftovers),
        fragments=tuple(recorder.fragments),
        home=wire.API,
        settings={key: setting for key, setting in value.items() if key not in _HISTORY},
        request=value,
    )


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _container(value: dict[str, Any]) -> str | None:
    """The id of the container that the request names: it is that of the newest reply."""
    container = value.get("container")
    if isinstance(container, dict):
        container = container.get("id")
    return container if isinstance(container, str) and container else None


def _usual(recorder: Recorder, number: int, role: Any, content: list[Any]) -> bool:
    """The two messages that most histories consist of: a reply of this API's blocks, and nothing but plain results.

    Says False where the message has anything else in it, having done nothing.
    """
    if role == "assistant":
        parts: list[Part] = []
        wire_ids: list[str] = []
        for block in content:
            if type(block) is not dict:
                return False
            kind = block.get("type")
            if kind == "text" and len(block) == 2:
                text = block.get("text")
                if type(text) is not str or "\0" in text or list(block) != _TEXT_KEYS:
                    return False
                parts.append(make_text(text))
            elif kind == "tool_use" and len(block) == 4 and list(block) == _CALL_KEYS:
                call = _call(block, block["name"]) if type(block["name"]) is str else None
                if call is None or not call.id:
                    return False
                wire_ids.append(call.id)
                parts.append(call)
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
            or list(block) != _RESULT_KEYS[0]
        ):
            return False
    if not content:
        return False
    place = f"/messages/{number}/content/"
    at = 0
    for block in content:
        text = block["content"]
        if "\0" in text:
            raise cleaning.Unclean
        recorder.usual_result(f"{place}{at}", block["tool_use_id"], text, number)
        at += 1
    return True


def _pauses(messages: list[Any], origin: Origin) -> bool:
    """Whether the server still holds the last reply."""
    return bool(messages) and origin.get("stop_reason") == "pause_turn"


def _response(recorder: Recorder, value: dict[str, Any], origin: Origin) -> Reading:
    """One response as the only message."""
    _message(recorder, 0, value, origin, last=True, base="")
    return Reading(
        format=wire.API,
        facts=recorder.close(waiting=value.get("stop_reason") == "pause_turn"),
        findings=tuple(recorder.findings),
        leftovers=tuple(recorder.leftovers),
        fragments=tuple(recorder.fragments),
        home=wire.API,
        stop_reason=value.get("stop_reason"),
    )


def _system(recorder: Recorder, system: Any, place: str) -> None:
    """The top-level instructions."""
    if isinstance(system, str):
        recorder.instructions(place, (Text(system),), string=True)
    elif isinstance(system, list):
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
    recorder: Recorder, number: int, message: Any, origin: Origin, *, last: bool, base: str = "/messages/"
) -> None:
    place = f"{base}{number}" if base else ""
    if not isinstance(message, dict):
        recorder.finding("bad_line", "a message is not an object", place)
        recorder.leftover(place, "a message that is not an object", message)
        return
    role, content = message.get("role"), message.get("content")
    extra = None
    if len(message) > 2 or "content" not in message:
        extra = {key: item for key, item in message.items() if key not in ("role", "content")}
    if role == "assistant":
        _assistant(recorder, place, content, extra, origin, number)
    elif role == "user":
        if extra:
            recorder.leftover(place, "keys of a message that the API does not know", extra)
        _user(recorder, place, content, number, last=last)
    elif role == "system":
        _mid_system(recorder, place, message, number)
    elif role in _RESULT_ROLES:
        _foreign_result(recorder, place, message, number)
    elif role == "developer":
        recorder.instructions(place, _parts(recorder, place, content), additional=True, group=number,
                              string=isinstance(content, str))  # fmt: skip
    else:
        recorder.finding("unknown_block", f"a message of the unknown role {role!r}", place)
        recorder.leftover(place, "a message of an unknown role", message)


def _assistant(
    recorder: Recorder, place: str, content: Any, extra: dict[str, Any] | None, origin: Origin, number: int
) -> None:
    """A reply; result blocks in it open the user turn behind it, as the API would have wanted them."""
    more: dict[str, Any] = {}
    if extra:
        more = _reply_fields(recorder, place, extra)
    if origin:
        more.update({k: origin[k] for k in ("stop_reason", "container") if k in origin and k not in more})
    if type(content) is str:
        recorder.reply(place, (Text(content),) if content else (), string=True, group=number, **more)
        return
    if not isinstance(content, list):
        if content is not None:
            cleaning.look(content)
            recorder.leftover(place, "content that is neither text nor blocks", content)
        recorder.reply(place, (), group=number, **more)
        return
    if any(type(block) is dict and block.get("type") == "tool_result" for block in content):
        _split_assistant(recorder, place, content, number, more)
        return
    recorder.reply(place, tuple([part(block) for block in content]), group=number, **more)


def _split_assistant(
    recorder: Recorder, place: str, content: list[Any], number: int, more: dict[str, Any]
) -> None:
    """An assistant message with results in it: each run of other blocks is a reply of its own."""
    recorder.finding("displaced_result", "a tool's result stands in an assistant message", place)
    run: list[Part] = []
    start = 0
    for at, block in enumerate(content):
        if type(block) is dict and block.get("type") == "tool_result":
            if run:
                recorder.reply(f"{place}/content/{start}", tuple(run), group=None, **more)
                run = []
            _result(recorder, f"{place}/content/{at}", block, None)
        else:
            start = start if run else at
            run.append(part(block))
    if run:
        recorder.reply(f"{place}/content/{start}", tuple(run), group=None, **more)


def _reply_fields(recorder: Recorder, place: str, extra: dict[str, Any]) -> dict[str, Any]:
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


def _user(recorder: Recorder, place: str, content: Any, number: int, *, last: bool) -> None:
    if type(content) is str:
        recorder.open_turn()
        _said(recorder, place, (Text(content),), number, string=True)
        return
    if not isinstance(content, list):
        cleaning.look(content)
        recorder.finding("bad_line", "the content of a user message is neither text nor a list of blocks", place)
        recorder.leftover(place, "content that is neither text nor blocks", content)
        return
    run: list[Part] = []
    start = 0
    opened = False
    for at, block in enumerate(content):
        if type(block) is dict and block.get("type") == "tool_result":
            if run:
                _said(recorder, f"{place}/content/{start}", tuple(run), number)
                run = []
            opened = True  # a message that answers calls goes on with their turn
            _result(recorder, f"{place}/content/{at}", block, number)
        else:
            if not opened:
                opened = True
                if not any(type(b) is dict and b.get("type") == "tool_result" for b in content):
                    recorder.open_turn()
            start = start if run else at
            run.append(part(block))
    if run:
        _said(recorder, f"{place}/content/{start}" if start else place, tuple(run), number)
    elif not content:
        recorder.open_turn()
        _said(recorder, place, (), number)


def _said(recorder: Recorder, place: str, parts: tuple[Part, ...], number: int, *, string: bool = False) -> None:
    """Words of the user's side; late news of ours among them are attested outcomes in their place."""
    if not any(p.kind == "text" and p.text.startswith(MARK) for p in parts):
        calls = [p for p in parts if p.kind in _OF_ASSISTANT]
        if calls:
            _misplaced(recorder, place, parts, number)
        else:
            recorder.user(place, parts, string=string, group=number)
        return
    run: list[Part] = []
    for at, piece in enumerate(parts):
        found = read_back(piece.text, None) if piece.kind == "text" and piece.raw is None else None
        if found is None or found.form != "late" or (found.call_id or "") not in recorder.uses:
            run.append(piece)
            continue
        if run:
            recorder.user(f"{place}:{at}", tuple(run), group=number)
            run = []
        kind: Any = "unknown" if found.outcome == "running" else found.outcome
        use = recorder.uses[found.call_id or ""][0]
        recorder.add(
            OutcomeAttested(
                fact_id=f"{place}:late{at}", seq=recorder.next_seq(), source="import", turn_id=recorder.turn,
                call_id=use.key, outcome=kind, evidence="late news", notice=found.body, late=True, group=number,
            )
        )  # fmt: skip
    if run:
        recorder.user(place, tuple(run), string=string, group=number)


def _misplaced(recorder: Recorder, place: str, parts: tuple[Part, ...], number: int) -> None:
    """A user message that holds calls or reasoning: what only a model writes is not the user's.

    A call becomes a reply of its own, since nobody else can have made it; reasoning and a server's blocks are kept aside.
    """
    run: list[Part] = []
    for at, piece in enumerate(parts):
        if piece.kind == "tool_call":
            if run:
                recorder.user(f"{place}:{at}", tuple(run), group=None)
                run = []
            recorder.finding("unknown_block", "a call stands in a user message", f"{place}:call{at}", piece.id)
            recorder.reply(f"{place}:call{at}", (piece,))
        elif piece.kind in _OF_ASSISTANT:
            recorder.finding("unknown_block", f"a {piece.kind} block stands in a user message", place)
            raw = getattr(piece, "raw", None)
            recorder.leftover(place, f"{piece.kind} in a user message", raw or getattr(piece, "text", ""))
        else:
            run.append(piece)
    if run:
        recorder.user(place, tuple(run), group=None)


_OF_ASSISTANT: Final = frozenset({"tool_call", "server_tool_call", "server_tool_result", "reasoning"})


def _mid_system(recorder: Recorder, place: str, message: dict[str, Any], number: int) -> None:
    """Instructions beside those at the top, wherever they stand."""
    content = message.get("content")
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
        recorder.leftover(place, "content that is neither text nor blocks", content)
    return ()


def _foreign_result(recorder: Recorder, place: str, message: dict[str, Any], number: int) -> None:
    """A result in a message of its own, as other APIs write it."""
    recorder.finding("displaced_result", f"a result in a message of role {message.get('role')!r}", place)
    wire_id = next((message[k] for k in ("tool_use_id", "tool_call_id") if isinstance(message.get(k), str)), None)
    block = {"type": "tool_result", "tool_use_id": wire_id, "content": message.get("content")}
    _result(recorder, place, block, number, plain=False)


def _result(
    recorder: Recorder, place: str, block: dict[str, Any], number: int | None, *, plain: bool = True
) -> None:
    """A client tool's result block."""
    content = block.get("content")
    flag = block.get("is_error")
    wire_id = block.get("tool_use_id")
    raw: Json | None = None
    if type(content) is not str:
        content, raw = _result_content(content), _kept(block)
    if plain:
        keys = list(block)
        if keys not in _RESULT_KEYS or (len(keys) == 4 and flag is not True):
            raw = _kept(block)
    else:
        raw = None
    if type(wire_id) is not str:
        wire_id = None if wire_id is None else str(wire_id)
    if wire_id and wire_id in recorder.server_ids:
        recorder.finding("orphan_result", "a client result answers a call that the server executes", place, wire_id)
        recorder.leftover(place, "client result for a server call", block)
        return
    recorder.result(place, wire_id, content, is_error=flag is True, raw=raw, group=number)


def _result_content(content: Any) -> Any:
    """A result's content as words or parts; anything else as its JSON text."""
    if content is None:
        return ""
    if isinstance(content, list):
        return tuple(
            Text(block) if isinstance(block, str) else _result_part(block) for block in content
        )
    return Json.of(content).text


def _result_part(block: Any) -> Any:
    found = part(block)
    if found.kind in ("text", "media", "opaque"):
        return found
    return Opaque(str(block.get("type")), _kept(block))


# ---------------------------------------------------------------- blocks


def part(block: Any) -> Part:
    """The part that a block is. A block of an unknown type, or of a broken shape, is opaque and keeps its JSON."""
    if type(block) is dict:
        kind = block.get("type")
        if kind == "text":
            text = block.get("text")
            if type(text) is str:
                if len(block) == 2 and list(block) == _TEXT_KEYS:
                    if "\0" in text:
                        raise cleaning.Unclean
                    return make_text(text)
                return make_text(text, _kept(block))
        elif kind == "tool_use":
            name = block.get("name")
            if type(name) is str:
                return _call(block, name)
        elif type(kind) is str and (make := _MAKERS.get(kind)) is not None:
            return make(block)
        elif kind in _WORDS and type(block.get("text")) is str:
            return make_text(block["text"])
        elif type(kind) is str and kind.endswith("_tool_result"):
            return _server_result(block)
        return Opaque(kind if type(kind) is str else "", _kept(block))
    if isinstance(block, str):
        return Text(block)
    return Opaque("", _kept(block))


def _call(block: dict[str, Any], name: str) -> ToolCall:
    given, wire_id = block.get("input"), block.get("id")
    if type(given) is dict:
        if type(wire_id) is str and len(block) == 4 and list(block) == _CALL_KEYS:
            for value in given.values():
                kind = type(value)
                if kind is str:
                    if "\0" in value:
                        raise cleaning.Unclean
                elif kind is dict or kind is list:
                    cleaning.look(value)
            return make_call(wire_id, name, Json(None, given))
        arguments = Json(None, given)
    else:
        arguments = Json(given) if type(given) is str else Json("{}") if given is None else Json.of(given)
    return make_call(wire_id if type(wire_id) is str else None, name, arguments, _kept(block))


def _kept(value: Any) -> Json:
    """The raw JSON of a block, with a look at what is in it."""
    cleaning.look(value)
    return Json(None, value)


def _server_call(block: dict[str, Any]) -> Part:
    name, wire_id = block.get("name"), block.get("id")
    if type(name) is not str:
        return Opaque(block["type"], _kept(block))
    given = block.get("input")
    arguments = Json(given) if isinstance(given, str) else Json.of({} if given is None else given)
    return ServerToolCall(wire_id if type(wire_id) is str else None, name, arguments, _kept(block), block["type"])


def _server_result(block: dict[str, Any]) -> Part:
    call_id, content = block.get("tool_use_id"), block.get("content")
    failed = block.get("is_error") is True or (
        isinstance(content, dict) and str(content.get("type", "")).endswith("_error")
    )
    return ServerToolResult(call_id if type(call_id) is str else None, _kept(block), failed)


def _thinking(block: dict[str, Any]) -> Part:
    text = block.get("thinking")
    return Reasoning(text if type(text) is str else "", _kept(block))


def _media(block: dict[str, Any]) -> Part:
    source = block.get("source")
    found = source if isinstance(source, dict) else {}

    def words(key: str) -> str | None:
        return found[key] if isinstance(found.get(key), str) else None

    kind = block["type"]
    return Media(
        "image" if kind == "image" else "search_result" if kind == "search_result" else "document",
        words("media_type"),
        words("data"),
        words("url"),
        words("file_id"),
        block.get("title") if isinstance(block.get("title"), str) else None,
        _kept(block),
    )


def _upload(block: dict[str, Any]) -> Part:
    file_id = block.get("file_id")
    return Media("file", file_id=file_id if isinstance(file_id, str) else None, raw=_kept(block))


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], Part]]] = {
    "thinking": _thinking,
    "redacted_thinking": _thinking,
    "server_tool_use": _server_call,
    "mcp_tool_use": _server_call,
    "image": _media,
    "document": _media,
    "search_result": _media,
    "container_upload": _upload,
    **dict.fromkeys(wire.SERVER_RESULTS, _server_result),
}
_KNOWN: Final = wire.USER_BLOCKS | wire.ASSISTANT_BLOCKS | wire.SYSTEM_BLOCKS | wire.RESULT_BLOCKS
