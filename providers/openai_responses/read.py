"""Responses requests, responses, item lists and stored conversation items -> facts.

What the model and its server wrote between two items of the user's side is one reply. What is broken becomes a
finding and a fact of what is known; what is no fact becomes a leftover or a fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.facts import ToolsDeclared
from normalizer.parts import Json, Opaque, Text, Tool
from normalizer.providers.openai_responses import decoding, output_decoding, wire
from normalizer.reading import sanitizing
from normalizer.reading.fact_builder import Recorder
from normalizer.reading.result_content import result_content
from normalizer.reading.truncation import begins_json

if TYPE_CHECKING:
    from normalizer.findings import Reading
    from normalizer.parts import Part
    from normalizer.provider import Origin
    from normalizer.providers.openai_responses.decoding import Item

_HISTORY: Final = frozenset({"input", "instructions", "tools"})
_MODEL_KEYS: Final = ["role", "content"]
_CONTROLS: Final = frozenset({"mcp_approval_response", "configuration_update", "compaction_trigger"})
_RESULT_ROLES: Final = frozenset({"tool", "function"})
INPUT_TEXT: Final = Json("null")
"""`raw` of a user message that was the whole input: a text, no item."""


def read(value: Any, origin: Origin) -> Reading:
    """Facts of a request, a response, a list of items, or stored items. The value is the reader's from then on."""
    sanitizing.look(value)
    recorder = Recorder("import", provider=wire.PROVIDER, api=wire.API)
    if isinstance(value, list):
        value = {"input": value}
    elif "input" not in value and isinstance(value.get("data"), list):
        value = {"input": _in_order(value["data"])}
    if "input" not in value and isinstance(value.get("output"), list):
        return _response(recorder, value)
    given = value.get("input")
    reader = _Reader(recorder, given if isinstance(given, list) else [], origin)
    instructions, tools = value.get("instructions"), value.get("tools")
    if isinstance(instructions, str):
        recorder.instructions("/instructions", (Text(instructions),), string=True)
    elif instructions is not None:
        recorder.leftover("/instructions", "instructions are no text", instructions)
    reader.tools = recorder.offered("/tools", tools, tool)
    reader.stored = bool(value.get("previous_response_id") or value.get("conversation"))
    if isinstance(given, str):
        recorder.user("/input", (Text(given),), string=True, raw=INPUT_TEXT)
    elif isinstance(given, list):
        reader.run(given)
    elif given is not None:
        recorder.leftover("/input", "the input is neither text nor items", given)
    stored = True if reader.stored else False if value.get("store") is False else None
    return recorder.reading(request=value, history=_HISTORY, stored=stored)


def _in_order(data: list[Any]) -> list[Any]:
    """Stored items, oldest first. The API lists them newest first unless asked otherwise."""
    places = {item["call_id"]: n for n, item in enumerate(data) if isinstance(item, dict) and _is_call(item)}
    behind = [
        n > places[item["call_id"]]
        for n, item in enumerate(data)
        if isinstance(item, dict)
        and decoding.kind(item) in wire.OUTPUTS
        and decoding.word(item, "call_id") in places
    ]
    return data[::-1] if behind and not any(behind) else data


def _is_call(item: Item) -> bool:
    return decoding.kind(item) in wire.ANSWERS and isinstance(item.get("call_id"), str)


def _response(recorder: Recorder, value: dict[str, Any]) -> Reading:
    """One response as the only reply."""
    reader = _Reader(recorder, value["output"], {})
    reader.run(value["output"], base="/output", about=output_decoding.reply_fields(value))
    waiting = value.get("status") in ("queued", "in_progress")
    return recorder.reading(waiting=waiting, stop_reason=output_decoding.stop_reason(value))


def tool(found: Any) -> Tool:
    """A declaration; the whole of it stays in `raw`."""
    if not isinstance(found, dict):
        return Tool("", raw=Json.of(found))
    inner = found.get("function")
    held = inner if isinstance(inner, dict) else found
    name, schema, words = held.get("name"), held.get("parameters"), held.get("description")
    return Tool(
        name if isinstance(name, str) else "",
        words if isinstance(words, str) else None,
        Json.of(schema) if schema is not None else None,
        Json.of(found),
        server=found.get("type") not in ("function", "custom"),
    )


