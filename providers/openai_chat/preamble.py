"""What concerns the whole request beside its messages: tools, tool names, and the role of instructions.

Instructions are messages here, so later ones stand where they were given and the first ones stay. Only a server whose
template wants one system message first gets all of them there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import CannotProject
from normalizer.projecting import canonical
from normalizer.projecting.unmapped_fields import remainder
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import wire
from normalizer.util.ids import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import RequestSent
    from normalizer.parts import Tool
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Entry, Transcript

_FREE_TEXT: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


@dataclass(slots=True)
class Top:
    """`tools` and legacy `functions` as sent.

    `names` maps tool names to those on the wire, where they differ. `role` is that of instructions; `replaced` are the
    `fact_id`s of instructions that others took the place of before anything was said. `gathered` are all instructions
    in order, where they stand in one message at the beginning.
    """

    tools: list[Any] | None = None
    functions: list[Any] | None = None
    names: dict[str, str] = field(default_factory=dict)
    role: str = "system"
    replaced: frozenset[str] = frozenset()
    gathered: tuple[Entry, ...] = ()
    later: dict[str, Any] = field(default_factory=dict)
    adjustments: list[Adjustment] = field(default_factory=list)
    heads: tuple[Entry, ...] = ()
    used: frozenset[str] = frozenset()
    calls: int = 0
    instructions_digest: str = ""
    tools_digest: str = ""

    def shapes(self, other: Top) -> bool:
        """Whether messages come out the same under both."""
        return (self.role, self.names, self.replaced) == (other.role, other.names, other.replaced)


def build(
    transcript: Transcript,
    profile: Profile,
    model: str | None,
    sent: Iterable[RequestSent],
    before: Top | None,
) -> Top:
    """The top of the request; `before`, if nothing that it depends on has changed."""
    heads, calls = transcript.heads, len(transcript.calls)
    replaced = _replaced(transcript, sent)
    if before is not None and before.replaced == replaced and _same(before, transcript):
        before.calls = calls
        return before
    used = dict.fromkeys(call.part.name for call in transcript.calls.values())
    top = Top(heads=heads, used=frozenset(used), calls=calls, replaced=replaced)
    instructions = [entry for entry in heads if entry.kind == "instructions"]
    top.role = _role(instructions, profile, model)
    if profile.alternate:
        top.gathered = tuple(entry for entry in instructions if entry.fact.fact_id not in top.replaced)
    _rename(top, used)
    declared = next((entry for entry in reversed(heads) if entry.kind == "tools"), None)
    if declared is not None:
        _declare(top, declared, profile)
    words = [part.text for entry in top.gathered for part in entry.parts if part.kind == "text"]
    top.instructions_digest = canonical.digest(canonical.instructions_bytes({"instructions": words}))
    top.tools_digest = canonical.digest(canonical.tools_bytes({"tools": top.tools or top.functions}))
    return top


def _same(before: Top, transcript: Transcript) -> bool:
    heads, calls = transcript.heads, transcript.calls
    if len(before.heads) != len(heads) or any(
        old is not new for old, new in zip(before.heads, heads, strict=True)
    ):
        return False
    return (
        before.calls == len(calls)
        or {call.part.name for call in list(calls.values())[before.calls :]} <= before.used
    )


# ---------------------------------------------------------------- instructions


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


def _replaced(transcript: Transcript, sent: Iterable[RequestSent]) -> frozenset[str]:
    """Instructions that are not sent any more: others took their place while nothing was said, and nothing was sent."""
    said = next((e.fact.seq for e in transcript.entries if e.kind not in ("instructions", "tools")), None)
    early = [e for e in transcript.heads if e.kind == "instructions" and (said is None or e.fact.seq < said)]
    borders = [request.through for request in sent] if len(early) > 1 else []
    found: set[str] = set()
    for number, entry in enumerate(early):
        new: Any = next((e.fact for e in early[number + 1 :] if not e.fact.additional), None)
        if new is not None and not any(entry.fact.seq <= border < new.seq for border in borders):
            found.add(entry.fact.fact_id)
    return frozenset(found)


# ---------------------------------------------------------------- tools


def _declare(top: Top, entry: Entry, profile: Profile) -> None:
    """The newest declaration, in this API's form."""
    own = entry.fact.api == wire.API
    tools: list[Any] = []
    functions: list[Any] = []
    for tool in entry.fact.tools:
        raw = tool.raw.value if tool.raw is not None else None
        if own and isinstance(raw, dict) and "type" not in raw and tool.name:
            functions.append(raw)
        elif (made := _tool(top, entry, tool, profile, raw if own else None)) is not None:
            tools.append(made)
    if len(tools) > wire.MAX_TOOLS:
        raise CannotProject(
            f"{len(tools)} tools are declared and Chat Completions takes {wire.MAX_TOOLS}; offer fewer",
            reason="too_many_tools",
        )
    top.tools, top.functions = tools or None, functions or None


