"""What the rules read a raw request through: views that never raise, whatever stands in the request.

A view leaves out what is not of the shape that it looks for; saying so is the business of the STRUCT rules. Views of
the whole history are remembered while a request is judged. Nothing here is shared with the projection, which the
rules judge.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from normalizer.providers.openai_responses import wire
from normalizer.rules import remembered
from normalizer.rules.index import Index, Object, Placed
from normalizer.rules.values import listed, mapped, names, objects, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from normalizer.rules import Context, Request

__all__ = ["Index", "Item", "Placed", "listed", "mapped", "names", "objects", "text"]

Item: TypeAlias = Object


class Sort(NamedTuple):
    """The type of an item, and its role if it is a message: `("message", "user")`, `("reasoning", "")`."""

    kind: str
    role: str


class PartSort(NamedTuple):
    """What a part is, the type of its item (and its role if that is a message), and the key that it stands under.

    An output may be an object instead of a list; it counts as a part whose key is empty.
    """

    kind: str
    item: str
    role: str
    key: str


CALL_KEY: Final = "call_id"


def kind(item: Item) -> str:
    """The type of an item; a message and a reference may leave it out."""
    found = item.get("type")
    if isinstance(found, str):
        return found
    if found is None and "role" in item:
        return "message"
    return "item_reference" if found is None and item.keys() <= {"id", "type"} else ""


def _sort(item: Item) -> tuple[str, str]:
    found = kind(item)
    return found, text(item.get("role")) if found == "message" else ""


@remembered
def history(request: Request) -> Index[Sort]:
    """The items of the history, sorted."""
    return Index(
        Sort._make,
        (
            (_sort(item), (f"/input/{number}", item))
            for number, item in enumerate(listed(request.get("input")))
            if isinstance(item, dict)
        ),
    )


def items(request: Request) -> list[Placed]:
    """The items of the history with their pointers."""
    return history(request).entries


def of_kind(request: Request, *kinds: str) -> list[Placed]:
    """The items of these types."""
    return history(request).where(lambda sort, _: sort.kind in kinds)


def having(request: Request, *keys: str) -> list[Placed]:
    """The items with any of these keys."""
    return history(request).having(*keys)


def messages(request: Request, *roles: str) -> list[Placed]:
    """Messages of these roles; of all where none is named."""
    return history(request).where(
        lambda sort, _: sort.kind == "message" and (not roles or sort.role in roles)
    )


@remembered
def _all_parts(request: Request) -> Index[PartSort]:
    return Index(
        PartSort._make,
        (
            ((text(part.get("type")), sort.kind, sort.role, key), (place, part))
            for sort, (at, item) in history(request).sorted_where(
                lambda _, keys: "content" in keys or "output" in keys
            )
            for key, place, part in _held_by(item, at)
        ),
    )


def _held_by(item: Item, at: str) -> list[tuple[str, str, Item]]:
    content, output = item.get("content"), item.get("output")
    found: list[tuple[str, str, Item]] = []
    if isinstance(content, list):
        found += (("content", place, part) for place, part in objects(content, f"{at}/content"))
    if isinstance(output, list):
        found += (("output", place, part) for place, part in objects(output, f"{at}/output"))
    elif isinstance(output, dict):
        found.append(("", f"{at}/output", output))
    return found


def parts(request: Request, fits: Callable[[PartSort], bool]) -> list[tuple[str, Item, PartSort]]:
    """The parts in contents and outputs of items whose sort fits, with their sorts."""
    found = _all_parts(request).sorted_where(lambda sort, _: fits(sort))
    return [(at, part, sort) for sort, (at, part) in found]


def parts_having(request: Request, key: str) -> list[Placed]:
    """The parts in contents and outputs of items that have this key."""
    return _all_parts(request).having(key)


def message_parts(
    request: Request, fits: Callable[[str], bool], *roles: str
) -> list[tuple[str, Item, PartSort]]:
    """The parts of messages of these roles (of all where none is named) whose type fits."""
    return parts(
        request,
        lambda sort: (
            sort.item == "message" and sort.key == "content"
            and (not roles or sort.role in roles) and fits(sort.kind)
        ),
    )  # fmt: skip


def call_id(item: Item) -> str:
    """The id of the call that a call or output is about. A local shell's output may name it in `id`."""
    found = item.get(CALL_KEY)
    if kind(item) == "local_shell_call_output" and not isinstance(found, str):
        found = item.get("id")
    return text(found)


