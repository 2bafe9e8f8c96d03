"""Hypothesis strategy for Anthropic Messages requests: healthy ones, and broken in the ways that users report."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from normalizer.parts import Json, Reasoning, ServerToolCall, ServerToolResult
from normalizer.testing.strategies import HOMES, MODELS, OPAQUE, PNG, TEXTS, Home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Draw = Any
Block = dict[str, Any]

_WORDS: Final = st.sampled_from(["Deploy it.", "And Rome?", "Grüße, 東京 🚀", "line one\nline two", "7"])
_NAMES: Final = ("run", "read_file")
_TOOLS: Final = [{"name": n, "description": "A tool.", "input_schema": {"type": "object"}} for n in _NAMES]
_SEARCH: Final = {"type": "web_search_20250305", "name": "web_search"}


def _one_of(draw: Draw, options: list[Any]) -> Any:
    """One of the options, as a copy: later faults may change it."""
    return copy.deepcopy(draw(st.sampled_from(options)))


# ---------------------------------------------------------------- healthy requests


class _Author:
    """Writes a conversation that the API accepts."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.count = 0
        self.searched = False

    def flip(self, of: int = 2) -> bool:
        return bool(self.draw(st.integers(0, of - 1)) == of - 1)

    def text(self) -> Block:
        return {"type": "text", "text": self.draw(_WORDS)}

    def words(self) -> str | list[Block]:
        """What a user says: one text or blocks."""
        if not self.flip():
            return str(self.draw(_WORDS))
        blocks = [self.text()]
        if self.flip(4):
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            blocks.append({"type": "image", "source": source})
        return blocks

    def call(self) -> Block:
        self.count += 1
        given = _one_of(self.draw, [{}, {"path": "a.txt"}, {"b": 1, "a": [None, 2.5], "c": {"d": "é"}}])
        return {
            "type": "tool_use",
            "id": f"toolu_{self.count}",
            "name": self.draw(st.sampled_from(_NAMES)),
            "input": given,
        }

    def result(self, call: Block) -> Block:
        content = _one_of(self.draw, ["ok", "", "17 files\n", [{"type": "text", "text": "in a block"}]])
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": content}
        if self.flip(4):
            block |= {"content": "exit code 1", "is_error": True}
        return block

    def search(self) -> list[Block]:
        self.count += 1
        self.searched = True
        wire_id = f"srvtoolu_{self.count}"
        return [
            {"type": "server_tool_use", "id": wire_id, "name": "web_search", "input": {"query": "weather"}},
            {"type": "web_search_tool_result", "tool_use_id": wire_id, "content": []},
        ]

    def reply(self) -> list[Block]:
        blocks: list[Block] = []
        if self.flip(3):
            self.count += 1
            blocks.append({"type": "thinking", "thinking": "Hm.", "signature": f"c2VhbA{self.count}=="})
        if self.flip(5):
            blocks.extend(self.search())
        if self.flip() or not blocks or blocks[-1]["type"] == "thinking":
            blocks.append(self.text())
        return blocks

    def messages(self) -> list[Block]:
        """Turns of a user, each with some rounds of calls."""
        told: list[Block] = [{"role": "user", "content": self.words()}]
        for _ in range(self.draw(st.integers(0, 4))):
            reply = self.reply()
            calls = [self.call() for _ in range(self.draw(st.integers(0, 3)))]
            told.append({"role": "assistant", "content": [*reply, *calls]})
            if calls:
                answers = [self.result(call) for call in calls]
                told.append({"role": "user", "content": [*answers, *([self.text()] if self.flip(4) else [])]})
            else:
                told.append({"role": "user", "content": self.words()})
        return told

    def request(self) -> Block:
        model = self.draw(st.sampled_from(MODELS))
        body: Block = {"model": model, "max_tokens": 1024}
        if self.flip():
            body["system"] = _one_of(self.draw, ["Be brief.", [{"type": "text", "text": "Be exact."}]])
        body["messages"] = self.messages()
        body["tools"] = copy.deepcopy([*_TOOLS, _SEARCH])
        return body


# ---------------------------------------------------------------- faults


def _blocks(body: Block, role: str, kind: str) -> list[tuple[Block, int]]:
    """Where blocks of a type stand in messages of a role."""
    return [
        (message, at)
        for message in body["messages"]
        if isinstance(message, dict)
        and message.get("role") == role
        and isinstance(message.get("content"), list)
        for at, block in enumerate(message["content"])
        if isinstance(block, dict) and block.get("type") == kind
    ]


def _pick(draw: Draw, body: Block, role: str, kind: str) -> tuple[Block, int] | None:
    found = _blocks(body, role, kind)
    return draw(st.sampled_from(found)) if found else None


