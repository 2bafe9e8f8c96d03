"""Who makes a `Conversation` of a journal. The live side stands above the journal, which does not know it.

The package puts the two together when it is imported: see `connect`, which `normalizer/__init__.py` calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Maker: TypeAlias = "Callable[[Any, str], Any]"
"""The journal and the id of a conversation -> the conversation."""

_MAKERS: Final[dict[str, Maker]] = {}


def connect(*, conversation: Maker, async_conversation: Maker) -> None:
    """Say who makes conversations: of a `Journal`, and of an `AsyncJournal`."""
    _MAKERS.update(sync=conversation, asynchronous=async_conversation)


def conversation(journal: Any, conversation_id: str) -> Any:
    """The `Conversation` with this id."""
    return _MAKERS["sync"](journal, conversation_id)


def async_conversation(journal: Any, conversation_id: str) -> Any:
    """The `AsyncConversation` with this id."""
    return _MAKERS["asynchronous"](journal, conversation_id)
