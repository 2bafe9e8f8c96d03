"""Instructions and tools, and the blocks of system messages for those that come later.

Where the model takes system messages in mid-conversation, later instructions are appended verbatim and the
old ones stay on top; tools that come or go are told by `tool_addition` and `tool_removal`. Elsewhere what stands on
top is replaced. Source: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json, Text
from normalizer.projecting.dialect_policies import NamePolicy, PreamblePolicy
from normalizer.projecting.preamble import Place, Preamble, PreambleWire
from normalizer.projecting.unmapped_fields import beside_content, unmapped
from normalizer.providers.anthropic import marks, schema_keys, wire

if TYPE_CHECKING:
    from collections.abc import Collection

    from normalizer.parts import Tool
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.anthropic.wire import Model
    from normalizer.transcript import Entry

Block = dict[str, Any]

POLICY: Final = PreamblePolicy(
    api=wire.API,
    title="Messages",
    names=NamePolicy(pattern=wire.TOOL_NAME),
    later_heads="append",
    added="top",
    repeated_tools="first",
    because={
        "tool-name": "ANT-ID-003",
        "repeated-tool": "ANT-TOOL-002",
        "foreign-server-tool": None,
        "unmapped-tool": "ANT-MSG-004",
    },
)
_REPLACED: Final = replace(POLICY, later_heads="replace")
_OPEN_SCHEMA: Final = {"type": "object"}
_INLINE_TOOLS: Final = "inline-tools-2026-09-15"


@dataclass(slots=True)
class Top(Preamble):
    """`instructions` are the value of `system`; the values of `later` are blocks of system messages.

    `recorded`: instructions and tools are both on record, even if there are none. `marks` counts the cache marks,
    `betas` are the keys of those in `wire.BETAS` that are needed.
    """

    betas: tuple[str, ...] = ()
    marks: int = 0
    recorded: bool = False

    @property
    def offered(self) -> frozenset[str]:
        """Names and types of the tools in the request."""
        return frozenset(
            str(tool[key])
            for tool in self.tools_at(None)
            for key in ("name", "type", "mcp_server_name")
            if key in tool
        )

    def tools_at(self, seq: int | None) -> list[Block]:
        """The tools that were offered before a `seq`."""
        places = {entry.fact.fact_id: entry.fact.seq for entry in self.basis.heads}
        added = [
            block["tool"].get("definition")
            for fact_id, blocks in self.later.items()
            if seq is None or places.get(fact_id, 0) < seq
            for block in blocks
            if block.get("type") == "tool_addition" and isinstance(block.get("tool"), dict)
        ]
        return [tool for tool in (*(self.tools or ()), *added) if isinstance(tool, dict)]


class Wire(PreambleWire[Top]):
    """Instructions are blocks of text on top, or system messages; tools are a list, or blocks of system messages."""

    def __init__(self, row: Model) -> None:
        super().__init__(POLICY if row.system_messages == "yes" else _REPLACED, Top())

    # ------------------------------------------------------------ instructions

    def instructions(self, placed: list[tuple[Entry, Place]]) -> None:
        """The top-level text, and the system messages for what was set later."""
        above: list[Entry] = []
        for entry, place in placed:
            if (rest := beside_content(entry.fact, _sent_again(entry.fact, place))) is not None:
                message = "instructions say more beside their content than this API has a place for"
                self.reports.entry(entry, "trimmed", message, "ANT-MSG-004", rest)
            if place == "later":
                self._later_message(entry)
            elif place == "beside":
                above.append(entry)
                if entry.parts:
                    message = "a system message stands with the instructions above all messages"
                    self.reports.entry(entry, "moved", message, "ANT-SYS-004")
            else:
                above = [entry]
        self._above(above)

    def _later_message(self, entry: Entry) -> None:
        """A system message, as long as there is anything in it, or it was received without."""
        blocks = self._blocks(entry, message=True)
        said_nothing = not entry.parts and entry.fact.raw is not None
        if blocks or (said_nothing and entry.fact.raw.value.get("content") is not None):
            self.preamble.later[entry.fact.fact_id] = blocks

    def _above(self, entries: list[Entry]) -> None:
        """The instructions on top: one text, or blocks."""
        preamble = self.preamble
        said = [entry for entry in entries if entry.parts]
        if not said:
            if any(entry.fact.raw is None for entry in entries):
                preamble.instructions = []  # an empty list was sent
            return
        if len(said) == 1 and said[0].fact.string:
            text = said[0].parts[0].text  # type: ignore[union-attr]
            preamble.instructions = text if text.strip() or not text else None
            if preamble.instructions is None:
                self._note_blank(said[0], text)
            return
        blocks = [block for entry in said for block in self._blocks(entry, message=False)]
        preamble.instructions = blocks or None
        preamble.marks += marks.count(blocks)

    def _blocks(self, entry: Entry, *, message: bool) -> list[Block]:
        """The blocks of a system prompt or message: text only, never blank; tool changes only in a message."""
        blocks: list[Block] = []
        for part in entry.parts:
            if part.kind == "text":
                if part.text.strip():
                    blocks.append(self._text_block(entry, part))
                else:
                    self._note_blank(entry, part.text)
            elif message and part.kind == "opaque" and part.type in wire.TOOL_CHANGES:
                blocks.append(self._known(entry, part.raw.value))
                self.preamble.betas = (*self.preamble.betas, part.type)
            else:
                kind: AdjustmentKind = "media_moved" if part.kind == "media" else "dropped_fragment"
                self.reports.part(
                    entry, kind, "instructions hold text only; the rest is left out", "ANT-SYS-001", part
                )
        return blocks

    def _text_block(self, entry: Entry, part: Text) -> Block:
        """A text as received, less keys of other APIs."""
        value = part.raw.value if part.raw is not None else {}
        made = (
            {key: item for key, item in value.items() if key in schema_keys.BLOCK_KEYS["text"]}
            if value.get("type") == "text"
            else {"type": "text", "text": part.text}
        )
        if (rest := unmapped(part.raw, made.keys())) is not None:
            message = "a text of another API says more than this API has a place for"
            self.reports.entry(entry, "trimmed", message, "ANT-MSG-004", rest)
        return value if made == value else made

    def _note_blank(self, entry: Entry, text: str) -> None:
        """Report a blank text, which instructions may not hold."""
        message = "a blank text in instructions is left out"
        self.reports.entry(entry, "dropped_empty", message, "ANT-BLK-002", text)

    def _known(self, entry: Entry, block: Block) -> Block:
        """A block as it was received, less the keys that the API does not know."""
        known = schema_keys.BLOCK_KEYS[block["type"]]
        if block.keys() <= known:
            return block
        extra = {key: value for key, value in block.items() if key not in known}
        message = f"a {block['type']} block has keys that the API does not know"
        self.reports.entry(entry, "trimmed", message, "ANT-MSG-004", Json.of(extra).text)
        return {key: value for key, value in block.items() if key in known}

    # ------------------------------------------------------------ tools

    def own_tool(self, entry: Entry, tool: Tool, raw: Block) -> Block:
        """As received, with a schema and switches that the API takes."""
        made = raw
        custom = raw.get("type") in (None, "custom")
        if custom and not _takes_object(raw.get("input_schema")):
            schema = raw.get("input_schema") or raw.get("parameters")
            made = {k: v for k, v in raw.items() if k != "parameters"} | {"input_schema": _mended(schema)}
            self._note_schema(entry, tool)
        return self._accepted(entry, tool.name, made)

    def tool(self, entry: Entry, tool: Tool) -> tuple[Block, frozenset[str]]:
        """A tool with the schema of an object."""
        made: Block = {"name": tool.name}
        if tool.description:
            made["description"] = tool.description
        schema = tool.schema.value if tool.schema is not None else {}
        made["input_schema"] = _mended(schema)
        if tool.schema is not None and not _takes_object(schema):
            self._note_schema(entry, tool)
        return made, frozenset()

    def _note_schema(self, entry: Entry, tool: Tool) -> None:
        """Report a schema that gave way to one that the API takes."""
        given = tool.raw or tool.schema
        message = f"the tool {tool.name!r} has no input schema of an object"
        content = given.text if given is not None else None
        self.reports.entry(entry, "tools_not_declared", message, "ANT-TOOL-007", content)

    def _accepted(self, entry: Entry, name: str, tool: Block) -> Block:
        """A declaration without the switches that the API refuses; the caller's schema is not rewritten."""
        dropped = {
            key: tool[key]
            for key, because in (("allowed_domains", tool.get("allowed_domains") == []),
                                 ("blocked_domains", tool.get("blocked_domains") == []),
                                 ("strict", tool.get("strict") is True and not _closed(tool.get("input_schema"))))
            if because and key in tool
        }  # fmt: skip
        if not dropped:
            return tool
        message = f"the tool {name!r} is sent without {', '.join(dropped)}"
        self.reports.entry(entry, "trimmed", message, "ANT-TOOL-010", Json.of(dropped).text)
        return {key: value for key, value in tool.items() if key not in dropped}

    def later_tools(
        self, tools: list[Any], later: list[tuple[Entry, list[Any]]]
    ) -> dict[str, list[Block]] | None:
        """The blocks for tools that come or go; none can say that a tool is another now."""
        defined: dict[str, Any] = {name: tool for tool in tools if (name := wire.word(tool, "name"))}
        offered: dict[str, Any] = dict(defined)
        found: dict[str, list[Block]] = {}
        for entry, declared in later:
            named: dict[str, Any] = {name: tool for tool in declared if (name := wire.word(tool, "name"))}
            if any(defined[name] != tool for name, tool in named.items() if name in defined):
                return None
            blocks = [_change("removal", _reference(name)) for name in offered if name not in named]
            for name, tool in named.items():
                if name not in defined:
                    blocks.append(_change("addition", {"type": "tool_definition", "definition": tool}))
                    defined[name] = tool
                elif name not in offered:
                    blocks.append(_change("addition", _reference(name)))
            offered = dict(named)
            if blocks:
                found[entry.fact.fact_id] = blocks
        self.preamble.betas = (*self.preamble.betas, "tool_addition", _INLINE_TOOLS)
        return found

    def offer(self, tools: list[Any], first: Entry | None, used: Collection[str]) -> None:
        """The declared tools, and a declaration for used names where none is on record."""
        preamble = self.preamble
        if not tools and used:
            tools = [{"name": self.named(name), "input_schema": dict(_OPEN_SCHEMA)} for name in used]
            names = ", ".join(map(repr, used))
            message = f"the history uses {names}, and no tool is declared: each gets an open schema"
            self.reports.add("tools_not_declared", message, "ANT-TOOL-001")
        if any(wire.word(tool, "type") == "mcp_toolset" for tool in tools):
            # toolsets and the servers that they name came with this beta
            preamble.betas = (*preamble.betas, "mcp_tool_use")
        preamble.marks += marks.count(tools)
        preamble.tools = tools if tools or (first is not None and first.fact.api is not None) else None
        preamble.recorded = {entry.kind for entry in preamble.basis.heads} >= {"instructions", "tools"}


