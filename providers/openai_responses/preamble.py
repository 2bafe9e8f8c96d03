"""What stands above the history: instructions and tools, and how later ones are told.

What was set in mid-conversation is appended: instructions as a developer message, further tools as
`additional_tools`; the old ones stay on top. A list of tools that loses or changes one is replaced. Source:
https://developers.openai.com/api/docs/guides/keep-prefix-unchanged
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting import canonical
from normalizer.projecting.reports import Reports
from normalizer.projecting.unmapped_fields import beside_content, remainder, whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_responses import media, schema_keys, wire
from normalizer.util.ids import plain_name

if TYPE_CHECKING:
    from normalizer.facts import RequestSent
    from normalizer.parts import Tool
    from normalizer.transcript import Entry, Transcript

Item = dict[str, Any]

_OPEN_SCHEMA: Final = {"type": "object", "properties": {}}
_NO_TOOLS: Final = canonical.digest(canonical.tools_bytes({}))


@dataclass(slots=True)
class Top:
    """`instructions` and `tools` as sent. `later` holds, by `fact_id`, the item for what came later.

    `names` maps tool names to those on the wire, where they differ. `said` is the `seq` of the first words,
    `bare` says that a request without tools was sent.
    """

    instructions: str | None = None
    tools: list[Any] | None = None
    later: dict[str, Item] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    adjustments: list[Adjustment] = field(default_factory=list)
    heads: tuple[Entry, ...] = ()
    said: int | None = None
    bare: bool = False
    used: frozenset[str] = frozenset()
    calls: int = 0
    instructions_digest: str = ""
    tools_digest: str = ""


def build(transcript: Transcript, base: RequestSent | None, before: Top | None) -> Top:
    """The top of the request; `before`, if nothing that it depends on has changed. `base` is what was sent last."""
    bare = base is not None and base.digest.tools == _NO_TOOLS
    heads, calls = transcript.heads, len(transcript.calls)
    said = next((e.fact.seq for e in transcript.entries if e.kind not in ("instructions", "tools")), None)
    if (
        before is not None
        and (before.said, before.bare) == (said, bare)
        and len(before.heads) == len(heads)
        and all(old is new for old, new in zip(before.heads, heads, strict=True))
    ):
        if before.calls == calls:
            return before
        fresh = {call.part.name for call in list(transcript.calls.values())[before.calls :]}
        if fresh <= before.used:
            before.calls = calls
            return before
    used = dict.fromkeys(call.part.name for call in transcript.calls.values())
    top = Top(heads=heads, said=said, bare=bare, used=frozenset(used), calls=calls)
    _instructions(top, [e for e in heads if e.kind == "instructions"], said)
    _tools(top, [e for e in heads if e.kind == "tools"], said)
    for name in used:
        fitting(top, name)
    request = {"instructions": top.instructions, "tools": top.tools}
    top.instructions_digest = canonical.digest(canonical.instructions_bytes(request))
    top.tools_digest = canonical.digest(canonical.tools_bytes(request))
    return top


# ---------------------------------------------------------------- instructions


def _instructions(top: Top, entries: list[Entry], said: int | None) -> None:
    """The text on top, and the messages for what stands in the history."""
    for entry in entries:
        fact: Any = entry.fact
        if fact.additional or (said is not None and fact.seq > said):
            if (item := _message(top, entry)) is not None:
                top.later[fact.fact_id] = item
        elif entry.parts:
            _note_rest(top, entry, beside_content(fact), "an instruction message")
            text = _text(top, entry)
            top.instructions = text or None


def _message(top: Top, entry: Entry) -> Item | None:
    """A developer message, or the message as it was received."""
    fact: Any = entry.fact
    frame = envelope(fact)
    if frame is None:
        text = _text(top, entry)
        return {"role": "developer", "content": text} if text.strip() else None
    content: Any = _text(top, entry) if fact.string else _pieces(top, entry)
    if entry.parts and not content and not fact.string:
        return None
    return schema_keys.replay({**frame, "content": content}, Reports({}, top.adjustments), fact.fact_id)


def _pieces(top: Top, entry: Entry) -> list[Item]:
    found = []
    for part in entry.parts:
        made, because = media.piece(part)
        if made is not None:
            found.append(made)
            _note_rest(top, entry, media.rest(part, made), "a part of an instruction")
            continue
        top.adjustments.append(
            Adjustment("media_moved" if part.kind == "media" else "dropped_fragment",
                       "a part of an instruction has no form here", because, facts=(entry.fact.fact_id,),
                       content=whole(part))
        )  # fmt: skip
    return found


def envelope(fact: Any) -> Item | None:
    """The keys of a message of this API, in their order, where the parts do not say all of it."""
    frame = fact.raw.value if fact.raw is not None else None
    if (
        not isinstance(frame, dict)
        or frame.get("role") not in wire.ROLES
        or frame.get("content", 0) is not None
    ):
        return None
    return {key: value for key, value in frame.items() if value is not None or key == "content"}


def _text(top: Top, entry: Entry) -> str:
    """The words of an instruction; what else stands in it is left out."""
    found = []
    for part in entry.parts:
        if part.kind == "text":
            found.append(part.text)
            _note_rest(top, entry, remainder(part.raw, part.text), "an instruction")
        else:
            top.adjustments.append(
                Adjustment("media_moved" if part.kind == "media" else "dropped_fragment",
                           "instructions are words only; the rest is left out", "OAR-CONTENT-002",
                           facts=(entry.fact.fact_id,), content=whole(part))
            )  # fmt: skip
    texts = [text for text in found if text]
    if len(texts) > 1:
        top.adjustments.append(
            Adjustment("merged", "the texts of an instruction are sent as one",
                       facts=(entry.fact.fact_id,))
        )  # fmt: skip
    return "\n\n".join(texts)


def _note_rest(top: Top, entry: Entry, rest: str | None, what: str) -> None:
    """Report what was said beyond what is sent of it."""
    if rest is not None:
        top.adjustments.append(
            Adjustment("trimmed", f"{what} says more than this API has a place for", "OAR-STRUCT-006",
                       facts=(entry.fact.fact_id,), content=rest)
        )  # fmt: skip


# ---------------------------------------------------------------- tools


def _tools(top: Top, entries: list[Entry], said: int | None) -> None:
    """The declared tools, and items for those that came later."""
    first = [e for e in entries if (said is None or e.fact.seq < said) and e.fact.raw is None][-1:]
    if not first and not top.bare and entries and entries[0].fact.raw is None:
        first = entries[:1]
    later = [e for e in entries if not first or e.fact.seq > first[0].fact.seq]
    tools = _declared(top, first[0]) if first else []
    if later:
        changes = _changes(top, tools, later)
        if changes is None:
            tools = _declared(top, later[-1])
        else:
            top.later.update(changes)
    declared = bool(first and first[0].fact.tools == ())
    top.tools = tools or ([] if declared and first[0].fact.api == wire.API else None)


def _declared(top: Top, entry: Entry) -> list[Any]:
    """The tools of one declaration in this API's form."""
    fact: Any = entry.fact
    tools: list[Any] = []
    seen: set[str] = set()
    for tool in fact.tools:
        made = _tool(top, entry, tool, own=fact.api == wire.API)
        if made is None:
            continue
        name = made.get("name") if isinstance(made, dict) else None
        if isinstance(name, str) and name in seen and fact.api != wire.API:
            top.adjustments.append(
                Adjustment("merged", f"the tool {name!r} is declared twice; the first declaration stays", None,
                           facts=(fact.fact_id,), content=Json.of(made).text)
            )  # fmt: skip
            continue
        if isinstance(name, str):
            seen.add(name)
        tools.append(made)
    return tools


