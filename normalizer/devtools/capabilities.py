"""What becomes of each kind of part on its way to each target: one table, which the docs page is made from.

A row is a kind of part with where it was recorded; a cell says what the target gets and which adjustment reports it.
A test projects a sample of every row for every target and holds the table to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from normalizer.projection import AdjustmentKind

Fate: TypeAlias = Literal["verbatim", "converted", "moved", "told as text", "left out"]
"""`verbatim`: as it was received. `converted`: the same said in the target's form. `moved`: it stands elsewhere.
`told as text`: on the user's side, or in a mark that names it. `left out`: kept in the facts and the report."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one target gets, and the kind of the adjustment that says so; None where nothing is lost."""

    fate: Fate
    adjustment: AdjustmentKind | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of part, and a cell for each target. `name` is stable; `about` is for people."""

    name: str
    about: str
    cells: dict[str, Cell]


_SAME: Final = Cell("verbatim")
_SAID: Final = Cell("converted")


def _row(name: str, about: str, anthropic: Cell, chat: Cell, responses: Cell) -> Row:
    cells = {"anthropic": anthropic, "openai_chat": chat, "openai_responses": responses}
    return Row(name, about, cells)


_NAMED: Final = Cell("told as text", "media_moved")
_NO_PLACE: Final = Cell("left out", "trimmed")
_NOT_SHOWN: Final = Cell("left out", "media_moved")
_UNREAD: Final = Cell("left out", "dropped_reasoning")
_NOT_OURS: Final = Cell("left out", "dropped_server_tool")
_UNKNOWN: Final = Cell("left out", "dropped_fragment")

CAPABILITIES: Final[tuple[Row, ...]] = (
    _row("user_text", "words of the user", _SAID, _SAID, _SAID),
    _row("reply_text", "words of the model", _SAID, _SAID, _SAID),
    _row("citations", "citations of Claude's beside its words", _SAME, _NO_PLACE, _NO_PLACE),
    _row("steering", "a message that was applied during a turn", _SAID, _SAID, _SAID),
    _row("summary", "a summary of what came before", _SAID, _SAID, _SAID),
    _row("instructions", "the application's instructions", _SAID, _SAID, _SAID),
    _row(
        "later_instructions", "instructions given in mid-conversation", Cell("moved", "moved"), _SAID, _SAID
    ),
    _row("image", "a picture by value, PNG", _SAID, _SAID, _SAID),
    _row("image_url", "a picture by address", _SAID, _SAID, _SAID),
    _row("odd_image", "a picture by value of another type, TIFF", _NOT_SHOWN, _SAID, _NAMED),
    _row("pdf", "a PDF by value", _SAID, _SAID, _SAID),
    _row("pdf_url", "a PDF by address", _SAID, _NAMED, _SAID),
    _row("audio", "a sound, WAV", _NOT_SHOWN, _SAID, _NAMED),
    _row("anthropic_file", "a file that Anthropic holds", _SAME, _NAMED, _NAMED),
    _row("anthropic_reasoning", "Claude's reasoning, signed", _SAME, _UNREAD, _UNREAD),
    _row(
        "openai_reasoning", "reasoning of Responses, encrypted",
        Cell("left out", "foreign_signature"), _UNREAD, _SAME,
    ),
    _row("call", "a call of the client's tool", _SAID, _SAID, _SAID),
    _row("result", "a recorded result", _SAID, _SAID, _SAID),
    _row("no_result", "an outcome without a result", Cell("told as text", "notice"),
         Cell("told as text", "notice"), Cell("told as text", "notice")),
    _row("bad_arguments", "arguments that are no JSON", Cell("converted", "trimmed"), _SAID, _SAID),
    _row("custom_call", "a call of a custom tool, one text", Cell("converted", "trimmed"), _SAID, _SAME),
    _row(
        "open_shell_call", "a shell call of Responses without output",
        Cell("told as text", "notice"), Cell("told as text", "notice"), Cell("told as text", "told_as_text"),
    ),
    _row("long_id", "an id of 70 characters", _SAID, Cell("converted", "renamed_id"),
         Cell("converted", "renamed_id")),
    _row("odd_name", "a tool's name with a dot", Cell("converted", "renamed_tool"),
         Cell("converted", "renamed_tool"), Cell("converted", "renamed_tool")),
    _row("result_image", "a picture in a result", _SAID, Cell("moved", "media_moved"), _SAID),
    _row("result_pdf", "a PDF in a result", _SAID, Cell("moved", "media_moved"), _SAID),
    _row("anthropic_search", "Claude's own web search with its result", _SAME, _NOT_OURS, _NOT_OURS),
    _row("openai_search", "a web search of Responses", _NOT_OURS, _NOT_OURS, _SAME),
    _row("anthropic_server_tool", "the declaration of Claude's web search", _SAME, _NOT_OURS, _NOT_OURS),
    _row("anthropic_unknown", "a block of Anthropic's that nobody knows", _SAME, _UNKNOWN, _UNKNOWN),
)  # fmt: skip