def _sent_again(fact: Any, place: Place) -> frozenset[str]:
    """The keys of a system message of this API that go back with it."""
    raw = fact.raw.value if fact.raw is not None and place == "later" else None
    own = isinstance(raw, dict) and raw.get("role") == "system" and raw.get("content") is not None
    return schema_keys.SYSTEM_KEYS if own else frozenset()


def _change(what: str, tool: Block) -> Block:
    return {"type": f"tool_{what}", "tool": tool}


def _reference(name: str) -> Block:
    return {"type": "tool_reference", "name": name}


def _takes_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"


def _mended(schema: Any) -> dict[str, Any]:
    """The schema itself, or one of an object: arguments always are one, whether the schema says so or not."""
    if isinstance(schema, dict) and (_takes_object(schema) or "type" not in schema):
        return schema if "type" in schema else {**_OPEN_SCHEMA, **schema}
    return dict(_OPEN_SCHEMA)


def _closed(schema: Any) -> bool:
    """Whether every object of a schema says that it takes no other keys."""
    if isinstance(schema, list):
        return all(map(_closed, schema))
    if not isinstance(schema, dict):
        return True
    if (schema.get("type") == "object" or "properties" in schema) and schema.get(
        "additionalProperties"
    ) is not False:
        return False
    return all(_closed(value) for value in schema.values())
