"""Payloads with a mark of its own in every field that the SDKs' types know, for tests of what becomes of each field.

A type is sampled once with all its fields, and once more for each other form that one of its fields may have.
"""

from __future__ import annotations

import base64
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Union

import typing_extensions

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PREFERRED: Final = ("completed", "direct", "client")
"""Words that a field is given where its type allows them: those that say that something is whole and ours."""
_DEPTH: Final = 12

Path = tuple[str | int, ...]


@dataclass
class Sample:
    """A value of a type. `marks` are what stands in its fields, by their path."""

    name: str
    value: Any
    marks: dict[Path, str] = field(default_factory=dict)


def _picture(word: str) -> str:
    return base64.b64encode(_PNG + word.encode()).decode()


# Fields whose text has to have a form: what is made of the mark, and what of it is looked for.
_FORMS: Final[dict[str, Callable[[str], str]]] = {
    "data": _picture,
    "file_data": lambda word: f"data:application/pdf;base64,{_picture(word)}",
    "image_url": lambda word: f"https://example.com/{word}.png",
    "url": lambda word: f"https://example.com/{word}.png",
    "arguments": lambda word: f'{{"a":"{word}"}}',
}
_SOUGHT: Final[dict[str, Callable[[str], str]]] = {"data": _picture, "file_data": _picture}
_ID_PREFIXES: Final[dict[str, str]] = {
    "message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", "computer_call": "cu",
    "shell_call": "sh", "local_shell_call": "lsh", "apply_patch_call": "apc", "tool_search_call": "tsc",
    "web_search_call": "ws", "file_search_call": "fs", "code_interpreter_call": "ci", "image_generation_call": "ig",
    "mcp_call": "mcp", "mcp_list_tools": "mcpl", "mcp_approval_request": "mcpr", "compaction": "cmp",
    "server_tool_use": "srvtoolu", "mcp_tool_use": "mcptoolu",
}  # fmt: skip


class _Maker:
    """Makes one value of a type; `forms` says which member of a union stands at a path."""

    def __init__(self, forms: Mapping[Path, int]) -> None:
        self.forms = forms
        self.unions: dict[Path, int] = {}
        self.marks: dict[Path, str] = {}

    def make(self, hint: Any, path: Path, kind: str = "") -> Any:
        origin = typing.get_origin(hint)
        if origin in (
            typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired,
            typing.Annotated,
        ):  # fmt: skip
            return self.make(typing.get_args(hint)[0], path, kind)
        if origin is Literal:
            words = typing.get_args(hint)
            return next((word for word in _PREFERRED if word in words), words[0])
        if origin is Union or origin is type(int | str):
            return self._member([m for m in typing.get_args(hint) if m is not type(None)], path, kind)
        if typing_extensions.is_typeddict(hint):
            return self._keys(hint, path)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"k": self._mark((*path, "k"))}
        if isinstance(origin, type) and issubclass(origin, Iterable):
            return [self.make(typing.get_args(hint)[0], (*path, 0), kind)]
        return self._plain(hint, path, kind)

    def _member(self, members: list[Any], path: Path, kind: str) -> Any:
        if all(member is str or typing.get_origin(member) is Literal for member in members):
            return self.make(members[-1] if members[0] is str else members[0], path, kind)
        if len(path) > _DEPTH:
            return self.make(members[0], path, kind)
        self.unions[path] = len(members)
        return self.make(members[self.forms.get(path, 0)], path, kind)

    def _keys(self, hint: Any, path: Path) -> dict[str, Any]:
        hints = typing_extensions.get_type_hints(hint, include_extras=True)
        kind = self.make(hints["type"], (*path, "type")) if "type" in hints else ""
        made = {key: self.make(of, (*path, key), str(kind)) for key, of in hints.items() if key != "type"}
        return {"type": kind, **made} if "type" in hints else made

    def _plain(self, hint: Any, path: Path, kind: str) -> Any:
        if hint is bool:
            return True
        if hint in (int, float):
            number = 70001 + len(self.marks)
            self.marks[path] = str(number)
            return number
        return self._mark(path, kind)

    def _mark(self, path: Path, kind: str = "") -> str:
        word, key = f"mark{len(self.marks):03d}m", str(path[-1]) if path else ""
        if key == "id" and kind in _ID_PREFIXES:
            word = f"{_ID_PREFIXES[kind]}_{word}"
        self.marks[path] = _SOUGHT.get(key, str)(word)
        return _FORMS.get(key, str)(word)


def samples(hint: Any, name: str = "") -> Iterator[Sample]:
    """A value of a type with all its fields, and one for each other form of a field."""
    waiting: list[dict[Path, int]] = [{}]
    seen: set[Path] = set()
    while waiting:
        forms = waiting.pop()
        maker = _Maker(forms)
        value = maker.make(hint, ())
        yield Sample(f"{name}{_told(forms)}", value, maker.marks)
        for path, count in maker.unions.items():
            if path not in seen:
                # the other members, each with the fields around it as in this sample
                seen.add(path)
                waiting.extend({**forms, path: number} for number in range(1, count))


def _told(forms: Mapping[Path, int]) -> str:
    return "".join(f" {'.'.join(map(str, path))}={number}" for path, number in forms.items())


def members(hint: Any) -> list[Any]:
    """The types of a union."""
    if typing.get_origin(hint) is typing.Annotated:
        return members(typing.get_args(hint)[0])
    if typing.get_origin(hint) is Union or typing.get_origin(hint) is type(int | str):
        return [found for member in typing.get_args(hint) for found in members(member)]
    return [hint]
