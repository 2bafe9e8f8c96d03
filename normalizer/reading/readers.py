"""What there is to read with, handed in by the caller: the registry, which imports all formats, is above this room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from normalizer.provider import Format, Provider

AUTO: Final = "auto"
"""The name of a format that is to be found out."""


class Readers(Protocol):
    """What there is to read with, by name. The registry is one."""

    def targets(self) -> tuple[str, ...]:
        """The APIs."""

    def session_formats(self) -> tuple[str, ...]:
        """The formats of session files."""

    def names(self) -> tuple[str, ...]:
        """All of them, and our own facts."""

    def provider(self, name: str) -> Provider:
        """An API by its name. Raises UnknownFormat."""

    def session_format(self, name: str) -> Format:
        """A format of session files by its name. Raises UnknownFormat with the names of everything there is."""
