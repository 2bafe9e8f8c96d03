"""What the rules read a raw request through: views that never raise, whatever stands in the request.

A view leaves out what is not of the shape that it looks for; saying so is the business of the MSG rules. Views
of the whole history are remembered while a request is judged, and its blocks are sorted by role and type: a rule
about blocks that do not occur costs nothing. A content that is a string counts as one text block at the pointer of
`content`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from normalizer.providers.anthropic import wire
from normalizer.rules import remembered
from normalizer.rules.index import Index, Object, Placed
from normalizer.rules.values import Form, form, listed, member, objects, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from normalizer.rules import Request

__all__ = ["Index", "Placed", "listed", "member", "objects", "text"]

Block: TypeAlias = Object


class Sort(NamedTuple):
    """The role of a message (empty if it has none), and what its content is."""

    role: str
    form: Form


class BlockSort(NamedTuple):
    """The role of a block's message, its type, and of a result of the client's what its content is."""

    role: str
    kind: str
    form: Form


_HOLDERS: Final = frozenset({"search_result", "document"})


def kind(block: Block) -> str:
    """The `type` of a block, tool or other tagged object; empty if it has none."""
    return text(block.get("type"))


def model(request: Request) -> wire.Model:
    """What the model of the request can do; of one without a model, the commonest."""
    return wire.capability(text(request.get("model")) or wire.COMMONEST)


@remembered
def betas(request: Request) -> frozenset[str]:
    """The betas that the request asks for, as parameter, in the body (Bedrock, Vertex) or as header."""
    headers = request.get("extra_headers")
    asked = [request.get("betas"), request.get("anthropic_beta"), member(headers, "anthropic-beta")]
    names = [name for one in asked for name in (one.split(",") if isinstance(one, str) else listed(one))]
    return frozenset(name.strip() for name in names if isinstance(name, str))


def has_beta(request: Request, prefix: str) -> bool:
    """Whether a beta whose name begins so is asked for."""
    return any(name.startswith(prefix) for name in betas(request))


@remembered
def tools(request: Request) -> list[Placed]:
    """The tool definitions with their pointers."""
    return list(objects(request.get("tools"), "/tools"))


@remembered
def tool_names(request: Request) -> frozenset[str]:
    """The names under which the request defines tools."""
    return frozenset(text(tool.get("name")) for _, tool in tools(request)) - {""}


def thinking(request: Request) -> str:
    """The type of thinking that is asked for; empty if the request does not say."""
    return text(member(request.get("thinking"), "type"))


@remembered
def history(request: Request) -> Index[Sort]:
    """The messages that are objects, sorted."""
    return Index(
        Sort._make,
        (
            ((role(message), form(message)), (f"/messages/{number}", message))
            for number, message in messages(request)
        ),
    )


@remembered
def messages(request: Request) -> list[tuple[int, dict[str, Any]]]:
    """The messages that are objects, with their indexes."""
    found = listed(request.get("messages"))
    return [(index, message) for index, message in enumerate(found) if isinstance(message, dict)]


def role(message: dict[str, Any]) -> str:
    """The role of a message; empty if it has none."""
    return text(message.get("role"))


def blocks(index: int, message: dict[str, Any]) -> list[Placed]:
    """The blocks of the message at this index."""
    content = message.get("content")
    at = f"/messages/{index}/content"
    if isinstance(content, str):
        return [(at, {"type": "text", "text": content})]
    return [
        (f"{at}/{number}", block) for number, block in enumerate(listed(content)) if isinstance(block, dict)
    ]


def inner(pointer: str, block: Block) -> Iterator[Placed]:
    """The blocks directly inside a tool result, a search result or a document that is made of blocks."""
    match kind(block):
        case "tool_result" | "search_result":
            yield from objects(block.get("content"), f"{pointer}/content")
        case "document":
            yield from objects(member(block, "source", "content"), f"{pointer}/source/content")


def walk(pointer: str, block: Block) -> Iterator[Placed]:
    """The block itself and all blocks inside it, in document order."""
    pending = [(pointer, block)]
    while pending:
        placed = pending.pop()
        yield placed
        pending.extend(reversed(list(inner(*placed))))


@remembered
def spoken(request: Request) -> list[tuple[int, str, list[Placed]]]:
    """The messages as index, role and blocks."""
    return [(index, role(message), blocks(index, message)) for index, message in messages(request)]


@remembered
def standing(request: Request) -> Index[BlockSort]:
    """The blocks that stand directly in messages, sorted."""
    return Index(
        BlockSort._make,
        ((_sort(speaker, placed[1]), placed) for _, speaker, items in spoken(request) for placed in items),
    )


def _sort(speaker: str, block: Block) -> tuple[str, str, Form]:
    sort = block.get("type")
    if sort == "tool_result":
        return speaker, sort, form(block)
    return speaker, text(sort), "none"


@remembered
def walked(request: Request) -> Index[BlockSort]:
    """All blocks of the history, those inside other blocks too, sorted; those inside have the role of their holder."""
    index = standing(request)
    if not index.numbers(lambda sort, _: _holds_blocks(sort)):
        return index
    return Index(
        BlockSort._make,
        (
            (_sort(sort.role, inside[1]), inside)
            for sort, placed in index.sorted_where(lambda *_: True)
            for inside in (walk(*placed) if _holds_blocks(sort) else (placed,))
        ),
    )


def _holds_blocks(sort: BlockSort) -> bool:
    """Whether other blocks may stand inside such a block."""
    return sort.form == "parts" if sort.kind == "tool_result" else sort.kind in _HOLDERS


def anywhere(request: Request, sort: str) -> list[Placed]:
    """The blocks of a type, those inside other blocks too, in document order."""
    return walked(request).where(lambda found, _: found.kind == sort)


def where(request: Request, fits: Callable[[BlockSort, tuple[str, ...]], bool]) -> list[Placed]:
    """The blocks that stand directly in messages and whose sort and keys fit."""
    return standing(request).where(fits)


def of_type(request: Request, kinds: frozenset[str], *roles: str) -> list[Placed]:
    """The blocks of these types that stand directly in messages (of these roles, if any are named)."""
    return where(request, lambda sort, _: sort.kind in kinds and (not roles or sort.role in roles))


def misplaced(request: Request, kinds: frozenset[str], owner: str) -> list[Placed]:
    """The blocks of these types that stand directly in messages of another role."""
    return where(request, lambda sort, _: sort.kind in kinds and sort.role != owner)


@dataclass(slots=True)
class Turn:
    """Neighbouring messages of one role; `first` and `last` are the indexes of its outermost messages."""

    role: str
    first: int
    last: int
    items: list[Placed] = field(default_factory=list)

    @property
    def pointer(self) -> str:
        """The pointer of its first message."""
        return f"/messages/{self.first}"

    def of_type(self, *kinds: str) -> Iterator[Placed]:
        """Its blocks of these types."""
        return (placed for placed in self.items if placed[1].get("type") in kinds)


@remembered
def turns(request: Request) -> list[Turn]:
    """The turns of the history; a system message is a turn of its own kind and separates the others."""
    found: list[Turn] = []
    for index, speaker, items in spoken(request):
        if not found or found[-1].role != speaker:
            found.append(Turn(speaker, index, index))
        found[-1].last = index
        found[-1].items.extend(items)
    return found


@remembered
def last_turn(request: Request) -> Turn | None:
    """The last turn of the history, None if it has none."""
    history = spoken(request)
    if not history:
        return None
    speaker = history[-1][1]
    rest = list(takewhile(lambda one: one[1] == speaker, reversed(history)))[::-1]
    return Turn(speaker, rest[0][0], rest[-1][0], [placed for _, _, items in rest for placed in items])


def continues_thread(request: Request) -> bool:
    """Whether the server holds the beginning of the conversation, so that calls in it cannot be seen here."""
    return text(member(request.get("thread"), "type")) == "continue"
