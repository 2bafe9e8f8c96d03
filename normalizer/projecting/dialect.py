"""An API as data: what the engine has to know of it. No API's name stands in this package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from normalizer.projecting.dialect_policies import IdPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API. Policy stands in the engine; what differs is a field here, or a method of the API's `Wire`.

    `api` is the target's name, `history` what the API calls the entries of its history in a report. `serves(api,
    model)` says whether a reply marks a model that a request can go on with. `profiles` are the names of compatible
    servers. `ids` gives an id to a call; `server_ids`: those of the server's calls are in the request, too.

    `placement`: results stand directly behind their calls, or may stand anywhere behind them. `joins`: text of the
    user's side joins the message before it, or only what came in one message with it, or nothing. `text_type` is the
    type of a text block on the user's side; `text_as`: a text of ours is sent as a string, or as a block.
    `refused_replies`: a reply of this API that ended in a refusal is left out whole, or is part of the history.

    `because` gives, for each cause in `CAUSES`, the id of this API's rule; None where no rule asks for it.
    """

    api: str
    history: str
    serves: Callable[[str | None, str], bool]
    ids: IdPolicy
    profiles: tuple[str, ...] = ()
    server_ids: bool = True
    placement: Literal["behind_call", "anywhere"] = "behind_call"
    joins: Literal["neighbours", "group", "nothing"] = "nothing"
    text_type: str = "text"
    text_as: Literal["string", "block"] = "string"
    refused_replies: Literal["left_out", "kept"] = "left_out"
    because: Mapping[str, str | None] = field(default_factory=dict)


CAUSES: Final = frozenset(
    {
        "refused-reply", "before-fallback", "repeated-call", "repeated-id", "missing-id", "id-form", "further-result",
        "result-place", "message-keys", "cut-end", "foreign-server-call", "closed-to-text",
    }
)  # fmt: skip
"""What the engine itself reports; each dialect has a row for every one of them."""
