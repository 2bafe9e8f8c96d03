"""What stands above the history: instructions and tools, and how later ones are told.

Where the model takes system messages in mid-conversation, later instructions are appended verbatim and the
old ones stay on top; tools that come or go are told by `tool_addition` and `tool_removal`. Elsewhere the top
is replaced. Source: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json, Text
from normalizer.projecting import canonical
from normalizer.projecting.unmapped_fields import beside_content, remainder, whole
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import marks, schema_keys, wire
from normalizer.util.ids import newest, plain_name

if TYPE_CHECKING:
    from normalizer.parts import Tool
    from normalizer.providers.anthropic.wire import Model
    from normalizer.transcript import Entry, Transcript

_OPEN_SCHEMA: Final = {"type": "object"}
_INLINE_TOOLS: Final = "inline-tools-2026-09-15"


@dataclass(slots=True)
class Top:
    """`system` and `tools` as sent. `later` holds, by `fact_id`, the blocks of system messages for what came later.

    `names` maps tool names to those on the wire, where they differ. `recorded`: instructions and tools are both on
    record, even if there are none. `declared` says whether any tool was.
    """

    system: Any = None
    tools: list[Any] | None = None
    later: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    adjustments: list[Adjustment] = field(default_factory=list)
    betas: tuple[str, ...] = ()
    marks: int = 0
    recorded: bool = False
    heads: tuple[Entry, ...] = ()
    used: frozenset[str] = frozenset()
    instructions_digest: str = ""
    tools_digest: str = ""

    @property
    def offered(self) -> frozenset[str]:
        """Names and types of the tools in the request."""
        return frozenset(
            str(tool[key])
            for tool in self.tools_at(None)
            for key in ("name", "type", "mcp_server_name")
            if key in tool
        )

    def tools_at(self, seq: int | None) -> list[dict[str, Any]]:
        """The tools that were offered before a `seq`."""
        places = {entry.fact.fact_id: entry.fact.seq for entry in self.heads}
        added = [
            block["tool"].get("definition")
            for fact_id, blocks in self.later.items()
            if seq is None or places.get(fact_id, 0) < seq
            for block in blocks
            if block.get("type") == "tool_addition" and isinstance(block.get("tool"), dict)
        ]
        return [tool for tool in (*(self.tools or ()), *added) if isinstance(tool, dict)]


def build(transcript: Transcript, row: Model, before: Top | None, seen: int) -> Top:
    """The top of the request; `before`, if nothing that it depends on has changed since `seen` calls were there."""
    heads, calls = transcript.heads, len(transcript.calls)
    if (
        before is not None
        and len(before.heads) == len(heads)
        and all(old is new for old, new in zip(before.heads, heads, strict=True))
    ):
        fresh = {transcript.calls[key].part.name for key in newest(transcript.calls, seen)}
        if seen <= calls and fresh <= before.used:
            return before
    used = dict.fromkeys(call.part.name for call in transcript.calls.values())
    top = Top(heads=heads, used=frozenset(used))
    said = next((e.fact.seq for e in transcript.entries if e.kind not in ("instructions", "tools")), None)
    _instructions(top, [e for e in heads if e.kind == "instructions"], said, row)
    _tools(top, [e for e in heads if e.kind == "tools"], said, row, list(used))
    kinds = {e.kind for e in heads}
    top.recorded = kinds >= {"instructions", "tools"}
    request = {"system": top.system, "tools": top.tools}
    top.instructions_digest = canonical.digest(canonical.instructions_bytes(request))
    top.tools_digest = canonical.digest(canonical.tools_bytes(request))
    return top


# ---------------------------------------------------------------- instructions


def _instructions(top: Top, entries: list[Entry], said: int | None, row: Model) -> None:
    """The top-level text, and the system messages for what was set later."""
    above: list[Entry] = []
    for entry in entries:
        if (rest := beside_content(entry.fact)) is not None:
            top.adjustments.append(
                Adjustment("trimmed", "instructions say more beside their content than this API has a place for",
                           "ANT-MSG-004", facts=(entry.fact.fact_id,), content=rest)
            )  # fmt: skip
        late = said is not None and entry.fact.seq > said
        if late and row.system_messages == "yes":
            blocks = _system_blocks(top, entry, message=True)
            said_nothing = not entry.parts and entry.fact.raw is not None
            if blocks or (said_nothing and entry.fact.raw.value.get("content") is not None):
                top.later[entry.fact.fact_id] = blocks
        elif entry.fact.additional:
            above.append(entry)
            if entry.parts:
                top.adjustments.append(
                    Adjustment("moved", "a system message stands with the instructions above all messages",
                               "ANT-SYS-004", facts=(entry.fact.fact_id,))
                )  # fmt: skip
        else:
            above = [entry]
    said_none = not any(entry.parts for entry in above)
    if said_none:
        if any(entry.fact.raw is None for entry in above):
            top.system = []  # an empty list was sent
        return
    above = [entry for entry in above if entry.parts]
    if len(above) == 1 and above[0].fact.string:
        text = above[0].parts[0].text  # type: ignore[union-attr]
        top.system = text if text.strip() or not text else None
        if top.system is None:
            _note_blank(top, above[0], text)
        return
    blocks = [block for entry in above for block in _system_blocks(top, entry, message=False)]
    top.system = blocks or None
    top.marks += marks.count(blocks)


def _system_blocks(top: Top, entry: Entry, *, message: bool) -> list[dict[str, Any]]:
    """The blocks of a system prompt or message: text only, never blank; tool changes only in a message."""
    blocks: list[dict[str, Any]] = []
    for part in entry.parts:
        if part.kind == "text":
            if part.text.strip():
                blocks.append(_text_block(top, entry, part))
            else:
                _note_blank(top, entry, part.text)
        elif message and part.kind == "opaque" and part.type in wire.TOOL_CHANGES:
            blocks.append(_known(top, entry, part.raw.value))
            top.betas = (*top.betas, part.type)
        else:
            top.adjustments.append(
                Adjustment(
                    "media_moved" if part.kind == "media" else "dropped_fragment",
                    "instructions hold text only; the rest is left out",
                    "ANT-SYS-001",
                    facts=(entry.fact.fact_id,),
                    content=whole(part),
                )
            )
    return blocks


def _text_block(top: Top, entry: Entry, part: Text) -> dict[str, Any]:
    """A text as received, less keys of other APIs."""
    value = part.raw.value if part.raw is not None else {}
    made = (
        {key: item for key, item in value.items() if key in schema_keys.BLOCK_KEYS["text"]}
        if value.get("type") == "text"
        else {"type": "text", "text": part.text}
    )
    _note_rest(top, entry, part.raw, made, what="text")
    return value if made == value else made


def _note_blank(top: Top, entry: Entry, text: str) -> None:
    """Report a blank text, which instructions may not hold."""
    top.adjustments.append(
        Adjustment("dropped_empty", "a blank text in instructions is left out", "ANT-BLK-002",
                   facts=(entry.fact.fact_id,), content=text)
    )  # fmt: skip


def _note_rest(top: Top, entry: Entry, raw: Json | None, *said: Any, what: str) -> None:
    """Report what a text or declaration of another API says beyond what is sent of it."""
    if (rest := remainder(raw, *said)) is not None:
        top.adjustments.append(
            Adjustment("trimmed", f"a {what} of another API says more than this API has a place for", "ANT-MSG-004",
                       facts=(entry.fact.fact_id,), content=rest)
        )  # fmt: skip


def _known(top: Top, entry: Entry, block: dict[str, Any]) -> dict[str, Any]:
    """A block as it was received, less the keys that the API does not know."""
    known = schema_keys.BLOCK_KEYS[block["type"]]
    if block.keys() <= known:
        return block
    extra = {key: value for key, value in block.items() if key not in known}
    top.adjustments.append(
        Adjustment("trimmed", f"a {block['type']} block has keys that the API does not know", "ANT-MSG-004",
                   facts=(entry.fact.fact_id,), content=Json.of(extra).text)
    )  # fmt: skip
    return {key: value for key, value in block.items() if key in known}


# ---------------------------------------------------------------- tools


def _tools(top: Top, entries: list[Entry], said: int | None, row: Model, used: list[str]) -> None:
    """The declared tools, later changes, and a declaration for used names where none is on record."""
    first = [e for e in entries if said is None or e.fact.seq < said][-1:] or entries[:1]
    later = [e for e in entries if not first or e.fact.seq > first[0].fact.seq]
    tools = _declared(top, first[0]) if first else []
    if later:
        changes = _changes(top, tools, later) if row.system_messages == "yes" else None
        if changes is None:
            tools = _declared(top, later[-1])
        else:
            top.later.update(changes)
            top.betas = (*top.betas, "tool_addition", _INLINE_TOOLS)
    if not tools and used:
        _rename(top, used)
        tools = [{"name": top.names.get(name, name), "input_schema": dict(_OPEN_SCHEMA)} for name in used]
        top.adjustments.append(
            Adjustment(
                "tools_not_declared",
                f"the history uses {', '.join(map(repr, used))}, and no tool is declared: each gets an open schema",
                "ANT-TOOL-001",
            )
        )
    elif used:
        _rename(top, used)
    if any(wire.word(tool, "type") == "mcp_toolset" for tool in tools):
        top.betas = (
            *top.betas,
            "mcp_tool_use",
        )  # toolsets and the servers that they name came with this beta
    top.marks += marks.count(tools)
    top.tools = tools if tools or any(e.fact.api is not None for e in first) else None


def _declared(top: Top, entry: Entry) -> list[Any]:
    """The tools of one declaration in this API's form, each name once."""
    tools: list[Any] = []
    seen: set[str] = set()
    own = entry.fact.api == wire.API
    for tool in entry.fact.tools:
        made = _tool(top, entry, tool, own=own)
        if made is None:
            continue
        name = made.get("name")
        if isinstance(name, str) and name in seen:
            top.adjustments.append(
                Adjustment("merged", f"the tool {name!r} is declared twice; the first declaration stays",
                           "ANT-TOOL-002", facts=(entry.fact.fact_id,), content=Json.of(made).text)
            )  # fmt: skip
            continue
        if isinstance(name, str):
            seen.add(name)
        tools.append(made)
    return tools


