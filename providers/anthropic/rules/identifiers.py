"""Ids, names and inputs of calls (ANT-ID)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

# Which key of a block holds the id of a client call.
_ID_KEYS: Final = {"tool_use": "id", "tool_result": "tool_use_id"}
_CALLS: Final = frozenset({"tool_use"}) | wire.SERVER_CALLS


def unfit_call_id(request: Request, _context: Context) -> Iterator[Violation]:
    """The id of a client call is made of letters, digits, `_` and `-`, in the call and in its result.

    Ids of other providers hold dots, bars, colons or base64 signs. Map them by one stable function that gives
    no id twice, on both sides, and keep the map.
    """
    for pointer, block in view.of_type(request, frozenset(_ID_KEYS)):
        key = _ID_KEYS[block["type"]]
        missing = key == "tool_use_id" and key not in block  # that is ANT-PAIR-009
        if not missing and not wire.CALL_ID.fullmatch(view.text(block.get(key))):
            yield Violation(f"{pointer}/{key}", f"{named(block.get(key))} is no call id")


def unfit_server_call_id(request: Request, _context: Context) -> Iterator[Violation]:
    """The id of a server call begins with `srvtoolu_` and goes on in letters, digits and `_`.

    A server block with another id does not come from this API. Drop call and result and say so; a new name
    would not help, since the result is sealed elsewhere.
    """
    for pointer, block in view.of_type(request, frozenset({"server_tool_use"})):
        if not wire.SERVER_CALL_ID.fullmatch(view.text(block.get("id"))):
            yield Violation(f"{pointer}/id", f"{named(block.get('id'))} is no server call id")


def unfit_called_name(request: Request, _context: Context) -> Iterator[Violation]:
    """The name in a call is made like the name of a tool; the tool itself may be gone.

    Map names with dots, slashes or blanks by the function that maps the definitions.
    """
    for pointer, block in view.of_type(request, frozenset({"tool_use"})):
        if not wire.TOOL_NAME.fullmatch(view.text(block.get("name"))):
            yield Violation(f"{pointer}/name", f"{named(block.get('name'))} is no tool name")


def input_that_is_no_object(request: Request, _context: Context) -> Iterator[Violation]:
    """The input of a call is a JSON object.

    Text that parses becomes its object. An empty text means no arguments if the block was closed. Text of a
    closed block that does not parse is wrapped into an object, and a call that was cut in its input is left
    out.
    """
    for pointer, block in view.of_type(request, _CALLS):
        if not isinstance(block.get("input"), dict):
            yield Violation(f"{pointer}/input", f"the input of {named(block.get('id'))} is no object")


RULES: Rulebook = (
    Rule(
        id="ANT-ID-001",
        name="unfit-call-id",
        severity="reject",
        source="HKUDS/nanobot",
        error="String should match pattern '^[a-zA-Z0-9_-]+$'",
        check=unfit_call_id,
    ),
    Rule(
        id="ANT-ID-002",
        name="unfit-server-call-id",
        severity="reject",
        source="ding113/claude-code-hub; BerriAI/litellm",
        error="String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'",
        check=unfit_server_call_id,
    ),
    Rule(
        id="ANT-ID-003",
        name="unfit-called-name",
        severity="reject",
        source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
        error="String should match pattern",
        check=unfit_called_name,
    ),
    Rule(
        id="ANT-ID-004",
        name="input-that-is-no-object",
        severity="reject",
        source="SDK:types/tool_use_block_param.py; vercel/ai, packages/anthropic",
        error="Input should be a valid dictionary",
        check=input_that_is_no_object,
    ),
)
