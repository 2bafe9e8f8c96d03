"""The pieces of an entry: pure values. JSON that the core does not interpret is kept as one JSON text.

`raw` is the block as its provider sent it. It is None where the part says all of it, so that the
provider can write the same block again from the part alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import core_schema

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


class Json:
    """One JSON text, in the order of keys in which it was received. Compared by its text.

    It is made from a text or from a parsed value and turns one into the other when asked to. The value is
    shared, not copied: never edit it. The text of a call's arguments may be no JSON at all (`valid` says so).
    """

    __slots__ = ("_text", "_value")

    _missing: Any = object()

    def __init__(self, text: str | None = None, value: Any = _missing) -> None:
        self._text = text
        self._value = value

    @classmethod
    def of(cls, value: Any) -> Json:
        """The JSON text of a parsed value, which nobody may change afterwards."""
        return cls(None, value)

    @property
    def text(self) -> str:
        """The text; compact where it is made here."""
        if self._text is None:
            self._text = _encode(self._value)
        return self._text

    @property
    def value(self) -> Any:
        """The parsed value. Raises ValueError where the text is no JSON."""
        if self._value is Json._missing:
            self._value = _decode(self._text or "")
        return self._value

    @property
    def valid(self) -> bool:
        """Whether the text is JSON."""
        try:
            _ = self.value
        except (ValueError, RecursionError):
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and (self is other or self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Json({self.text!r})"

    def __reduce__(self) -> tuple[type[Json], tuple[str]]:
        return Json, (self.text,)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415 - loaded when a validator is built

        def take(value: Any) -> Json:
            if isinstance(value, Json):
                return value
            return cls(value) if isinstance(value, str) else cls.of(value)

        return core_schema.no_info_plain_validator_function(
            take,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.text, return_schema=core_schema.str_schema()
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"description": "A JSON text, or the JSON value itself."}


class _ByKind:
    """Of a union: `kind` says which of its members a value is. As pydantic's `Field(discriminator="kind")`, without
    loading pydantic before a validator is built.
    """

    def __get_pydantic_core_schema__(
        self, union: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic import Field  # noqa: PLC0415 - loaded when a validator is built

        return handler(Annotated[union, Field(discriminator="kind")])


class _AbsentIsNone:
    """Of a field without a default in Python: where JSON leaves it out, it is None."""

    def __get_pydantic_core_schema__(
        self, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415 - loaded when a validator is built

        return core_schema.with_default_schema(handler(kind), default=None)


BY_KIND = _ByKind()

OptionalId: TypeAlias = Annotated[str | None, _AbsentIsNone()]
"""An id that the record may not have; left out of the JSON form where it is None."""


@dataclass(frozen=True, slots=True)
class Text:
    """Readable text. `raw` is kept where the block says more than its text (citations, a cache mark)."""

    text: str
    raw: Json | None = None
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's reasoning. `text` is what can be read of it; its signature or encrypted content, which makes it
    replayable, is in `raw`.

    `alone`: what it led to did not arrive whole.
    """

    text: str
    raw: Json | None = None
    kind: Literal["reasoning"] = "reasoning"
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Media:
    """A picture, document, sound or upload, by value (`data`, base64), by address or by a provider's file id."""

    media: Literal["image", "document", "audio", "file", "search_result"]
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    name: str | None = None
    raw: Json | None = None
    kind: Literal["media"] = "media"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that we execute. `arguments` is the JSON text as it arrived, whole; it may not parse.

    `form` names the wire's kind of call where there are several (`function`, `custom`, ...).
    """

    id: OptionalId
    name: str
    arguments: Json
    raw: Json | None = None
    form: str | None = None
    kind: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """A call that the provider executes. We never answer it."""

    id: OptionalId
    name: str
    arguments: Json
    raw: Json | None = None
    form: str | None = None
    kind: Literal["server_tool_call"] = "server_tool_call"


@dataclass(frozen=True, slots=True)
class ServerToolResult:
    """What the provider returned for its own call, sealed: `raw` is the only form in which it can be replayed."""

    call_id: OptionalId
    raw: Json
    is_error: bool = False
    kind: Literal["server_tool_result"] = "server_tool_result"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block of a type that we do not know, or that has no counterpart elsewhere. `type` is the provider's word."""

    type: str
    raw: Json
    kind: Literal["opaque"] = "opaque"


Part = Annotated[
    Text | Reasoning | Media | ToolCall | ServerToolCall | ServerToolResult | Opaque,
    BY_KIND,
]
"""Everything that an entry can hold."""

ResultPart = Annotated[Text | Media | Opaque, BY_KIND]
"""What a tool's result can hold."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that was offered. `schema` is the JSON Schema of its arguments; `raw` the declaration as it was sent."""

    name: str
    description: str | None = None
    schema: Json | None = None
    raw: Json | None = None
    server: bool = False