def _tool(top: Top, entry: Entry, tool: Tool, *, own: bool) -> dict[str, Any] | None:
    """One tool as this API wants it; None where it has no counterpart."""
    raw = tool.raw.value if tool.raw is not None else None
    if own and isinstance(raw, dict):
        made = raw
        custom = raw.get("type") in (None, "custom")
        if custom and not _takes_object(raw.get("input_schema")):
            schema = raw.get("input_schema") or raw.get("parameters")
            made = {k: v for k, v in raw.items() if k != "parameters"} | {"input_schema": _mended(schema)}
            _note_schema(top, entry, tool)
        made = _accepted(top, entry, tool.name, made)
    elif tool.server or not tool.name:
        top.adjustments.append(
            Adjustment("dropped_server_tool", f"the tool {tool.name!r} is another provider's", None,
                       facts=(entry.fact.fact_id,), content=tool.raw.text if tool.raw is not None else None)
        )  # fmt: skip
        return None
    else:
        made = {"name": tool.name}
        if tool.description:
            made["description"] = tool.description
        schema = tool.schema.value if tool.schema is not None else {}
        made["input_schema"] = _mended(schema)
        if tool.schema is not None and not _takes_object(schema):
            _note_schema(top, entry, tool)
        _note_rest(top, entry, tool.raw, made, tool.name, schema, what="tool")
    name = made.get("name")
    if isinstance(name, str) and (fits := _fitting(top, name)) != name:
        made = {**made, "name": fits}
    return made


