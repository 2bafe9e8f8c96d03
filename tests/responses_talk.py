"""Random conversations with the Responses API, as facts: every kind of item and outcome, and requests that go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import normalizer
from normalizer import facts as f
from normalizer.parts import Json, Media, Text, Tool
from normalizer.projecting.sent_record import request_sent
from normalizer.providers.openai_responses import decoding

if TYPE_CHECKING:
    from random import Random

    from normalizer.facts import Fact

API = "openai_responses"
_KINDS = (
    "reasoning", "function", "function", "function", "computer", "shell", "local", "patch", "custom", "search",
    "cut search", "mcp", "message", "message", "async", "approval", "reference", "picture", "container", "program",
    "list", "novel",
)  # fmt: skip
_ACTIONS = (
    "reply",
    "reply",
    "user",
    "result",
    "result",
    "result",
    "send",
    "send",
    "decision",
    "instructions",
    "tools",
)


def _items(rng: Random, kind: str, at: str) -> list[dict[str, Any]]:
    call = f"c{at}" if rng.random() < 0.9 else "call_0"
    done = {"status": "completed"}
    match kind:
        case "reasoning":
            sealed = {"encrypted_content": f"gAAA{at}"} if rng.random() < 0.7 else {}
            return [{"type": "reasoning", "id": f"rs_{at}", "summary": [], **sealed}]
        case "function":
            arguments = rng.choice(["{}", '{"a": 1}', '{"a', "oops"])
            return [
                {
                    "type": "function_call",
                    "id": f"fc_{at}",
                    "call_id": call,
                    "name": "f",
                    "arguments": arguments,
                    **done,
                }
            ]
        case "async":
            return [
                {
                    "type": "function_call",
                    "id": f"fc_{at}",
                    "call_id": call,
                    "name": "f",
                    "arguments": "{}",
                    "async": True,
                }
            ]
        case "custom":
            return [
                {
                    "type": "custom_tool_call",
                    "id": f"ctc_{at}",
                    "call_id": call,
                    "name": "sql",
                    "input": "select 1",
                }
            ]
        case "computer":
            checks = rng.choice([[], [{"id": "s1", "code": "x", "message": "y"}]])
            return [{"type": "computer_call", "id": f"cu_{at}", "call_id": call, **done,
                     "pending_safety_checks": checks,
                     "action": {"type": "screenshot"}}]  # fmt: skip
        case "shell":
            return [
                {
                    "type": "shell_call",
                    "id": f"sh_{at}",
                    "call_id": call,
                    **done,
                    "action": {"commands": ["ls"]},
                }
            ]
        case "local":
            action = {"type": "exec", "command": ["ls"], "env": {}}
            return [
                {"type": "local_shell_call", "id": f"lsh_{at}", "call_id": call, **done, "action": action}
            ]
        case "patch":
            operation = {"type": "delete_file", "path": "a"}
            return [
                {
                    "type": "apply_patch_call",
                    "id": f"apc_{at}",
                    "call_id": call,
                    **done,
                    "operation": operation,
                }
            ]
        case "container":
            where = {"type": "container_reference", "container_id": "cntr_1"}
            run = {"type": "shell_call", "id": f"sh_{at}", "call_id": f"{call}s", **done,
                   "action": {"commands": ["ls"]},
                   "environment": where}  # fmt: skip
            chunk = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
            out = {"type": "shell_call_output", "id": f"sho_{at}", "call_id": f"{call}s", "output": [chunk]}
            return [run, out] if rng.random() < 0.7 else [run]
        case "program":
            caller = {"type": "program", "caller_id": f"{call}p"}
            found: list[dict[str, Any]] = [
                {
                    "type": "program",
                    "id": f"prog_{at}",
                    "call_id": f"{call}p",
                    "code": "x",
                    "fingerprint": "fp",
                }
            ]
            if rng.random() < 0.5:
                found.append({"type": "function_call", "id": f"fc_{at}", "call_id": call, "name": "f",
                              "arguments": "{}",
                              "caller": caller})  # fmt: skip
            if rng.random() < 0.6:
                found.append(
                    {
                        "type": "program_output",
                        "id": f"progo_{at}",
                        "call_id": f"{call}p",
                        "result": "x",
                        **done,
                    }
                )
            return found
        case "search" | "cut search":
            status = "searching" if kind == "cut search" else rng.choice(["completed", "failed"])
            return [
                {
                    "type": "web_search_call",
                    "id": f"ws_{at}",
                    "status": status,
                    "action": {"type": "search", "query": "q"},
                }
            ]
        case "mcp":
            return [{"type": "mcp_call", "id": f"mcp_{at}", "server_label": "d", "name": "find",
                     "arguments": "{}", **done,
                     "output": "x"}]  # fmt: skip
        case "picture":
            return [
                {
                    "type": "image_generation_call",
                    "id": f"ig_{at}",
                    **done,
                    "result": rng.choice(["aGk=", None]),
                }
            ]
        case "approval":
            return [
                {
                    "type": "mcp_approval_request",
                    "id": f"mcpr_{at}",
                    "server_label": "d",
                    "name": "find",
                    "arguments": "{}",
                }
            ]
        case "reference":
            return [{"type": "item_reference", "id": f"msg_of_{at}"}]
        case "list":
            return [{"type": "mcp_list_tools", "id": f"mcpl_{at}", "server_label": "d", "tools": []}]
        case "novel":
            return [{"type": "novel", "id": f"nv_{at}", "x": 1}]
    words = rng.choice([["Hello."], ["A", "B"]])
    content = [{"type": "output_text", "text": text, "annotations": []} for text in words]
    if rng.random() < 0.2:
        content = [{"type": "refusal", "refusal": "No."}]
    item_id = f"msg_{at}" if rng.random() < 0.9 else "msg_again"
    return [{"type": "message", "id": item_id, **done, "role": "assistant", "content": content}]


class Talk:
    """One conversation: its facts, and what has to be recorded of the requests that went out."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.facts: list[Fact] = []
        self.replies = 0
        self.asked: str | None = None
        self.add(f.InstructionsSet, parts=(Text("Be brief."),), string=True)
        self.add(f.UserSaid, parts=(Text("Hi"),), string=True)

    def add(self, kind: Any, **fields: Any) -> None:
        number = len(self.facts) + 1
        self.facts.append(kind(fact_id=f"f{number}", seq=number, turn_id="turn", **fields))

    def step(self) -> bool:
        """Let something happen; True where a request is to be sent."""
        action = self.rng.choice(_ACTIONS)
        if action == "send":
            return True
        getattr(self, action)()
        return False

    def sent(self, projection: normalizer.Projection) -> None:
        """The request went out."""
        number = len(self.facts) + 1
        self.facts.append(request_sent(projection, fact_id=f"f{number}", seq=number))
        self.asked = f"f{number}" if self.rng.random() < 0.8 else None

    def reply(self) -> None:
        self.replies += 1
        pairing = decoding.Pairing()
        kinds = [self.rng.choice(_KINDS) for _ in range(self.rng.randint(1, 4))]
        found = [
            item for n, kind in enumerate(kinds) for item in _items(self.rng, kind, f"{self.replies}_{n}")
        ]
        parts = tuple(
            part for n, item in enumerate(found) for part in pairing.parts(item, f"{self.replies}/{n}")
        )
        kind = f.ModelReplied if self.rng.random() < 0.9 else f.ReplyCut
        self.add(kind, parts=parts, provider="openai", api=API, model="gpt-5.4", answers=self.asked,
                 raw=Json.of({"id": f"resp_{self.replies}"}))  # fmt: skip
        self.asked = None

    def user(self) -> None:
        self.add(f.UserSaid, parts=(Text(f"more {len(self.facts)}"),), string=self.rng.random() < 0.5)

    def instructions(self) -> None:
        if self.rng.random() < 0.3:
            self.add(f.InstructionsSet, parts=(Text(f"Be {len(self.facts)}."),), string=True)

    def tools(self) -> None:
        if self.rng.random() < 0.3:
            self.add(f.ToolsDeclared, tools=tuple(Tool(f"t{n}") for n in range(self.rng.randint(1, 3))))

    def decision(self) -> None:
        calls = normalizer.fold(self.facts).server_calls
        asked = [key for key, call in calls.items() if call.part.form == "mcp_approval_request"]
        if asked:
            self.add(self.rng.choice([f.ApprovalGiven, f.ApprovalDenied]), call_id=self.rng.choice(asked))

    def result(self) -> None:
        calls = list(normalizer.fold(self.facts).calls)
        if not calls:
            return
        call_id, rng = self.rng.choice(calls), self.rng
        match rng.choice(
            ["done", "done", "done", "seen", "denied", "lost", "skipped", "stopped", "approved"]
        ):
            case "done":
                self.add(f.CallCompleted, call_id=call_id, content=f"result {len(self.facts)}",
                         is_error=rng.choice([None, False, True]), exit_code=rng.choice([None, 0, 1]))  # fmt: skip
            case "seen":
                self.add(
                    f.CallCompleted, call_id=call_id, content=(Media("image", "image/png", "aGk="), Text("t"))
                )
            case "denied":
                self.add(f.ApprovalDenied, call_id=call_id, by="user", reason="no")
            case "lost":
                self.add(f.ContactLost, call_id=call_id)
            case "skipped":
                self.add(f.CallSkipped, call_id=call_id)
            case "stopped":
                self.add(f.CallTerminated, call_id=call_id)
            case "approved":
                self.add(f.ApprovalGiven, call_id=call_id)
