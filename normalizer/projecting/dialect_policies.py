"""How APIs differ in ids, names and what stands before the history: data, for policies that are the same for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from normalizer.util.ids import hashed, mapped, plain_name

if TYPE_CHECKING:
    import re
    from collections.abc import Container, Mapping

LaterHeads: TypeAlias = Literal["append", "replace", "in_place"]
"""What becomes of instructions and tools that are set in mid-conversation.

`append`: they stand in the history where they were set, and the first ones stay on top. `replace`: the newest are sent
on top, whatever was sent there before. `in_place`: instructions are messages anyway, and the newest tools are on top.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdPolicy:
    """What an API takes as the id of a call: what `pattern` matches whole, `limit` characters where it is made anew.

    `prefix` begins the id of a call that has none, as ids of this API begin: `toolu_`, `call_`.
    """

    pattern: re.Pattern[str]
    prefix: str
    limit: int = 64

    def give(self, key: str, own: str | None, taken: Container[str]) -> str:
        """The call's own id where it fits and no other call has it, else one made from it or from the call's key."""
        if own:
            return mapped(own, self.pattern, taken, limit=self.limit)
        return hashed(self.prefix, key, taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePolicy:
    """What an API takes as the name of a tool: what `pattern` matches whole. Other names are made anew.

    A made name has 49 characters at most, so that every API takes it: `read file` is sent as `read_file_b1c237ba`.
    """

    pattern: re.Pattern[str]

    def fits(self, name: str) -> bool:
        """Whether the API takes the name as it is."""
        return self.pattern.fullmatch(name) is not None

    def make(self, name: str, taken: Container[str]) -> str:
        """The name that this one is sent as; the same one each time, as long as it is not taken."""
        return plain_name(name, taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreamblePolicy:
    """How an API wants instructions and tools.

    `added` says where instructions go that were added to others before anybody spoke: on top with them, or into the
    history. `repeated_tools`: of tools with one name the first is sent, or so only where another API declared them, or
    all are. `tools_without_top`: tools may come later where a request without any was sent. `max_tools` tools are
    taken at most, by what the API is called (`title`). `because` names this API's rule for each of CAUSES.
    """

    api: str
    title: str
    names: NamePolicy
    later_heads: LaterHeads
    added: Literal["top", "later"] = "later"
    repeated_tools: Literal["first", "first_of_others", "all"] = "first"
    tools_without_top: bool = False
    max_tools: int | None = None
    because: Mapping[str, str | None] = field(default_factory=dict)


CAUSES: Final = frozenset({"tool-name", "repeated-tool", "foreign-server-tool", "unmapped-tool"})
"""What is reported of every API's tools; each policy has a row for every one of them."""
