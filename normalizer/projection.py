"""The contract between the facts and every API: what a projection is, and what may be asked of it.

A projection is pure and deterministic. Its request is what the API gets; each difference between the facts
and the request is an `Adjustment` that names the rule or outcome which asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.facts import Choice, Digest, News, Told
    from normalizer.parts import Json
    from normalizer.transcript import Call
    from normalizer.util.sharing import SharedDict

AdjustmentKind: TypeAlias = Literal[
    "notice",
    "moved",
    "merged",
    "split",
    "renamed_id",
    "renamed_tool",
    "dropped_empty",
    "dropped_reasoning",
    "foreign_signature",
    "dropped_server_tool",
    "dropped_fragment",
    "dropped_orphan",
    "dropped_turn",
    "told_as_text",
    "trimmed",
    "bridge",
    "tools_not_declared",
    "media_moved",
    "withheld_steering",
    "withheld_news",
    "late_news",
    "prefix_changed",
]
"""How a request can differ from the facts. The list only grows."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One difference between the facts and a request.

    `because` is the id of the rule, or the outcome, that asked for it; `facts` are the ids of the facts behind it;
    `content` is what was left out, whole, as JSON text where it is not text.
    """

    kind: AdjustmentKind
    message: str
    because: str | None = None
    call_id: str | None = None
    facts: tuple[str, ...] = ()
    content: str | None = None


Notices: TypeAlias = "Callable[[Call], str | None]"
"""A caller's text for an outcome: the body of the notice, or None for ours."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of a projection.

    `open_calls`: `refuse` raises OpenCalls, `say_running` renders a pending call as running, `unknown` treats
    it as if its turn were over. `server_tools`: `drop` leaves another provider's server tools out, `quote`
    renders them as text. `stored`: the provider holds the history before what is new. `bridges`: a marked
    notice may end a turn where an API cannot take a user message behind results. `account`: `other` where it
    is not the one that the replies came from.
    """

    model: str | None = None
    profile: str | None = None
    open_calls: Literal["refuse", "say_running", "unknown"] = "refuse"
    server_tools: Literal["drop", "quote"] = "drop"
    stored: bool | None = None
    bridges: bool = False
    notices: Notices | None = None
    account: str | None = None
    container_expired: bool = False

    def chosen(self) -> dict[str, Any]:
        """What was asked for beside model, profile and account; of own notices only that there are any."""
        asked = {
            name: getattr(self, name) for name in _CHOICES if getattr(self, name) != getattr(_DEFAULTS, name)
        }
        return asked | ({"notices": True} if self.notices is not None else {})


_CHOICES: Final = ("open_calls", "server_tools", "stored", "bridges", "container_expired")
_DEFAULTS: Final = Options()


@dataclass(frozen=True, slots=True)
class Sending:
    """What `request_sent` has to record of a projection, beyond what the facts and the request before it give."""

    target: str
    model: str | None
    profile: str | None
    account: str | None
    base: str | None
    through: int
    digest: Digest
    told: tuple[Told, ...]
    news: tuple[News, ...]
    choices: tuple[Choice, ...]
    options: Json | None = None


class CallIds(Protocol):
    """The ids of calls in a request."""

    @property
    def by_key(self) -> SharedDict[str, str]:
        """They, by the keys of the calls."""


@dataclass(frozen=True, eq=False)
class Projection:
    """A request and its account.

    `request` is the body of the call as JSON: `model` if known, the history, and those settings that the history
    decides. Its messages are shared between projections; never edit them. `late_news` are the texts of late updates
    about calls that were rendered before. `ready` is False where there is nothing to ask yet (the history ends with a
    finished reply).
    """

    request: dict[str, Any]
    adjustments: tuple[Adjustment, ...]
    late_news: tuple[str, ...]
    ready: bool
    _ids: CallIds = field(repr=False)
    _sending: Callable[[], Sending] = field(repr=False)
    _kept: Any = field(default=None, repr=False)

    @cached_property
    def ids(self) -> dict[str, str]:
        """The id in the request, by the key of the call."""
        return self._ids.by_key.made()

    def sending(self) -> Sending:
        """What `request_sent` records when this projection goes out."""
        return self._sending()