def _tool(top: Top, entry: Entry, tool: Tool, profile: Profile, own: Any) -> dict[str, Any] | None:
    """One tool as this API wants it; None where it has no counterpart. `own` is its declaration for this API."""
    if isinstance(own, dict):
        kind = own.get("type")
        if kind not in wire.CALL_TYPES or not tool.name or (name := fitting(top, tool.name)) == tool.name:
            return own
        return {**own, kind: {**own[kind], "name": name}}
    if tool.server or not tool.name:
        top.adjustments.append(
            Adjustment("dropped_server_tool", f"the tool {tool.name!r} is run by another provider", "OAC-STATE-003",
                       facts=(entry.fact.fact_id,), content=tool.raw.text if tool.raw is not None else None)
        )  # fmt: skip
        return None
    made: dict[str, Any] = {"name": fitting(top, tool.name)}
    if tool.description:
        made["description"] = tool.description
    raw = tool.raw.value if tool.raw is not None else None
    if isinstance(raw, dict) and raw.get("type") == "custom" and tool.schema is None:
        return _custom(top, entry, tool, profile, {**made, **_format(raw)})
    made["parameters"] = (
        tool.schema.value if tool.schema is not None else {"type": "object", "properties": {}}
    )
    if isinstance(raw, dict) and raw.get("type") == "function" and isinstance(raw.get("strict"), bool):
        made["strict"] = raw["strict"]  # Responses declares functions alike
    if (rest := remainder(tool.raw, made, tool.name)) is not None:
        top.adjustments.append(
            Adjustment("trimmed", f"the declaration of the tool {tool.name!r} says more than this API has a place for",
                       "OAC-STRUCT-006", facts=(entry.fact.fact_id,), content=rest)
        )  # fmt: skip
    return {"type": "function", "function": made}


def _custom(top: Top, entry: Entry, tool: Tool, profile: Profile, made: dict[str, Any]) -> dict[str, Any]:
    """A custom tool of Responses; for a server that knows functions only, its free text is the one argument."""
    if profile.custom_tools:
        return {"type": "custom", "custom": made}
    top.adjustments.append(
        Adjustment("tools_not_declared", f"the custom tool {tool.name!r} is declared as a function of one text",
                   "OAC-CUSTOM-001", facts=(entry.fact.fact_id,), content=tool.raw.text if tool.raw else None)
    )  # fmt: skip
    plain = {key: value for key, value in made.items() if key != "format"}
    return {"type": "function", "function": {**plain, "parameters": _FREE_TEXT}}


def _format(raw: dict[str, Any]) -> dict[str, Any]:
    """The format of a custom tool's text, whose grammar Chat nests one deeper than Responses."""
    given = raw.get("format")
    if not isinstance(given, dict):
        return {}
    if given.get("type") != "grammar":
        return {"format": given}
    grammar = {key: value for key, value in given.items() if key != "type"}
    return {"format": {"type": "grammar", "grammar": grammar.get("grammar", grammar)}}


def _rename(top: Top, used: Iterable[str]) -> None:
    for name in used:
        fitting(top, name)


def fitting(top: Top, name: str) -> str:
    """The name on the wire: the name itself where the pattern allows it, else a stable other one."""
    if wire.TOOL_NAME.fullmatch(name):
        return name
    if name not in top.names:
        top.names[name] = plain_name(name, {*top.names.values(), *top.used})
        top.adjustments.append(
            Adjustment(
                "renamed_tool", f"the tool name {name!r} is sent as {top.names[name]!r}", "OAC-NAME-001"
            )
        )
    return top.names[name]
