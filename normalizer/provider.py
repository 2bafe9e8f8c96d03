"""The record that every provider package and every session format exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from normalizer.findings import Reading
    from normalizer.projection import Options, Projection
    from normalizer.rules import Rulebook
    from normalizer.transcript import Transcript

Origin: TypeAlias = Mapping[str, Any]
"""What an input does not say of itself: `model`, `account` (`other`), `stop_reason`, `container_expired`, and under
`calls` the same for one call id."""


class Reader(Protocol):
    """Parsed JSON of one wire format -> facts. The value belongs to the reader from then on."""

    def __call__(self, value: Any, origin: Origin) -> Reading:
        """The reading of one input."""


class Assembler(Protocol):
    """Collects a stream's events, in order; `reading()` may be asked at any time, also in mid-stream."""

    def feed(self, event: Any) -> None:
        """Take one event: a parsed SSE `data` object or an SDK event object."""

    def reading(self) -> Reading:
        """The facts of what has come so far, as if the stream ended here."""


class Projector(Protocol):
    """Transcript -> request. `previous` is an earlier projection of the same conversation for the same target."""

    def __call__(
        self, transcript: Transcript, options: Options, previous: Projection | None = None
    ) -> Projection:
        """The projection of a transcript."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One wire format. `sniff` says how well a parsed value fits it: 0 (not at all) to 100 (certainly).

    `borrow` reads a request that stays its caller's: it copies what it keeps, and raises `Unclean` where the
    value has to be taken over first.

    `yielding` names, for rules that a history can break because of a setting, the setting that gives way. `profiles`
    are the names of the compatible servers.
    """

    name: str
    sniff: Callable[[Any], int]
    read: Reader
    assembler: Callable[[], Assembler]
    project: Projector
    rules: Rulebook
    yielding: Mapping[str, str] = field(default_factory=dict)
    profiles: tuple[str, ...] = ()
    borrow: Reader | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of session file. `home` is the target it is sent to; `sniff` looks at the first bytes of a file."""

    name: str
    home: str
    sniff: Callable[[bytes], int]
    read: Callable[[bytes, Origin], Reading]
