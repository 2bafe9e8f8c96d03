"""Instructions and tools, and the items for those that come later.

What was set in mid-conversation is appended: instructions as a developer message, further tools as
`additional_tools`; the old ones stay on top. A list of tools that loses or changes one is replaced. Source:
https://developers.openai.com/api/docs/guides/keep-prefix-unchanged
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.projecting.dialect_policies import NamePolicy, PreamblePolicy
from normalizer.projecting.preamble import Place, Preamble, PreambleWire
from normalizer.projecting.unmapped_fields import beside_content, unmapped
from normalizer.providers.openai_responses import media, schema_keys, wire

if TYPE_CHECKING:
    from collections.abc import Collection

    from normalizer.parts import Tool
    from normalizer.projection import AdjustmentKind
    from normalizer.transcript import Entry

Item = dict[str, Any]

POLICY: Final = PreamblePolicy(
    api=wire.API,
    title="Responses",
    names=NamePolicy(pattern=wire.TOOL_NAME),
    later_heads="append",
    repeated_tools="first_of_others",
    tools_without_top=True,
    because={
        "tool-name": "OAR-ID-008",
        "repeated-tool": None,
        "foreign-server-tool": None,
        "unmapped-tool": "OAR-STRUCT-006",
    },
)
_OPEN_SCHEMA: Final = {"type": "object", "properties": {}}
_NAMED: Final = frozenset({"function", "custom"})


class Wire(PreambleWire[Preamble]):
    """Instructions are one text on top, or messages; tools are a list, or items that add to it."""

    def __init__(self) -> None:
        super().__init__(POLICY, Preamble())

    # ------------------------------------------------------------ instructions

    def instructions(self, placed: list[tuple[Entry, Place]]) -> None:
        """The text on top, and the messages for what stands in the history."""
        for entry, place in placed:
            if place == "later":
                if (item := self._message(entry)) is not None:
                    self.preamble.later[entry.fact.fact_id] = item
            elif entry.parts:
                self._note_rest(entry, beside_content(entry.fact), "an instruction message")
                self.preamble.instructions = self._text(entry) or None

    def _message(self, entry: Entry) -> Item | None:
        """A developer message, or the message as it was received."""
        fact: Any = entry.fact
        frame = envelope(fact)
        if frame is None:
            self._note_rest(entry, beside_content(fact), "an instruction message")
            text = self._text(entry)
            return {"role": "developer", "content": text} if text.strip() else None
        content: Any = self._text(entry) if fact.string else self._pieces(entry)
        if entry.parts and not content and not fact.string:
            return None
        return schema_keys.replay({**frame, "content": content}, self.reports, fact.fact_id)

    def _pieces(self, entry: Entry) -> list[Item]:
        found = []
        for part in entry.parts:
            made, because = media.piece(part)
            if made is not None:
                found.append(made)
                self._note_rest(entry, media.rest(part, made), "a part of an instruction")
            else:
                self._leave_out(entry, part, "a part of an instruction has no form here", because)
        return found

    def _text(self, entry: Entry) -> str:
        """The text of an instruction; what else stands in it is left out."""
        found = []
        for part in entry.parts:
            if part.kind == "text":
                found.append(part.text)
                self._note_rest(entry, unmapped(part.raw, {"text"}), "an instruction")
            else:
                self._leave_out(
                    entry, part, "instructions are words only; the rest is left out", "OAR-CONTENT-002"
                )
        texts = [text for text in found if text]
        if len(texts) > 1:
            self.reports.entry(entry, "merged", "the texts of an instruction are sent as one", None)
        return "\n\n".join(texts)

    def _leave_out(self, entry: Entry, part: Any, message: str, because: str | None) -> None:
        kind: AdjustmentKind = "media_moved" if part.kind == "media" else "dropped_fragment"
        self.reports.part(entry, kind, message, because, part)

    def _note_rest(self, entry: Entry, rest: str | None, what: str) -> None:
        """Report what was said beyond what is sent of it."""
        if rest is not None:
            message = f"{what} says more than this API has a place for"
            self.reports.entry(entry, "trimmed", message, "OAR-STRUCT-006", rest)

    # ------------------------------------------------------------ tools

    def own_tool(self, entry: Entry, tool: Tool, raw: Item) -> Item | None:
        """As received; one in the form of Chat is written anew."""
        del entry, tool
        return None if isinstance(raw.get("function"), dict) else raw

    def tool(self, entry: Entry, tool: Tool) -> tuple[Item, frozenset[str]]:
        """A function."""
        del entry
        made: Item = {"type": "function", "name": tool.name}
        if tool.description:
            made["description"] = tool.description
        made["parameters"] = tool.schema.value if tool.schema is not None else dict(_OPEN_SCHEMA)
        raw = tool.raw.value if tool.raw is not None else None
        inner = raw.get("function") if isinstance(raw, dict) else None
        path, declared = ("function.strict", inner) if isinstance(inner, dict) else ("strict", raw)
        strict = declared.get("strict") if isinstance(declared, dict) else None
        made["strict"] = strict if isinstance(strict, bool) else False  # the default differs between the APIs
        return made, frozenset({path} if isinstance(strict, bool) else ())

    def name_of(self, declared: Any) -> str | None:
        """The name of a function or custom tool; what else is declared is not called by a name of ours."""
        named = isinstance(declared, dict) and declared.get("type") in _NAMED
        return super().name_of(declared) if named else None

    def later_tools(self, tools: list[Any], later: list[tuple[Entry, list[Any]]]) -> dict[str, Item] | None:
        """An item for what was added; none can say that a tool is gone, or is another now."""
        offered = list(tools)
        found: dict[str, Item] = {}
        for entry, named in later:
            if self.in_history(entry):
                item = entry.fact.raw.value
                found[entry.fact.fact_id] = item if item.get("tools") == named else {**item, "tools": named}
                offered.extend(named)
                continue
            if any(tool not in named for tool in offered):
                return None
            if added := [tool for tool in named if tool not in offered]:
                found[entry.fact.fact_id] = {"type": "additional_tools", "role": "developer", "tools": added}
                offered.extend(added)
        return found

    def offer(self, tools: list[Any], first: Entry | None, used: Collection[str]) -> None:
        """No tools are sent as none, or as an empty list where this API had it so."""
        del used
        empty = first is not None and first.fact.api == wire.API and first.fact.tools == ()
        self.preamble.tools = tools or ([] if empty else None)


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
