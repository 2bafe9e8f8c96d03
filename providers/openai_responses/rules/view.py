"""What the rules read a raw request through: views that never raise, whatever stands in the request.

A view leaves out what is not of the shape that it looks for; saying so is the business of the STRUCT rules.
Pointers are JSON pointers. Nothing here is shared with the projection, which the rules judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.providers.openai_responses import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.rules import Context, Request

Item: TypeAlias = dict[str, Any]
Placed: TypeAlias = tuple[str, Item]
"""An item, part or tool, and its pointer."""

CALL_KEY: Final = "call_id"


def text(value: object) -> str:
    """The value if it is a string, else an empty one (safe to look up in a set)."""
    return value if isinstance(value, str) else ""


def listed(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def names(value: object) -> list[str]:
    """The strings in a list."""
    return [item for item in listed(value) if isinstance(item, str)]


def mapped(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def kind(item: Item) -> str:
    """The type of an item; a message and a reference may leave it out."""
    found = item.get("type")
    if isinstance(found, str):
        return found
    if found is None and "role" in item:
        return "message"
    return "item_reference" if found is None and item.keys() <= {"id", "type"} else ""


def items(request: Request) -> list[Placed]:
    """The items of the history with their pointers."""
    return [
        (f"/input/{n}", item) for n, item in enumerate(listed(request.get("input"))) if isinstance(item, dict)
    ]


def of_kind(request: Request, *kinds: str) -> Iterator[Placed]:
    """The items of these types."""
    wanted = frozenset(kinds)
    for number, item in enumerate(listed(request.get("input"))):
        if isinstance(item, dict) and kind(item) in wanted:
            yield f"/input/{number}", item


def parts(item: Item, at: str, key: str = "content") -> Iterator[Placed]:
    """The parts of a message or of an output."""
    for n, part in enumerate(listed(item.get(key))):
        if isinstance(part, dict):
            yield f"{at}/{key}/{n}", part


def messages(request: Request, *roles: str) -> Iterator[Placed]:
    """Messages of these roles; of all where none is named."""
    for at, item in of_kind(request, "message"):
        if not roles or item.get("role") in roles:
            yield at, item


def call_id(item: Item) -> str:
    """The id of the call that a call or output is about. A local shell's output may name it in `id`."""
    found = item.get(CALL_KEY)
    if kind(item) == "local_shell_call_output" and not isinstance(found, str):
        found = item.get("id")
    return text(found)


def calls(request: Request) -> Iterator[Placed]:
    """The calls that the client has to answer."""
    for at, item in items(request):
        if kind(item) in wire.ANSWERS and not served(item):
            yield at, item


def outputs(request: Request) -> Iterator[Placed]:
    """The outputs of calls, whoever wrote them."""
    return of_kind(request, *wire.OUTPUTS)


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
    for at, item in items(request):
        found = kind(item)
        if not kinds or found in kinds:
            given = known.get((found, text(item.get("id")))) or known.get((found, text(item.get(CALL_KEY))))
            if given is not None:
                yield at, item, given


def words(value: object) -> str:
    """The readable text of a content or output: the string, or the texts of its parts."""
    if isinstance(value, str):
        return value
    found = (part.get("text") for part in listed(value) if isinstance(part, dict))
    return "\n".join(piece for piece in found if isinstance(piece, str))
