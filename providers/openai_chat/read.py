"""Chat Completions requests, responses and message lists -> facts.

Takes anything that can be made sense of; what is no fact becomes a leftover. A message whose keys or their order
say more than its parts keeps a skeleton in `raw`: its keys in order, those that parts tell with null.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from normalizer.notices import MARK, read_back, stated
from normalizer.parts import Json, Text, Tool, ToolCall
from normalizer.providers.openai_chat import decoding, wire
from normalizer.reading import sanitizing
from normalizer.reading.diagnostics import dump_any
from normalizer.reading.fact_builder import Recorder, as_request
from normalizer.reading.result_content import result_content
from normalizer.reading.truncation import CUTS_ALL, CUTS_LAST

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.findings import Reading
    from normalizer.parts import Part
    from normalizer.provider import Origin

_HISTORY: Final = frozenset({"messages", "tools", "functions"})
_PLAIN: Final = (["role", "content"], ["role", "content", "tool_calls"])
_PLAIN_RESULT: Final = ["role", "tool_call_id", "content"]
_TOLD: Final = frozenset({"content", "refusal", "tool_calls", "function_call", "audio", *wire.REASONING_KEYS})
_RESPONSES_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_RESPONSES_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
# What other programs call a role, and whose it is.
ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "observation": "tool",
    "tool_result": "tool",
}


def read(value: Any, origin: Origin) -> Reading:
    """Facts of a request, of a list of messages, of one message, or of one response."""
    sanitizing.look(value)
    reader = _Reader(origin)
    if isinstance(value, dict) and "choices" in value and "messages" not in value:
        return reader.response(value)
    return reader.request(as_request(value, "messages"))


class _Reader:
    """One reading. `anonymous` are the newest reply's calls without an id: key, name, and what seals a notice."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.recorder = Recorder("import", provider=wire.PROVIDER, api=wire.API)
        self.anonymous: list[tuple[str, str, str]] = []
        self.instructed = False

    def request(self, value: dict[str, Any]) -> Reading:
        """Everything of a request."""
        given = value["messages"]
        messages = given if isinstance(given, list) else [given]
        self._tools(value)
        last = len(messages) - 1
        for number, message in enumerate(messages):
            self._message(number, message, self.origin if number == last else {})
        return self.recorder.reading(request=value, history=_HISTORY)

    def response(self, value: dict[str, Any]) -> Reading:
        """One response: its first choice is the reply, the others are kept aside."""
        recorder = self.recorder
        choices = (
            [c for c in value["choices"] if isinstance(c, dict)] if isinstance(value["choices"], list) else []
        )
        reason = None
        if choices:
            reason = choices[0].get("finish_reason")
            beside = {k: v for k, v in value.items() if k not in ("choices", "object")}
            beside |= {k: v for k, v in choices[0].items() if k not in _OF_CHOICE and v is not None}
            origin = {"stop_reason": reason, "model": value.get("model"), "beside": beside}
            self._message(0, choices[0].get("message"), origin, place="/choices/0/message")
        for number, choice in enumerate(choices[1:], start=1):
            recorder.leftover(f"/choices/{number}", "another choice than the one that is used", choice)
        return recorder.reading(stop_reason=reason)

    def _tools(self, value: dict[str, Any]) -> None:
        for key in ("tools", "functions"):
            self.recorder.offered(f"/{key}", value.get(key), partial(_tool, legacy=key == "functions"))
            if isinstance(value.get(key), list):
                return

    # ------------------------------------------------------------ messages

    def _message(self, number: int, message: Any, origin: Origin, place: str | None = None) -> None:
        place = place or f"/messages/{number}"
        if not isinstance(message, dict):
            self.recorder.no_object(place, message)
            return
        self.recorder.bare_texts(f"{place}/content", message.get("content"))
        role = message.get("role")
        if role is None and isinstance(message.get("type"), str):
            self._item(place, message)
            return
        role = ROLES.get(role, role) if isinstance(role, str) else None
        handle = _HANDLERS.get(role or "")
        if handle is None:
            self.recorder.unknown_role(place, message)
        else:
            handle(self, place, message, number, origin)

    def _instructions(self, place: str, message: dict[str, Any], number: int, _origin: Origin) -> None:
        recorder = self.recorder
        parts, string = self._content(place, message.get("content"))
        plain = message["role"] == "system" and list(message) == ["role", "content"]
        recorder.instructions(
            place, parts, additional=self.instructed or bool(recorder.step or recorder.talk_since_reply), string=string,
            raw=None if plain else _skeleton(message), group=number,
        )  # fmt: skip
        self.instructed = True

    def _user(self, place: str, message: dict[str, Any], number: int, _origin: Origin) -> None:
        recorder = self.recorder
        parts, string = self._content(place, message.get("content"))
        recorder.open_turn()
        raw = None if list(message) == ["role", "content"] else _skeleton(message)
        recorder.said(place, parts, string=string, group=number, raw=raw)

    def _content(self, place: str, content: Any) -> tuple[tuple[Part, ...], bool]:
        """The parts of a content, and whether it was one text."""
        if isinstance(content, str):
            return (Text(content),), True
        if isinstance(content, list):
            return tuple(decoding.part(block) for block in content), False
        if content is not None:
            self.recorder.no_content(place, content)
        return (), False

    # ------------------------------------------------------------ replies

    def _assistant(self, place: str, message: dict[str, Any], number: int, origin: Origin) -> None:
        recorder = self.recorder
        content = message.get("content")
        parts: list[Part] = []
        if (thought := decoding.reasoning(message)) is not None:
            parts.append(thought)
        if isinstance(content, str):
            if content:
                parts.append(Text(content))
        else:
            parts.extend(self._content(place, content)[0])
        if isinstance(message.get("refusal"), str):
            parts.append(decoding.refusal(message["refusal"]))
        if (sound := decoding.stored_audio(message.get("audio"))) is not None:
            parts.append(sound)
        parts.extend(self._calls(place, message))
        reason = origin.get("stop_reason")
        reason = reason if isinstance(reason, str) else None
        kept = tuple(self._whole(place, parts, reason))
        plain = list(message) in _PLAIN and "beside" not in origin
        recorder.reply(
            place, kept, string=isinstance(content, str), group=number, stop_reason=reason, model=_model(origin),
            raw=None if plain else _skeleton(message, origin.get("beside")),
        )  # fmt: skip
        fact = next(f for f in reversed(recorder.facts) if f.kind == "model_replied")
        calls = [(n, p) for n, p in enumerate(fact.parts) if p.kind == "tool_call"]
        if calls:
            self.anonymous = [
                (f"{place}:{n}", p.name, wire.subject(p.name, p.arguments.text))
                for n, p in calls
                if p.id is None
            ]

    def _calls(self, place: str, message: dict[str, Any]) -> list[Part]:
        found: list[Part] = []
        given = message.get("tool_calls")
        for at, one in enumerate(given if isinstance(given, list) else ()):
            made = decoding.call(one) if isinstance(one, dict) else None
            if made is None:
                self.recorder.fragment(
                    f"{place}/tool_calls/{at}", one.get("id") if isinstance(one, dict) else None, dump_any(one),
                    "no_name", type="tool_call", index=at,
                )  # fmt: skip
            else:
                found.append(made)
        if message.get("function_call") is not None:
            made = decoding.legacy_call(message["function_call"])
            if made is None:
                text = dump_any(message["function_call"])
                self.recorder.fragment(f"{place}/function_call", None, text, "no_name", type="function_call")
            else:
                found.append(made)
        return found

    def _whole(self, place: str, parts: list[Part], reason: str | None) -> list[Part]:
        """The parts without calls that the reply's end cut off, whether or not their arguments happen to parse."""
        calls = [p for p in parts if p.kind == "tool_call"]
        cut: list[ToolCall] = calls if reason in CUTS_ALL else calls[-1:] if reason in CUTS_LAST else []
        for call in cut:
            self.recorder.fragment(
                f"{place}:{call.id}",
                call.id,
                call.arguments.text,
                reason or "",
                name=call.name,
                type="tool_call",
            )
        return [p for p in parts if not any(p is call for call in cut)]

    # ------------------------------------------------------------ results

    def _tool(self, place: str, message: dict[str, Any], _number: int, _origin: Origin) -> None:
        given = message.get("tool_call_id")
        wire_id = given if isinstance(given, str) and given else None
        if wire_id is None and self.anonymous:
            self._answer_anonymous(place, message, self.anonymous.pop(0))
            return
        given = message.get("content")
        content, plain = result_content(given, decoding.part), isinstance(given, str | list)
        raw = None if plain and list(message) == _PLAIN_RESULT else Json.of(message)
        self.recorder.result(place, wire_id, content, raw=raw)

    def _function(self, place: str, message: dict[str, Any], _number: int, _origin: Origin) -> None:
        """The answer to a legacy call, which is known by its name."""
        match = next((a for a in self.anonymous if a[1] == message.get("name")), None)
        if match is None:
            content = result_content(message.get("content"), decoding.part)
            self.recorder.result(place, None, content, raw=Json.of(message))
            return
        self.anonymous.remove(match)
        self._answer_anonymous(place, message, match)

    def _answer_anonymous(self, place: str, message: dict[str, Any], call: tuple[str, str, str]) -> None:
        key, _, subject = call
        content = result_content(message.get("content"), decoding.part)
        raw = Json.of(message)
        if isinstance(content, str) and content.startswith(MARK):
            found = read_back(content, subject)
            if found is not None and found.form == "notice":
                outcome, evidence = stated(found)
                self.recorder.attest(place, key, outcome, notice=found.body, evidence=evidence, raw=raw)
                return
        self.recorder.result(place, key, content, raw=raw)

    # ------------------------------------------------------------ items of the Responses API

    def _item(self, place: str, item: dict[str, Any]) -> None:
        """A call or an output of the Responses API says the same here; its other items have no place."""
        kind, call_id = item["type"], item.get("call_id")
        if rest := {key: value for key, value in item.items() if key not in _OF_ITEM and value is not None}:
            self.recorder.leftover(place, "keys of an item of the Responses API", rest)
        if (key := _RESPONSES_CALLS.get(kind)) is not None and isinstance(item.get("name"), str):
            given = (
                decoding.arguments_of(item.get(key))
                if key == "arguments"
                else Json.of({"input": item.get(key)})
            )
            form = "custom" if key == "input" else None
            made = ToolCall(call_id if isinstance(call_id, str) else None, item["name"], given, form=form)
            self.recorder.reply(place, (made,))
        elif kind in _RESPONSES_OUTPUTS:
            content = result_content(item.get("output"), decoding.part)
            self.recorder.result(place, call_id if isinstance(call_id, str) else None, content)
        else:
            self.recorder.finding("unknown_block", f"an item of type {kind!r} is no chat message", place)
            self.recorder.leftover(place, "an item that is no chat message", item)


