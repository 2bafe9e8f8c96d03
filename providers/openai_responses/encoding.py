"""Texts within the limits of the wire."""

from __future__ import annotations

from typing import Final

from normalizer.providers.openai_responses import wire

_CUT: Final = "\n[cut here: the text was longer than the API takes]"


def limited(text: str) -> str:
    """A text that is not longer than the API takes; a cut one says so at its end."""
    return text if len(text) <= wire.MAX_TEXT else text[: wire.MAX_TEXT - len(_CUT)] + _CUT
