"""Tools, and the role of instructions.

Instructions are messages here, so later ones stand where they were given and the first ones stay. Only a server whose
template wants one system message first gets all of them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.dialect_policies import NamePolicy, PreamblePolicy
from normalizer.projecting.preamble import Place, Preamble, PreambleWire
from normalizer.providers.openai_chat import wire

if TYPE_CHECKING:
    from collections.abc import Collection

    from normalizer.parts import Tool
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Entry

POLICY: Final = PreamblePolicy(
    api=wire.API,
    title="Chat Completions",
    names=NamePolicy(pattern=wire.TOOL_NAME),
    later_heads="in_place",
    repeated_tools="all",
    max_tools=wire.MAX_TOOLS,
    because={
        "tool-name": "OAC-NAME-001",
        "repeated-tool": None,
        "foreign-server-tool": "OAC-STATE-003",
        "unmapped-tool": "OAC-STRUCT-006",
    },
)
_FREE_TEXT: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


@dataclass(slots=True)
class Top(Preamble):
    """`tools` and legacy `functions` as sent. `role` is that of instructions; `gathered` are all of them in order,
    where they stand in one message at the beginning. Then `instructions` are their texts.
    """

    functions: list[Any] | None = None
    role: str = "system"
    gathered: tuple[Entry, ...] = ()

    @property
    def all_tools(self) -> list[Any] | None:
        """The tools, or the functions of the form before them."""
        return self.tools or self.functions

    def renders_as(self, other: Preamble) -> bool:
        """Whether messages come out the same under both."""
        return isinstance(other, Top) and (self.role, self.names, self.replaced) == (
            other.role,
            other.names,
            other.replaced,
        )


class Wire(PreambleWire[Top]):
    """Instructions are messages; tools are functions or custom tools, each in an object of its kind."""

    def __init__(self, profile: Profile, model: str | None) -> None:
        super().__init__(POLICY, Top())
        self.profile = profile
        self.model = model

    # ------------------------------------------------------------ instructions

    def instructions(self, placed: list[tuple[Entry, Place]]) -> None:
        """One role for all; for a template that wants them first, all that are sent."""
        self.preamble.role = _role([entry for entry, _ in placed], self.profile, self.model)
        if self.profile.alternate:
            self.preamble.gathered = tuple(entry for entry, place in placed if place != "replaced")
        self.preamble.instructions = [
            part.text for entry in self.preamble.gathered for part in entry.parts if part.kind == "text"
        ]

    # ------------------------------------------------------------ tools

    def named_part(self, declared: dict[str, Any]) -> str | None:
        """The object of its kind; a function of the form before tools has none."""
        kind = declared.get("type")
        return kind if kind in wire.CALL_TYPES else None

    def name_of(self, declared: Any) -> str | None:
        """The name of a tool that the client runs."""
        kind = declared.get("type") if isinstance(declared, dict) else ""
        return (super().name_of(declared) or None) if kind in (None, *wire.CALL_TYPES) else None

    def tool(self, entry: Entry, tool: Tool) -> tuple[dict[str, Any], frozenset[str] | None]:
        """A function, or a custom tool of Responses."""
        made: dict[str, Any] = {"name": tool.name}
        if tool.description:
            made["description"] = tool.description
        raw = tool.raw.value if tool.raw is not None else None
        if isinstance(raw, dict) and raw.get("type") == "custom" and tool.schema is None:
            return self._custom(entry, tool, made, raw)
        made["parameters"] = (
            tool.schema.value if tool.schema is not None else {"type": "object", "properties": {}}
        )
        consumed = frozenset[str]()
        if isinstance(raw, dict) and raw.get("type") == "function" and isinstance(raw.get("strict"), bool):
            made["strict"] = raw["strict"]  # Responses declares functions alike
            consumed = frozenset({"strict"})
        return {"type": "function", "function": made}, consumed

    def _custom(
        self, entry: Entry, tool: Tool, made: dict[str, Any], raw: dict[str, Any]
    ) -> tuple[dict[str, Any], frozenset[str] | None]:
        """A custom tool; for a server that knows functions only, its free text is the one argument."""
        if self.profile.custom_tools:
            return {"type": "custom", "custom": {**made, **_format(raw)}}, frozenset({"format"})
        message = f"the custom tool {tool.name!r} is declared as a function of one text"
        self.reports.entry(
            entry, "tools_not_declared", message, "OAC-CUSTOM-001", tool.raw.text if tool.raw else None
        )
        return {"type": "function", "function": {**made, "parameters": _FREE_TEXT}}, None

    def offer(self, tools: list[Any], first: Entry | None, used: Collection[str]) -> None:
        """Functions of the form before tools stand in a list of their own."""
        del first, used
        legacy = [tool for tool in tools if self._is_legacy(tool)]
        tools = [tool for tool in tools if not self._is_legacy(tool)]
        self.limited(tools)
        self.preamble.tools, self.preamble.functions = tools or None, legacy or None

    def _is_legacy(self, tool: Any) -> bool:
        return isinstance(tool, dict) and "type" not in tool and bool(self.name_of(tool))


def _format(raw: dict[str, Any]) -> dict[str, Any]:
    """The format of a custom tool's text, whose grammar Chat nests one deeper than Responses."""
    given = raw.get("format")
    if not isinstance(given, dict):
        return {}
    if given.get("type") != "grammar":
        return {"format": given}
    grammar = {key: value for key, value in given.items() if key != "type"}
    return {"format": {"type": "grammar", "grammar": grammar.get("grammar", grammar)}}


def _role(entries: list[Entry], profile: Profile, model: str | None) -> str:
    """One role for all of them: the one that was recorded first, where the target has it."""
    preferred = wire.preferred_role(profile, model)
    if preferred == "user" or not entries:
        return preferred
    recorded = recorded_role(entries[0])
    if recorded is None:
        return preferred
    return recorded if recorded == "system" or profile.developer else "system"


def recorded_role(entry: Entry) -> str | None:
    """The role of an instruction message of this API; None for instructions of another."""
    raw = getattr(entry.fact, "raw", None)
    if raw is not None:
        role = raw.value.get("role") if isinstance(raw.value, dict) else None
        return role if role in wire.INSTRUCTION_ROLES else None
    return "system" if entry.fact.group is not None else None