class _Reader:
    """Goes through the items of one input."""

    def __init__(self, recorder: Recorder, given: list[Any], origin: Origin) -> None:
        self.recorder = recorder
        self.origin = origin
        self.tools: tuple[Tool, ...] = ()
        self.stored = False
        self.pairing = decoding.Pairing()
        self.reply: list[tuple[int, Item]] = []
        self.base = "/input"
        self.about: dict[str, Any] = {}
        self.seen: dict[str, Item] = {}
        self.calls = {item["call_id"] for item in given if isinstance(item, dict) and _is_call(item)}

    def run(self, given: list[Any], base: str = "/input", about: dict[str, Any] | None = None) -> None:
        """All items, in order."""
        self.base, self.about = base, about or {}
        for number, item in enumerate(given):
            place = f"{base}/{number}"
            if not isinstance(item, dict):
                self.recorder.no_object(place, item, "an item")
            elif self._twice(item):
                self.recorder.finding("duplicate_call", "the same item stands in the history twice", place)
                self.recorder.leftover(place, "an item that stands in the history already", item)
            else:
                self._item(number, item, place)
        self._flush()
        if about and not self.recorder.step:
            self.recorder.reply(base, (), **self.about)

    def _item(self, number: int, item: Item, place: str) -> None:
        for key in ("content", "output"):
            self.recorder.bare_texts(f"{place}/{key}", item.get(key))
        if self._by_model(item):
            self.reply.append(
                (number, {**item, "role": "assistant"} if item.get("role") == "model" else item)
            )
        else:
            self._flush()
            self._user_side(number, item, place)

    def _twice(self, item: Item) -> bool:
        """Whether the same item, with its id, came before."""
        found = item.get("id")
        if not isinstance(found, str) or decoding.kind(item) in ("item_reference", "local_shell_call_output"):
            return False
        if found in self.seen:
            return self.seen[found] == item
        self.seen[found] = item
        return False

    def _by_model(self, item: Item) -> bool:
        found = decoding.kind(item)
        if found == "message":
            return item.get("role") in ("assistant", "model")
        if found in wire.OUTPUTS:
            return (
                decoding.served(item)
                or decoding.word(item, "call_id") in self.recorder.server_ids | self._served()
            )
        return found not in _CONTROLS and found != "additional_tools"

    def _served(self) -> set[str]:
        return (
            {str(item.get("call_id")) for _, item in self.reply if decoding.served(item)}
            if self.reply
            else set()
        )

    # ------------------------------------------------------------ replies

    def _flush(self) -> None:
        """What the model wrote so far is one reply."""
        if not self.reply:
            return
        found, self.reply = self.reply, []
        first = found[0][0]
        place = f"{self.base}/{first}"
        parts: list[Part] = []
        for number, item in found:
            at = f"{self.base}/{number}"
            reason = decoding.fragment_reason(item) or _half_arguments(item)
            if reason is not None:
                self._fragment(item, at, reason)
                output_decoding.leave_alone(parts)
            else:
                parts.extend(self._chat_calls(item, self.pairing.parts(item, at)))
        more = dict(self.about)
        if "stop_reason" in self.origin:
            more.setdefault("stop_reason", self.origin["stop_reason"])
        if not more.get("cut") and more.get("stop_reason") is None and any(map(_whole_but_broken, parts)):
            more["stop_reason"] = "completed"
        self.recorder.reply(place, tuple(parts), group=first, **more)

    def _fragment(self, item: Item, place: str, reason: str) -> None:
        call_id = item.get("call_id")
        self.recorder.fragment(
            place, call_id if isinstance(call_id, str) else None, decoding.text_of(item), reason,
            name=item.get("name") if isinstance(item.get("name"), str) else None, type=decoding.kind(item),
        )  # fmt: skip
        self.recorder.leftover(place, "an item that is not whole", item)

    def _chat_calls(self, item: Item, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Calls that stand in a message, as Chat Completions writes them, are calls behind it."""
        given = item.get("tool_calls")
        if not isinstance(given, list):
            return parts
        words = tuple(
            Text(part.text) for part in parts if isinstance(part, Text) and part.text
        )  # the item says too much to be replayed
        calls: list[Part] = []
        for call in given:
            inner = call.get("function") if isinstance(call, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get("name"), str):
                made = {"type": "function_call", "call_id": call.get("id"), **inner}
                calls.extend(self.pairing.parts(made, ""))
        return (*words, *calls)

    # ------------------------------------------------------------ the user's side

    def _user_side(self, number: int, item: Item, place: str) -> None:
        found = decoding.kind(item)
        if found == "message":
            self._message(number, item, place)
        elif found in wire.OUTPUTS:
            self._output(number, item, place)
        elif found == "additional_tools":
            self._more_tools(item, place)
        else:
            self.recorder.user(place, (Opaque(found, Json.of(item)),), by="program", group=number)

    def _message(self, number: int, item: Item, place: str) -> None:
        role, content = decoding.word(item, "role"), item.get("content")
        string = isinstance(content, str)
        if role in _RESULT_ROLES:
            call_id = item.get("tool_call_id")
            self.recorder.foreign_result(place, item)
            self.recorder.result(
                place,
                call_id if isinstance(call_id, str) else None,
                result_content(content, decoding.input_part),
            )
            return
        pieces = content if isinstance(content, list) else []
        parts: tuple[Part, ...] = (
            (Text(content),) if isinstance(content, str) else tuple(map(decoding.input_part, pieces))
        )
        if not isinstance(content, str | list):
            self.recorder.no_content(place, item)
            return
        if role in ("system", "developer"):
            plain = role == "developer" and string and list(item) == _MODEL_KEYS
            raw = None if plain else Json.of({**item, "content": None})
            self.recorder.instructions(place, parts, additional=True, string=string, raw=raw, group=number)
            return
        if role != "user":
            self.recorder.unknown_role(place, item)
            return
        plain = list(item) == _MODEL_KEYS
        if plain and isinstance(content, str) and (news := self.recorder.news_in(content)) is not None:
            self.recorder.late_news(place, news, number)
            return
        self.recorder.open_turn()
        # a message of no parts is sent back only where it is on record that this API had it so
        raw = None if plain and parts else Json.of({**item, "content": None})
        self.recorder.user(place, parts, string=string, group=number, raw=raw)

    def _output(self, number: int, item: Item, place: str) -> None:
        """An output; one whose call the provider holds stays as it is."""
        recorder = self.recorder
        found = output_decoding.of_item(item)
        call_id = found.pop("call_id")
        if call_id in recorder.server_ids:
            recorder.servers_result(place, call_id, item)
        elif call_id and call_id not in self.calls and self.stored:
            recorder.user(place, (Opaque(decoding.kind(item), Json.of(item)),), by="program", group=number)
        elif (
            call_id is None and decoding.kind(item) == "function_call_output" and decoding.word(item, "name")
        ):
            recorder.user(place, (Opaque("function_call_output", Json.of(item)),), by="program", group=number)
        else:
            recorder.result(place, call_id, found.pop("content"), group=number, **found)

    def _more_tools(self, item: Item, place: str) -> None:
        """Tools that were added in the middle of the conversation."""
        given = item.get("tools")
        if item.get("role") != "developer" or not isinstance(given, list):
            self.recorder.finding("unknown_block", "additional tools that no developer added", place)
            self.recorder.leftover(place, "additional tools of another role", item)
            return
        self.tools = (*self.tools, *map(tool, given))
        self.recorder.add(
            ToolsDeclared(
                fact_id=place, seq=self.recorder.next_seq(), source="import", tools=self.tools, api=wire.API,
                raw=Json.of(item),
            )
        )  # fmt: skip


def _half_arguments(item: Item) -> str | None:
    """Arguments that are the beginning of a JSON text, in an item that does not say how it ended."""
    given = item.get("arguments")
    if (
        decoding.kind(item) != "function_call"
        or item.get("status") == "completed"
        or not isinstance(given, str)
    ):
        return None
    return "input_incomplete" if given.strip() and not Json(given).valid and begins_json(given) else None


def _whole_but_broken(part: Part) -> bool:
    """Arguments that arrived whole, as their item says, and are no JSON."""
    return part.kind == "tool_call" and bool(part.arguments.text.strip()) and not part.arguments.valid
