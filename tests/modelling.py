"""What the model behind the loopback server says next: anything that the API can say to this request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loopback import (
    Answer,
    Block,
    Refusal,
    Reply,
    call,
    open_server_calls,
    server_call,
    server_result,
    text,
    thinking,
)

if TYPE_CHECKING:
    from random import Random

_CALLER: Final = "code_execution_20260120"


def plan(request: dict[str, Any], rng: Random, number: int) -> Answer:
    """The answer to a request; `number` makes its ids."""
    fate = rng.random()
    if fate < 0.04:
        return Refusal(rng.choice(["Invalid `signature` in `thinking` block", "prompt is too long"]))
    if 0.04 <= fate < 0.06:
        return Refusal("Overloaded", "overloaded_error", 529)
    talk = Talk(request, rng, number)
    talk.go()
    cut, error = None, None
    if rng.random() < 0.18:
        cut, error = rng.random(), rng.choice([None, None, "overloaded_error"])
    return Reply(tuple(talk.blocks), talk.stop, talk.container, cut, rng.random() < 0.3, error)


class Talk:
    """One reply in the making."""

    def __init__(self, request: dict[str, Any], rng: Random, number: int) -> None:
        self.request, self.rng, self.number = request, rng, number
        self.blocks: list[Block] = []
        self.stop = "end_turn"
        self.container: str | None = None
        self.offered = _offered(request)
        self.thinks = "thinking" in request

    def go(self) -> None:
        """Go on with what waits, then say something, then end somehow."""
        waiting = open_server_calls(self.request)
        for call_id, block in waiting.items():
            if block["name"] == "code_execution" and self.rng.random() < 0.4:
                self._code_calls(call_id)
                return
        for block in waiting.values():
            self.blocks.append(server_result(block))
        if not waiting or self.rng.random() < 0.6:
            self._say()
            self._end()

    def _id(self, prefix: str) -> str:
        """An id of its own; now and then one that is used again and again."""
        if prefix == "toolu_" and self.rng.random() < 0.15:
            return f"call_{self.rng.randrange(2)}"
        return f"{prefix}{self.number}x{len(self.blocks)}"

    def _think(self) -> None:
        if self.thinks:
            kind = self.rng.random()
            if kind < 0.1:
                self.blocks.append({"type": "redacted_thinking", "data": ""})
            else:
                self.blocks.append(thinking("" if kind < 0.25 else f"hm {self.number} {len(self.blocks)}"))

    def _say(self) -> None:
        rng = self.rng
        for _ in range(rng.randrange(1, 4)):
            what = rng.random()
            if what < 0.4:
                self._think()
                if rng.random() < 0.2:
                    self.blocks.append(text("\n\n"))
            elif what < 0.75:
                self.blocks.append(text(f"word {self.number} {len(self.blocks)} "))
            elif "web_search" in self.offered:
                found = server_call(self._id("srvtoolu_"), "web_search", {"query": "x"})
                self.blocks += [found, server_result(found)]

    def _end(self) -> None:
        rng = self.rng
        how = rng.random()
        clients = [name for name in self.offered if name not in ("web_search", "code_execution")]
        if how < 0.4 and clients:
            self.stop = "tool_use"
            if "web_search" in self.offered and rng.random() < 0.2:
                self.blocks.append(server_call(self._id("srvtoolu_"), "web_search", {"query": "y"}))
            self._calls(clients)
        elif how < 0.52 and "web_search" in self.offered:
            self.stop = "pause_turn"
            found = server_call(self._id("srvtoolu_"), "web_search", {"query": "z"})
            self.blocks.append(found)
            if rng.random() < 0.3:
                self.blocks.append(server_result(found))
        elif (
            how < 0.62
            and "code_execution" in self.offered
            and {"get_weather", "run_command"} & set(self.offered)
        ):
            self.blocks.append(server_call(self._id("srvtoolu_"), "code_execution", {"code": "1"}))
            self._code_calls(self.blocks[-1]["id"])
        elif how < 0.70:
            self.stop = "refusal"
            if rng.random() < 0.4 and clients:
                self._calls(clients)
        elif how < 0.78:
            self.stop = "max_tokens"
            if clients and rng.random() < 0.7:
                self._calls(clients)
            if self.blocks and self.blocks[-1]["type"] == "tool_use":
                self.blocks[-1]["_json"] = rng.choice(["", '{"a', "{}"])
        elif not self.blocks or self.blocks[-1]["type"] != "text":
            self.blocks.append(text(f"end {self.number}"))

    def _calls(self, names: list[str]) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            if self.rng.random() < 0.15:
                self._think()
            made = call(self._id("toolu_"), self.rng.choice(names), {"n": self.number})
            if made["id"] in {b.get("id") for b in self.blocks}:
                continue
            if self.rng.random() < 0.08:
                made["_json"] = '{"n": 1, }'
            if self.rng.random() < 0.3:
                made["caller"] = {"type": "direct"}
            self.blocks.append(made)

    def _code_calls(self, code: str) -> None:
        """The running code calls the client."""
        names = [name for name in ("get_weather", "run_command") if name in self.offered]
        if not names:
            self.blocks += [server_result({"type": "server_tool_use", "id": code, "name": "code_execution"})]
            return
        self.stop, self.container = "tool_use", f"container_{code}"
        for _ in range(self.rng.randrange(1, 3)):
            caller = {"type": _CALLER, "tool_id": code}
            made = call(
                f"toolu_{self.number}y{len(self.blocks)}", self.rng.choice(names), {"m": 1}, caller=caller
            )
            self.blocks.append(made)


def _offered(request: dict[str, Any]) -> list[str]:
    """The names of the tools that the model may use by the end of the history."""
    names = [tool["name"] for tool in request.get("tools") or []]
    for message in request["messages"]:
        if message["role"] == "system" and not isinstance(message["content"], str):
            for block in message["content"]:
                tool = block.get("tool", {})
                name = tool.get("name") or tool.get("definition", {}).get("name")
                if block["type"] == "tool_addition" and name not in names:
                    names.append(name)
                elif block["type"] == "tool_removal" and name in names:
                    names.remove(name)
    return names