_HANDLERS: Final[dict[str, Callable[[_Reader, str, dict[str, Any], int, Origin], None]]] = {
    "system": _Reader._instructions,  # noqa: SLF001 - the table of this class
    "developer": _Reader._instructions,  # noqa: SLF001
    "user": _Reader._user,  # noqa: SLF001
    "assistant": _Reader._assistant,  # noqa: SLF001
    "tool": _Reader._tool,  # noqa: SLF001
    "function": _Reader._function,  # noqa: SLF001
}


_OF_CHOICE: Final = frozenset({"message", "finish_reason", "index"})
_OF_ITEM: Final = frozenset({"type", "id", "status", "call_id", "name", "arguments", "input", "output"})
"""Keys of a choice, and of a call or output of Responses, that the facts say."""


def _skeleton(message: dict[str, Any], beside: Any = None) -> Json:
    """The keys of a message in order: null for those that parts tell, the others as they came."""
    told = {key: None if key in _TOLD else value for key, value in message.items()}
    told["role"] = ROLES.get(message["role"], message["role"])
    return Json.of({**told, "response": beside} if beside else told)


def _model(origin: Origin) -> str | None:
    model = origin.get("model") if "beside" in origin else None
    return model if isinstance(model, str) else None


def _tool(tool: Any, *, legacy: bool) -> Tool:
    """A declaration; the whole of it stays in `raw`, unless its wrapper is missing. Legacy functions have none."""
    if not isinstance(tool, dict):
        return Tool("", raw=Json.of(tool))
    kind = tool.get("type")
    held = tool.get(kind) if kind in wire.CALL_TYPES else tool if kind is None else None
    found: dict[str, Any] = held if isinstance(held, dict) else {}
    name, text, schema = found.get("name"), found.get("description"), found.get("parameters")
    return Tool(
        name if isinstance(name, str) else "",
        text if isinstance(text, str) else None,
        Json.of(schema) if isinstance(schema, dict) else None,
        Json.of(tool) if legacy or kind is not None or not isinstance(name, str) else None,
        server=kind is not None and kind not in wire.CALL_TYPES,
    )
