"""Chunks of a Chat Completions stream -> the facts of one reply.

A choice is whole once its `finish_reason` has come; chunks behind that, and chunks without choices, add nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.openai_chat import wire
from normalizer.providers.openai_chat.choices import ChatChoice
from normalizer.reading.stream_assembler import Table
from normalizer.reading.stream_choices import STEPS, ChunkAssembler

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from normalizer.reading.stream_assembler import About

# Errors by which the API refuses the request itself. https://platform.openai.com/docs/guides/error-codes
_REFUSING: Final = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "insufficient_quota",
        "not_found_error",
    }
)
TABLE: Final = Table(
    provider=wire.PROVIDER,
    api=wire.API,
    source=wire.API,
    steps=STEPS,
    end="[DONE]",
    error_keys=("type", "code"),
    refusing=_REFUSING,
    runs=wire.ENDS_WHOLE,
)


class Assembler(ChunkAssembler):
    """Collects the chunks of one reply.

    `choice` is the one that the application uses; the others are kept aside.
    """

    def __init__(self, *, choice: int | None = None, **about: Unpack[About]) -> None:
        super().__init__(TABLE, ChatChoice, choice=choice, **about)
