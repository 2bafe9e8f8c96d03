"""Hypothesis strategies for requests of the OpenAI APIs: healthy ones, and broken in the ways that users report."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

import normalizer
from normalizer.parts import Json
from normalizer.testing.strategies import HOMES, PNG, Home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Draw = Any
Entry = dict[str, Any]

MODELS: Final = ("gpt-5.2", "gpt-4.1", "o4-mini")
"""Models of different habits: reasoning ones and one that does not."""

_WORDS: Final = st.sampled_from(["Deploy it.", "And Rome?", "Grüße, 東京 🚀", "line one\nline two", "7"])
_NAMES: Final = ("run", "read_file")
_SCHEMA: Final = {"type": "object"}
_ARGUMENTS: Final = st.sampled_from(["{}", '{"path":"a.txt"}', '{"b": 1, "a": [null, 2.5], "c": {"d": "é"}}'])
_OUTPUTS: Final = st.sampled_from(["ok", "", "17 files\n", "exit code 1"])
_PICTURE: Final = f"data:image/png;base64,{PNG}"


class _Author:
    """Writes a conversation: turns of a user, each with some rounds of calls. Subclasses know the wire."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.count = 0

    def flip(self, of: int = 2) -> bool:
        return bool(self.draw(st.integers(0, of - 1)) == of - 1)

    def words(self) -> str:
        return str(self.draw(_WORDS))

    def number(self) -> int:
        self.count += 1
        return self.count

    def history(self) -> list[Entry]:
        told = [self.user()]
        for _ in range(self.draw(st.integers(0, 4))):
            calls = self.draw(st.integers(0, 3))
            told.extend(self.round(calls))
            if not calls or self.flip(4):
                told.append(self.user())
        return told

    def user(self) -> Entry:
        raise NotImplementedError

    def round(self, calls: int) -> list[Entry]:
        raise NotImplementedError


