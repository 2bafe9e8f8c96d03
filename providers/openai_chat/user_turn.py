"""The user's side and instructions as messages, each with the borders that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.parts import Json
from normalizer.projecting.unmapped_fields import whole
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import assistant_turn, media, preamble, schema_keys, wire

if TYPE_CHECKING:
    from normalizer.projection import AdjustmentKind
    from normalizer.providers.openai_chat.render import Out, Renderer
    from normalizer.transcript import Entry


_OF_ITEMS: Final = frozenset({"type", "status"})
"""Keys by which Responses says that an item is a message, and whole."""


class Side:
    """The messages behind a reply's results. What came in one message (`group`) stays in one.

    `own`: the conversation came from this API, so that parts of unknown types go back to it.
    """

    __slots__ = ("group", "messages", "out", "own", "renderer")

    def __init__(
        self, renderer: Renderer, messages: list[dict[str, Any]], out: Out, *, own: bool = True
    ) -> None:
        self.renderer = renderer
        self.messages = messages
        self.out = out
        self.own = own
        self.group: int | None = None

    def note(self, content: str | list[dict[str, Any]]) -> None:
        """Words of ours, in a message of their own."""
        self.group = None
        self.messages.append({"role": "user", "content": content})

    def add(self, content: str | list[dict[str, Any]], group: int | None) -> dict[str, Any]:
        """A message of the user's side, joined with the one before it if both came in one."""
        if group is not None and group == self.group:
            last = self.messages[-1]
            last = {**last, "content": [*_listed(last["content"]), *_listed(content)]}
            self.messages[-1] = last
            return last
        message = {"role": "user", "content": content}
        self.group = group
        self.messages.append(message)
        return message

    def said(self, entry: Entry) -> bool:
        """Words of the user's side; whether there are any."""
        fact: Any = entry.fact
        parts = entry.parts
        if fact.kind != "user_said" or fact.raw is None:
            raw = None
            if len(parts) == 1 and parts[0].kind == "text" and fact.kind == "user_said" and fact.string:
                self.add(self.renderer.limited(entry, parts[0].text, self.out), fact.group)
                return True
        else:
            raw = fact.raw.value
        blocks = self._blocks(entry)
        if not blocks:
            self._note(
                entry,
                "dropped_empty",
                "a user message with nothing in it is left out",
                "OAC-STRUCT-005",
                None,
            )
            return False
        single = getattr(fact, "string", False)
        content = self.renderer.content(entry, blocks, self.out, single=single)
        message = self.add(content, getattr(fact, "group", None))
        if isinstance(raw, dict) and raw.get("role") == "user":
            self.messages[-1] = self._ordered(entry, message, raw)
        return True

    def _blocks(self, entry: Entry) -> list[dict[str, Any]]:
        renderer = self.renderer
        blocks: list[dict[str, Any]] = []
        for part in entry.parts:
            raw = getattr(part, "raw", None)
            if part.kind == "text":
                value = raw.value if raw is not None else None
                blocks.append(assistant_turn.text_block(renderer, entry, part.text, value, self.out))
            elif part.kind == "media":
                made, rule = media.blocks(part, renderer.profile, renderer.model)
                blocks.extend(made)
                if rule is not None:
                    self._note(entry, "media_moved", f"a medium ({part.media}) that the API cannot take is told",
                               rule, whole(part))  # fmt: skip
                elif (rest := media.rest(part, made)) is not None:
                    self._note(entry, "trimmed", f"a medium ({part.media}) says more than the API has a place for",
                               "OAC-STRUCT-006", rest)  # fmt: skip
            elif (
                part.kind == "opaque"
                and wire.is_unknown(part.type)
                and self.own
                and renderer.profile.other_parts
            ):
                blocks.append(part.raw.value)
            else:
                self._note(entry, "dropped_fragment", f"a part of kind {part.kind!r} has no place in a user message",
                           "OAC-CONTENT-010", whole(part))  # fmt: skip
        return blocks

    def _ordered(self, entry: Entry, message: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
        """The keys in the order in which they were received, less those that the API does not take."""
        found: dict[str, Any] = {}
        role = message["role"]
        known = schema_keys.MESSAGE_KEYS["user"] | (
            _OF_ITEMS if raw.get("type") == "message" else frozenset()
        )
        extra = {k: v for k, v in raw.items() if k not in known and v is not None}
        for key, value in raw.items():
            if key in message:
                found[key] = message[key]
            elif key == "name":
                self.renderer.put_name(entry, found, value, self.out)
        if extra:
            self._note(entry, "trimmed", f"a {role} message has keys that the API does not take back", "OAC-STRUCT-006",
                       Json.of(extra).text)  # fmt: skip
        return found | {key: value for key, value in message.items() if key not in found}

    # ------------------------------------------------------------ instructions

    def instructions(self, entry: Entry) -> None:
        """Instructions where they were given, all in one role."""
        head = self.renderer.head
        if entry.fact.fact_id in head.replaced or head.gathered:
            return
        fact: Any = entry.fact
        blocks, media_found = self.instruction_blocks(entry)
        recorded = preamble.recorded_role(entry)
        if recorded is not None and recorded != head.role and blocks:
            rule = "OAC-ROLE-001" if head.role == "user" else self.renderer.profile.developer_rule
            self._note(
                entry, "moved", f"{recorded} instructions are sent in the role {head.role!r}", rule, None
            )
        if blocks:
            single = fact.string or recorded is None
            content = self.renderer.content(entry, blocks, self.out, single=single)
            message = {"role": head.role, "content": content}
            raw = fact.raw.value if fact.raw is not None else None
            if isinstance(raw, dict) and raw.get("role") in wire.INSTRUCTION_ROLES:
                message = self._ordered(entry, message, raw)
            self.group = None
            self.messages.append(message)
        if media_found:
            self.add(media_found, None)

    def instruction_blocks(self, entry: Entry) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The texts of instructions, and the media in them, which only a user message can hold."""
        texts: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        for part in entry.parts:
            raw = getattr(part, "raw", None)
            if part.kind == "text" and (part.text or preamble.recorded_role(entry)):
                value = raw.value if raw is not None else None
                texts.append(assistant_turn.text_block(self.renderer, entry, part.text, value, self.out))
            elif part.kind == "media":
                made, _ = media.blocks(part, self.renderer.profile, self.renderer.model)
                moved.extend(made)
                self._note(entry, "media_moved", "a medium in instructions is sent in a user message",
                           "OAC-CONTENT-004", whole(part))  # fmt: skip
            else:
                kind: AdjustmentKind = "dropped_empty" if part.kind == "text" else "dropped_fragment"
                self._note(entry, kind, "instructions hold text only; the rest is left out", "OAC-CONTENT-004",
                           whole(part))  # fmt: skip
        if not entry.parts and preamble.recorded_role(entry) is not None:
            self._note(
                entry,
                "dropped_empty",
                "instructions with nothing in them are left out",
                "OAC-STRUCT-003",
                None,
            )
        return texts, moved

    def _note(
        self, entry: Entry, kind: AdjustmentKind, message: str, because: str, content: str | None
    ) -> None:
        self.out.notes.append(
            Adjustment(kind, message, because, facts=(entry.fact.fact_id,), content=content)
        )


def _listed(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