class Half(NamedTuple):
    """A call that needs an output, or an output, whoever wrote it; `number` is its place among the items."""

    number: int
    pointer: str
    item: Item
    kind: str
    call_id: str


@remembered
def _halves(request: Request) -> dict[str, list[Half]]:
    """Calls and outputs by their types."""
    index = history(request)
    found: dict[str, list[Half]] = {}
    for number in index.numbers(lambda sort, _: sort.kind in wire.ANSWERS or sort.kind in wire.OUTPUTS):
        at, item = index.entries[number]
        sort = kind(item)
        found.setdefault(sort, []).append(Half(number, at, item, sort, call_id(item)))
    return found


def _merged(request: Request, kinds: Iterable[str]) -> list[Half]:
    found = _halves(request)
    rows = [found[sort] for sort in kinds if sort in found]
    return rows[0] if len(rows) == 1 else sorted(chain.from_iterable(rows), key=_number)


def _number(half: Half) -> int:
    return half.number


@remembered
def calls(request: Request) -> list[Half]:
    """The calls of types that the client answers, those too that the server runs."""
    return _merged(request, wire.ANSWERS)


@remembered
def outputs(request: Request) -> list[Half]:
    """The outputs of calls, whoever wrote them."""
    return _merged(request, wire.OUTPUTS)


def of_calls(request: Request, found: str) -> list[Half]:
    """The calls or outputs of one type."""
    return _halves(request).get(found, [])


@remembered
def answered_ids(request: Request) -> frozenset[str]:
    """The ids of the calls that outputs name."""
    return frozenset(half.call_id for half in outputs(request))


def served(item: Item) -> bool:
    """Whether the server runs this call itself (or ran it, for a tool search's output)."""
    found = kind(item)
    if found == "shell_call":
        return text(mapped(item.get("environment")).get("type")) in wire.SERVER_ENVIRONMENTS
    return found in ("tool_search_call", "tool_search_output") and item.get("execution") == "server"


def continues(request: Request) -> bool:
    """Whether the server holds the history before this input."""
    return bool(request.get("previous_response_id") or request.get("conversation"))


def held(request: Request, context: Context) -> list[Item] | None:
    """The items that the server holds before this input, None where that is not known."""
    before = context.get("previous_response") if request.get("previous_response_id") else None
    found = before.get("items") if isinstance(before, dict) else None
    if found is None and request.get("conversation"):
        found = context.get("conversation")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else None


def stateless(request: Request) -> bool:
    """Whether the server keeps nothing."""
    return request.get("store") is False


def native(context: Context) -> list[Item]:
    """The items exactly as the server gave them."""
    return [item for item in listed(context.get("native")) if isinstance(item, dict)]


def originals(request: Request, context: Context, *kinds: str) -> Iterator[tuple[str, Item, Item]]:
    """Items of these types beside what the server gave: paired by id, else by call id."""
    known: dict[tuple[str, str], Item] = {}
    for item in native(context):
        for key in ("id", CALL_KEY):
            if text(item.get(key)):
                known.setdefault((kind(item), text(item.get(key))), item)
    for at, item in of_kind(request, *kinds) if known else ():
        found = kind(item)
        given = known.get((found, text(item.get("id")))) or known.get((found, text(item.get(CALL_KEY))))
        if given is not None:
            yield at, item, given


def words(value: object) -> str:
    """The readable text of a content or output: the string, or the texts of its parts."""
    if isinstance(value, str):
        return value
    found = (part.get("text") for part in listed(value) if isinstance(part, dict))
    return "\n".join(piece for piece in found if isinstance(piece, str))
