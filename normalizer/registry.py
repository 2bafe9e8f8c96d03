"""Names -> providers and session formats, imported on first use."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

from normalizer.errors import UnknownFormat
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from normalizer.provider import Format, Provider

PROVIDERS: Final[dict[str, str]] = {
    "anthropic": "normalizer.providers.anthropic",
    "openai_chat": "normalizer.providers.openai_chat",
    "openai_responses": "normalizer.providers.openai_responses",
}
FORMATS: Final[dict[str, str]] = {"claude_code": "normalizer.sessions.claude_code"}


def targets() -> tuple[str, ...]:
    """The names of all targets."""
    return tuple(PROVIDERS)


def session_formats() -> tuple[str, ...]:
    """The names of all formats of session files."""
    return tuple(FORMATS)


def names() -> tuple[str, ...]:
    """The names of everything that can be read: session formats, targets, and our own facts."""
    return (*FORMATS, *PROVIDERS, "facts")


def provider(name: str) -> Provider:
    """The provider of a target. Raises UnknownFormat with the names there are."""
    if not isinstance(name, str) or name not in PROVIDERS:
        raise UnknownFormat(
            f"there is no target {_shown(name)}{_meant(name, PROVIDERS)}; targets: {', '.join(PROVIDERS)}"
        )
    found: Provider = import_module(PROVIDERS[name]).PROVIDER
    return found


def session_format(name: str) -> Format:
    """A session format by its name. Raises UnknownFormat with the names there are."""
    if not isinstance(name, str) or name not in FORMATS:
        known = names()
        raise UnknownFormat(
            f"there is no format {_shown(name)}{_meant(name, known)}; formats: auto, {', '.join(known)}"
        )
    found: Format = import_module(FORMATS[name]).FORMAT
    return found


def _shown(name: object) -> str:
    return excerpt(repr(name), 60)


def _meant(name: object, known: object) -> str:
    close = get_close_matches(name, list(known), n=1) if isinstance(name, str) else ()  # type: ignore[call-overload]
    return f" (did you mean {close[0]!r}?)" if close else ""
