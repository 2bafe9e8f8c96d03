"""The user's side of one step: the messages behind a reply, with the borders that they had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.projecting.dialect import Dialect
    from normalizer.projecting.draft import Value


class UserTurn:
    """User messages while they are put together, at the end of `messages`.

    What came in one message (`group`) stays in one, if the dialect joins at all; what has no group joins the message
    before it where neighbours are joined. `asks`: something in it wants a reply. `added` counts what was put into it.
    """

    __slots__ = ("_blocks", "_dialect", "_frames", "_group", "_string", "added", "asks", "messages")

    def __init__(self, messages: list[Value], dialect: Dialect) -> None:
        self.messages = messages
        self.asks = False
        self.added = 0
        self._dialect = dialect
        self._blocks: list[Value] = []
        self._group: int | None = None
        self._string = False
        self._frames: list[Callable[[Value], Value]] = []

    def add(
        self, blocks: list[Value], group: int | None = None, *, string: bool = False,
        frame: Callable[[Value], Value] | None = None,
    ) -> None:  # fmt: skip
        """Blocks of one message, or of no message in particular.

        `string`: a single plain text goes as a string. `frame` gives the message the keys that it had.
        """
        self.added += 1
        if self._blocks and not self._joined(group):
            self.close()
        if self._blocks:
            self._blocks = [*self._blocks, *blocks]
            self._string = False
        else:
            self._blocks, self._group, self._string = blocks, group, string
        if frame is not None:
            self._frames.append(frame)

    def _joined(self, group: int | None) -> bool:
        """Whether blocks go into the message that is open."""
        joins = self._dialect.joins
        if joins == "neighbours":
            return group is None or group == self._group
        return joins == "group" and group is not None and group == self._group

    def text(self, text: str, group: int | None = None) -> None:
        """A text of ours."""
        block = {"type": self._dialect.text_type, "text": text}
        self.add([block], group, string=self._dialect.text_as == "string")

    def close(self) -> None:
        """End the message."""
        if self._blocks:
            message: Value = {"role": "user", "content": self._content()}
            for frame in self._frames:
                message = frame(message)
            self.messages.append(message)
        self._blocks, self._group, self._string = [], None, False
        if self._frames:
            self._frames = []

    def _content(self) -> Any:
        blocks = self._blocks
        return blocks[0]["text"] if self._string and len(blocks) == 1 and len(blocks[0]) == 2 else blocks

    def message(self, message: Value) -> None:
        """A message of its own: of another role, or with another form."""
        self.close()
        self.messages.append(message)