def _lose_a_result(draw: Draw, body: Block) -> None:
    if place := _pick(draw, body, "user", "tool_result"):
        message, at = place
        del message["content"][at]
        if not message["content"] and draw(st.booleans()):
            body["messages"] = [m for m in body["messages"] if m is not message]


def _repeat_a_result(draw: Draw, body: Block) -> None:
    if place := _pick(draw, body, "user", "tool_result"):
        message, at = place
        again = {
            **message["content"][at],
            "content": draw(st.sampled_from(["ok", "another output", "No result provided"])),
        }
        target = draw(st.sampled_from([message, body["messages"][-1]]))
        if isinstance(target.get("content"), list):
            target["content"].append(again)


def _displace_a_result(draw: Draw, body: Block) -> None:
    """A result behind words, in a message of its own, further down, or before its call."""
    if place := _pick(draw, body, "user", "tool_result"):
        message, at = place
        block = message["content"].pop(at)
        where = draw(st.integers(0, len(body["messages"])))
        role = draw(st.sampled_from(["user", "user", "tool", "assistant"]))
        body["messages"].insert(where, {"role": role, "content": [block]})


def _orphan(draw: Draw, body: Block) -> None:
    wire_id = draw(st.sampled_from(["toolu_gone", "", None, "srvtoolu_1", "toolu_1"]))
    block = {"type": "tool_result", "tool_use_id": wire_id, "content": "nobody asked"}
    where = draw(st.integers(0, len(body["messages"])))
    body["messages"].insert(where, {"role": "user", "content": [block]})


def _blank(draw: Draw, body: Block) -> None:
    message = draw(st.sampled_from(body["messages"]))
    blank = draw(st.sampled_from(["", " ", "\n\n"]))
    if isinstance(message.get("content"), list) and draw(st.booleans()):
        message["content"].insert(0, {"type": "text", "text": blank})
    else:
        message["content"] = _one_of(draw, [blank, [], None, [{"type": "text", "text": blank}]])


def _wrong_role(draw: Draw, body: Block) -> None:
    message = draw(st.sampled_from(body["messages"]))
    message["role"] = draw(st.sampled_from(["user", "assistant", "system", "tool", "developer", "robot"]))


def _bad_unicode(draw: Draw, body: Block) -> None:
    bad = draw(st.sampled_from(["cut \ud83d", "\udc00 cut", "null\0 byte"]))
    for role, kind, key in (
        ("user", "tool_result", "content"),
        ("user", "text", "text"),
        ("assistant", "text", "text"),
    ):
        if place := _pick(draw, body, role, kind):
            place[0]["content"][place[1]][key] = bad
            return
    body["system"] = bad


def _unsigned(draw: Draw, body: Block) -> None:
    if place := _pick(draw, body, "assistant", "thinking"):
        block = place[0]["content"][place[1]]
        how = draw(st.sampled_from(["no signature", "empty signature", "other text"]))
        if how == "no signature":
            block.pop("signature", None)
        else:
            block.update({"signature": ""} if how == "empty signature" else {"thinking": "changed"})


def _open_server_call(draw: Draw, body: Block) -> None:
    if place := _pick(draw, body, "assistant", "web_search_tool_result"):
        del place[0]["content"][place[1]]


def _lose_a_call(draw: Draw, body: Block) -> None:
    kind = draw(st.sampled_from(["tool_use", "server_tool_use"]))
    if place := _pick(draw, body, "assistant", kind):
        del place[0]["content"][place[1]]


def _unknown_block(draw: Draw, body: Block) -> None:
    message = draw(st.sampled_from(body["messages"]))
    block = _one_of(
        draw, [{"type": "novelty", "data": {"deep": ["kept"]}}, {"text": "typeless"}, "bare text", 7]
    )
    if isinstance(message.get("content"), list):
        message["content"].insert(draw(st.integers(0, len(message["content"]))), block)


def _cut_arguments(draw: Draw, body: Block) -> None:
    if place := _pick(draw, body, "assistant", "tool_use"):
        given = _one_of(draw, ['{"path":"a.t', '{"path":"a.txt"}', "", None, [1], "not JSON at all"])
        place[0]["content"][place[1]]["input"] = given


def _odd_id(draw: Draw, body: Block) -> None:
    """An id that the API does not take, or that another call has, in the call and its result or in the call alone."""
    if place := _pick(draw, body, "assistant", "tool_use"):
        call = place[0]["content"][place[1]]
        old, new = call["id"], draw(st.sampled_from(["functions.run:0", "toolu_1", "", None, "トール"]))
        call["id"] = new
        for message, at in _blocks(body, "user", "tool_result") if draw(st.booleans()) else ():
            if message["content"][at].get("tool_use_id") == old:
                message["content"][at]["tool_use_id"] = new


