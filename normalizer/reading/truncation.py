"""Calls of which only the beginning arrived: the reply ended inside their arguments, or their text could go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from normalizer.parts import ToolCall

CUT_SHORT: Final = frozenset(
    {
        "max_tokens",
        "model_context_window_exceeded",
        "refusal",
        "length",
        "content_filter",
        "max_output_tokens",
    }
)
"""Stop reasons that can end a reply inside a call's arguments."""

CUTS_ALL: Final = frozenset({"content_filter"})
"""Finish reasons of a choice after which none of its calls is whole."""
CUTS_LAST: Final = frozenset({"length"})
"""Finish reasons of a limit that was hit inside the last call of a choice."""


def is_beginning(call: ToolCall, stop_reason: str | None, *, cut: bool, last: bool) -> bool:
    """Whether a call's arguments are only a beginning. `cut`: the reply is; `last`: the call is its last part."""
    arguments = call.arguments
    if arguments.valid or not arguments.text.strip():
        return False
    told_cut = cut or (stop_reason in CUT_SHORT and last)
    return told_cut or (stop_reason is None and begins_json(arguments.text))


def begins_json(text: str) -> bool:
    """Whether a text that is no JSON could become JSON if it went on."""
    text = text.lstrip()
    if text[:1] not in ("{", "[", '"'):
        return False
    from pydantic_core import from_json  # noqa: PLC0415 - loaded with the first text that needs it

    try:
        from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return False
    try:
        json.JSONDecoder().raw_decode(text)
    except ValueError:
        return True
    return False  # a whole value and something behind it: nothing that follows makes JSON of it