def _takes_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"


def _mended(schema: Any) -> dict[str, Any]:
    """The schema itself, or one of an object: arguments always are one, whether the schema says so or not."""
    if isinstance(schema, dict) and (_takes_object(schema) or "type" not in schema):
        return schema if "type" in schema else {**_OPEN_SCHEMA, **schema}
    return dict(_OPEN_SCHEMA)


def _note_schema(top: Top, entry: Entry, tool: Tool) -> None:
    """Report a schema that gave way to one that the API takes."""
    given = tool.raw or tool.schema
    top.adjustments.append(
        Adjustment("tools_not_declared", f"the tool {tool.name!r} has no input schema of an object",
                   "ANT-TOOL-007", facts=(entry.fact.fact_id,), content=given.text if given is not None else None)
    )  # fmt: skip


def _accepted(top: Top, entry: Entry, name: str, tool: dict[str, Any]) -> dict[str, Any]:
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
    top.adjustments.append(
        Adjustment("trimmed", f"the tool {name!r} is sent without {', '.join(dropped)}", "ANT-TOOL-010",
                   facts=(entry.fact.fact_id,), content=Json.of(dropped).text)
    )  # fmt: skip
    return {key: value for key, value in tool.items() if key not in dropped}


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


def _changes(top: Top, tools: list[Any], later: list[Entry]) -> dict[str, list[dict[str, Any]]] | None:
    """The blocks that tell each later declaration; None where a change cannot be told that way."""
    defined: dict[str, Any] = {name: tool for tool in tools if (name := wire.word(tool, "name"))}
    offered: dict[str, Any] = dict(defined)
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in later:
        named: dict[str, Any] = {
            name: tool for tool in _declared(top, entry) if (name := wire.word(tool, "name"))
        }
        if any(defined[name] != tool for name, tool in named.items() if name in defined):
            return None
        blocks: list[dict[str, Any]] = [
            {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}}
            for name in offered
            if name not in named
        ]
        for name, tool in named.items():
            if name not in defined:
                blocks.append(
                    {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}
                )
                defined[name] = tool
            elif name not in offered:
                blocks.append({"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}})
        offered = dict(named)
        if blocks:
            found[entry.fact.fact_id] = blocks
    return found


def _rename(top: Top, used: list[str]) -> None:
    for name in used:
        _fitting(top, name)


def _fitting(top: Top, name: str) -> str:
    """The name on the wire: the name itself where the pattern allows it, else a stable other one."""
    if wire.TOOL_NAME.fullmatch(name):
        return name
    if name not in top.names:
        top.names[name] = plain_name(name, set(top.names.values()))
        top.adjustments.append(
            Adjustment("renamed_tool", f"the tool name {name!r} is sent as {top.names[name]!r}", "ANT-ID-003")
        )
    return top.names[name]


def text_of(entry: Entry) -> str:
    """The words of an instruction."""
    return "\n".join(part.text for part in entry.parts if isinstance(part, Text))
