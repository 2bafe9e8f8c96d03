"""What the rules read a raw request through: views that never raise, whatever stands in the request.

A view leaves out what is not of the shape that it looks for; saying so is the business of the STRUCT rules. Views of
the whole history are remembered while a request is judged: one pass over the messages sorts them, one each their
calls and their parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from normalizer.providers.openai_chat import wire
from normalizer.rules import remembered
from normalizer.rules.index import Index, Object, Placed
from normalizer.rules.values import Form, form, listed, member, objects, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.rules import Context, Request

__all__ = ["Index", "Placed", "listed", "member", "objects", "text"]

Message: TypeAlias = Object


class Sort(NamedTuple):
    """The role of a message (empty if it has none), and what its content is."""

    role: str
    form: Form


def profile(context: Context) -> wire.Profile:
    """The server that the request is for; OpenAI's where none that is known is named."""
    return wire.profile_of(text(context.get("profile")) or None) or wire.OPENAI


def under(context: Context, *names: str) -> bool:
    """Whether the request is for one of these servers."""
    return context.get("profile") in names


def model(request: Request) -> str:
    """The model's name; empty if there is none."""
    return text(request.get("model"))


class Typed(NamedTuple):
    """The role of the message that a call or part stands in, and its type."""

    role: str
    kind: str


@remembered
def history(request: Request) -> Index[Sort]:
    """The messages that are objects, sorted."""
    return Index(
        Sort._make,
        (
            ((text(message.get("role")), form(message)), (f"/messages/{number}", message))
            for number, message in messages(request)
        ),
    )


@remembered
def messages(request: Request) -> list[tuple[int, Message]]:
    """The messages that are objects, with their indexes."""
    found = listed(request.get("messages"))
    return [(index, message) for index, message in enumerate(found) if isinstance(message, dict)]


def where(request: Request, fits: Callable[[Sort], bool]) -> list[Placed]:
    """The messages of such a sort."""
    return history(request).where(lambda sort, _: fits(sort))


def of_role(request: Request, *roles: str) -> list[Placed]:
    """The messages of these roles with their pointers."""
    return where(request, lambda sort: sort.role in roles)


def having(request: Request, key: str, *roles: str) -> list[Placed]:
    """The messages (of these roles, if any are named) that have this key."""
    return history(request).where(lambda sort, keys: key in keys and (not roles or sort.role in roles))


@remembered
def _calls(request: Request) -> Index[Typed]:
    return Index(
        Typed._make,
        (
            (("assistant", text(call.get("type"))), (at, call))
            for pointer, message in having(request, "tool_calls", "assistant")
            for at, call in objects(message["tool_calls"], f"{pointer}/tool_calls")
        ),
    )


def calls(request: Request, *types: str) -> list[Placed]:
    """The calls of assistant messages, of these types if any are named."""
    return _calls(request).where(lambda sort, _: not types or sort.kind in types)


def payload(call: dict[str, Any]) -> dict[str, Any]:
    """The object under the call's type; empty if it has none."""
    found = call.get(text(call.get("type")))
    return found if isinstance(found, dict) else {}


@remembered
def functions(request: Request) -> list[Placed]:
    """The payloads of function calls, legacy ones included."""
    found: list[Placed] = []
    for pointer, message in history(request).where(
        lambda sort, keys: sort.role == "assistant" and ("tool_calls" in keys or "function_call" in keys)
    ):
        for at, call in objects(message.get("tool_calls"), f"{pointer}/tool_calls"):
            if call.get("type") == "function" and isinstance(call.get("function"), dict):
                found.append((f"{at}/function", call["function"]))
        if isinstance(message.get("function_call"), dict):
            found.append((f"{pointer}/function_call", message["function_call"]))
    return found


@remembered
def parts(request: Request) -> list[tuple[str, str, Any]]:
    """Every element of content arrays: its pointer, the role of its message, and itself, object or not."""
    return [
        (f"{pointer}/content/{at}", text(message.get("role")), part)
        for pointer, message in where(request, lambda sort: sort.form == "parts")
        for at, part in enumerate(message["content"])
    ]


@remembered
def sorted_parts(request: Request) -> Index[Typed]:
    """The parts that are objects, by the role of their message and by their type."""
    return Index(
        Typed._make,
        (((role, kind(part)), (at, part)) for at, role, part in parts(request) if isinstance(part, dict)),
    )


def parts_of(request: Request, *kinds: str) -> list[Placed]:
    """The parts of these types, whose message ever they stand in."""
    return sorted_parts(request).where(lambda sort, _: sort.kind in kinds)


def misplaced(request: Request, fits: Callable[[str, str], bool]) -> list[tuple[str, str, Object]]:
    """The parts whose role and type fit, as pointer, role and part."""
    found = sorted_parts(request).sorted_where(lambda sort, _: fits(*sort))
    return [(at, sort.role, part) for sort, (at, part) in found]


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
    request ends there. `open` are the calls without an answer in the block.
    """

    pointer: str
    calls: list[tuple[str, str]]
    answers: list[tuple[str, str]] = field(default_factory=list)
    open: list[tuple[str, str]] = field(default_factory=list)
    end: int = 0
    last: bool = False

    @property
    def even(self) -> bool:
        """Whether each call has its own id and one answer: no rule about pairs finds anything in such a block."""
        if len(self.calls) == len(self.answers) == 1:
            return self.calls[0][1] == self.answers[0][1]
        asked, told = {own for _, own in self.calls}, {own for _, own in self.answers}
        return asked == told and len(self.calls) == len(self.answers) == len(asked)


@remembered
def blocks(request: Request) -> list[Block]:
    """The blocks of the history, in order."""
    found = messages(request)
    made: list[Block] = []
    at = 0
    while at < len(found):
        index, message = found[at]
        at += 1
        if message.get("role") != "assistant" or "tool_calls" not in message:
            continue
        asked = [
            (pointer, text(call.get("id")))
            for pointer, call in objects(message["tool_calls"], f"/messages/{index}/tool_calls")
        ]
        if not asked:
            continue
        block = Block(f"/messages/{index}", asked)
        while at < len(found) and found[at][1].get("role") == "tool":
            block.answers.append((f"/messages/{found[at][0]}", text(found[at][1].get("tool_call_id"))))
            at += 1
        block.end, block.last = (found[at][0], False) if at < len(found) else (found[-1][0] + 1, True)
        answered = {own for _, own in block.answers}
        block.open = [call for call in block.calls if call[1] not in answered]
        made.append(block)
    return made


@remembered
def odd_blocks(request: Request) -> list[Block]:
    """The blocks in which calls and answers do not pair one to one."""
    return [block for block in blocks(request) if not block.even]