def _repeat_a_call(draw: Draw, body: Block) -> None:
    if place := _pick(draw, body, "assistant", "tool_use"):
        message, at = place
        message["content"].append(dict(message["content"][at]))


def _cache_marks(draw: Draw, body: Block) -> None:
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            for block in message["content"]:
                if isinstance(block, dict) and draw(st.booleans()):
                    block["cache_control"] = {"type": "ephemeral"}


def _extra_keys(draw: Draw, body: Block) -> None:
    message = draw(st.sampled_from(body["messages"]))
    message["id"] = "msg_1"
    if (
        isinstance(message.get("content"), list)
        and message["content"]
        and isinstance(message["content"][-1], dict)
    ):
        message["content"][-1]["index"] = 3


def _cut_the_beginning(draw: Draw, body: Block) -> None:
    start = draw(st.integers(0, len(body["messages"]) - 1))
    body["messages"] = body["messages"][start:]


def _cut_the_end(draw: Draw, body: Block) -> None:
    end = draw(st.integers(1, len(body["messages"])))
    body["messages"] = body["messages"][:end]


def _insert_words(draw: Draw, body: Block) -> None:
    where = draw(st.integers(0, len(body["messages"])))
    role = draw(st.sampled_from(["user", "assistant", "system"]))
    body["messages"].insert(where, {"role": role, "content": draw(_WORDS)})


def _forget_the_tools(draw: Draw, body: Block) -> None:
    body.pop("tools", None)
    if draw(st.booleans()):
        body["tools"] = []


FAULTS: Final[tuple[Callable[[Draw, Block], None], ...]] = (
    _lose_a_result, _repeat_a_result, _displace_a_result, _orphan, _blank, _wrong_role, _bad_unicode, _unsigned,
    _open_server_call, _lose_a_call, _unknown_block, _cut_arguments, _odd_id, _repeat_a_call, _cache_marks,
    _extra_keys, _cut_the_beginning, _cut_the_end, _insert_words, _forget_the_tools,
)  # fmt: skip


@st.composite
def _requests(draw: Draw, most_faults: int) -> Block:
    body = _Author(draw).request()
    for fault in draw(st.lists(st.sampled_from(FAULTS), max_size=most_faults)):
        if body["messages"]:
            fault(draw, body)
    return body


def anthropic_requests(*, broken: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of Messages requests; with `broken`, up to four faults in each, else none."""
    return _requests(4 if broken else 0)


# ---------------------------------------------------------------- parts of replies that only this API has

_THOUGHTS: Final = st.sampled_from(["signed", "signed", "redacted", "unsigned", "foreign"])
_SERVER_IDS: Final = st.sampled_from(["srvtoolu_1", "srvtoolu_2", "srvtoolu_3"])


def _thought(text: str, form: str) -> Reasoning:
    raw: dict[str, Any] | None = {"type": "thinking", "thinking": text, "signature": f"seal-{len(text)}=="}
    if form == "redacted":
        return Reasoning("", Json.of({"type": "redacted_thinking", "data": "b3BhcXVl"}))
    if form == "unsigned":
        raw = {"type": "thinking", "thinking": text, "signature": ""}
    return Reasoning(text, Json.of(raw) if form != "foreign" else None)


def _parts(draw: Draw, kind: str, _mark: str, known: Sequence[str]) -> tuple[Any, ...]:
    """Reasoning, a search, what was found, or a block that nobody knows."""
    if kind == "thought":
        return (_thought(draw(TEXTS), draw(_THOUGHTS)),)
    if kind == "opaque":
        return (draw(OPAQUE),)
    if kind == "search":
        wire_id = draw(_SERVER_IDS)
        block = {
            "type": "server_tool_use",
            "id": wire_id,
            "name": "web_search",
            "input": {"query": "weather"},
        }
        asked = Json.of(block["input"])
        return (ServerToolCall(wire_id, "web_search", asked, Json.of(block), "server_tool_use"),)
    wire_id = draw(st.sampled_from(known) if known else _SERVER_IDS)
    failed = draw(st.integers(0, 2)) == 2
    content: Any = {"type": "web_search_tool_result_error", "error_code": "unavailable"} if failed else []
    found = {"type": "web_search_tool_result", "tool_use_id": wire_id, "content": content}
    return (ServerToolResult(wire_id, Json.of(found), failed),)


HOMES["anthropic"] = Home(
    "anthropic",
    "anthropic",
    (*MODELS, "claude-haiku-4-5"),
    ("thought", "search", "found", "opaque"),
    _parts,
    _SEARCH,
)
