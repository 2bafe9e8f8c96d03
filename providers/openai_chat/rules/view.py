"""What the rules read a raw request through: views that never raise, whatever stands in the request.

A view leaves out what is not of the shape that it looks for; saying so is the business of the STRUCT rules. Each is
one pass over the history.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from normalizer.providers.openai_chat import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.rules import Context, Request

Message: TypeAlias = dict[str, Any]
Placed: TypeAlias = tuple[str, dict[str, Any]]
"""An object and its pointer."""


def text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def listed(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def member(value: object, *steps: str) -> Any:
    """What stands under these keys, None where the way ends."""
    for step in steps:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def objects(value: object, pointer: str) -> Iterator[Placed]:
    """The objects of a list that stands at this pointer."""
    for index, item in enumerate(listed(value)):
        if isinstance(item, dict):
            yield f"{pointer}/{index}", item


def profile(context: Context) -> wire.Profile:
    """The server that the request is for; OpenAI's where none that is known is named."""
    return wire.profile_of(text(context.get("profile")) or None) or wire.OPENAI


def under(context: Context, *names: str) -> bool:
    """Whether the request is for one of these servers."""
    return context.get("profile") in names


def model(request: Request) -> str:
    """The model's name; empty if there is none."""
    return text(request.get("model"))


def messages(request: Request) -> Iterator[tuple[int, Message]]:
    """The messages that are objects, with their indexes."""
    for index, message in enumerate(listed(request.get("messages"))):
        if isinstance(message, dict):
            yield index, message


def of_role(request: Request, *roles: str) -> Iterator[tuple[str, Message]]:
    """The messages of these roles with their pointers."""
    for index, message in messages(request):
        if message.get("role") in roles:
            yield f"/messages/{index}", message


def calls(request: Request) -> Iterator[Placed]:
    """The elements of `tool_calls` that are objects, in assistant messages."""
    for pointer, message in of_role(request, "assistant"):
        yield from objects(message.get("tool_calls"), f"{pointer}/tool_calls")


def payload(call: dict[str, Any]) -> dict[str, Any]:
    """The object under the call's type; empty if it has none."""
    found = call.get(text(call.get("type")))
    return found if isinstance(found, dict) else {}


def functions(request: Request) -> Iterator[Placed]:
    """The payloads of function calls, legacy ones included."""
    for pointer, message in of_role(request, "assistant"):
        for at, call in objects(message.get("tool_calls"), f"{pointer}/tool_calls"):
            if call.get("type") == "function" and isinstance(call.get("function"), dict):
                yield f"{at}/function", call["function"]
        if isinstance(message.get("function_call"), dict):
            yield f"{pointer}/function_call", message["function_call"]


def parts(request: Request, *roles: str) -> Iterator[tuple[str, str, Any]]:
    """Every element of content arrays: its pointer, the role of its message, and itself."""
    for index, message in messages(request):
        content = message.get("content")
        role = text(message.get("role"))
        if isinstance(content, list) and (not roles or role in roles):
            for at, part in enumerate(content):
                yield f"/messages/{index}/content/{at}", role, part


def kind(part: object) -> str:
    """The type of a content part; empty if it has none."""
    return text(member(part, "type"))


def words(message: Message) -> str:
    """The text of a message's content, its parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(text(member(part, "text")) for part in content if kind(part) == "text")
    return text(content)


def refusals(message: Message) -> list[str]:
    """The refusals of a message, as parts or as a key."""
    found = [
        text(member(part, "refusal")) for part in listed(message.get("content")) if kind(part) == "refusal"
    ]
    return [refusal for refusal in (*found, text(message.get("refusal"))) if refusal]


def tool_names(request: Request) -> frozenset[str]:
    """The names of the declared tools."""
    found = {text(payload(tool).get("name")) for _, tool in objects(request.get("tools"), "/tools")}
    return frozenset(found - {""})


@dataclass(slots=True)
class Block:
    """An assistant message with calls, and the tool messages right behind it.

    `calls` and `answers` are pointers and ids; `end` is the index behind the last of the answers, `last` whether the
    request ends there.
    """

    pointer: str
    calls: list[tuple[str, str]]
    answers: list[tuple[str, str]] = field(default_factory=list)
    end: int = 0
    last: bool = False

    @property
    def open(self) -> list[tuple[str, str]]:
        """The calls without an answer in the block."""
        answered = {call_id for _, call_id in self.answers}
        return [(pointer, call_id) for pointer, call_id in self.calls if call_id not in answered]


def blocks(request: Request) -> Iterator[Block]:
    """The blocks of the history, in order."""
    found = list(messages(request))
    at = 0
    while at < len(found):
        index, message = found[at]
        at += 1
        made = [
            (pointer, text(call.get("id")))
            for pointer, call in objects(message.get("tool_calls"), f"/messages/{index}/tool_calls")
        ]
        if message.get("role") != "assistant" or not made:
            continue
        block = Block(f"/messages/{index}", made)
        while at < len(found) and found[at][1].get("role") == "tool":
            block.answers.append((f"/messages/{found[at][0]}", text(found[at][1].get("tool_call_id"))))
            at += 1
        block.end, block.last = (found[at][0], False) if at < len(found) else (found[-1][0] + 1, True)
        yield block