class _ChatAuthor(_Author):
    def user(self) -> Entry:
        if not self.flip(3):
            return {"role": "user", "content": self.words()}
        parts: list[Entry] = [{"type": "text", "text": self.words()}]
        if self.flip():
            parts.append({"type": "image_url", "image_url": {"url": _PICTURE}})
        return {"role": "user", "content": parts}

    def round(self, calls: int) -> list[Entry]:
        made = [self._call() for _ in range(calls)]
        reply: Entry = {"role": "assistant", "content": None if calls and self.flip() else self.words()}
        if made:
            reply["tool_calls"] = made
        return [
            reply,
            *({"role": "tool", "tool_call_id": call["id"], "content": self.draw(_OUTPUTS)} for call in made),
        ]

    def _call(self) -> Entry:
        given = {"name": self.draw(st.sampled_from(_NAMES)), "arguments": self.draw(_ARGUMENTS)}
        return {"id": f"call_{self.number()}", "type": "function", "function": given}

    def request(self) -> Entry:
        messages = self.history()
        if self.flip():
            messages.insert(0, {"role": "system", "content": "Be brief."})
        tools = [
            {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": _SCHEMA}}
            for name in _NAMES
        ]
        return {
            "model": self.draw(st.sampled_from(MODELS)),
            "messages": messages,
            "tools": copy.deepcopy(tools),
        }


class _ResponsesAuthor(_Author):
    def user(self) -> Entry:
        if not self.flip(3):
            return {"role": "user", "content": self.words()}
        parts: list[Entry] = [{"type": "input_text", "text": self.words()}]
        if self.flip():
            parts.append({"type": "input_image", "detail": "auto", "image_url": _PICTURE})
        return {"type": "message", "role": "user", "content": parts}

    def round(self, calls: int) -> list[Entry]:
        items: list[Entry] = []
        if self.flip(3):
            number = self.number()
            sealed = {"summary": [], "encrypted_content": f"gAAAA{number}"}
            items.append({"type": "reasoning", "id": f"rs_{number}", **sealed})
        if self.flip(5):
            action = {"type": "search", "query": "weather"}
            searched = {"id": f"ws_{self.number()}", "status": "completed", "action": action}
            items.append({"type": "web_search_call", **searched})
        if not calls or self.flip():
            items.append(self._message())
        made = [self._call() for _ in range(calls)]
        return [*items, *made, *map(self._output, made)]

    def _message(self) -> Entry:
        part = {"type": "output_text", "text": self.words(), "annotations": []}
        said = {"id": f"msg_{self.number()}", "status": "completed", "role": "assistant", "content": [part]}
        return {"type": "message", **said}

    def _call(self) -> Entry:
        number = self.number()
        ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
        if self.flip(5):
            made = {"name": "sql", "input": "select 1"}
            return {"type": "custom_tool_call", **ids, "id": f"ctc_{number}", **made}
        given = {"name": self.draw(st.sampled_from(_NAMES)), "arguments": self.draw(_ARGUMENTS)}
        return {"type": "function_call", **ids, **given, "status": "completed"}

    def _output(self, call: Entry) -> Entry:
        return {
            "type": f"{call['type']}_output",
            "call_id": call["call_id"],
            "output": self.draw(_OUTPUTS),
        }

    def request(self) -> Entry:
        body: Entry = {"model": self.draw(st.sampled_from(MODELS)), "store": False}
        if self.flip():
            body["instructions"] = "Be brief."
        shape = {"description": "A tool.", "parameters": _SCHEMA, "strict": False}
        tools: list[Entry] = [{"type": "function", "name": name, **shape} for name in _NAMES]
        tools += [{"type": "custom", "name": "sql"}, {"type": "web_search"}]
        return {**body, "input": self.history(), "tools": copy.deepcopy(tools)}


# ---------------------------------------------------------------- faults

History = list[Entry]


def _is_output(entry: Entry) -> bool:
    return entry.get("role") == "tool" or str(entry.get("type")).endswith("_output")


def _is_reply(entry: Entry) -> bool:
    return entry.get("role") == "assistant" or ("call" in str(entry.get("type")) and not _is_output(entry))


def _pick(draw: Draw, history: History, fits: Callable[[Entry], bool]) -> int | None:
    places = [at for at, entry in enumerate(history) if fits(entry)]
    return draw(st.sampled_from(places)) if places else None


def _lose_a_result(draw: Draw, history: History) -> None:
    at = _pick(draw, history, _is_output)
    if at is not None:
        del history[at]


def _repeat_a_result(draw: Draw, history: History) -> None:
    at = _pick(draw, history, _is_output)
    if at is not None:
        key = "content" if "content" in history[at] else "output"
        words = draw(st.sampled_from(["ok", "another output", "No result provided"]))
        history.insert(draw(st.integers(at + 1, len(history))), {**history[at], key: words})


def _displace_a_result(draw: Draw, history: History) -> None:
    at = _pick(draw, history, _is_output)
    if at is not None:
        moved = history.pop(at)
        history.insert(draw(st.integers(0, len(history))), moved)


def _rename_a_result(draw: Draw, history: History) -> None:
    """A result that no call asked for; its call is left without one."""
    at = _pick(draw, history, _is_output)
    if at is not None:
        key = "tool_call_id" if "tool_call_id" in history[at] else "call_id"
        history[at] = {**history[at], key: draw(st.sampled_from(["call_gone", "", "call_1"]))}


def _lose_a_reply(draw: Draw, history: History) -> None:
    at = _pick(draw, history, _is_reply)
    if at is not None:
        del history[at]


def _cut_arguments(draw: Draw, history: History) -> None:
    broken = draw(st.sampled_from(['{"path":"a.t', "", "[1]", "not JSON at all"]))
    at = _pick(draw, history, lambda entry: bool(entry.get("tool_calls")) or "arguments" in entry)
    if at is None:
        return
    entry = history[at]
    if "arguments" in entry:
        history[at] = {**entry, "arguments": broken}
    else:
        first, *others = entry["tool_calls"]
        first = {**first, "function": {**first["function"], "arguments": broken}}
        history[at] = {**entry, "tool_calls": [first, *others]}


def _odd_ids(draw: Draw, history: History) -> None:
    """An id that is too long or that another call has, in the call and its result."""
    at = _pick(draw, history, _is_output)
    if at is None:
        return
    key = "tool_call_id" if "tool_call_id" in history[at] else "call_id"
    old, new = history[at][key], draw(st.sampled_from(["x" * 70, "call_1", "functions.run:0", "トール"]))
    text = json.dumps(history).replace(json.dumps(old), json.dumps(new))
    history[:] = json.loads(text)


def _blank(draw: Draw, history: History) -> None:
    at = _pick(draw, history, lambda entry: "content" in entry)
    if at is not None:
        history[at] = {**history[at], "content": draw(st.sampled_from(["", " ", "\n\n"]))}


def _insert_words(draw: Draw, history: History) -> None:
    role = draw(st.sampled_from(["user", "assistant", "system", "developer"]))
    history.insert(draw(st.integers(0, len(history))), {"role": role, "content": draw(_WORDS)})


def _repeat_an_entry(draw: Draw, history: History) -> None:
    at = draw(st.integers(0, len(history) - 1))
    history.insert(at, copy.deepcopy(history[at]))


def _bad_unicode(draw: Draw, history: History) -> None:
    at = _pick(draw, history, lambda entry: isinstance(entry.get("content"), str))
    if at is not None:
        history[at] = {**history[at], "content": draw(st.sampled_from(["cut \ud83d", "null\0 byte"]))}


def _cut_the_beginning(draw: Draw, history: History) -> None:
    del history[: draw(st.integers(0, len(history) - 1))]


def _cut_the_end(draw: Draw, history: History) -> None:
    del history[draw(st.integers(1, len(history))) :]


FAULTS: Final[tuple[Callable[[Draw, History], None], ...]] = (
    _lose_a_result, _repeat_a_result, _displace_a_result, _rename_a_result, _lose_a_reply, _cut_arguments, _odd_ids,
    _blank, _insert_words, _repeat_an_entry, _bad_unicode, _cut_the_beginning, _cut_the_end,
)  # fmt: skip


@st.composite
def _requests(
    draw: Draw, author: Callable[[Draw], _ChatAuthor | _ResponsesAuthor], most_faults: int
) -> Entry:
    body = author(draw).request()
    history = body["messages" if "messages" in body else "input"]
    for fault in draw(st.lists(st.sampled_from(FAULTS), max_size=most_faults)):
        if history:
            fault(draw, history)
    return body


def openai_chat_requests(*, broken: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of Chat Completions requests; with `broken`, up to four faults in each, else none."""
    return _requests(_ChatAuthor, 4 if broken else 0)


def openai_responses_requests(*, broken: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of stateless Responses requests; with `broken`, up to four faults in each, else none."""
    return _requests(_ResponsesAuthor, 4 if broken else 0)


# ---------------------------------------------------------------- parts of replies that only these APIs have


_CUSTOM: Final = {"id": "c$", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
_MESSAGES: Final[dict[str, list[Entry]]] = {
    "thought": [{"role": "assistant", "content": "So.", "reasoning_content": "thought $"}],
    "refusal": [{"role": "assistant", "content": None, "refusal": "No $."}],
    "custom": [{"role": "assistant", "content": None, "tool_calls": [_CUSTOM]}],
    "sound": [{"role": "assistant", "content": None, "audio": {"id": "audio_$"}}],
}
_DONE: Final = {"status": "completed"}
_SEARCH: Final = {"type": "web_search_call", "id": "ws_$", "action": {"type": "search", "query": "q"}}
_SHELL: Final = {"type": "shell_call", "id": "sh_$", "call_id": "c$", "action": {"commands": ["ls"]}, **_DONE}
_HOSTED: Final = {**_SHELL, "environment": {"type": "container_reference", "container_id": "cntr_1"}}
_RAN: Final = [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
_CALL: Final = {
    "type": "function_call",
    "id": "fc_$",
    "call_id": "c$",
    "name": "run",
    "arguments": "{}",
    **_DONE,
}
_COMPUTER: Final = {
    "type": "computer_call",
    "id": "cu_$",
    "call_id": "c$",
    "action": {"type": "screenshot"},
    **_DONE,
}
_LOCAL: Final = {"type": "exec", "command": ["ls"], "env": {}}
_PATCH: Final = {"type": "delete_file", "path": "a"}
_PROGRAM: Final = {"type": "program", "id": "pr_$", "call_id": "p$", "code": "x", "fingerprint": "fp"}
_MCP: Final = {"server_label": "d", "name": "find", "arguments": "{}"}
_SAID: Final = {"type": "message", "id": "msg_$", "role": "assistant", **_DONE}
_CHECKS: Final = [{"id": "s1", "code": "x", "message": "y"}]
_PICTURED: Final = {"type": "image_generation_call", "id": "ig_$", **_DONE}
_ITEMS: Final[dict[str, list[Entry]]] = {
    "thought": [{"type": "reasoning", "id": "rs_$", "summary": [], "encrypted_content": "gAAA$"}],
    "bare thought": [{"type": "reasoning", "id": "rs_$", "summary": []}],
    "function": [_CALL],
    "broken function": [{**_CALL, "arguments": "oops"}],
    "async": [{**_CALL, "async": True}],
    "custom": [
        {"type": "custom_tool_call", "id": "ctc_$", "call_id": "c$", "name": "sql", "input": "select 1"}
    ],
    "computer": [{**_COMPUTER, "pending_safety_checks": []}],
    "guarded computer": [{**_COMPUTER, "pending_safety_checks": _CHECKS}],
    "shell": [_SHELL],
    "local": [{"type": "local_shell_call", "id": "lsh_$", "call_id": "c$", "action": _LOCAL, **_DONE}],
    "patch": [{"type": "apply_patch_call", "id": "apc_$", "call_id": "c$", "operation": _PATCH, **_DONE}],
    "container": [_HOSTED, {"type": "shell_call_output", "id": "sho_$", "call_id": "c$", "output": _RAN}],
    "open container": [_HOSTED],
    "program": [_PROGRAM, {**_CALL, "caller": {"type": "program", "caller_id": "p$"}}],
    "run program": [
        _PROGRAM,
        {"type": "program_output", "id": "po_$", "call_id": "p$", "result": "x", **_DONE},
    ],
    "search": [{**_SEARCH, "status": "completed"}],
    "failed search": [{**_SEARCH, "status": "failed"}],
    "open search": [{**_SEARCH, "status": "searching"}],
    "mcp": [{"type": "mcp_call", "id": "mcp_$", **_MCP, **_DONE, "output": "x"}],
    "question": [{"type": "mcp_approval_request", "id": "mcpr_$", **_MCP}],
    "list": [{"type": "mcp_list_tools", "id": "mcpl_$", "server_label": "d", "tools": []}],
    "picture": [{**_PICTURED, "result": "aGk="}],
    "no picture": [{**_PICTURED, "result": None}],
    "message": [{**_SAID, "content": [{"type": "output_text", "text": "A $", "annotations": []}]}],
    "refusal": [{**_SAID, "content": [{"type": "refusal", "refusal": "No $."}]}],
    "again": [{**_SAID, "id": "msg_0", "content": [{"type": "output_text", "text": "B", "annotations": []}]}],
    "reference": [{"type": "item_reference", "id": "msg_of_$"}],
    "novel": [{"type": "novelty", "id": "nv_$", "x": 1}],
}


def _read(api: str, history: str, entries: list[Entry], mark: str) -> tuple[Any, ...]:
    """The parts that the reader of an API makes of a reply on the wire, in which `$` stands for the mark."""
    payload = json.loads(json.dumps({history: entries}).replace("$", mark))
    facts = normalizer.read(payload, format=api).facts
    return tuple(part for fact in facts if fact.kind == "model_replied" for part in fact.parts)


def _chat_parts(_draw: Draw, kind: str, mark: str, _known: Sequence[str]) -> tuple[Any, ...]:
    return _read("openai_chat", "messages", _MESSAGES[kind], mark)


def _responses_parts(_draw: Draw, kind: str, mark: str, _known: Sequence[str]) -> tuple[Any, ...]:
    return _read("openai_responses", "input", _ITEMS[kind], mark)


HOMES["openai_chat"] = Home(
    "openai_chat",
    "openai",
    MODELS,
    tuple(_MESSAGES),
    _chat_parts,
    frame=st.sampled_from([None, None, Json.of({"role": "assistant", "content": None, "annotations": []})]),
)
HOMES["openai_responses"] = Home(
    "openai_responses",
    "openai",
    MODELS,
    (*_ITEMS, *["thought", "function"] * 4),
    _responses_parts,
    {"type": "web_search"},
    st.sampled_from([None, Json.of({"id": "resp_1"})]),
)