def _tool(top: Top, entry: Entry, tool: Tool, *, own: bool) -> Any:
    """One tool as this API wants it; None where it has no counterpart."""
    raw = tool.raw.value if tool.raw is not None else None
    if own and isinstance(raw, dict) and not isinstance(raw.get("function"), dict):
        name = raw.get("name")
        if raw.get("type") != "function" or not isinstance(name, str):
            return raw
        return raw if (fits := fitting(top, name)) == name else {**raw, "name": fits}
    if tool.server or not tool.name:
        top.adjustments.append(
            Adjustment("dropped_server_tool", f"the tool {tool.name!r} is another provider's", None,
                       facts=(entry.fact.fact_id,), content=tool.raw.text if tool.raw is not None else None)
        )  # fmt: skip
        return None
    made: Item = {"type": "function", "name": fitting(top, tool.name)}
    if tool.description:
        made["description"] = tool.description
    made["parameters"] = tool.schema.value if tool.schema is not None else dict(_OPEN_SCHEMA)
    inner = raw.get("function") if isinstance(raw, dict) else None
    strict = (
        inner.get("strict")
        if isinstance(inner, dict)
        else raw.get("strict")
        if isinstance(raw, dict)
        else None
    )
    made["strict"] = strict if isinstance(strict, bool) else False  # the default differs between the APIs
    _note_rest(top, entry, remainder(tool.raw, made, tool.name), f"the declaration of the tool {tool.name!r}")
    return made


def _changes(top: Top, tools: list[Any], later: list[Entry]) -> dict[str, Item] | None:
    """The item that tells each later declaration; None where a change cannot be told that way."""
    offered = list(tools)
    found: dict[str, Item] = {}
    for entry in later:
        fact: Any = entry.fact
        if fact.raw is not None and fact.api == wire.API:
            found[fact.fact_id] = fact.raw.value
            offered.extend(fact.raw.value.get("tools") or ())
            continue
        named = _declared(top, entry)
        if any(tool not in named for tool in offered):
            return None
        if added := [tool for tool in named if tool not in offered]:
            found[fact.fact_id] = {"type": "additional_tools", "role": "developer", "tools": added}
            offered.extend(added)
    return found


def fitting(top: Top, name: str) -> str:
    """The name on the wire: the name itself where the pattern allows it, else a stable other one."""
    if wire.TOOL_NAME.fullmatch(name):
        return name
    if name not in top.names:
        top.names[name] = plain_name(name, set(top.names.values()))
        top.adjustments.append(
            Adjustment("renamed_tool", f"the tool name {name!r} is sent as {top.names[name]!r}", "OAR-ID-008")
        )
    return top.names[name]
