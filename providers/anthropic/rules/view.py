"""What the rules read a raw request through: views that never raise, whatever stands in the request.

A view leaves out what is not of the shape that it looks for; saying so is the business of the MSG rules. Views
of the whole history are remembered while a request is judged, and its blocks are sorted by type: a rule about
blocks that do not occur costs nothing. A content that is a string counts as one text block at the pointer of
`content`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.providers.anthropic import wire
from normalizer.rules import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from normalizer.rules import Request

Block: TypeAlias = dict[str, Any]
Placed: TypeAlias = tuple[str, Block]
"""A block and its pointer."""

_HOLDERS: Final = frozenset({"tool_result", "search_result"})


def text(value: object) -> str:
    """The value if it is a string, else an empty one (safe to look up in a set)."""
    return value if isinstance(value, str) else ""


def kind(block: Block) -> str:
    """The `type` of a block, tool or other tagged object; empty if it has none."""
    return text(block.get("type"))


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
def messages(request: Request) -> list[tuple[int, dict[str, Any]]]:
    """The messages that are objects, with their indexes."""
    found = listed(request.get("messages"))
    return [(index, message) for index, message in enumerate(found) if isinstance(message, dict)]


def role(message: dict[str, Any]) -> str:
    """The role of a message; empty if it has none."""
    return text(message.get("role"))


def blocks(index: int, message: dict[str, Any]) -> Iterator[Placed]:
    """The blocks of the message at this index."""
    content = message.get("content")
    if isinstance(content, str):
        yield f"/messages/{index}/content", {"type": "text", "text": content}
    elif isinstance(content, list):
        for at, block in enumerate(content):
            if isinstance(block, dict):
                yield f"/messages/{index}/content/{at}", block


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
    return [(index, role(message), list(blocks(index, message))) for index, message in messages(request)]


@remembered
def walk_blocks(request: Request) -> list[Placed]:
    """All blocks of the history, those inside other blocks too, in document order."""
    found: list[Placed] = []
    for _, _, items in spoken(request):
        for placed in items:
            if _holds_blocks(placed[1]):
                found.extend(walk(*placed))
            else:
                found.append(placed)
    return found


def _holds_blocks(block: Block) -> bool:
    """Whether other blocks may stand inside this one."""
    sort = kind(block)
    return sort == "document" or (sort in _HOLDERS and not isinstance(block.get("content"), str))


@remembered
def _walked(request: Request) -> dict[str, list[Placed]]:
    """All blocks of the history by type."""
    found: dict[str, list[Placed]] = {}
    for placed in walk_blocks(request):
        found.setdefault(text(placed[1].get("type")), []).append(placed)
    return found


def anywhere(request: Request, sort: str) -> list[Placed]:
    """The blocks of a type, those inside other blocks too, in document order."""
    return _walked(request).get(sort, [])


@remembered
def _standing(request: Request) -> dict[tuple[str, str], list[tuple[int, Placed]]]:
    """The blocks that stand directly in messages, by role and type, each with its number in document order."""
    found: dict[tuple[str, str], list[tuple[int, Placed]]] = {}
    number = 0
    for _, speaker, items in spoken(request):
        for placed in items:
            found.setdefault((speaker, text(placed[1].get("type"))), []).append((number, placed))
            number += 1
    return found


def of_type(request: Request, kinds: frozenset[str], *roles: str) -> Iterator[Placed]:
    """The blocks of these types that stand directly in messages (of these roles, if any are named)."""
    return _picked(request, kinds, lambda speaker: not roles or speaker in roles)


def misplaced(request: Request, kinds: frozenset[str], owner: str) -> Iterator[Placed]:
    """The blocks of these types that stand directly in messages of another role."""
    return _picked(request, kinds, lambda speaker: speaker != owner)


def _picked(request: Request, kinds: frozenset[str], fits: Callable[[str], bool]) -> Iterator[Placed]:
    """The blocks of these types in messages whose role fits, in document order."""
    rows = [row for (speaker, sort), row in _standing(request).items() if sort in kinds and fits(speaker)]
    merged = (
        rows[0] if len(rows) == 1 else sorted(chain.from_iterable(rows))
    )  # numbers differ: no block is compared
    return (placed for _, placed in merged)


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


def last_turn(request: Request) -> Turn | None:
    """The last turn of the history, None if it has none."""
    return next(reversed(turns(request)), None)


def continues_thread(request: Request) -> bool:
    """Whether the server holds the beginning of the conversation, so that calls in it cannot be seen here."""
    return text(member(request.get("thread"), "type")) == "continue"
