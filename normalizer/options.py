"""What callers pass beside an input, looked at once, where it comes in: options of a projection, and `origin`.

A value that is not taken is told with its name and what is taken in its place; nothing passes in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import CannotProject, UnreadableInput
from normalizer.projection import Options, Projection
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from normalizer.provider import Origin

REASON: Final = "bad_option"

_NAME: Final = ((str, NoneType), "a text or None")
_SWITCH: Final = ((bool,), "True or False")
_TYPES: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "model": _NAME,
    "profile": _NAME,
    "account": _NAME,
    "stored": ((bool, NoneType), "True, False or None"),
    "bridges": _SWITCH,
    "container_expired": _SWITCH,
}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "open_calls": ("refuse", "say_running", "unknown"),
    "server_tools": ("drop", "quote"),
}
_NAMES: Final = tuple(field.name for field in fields(Options))
_ORIGIN: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "model": _NAME,
    "account": _NAME,
    "stop_reason": _NAME,
    "container_expired": ((bool, NoneType), "True or False"),
    "calls": ((Mapping, NoneType), "an object of call ids"),
}


def checked_options(given: Mapping[str, Any], previous: Any = None) -> Options:
    """The options of a projection. Raises CannotProject, reason `bad_option`, naming the one that is not taken."""
    for name, value in given.items():
        if name not in _NAMES:
            raise CannotProject(
                f"there is no option {excerpt(name, 40)!r}; options: {', '.join(_NAMES)}", reason=REASON
            )
        if name in _CHOICES and not (isinstance(value, str) and value in _CHOICES[name]):
            raise _refused(name, value, f"one of {', '.join(map(repr, _CHOICES[name]))}")
        if name in _TYPES and not isinstance(value, _TYPES[name][0]):
            raise _refused(name, value, _TYPES[name][1])
        if name == "notices" and not (value is None or callable(value)):
            raise _refused(name, value, "a function of a call, or None")
    if previous is not None and not isinstance(previous, Projection):
        raise _refused("previous", previous, "an earlier projection, or None")
    return Options(**given)


def checked_profile(given: Any, target: str, profiles: tuple[str, ...]) -> None:
    """Raise CannotProject, reason `unknown_profile`, where a target has no profile of this name."""
    if given is not None and given not in profiles:
        there_are = f"; profiles: {', '.join(profiles)}" if profiles else ""
        raise CannotProject(
            f"the target {target!r} has no profile {_shown(given)}{there_are}", reason="unknown_profile"
        )


def _refused(name: str, value: Any, taken: str) -> CannotProject:
    return CannotProject(f"{name}={_shown(value)} is not taken; pass {taken}", reason=REASON)


def checked_origin(given: Any) -> Origin:
    """What the host says of an input. Raises UnreadableInput, reason `bad_option`, naming the field that is wrong."""
    if given is None:
        return {}
    _look(given, "origin")
    calls = given.get("calls")
    for call_id in calls or ():
        _look(calls[call_id], f"origin['calls'][{excerpt(repr(call_id), 40)}]")
    known: Origin = given
    return known


def _look(given: Any, where: str) -> None:
    if not isinstance(given, Mapping):
        raise UnreadableInput(f"{where} is {_shown(given)}; pass an object", reason=REASON)
    for name in given:
        if name not in _ORIGIN:
            raise UnreadableInput(
                f"{where}[{excerpt(repr(name), 40)}] is no field of it; fields: {', '.join(_ORIGIN)}",
                reason=REASON,
            )
    for name, (types, taken) in _ORIGIN.items():
        if not isinstance(given.get(name), (*types, NoneType)):
            raise UnreadableInput(f"{where}[{name!r}] is {_shown(given[name])}; pass {taken}", reason=REASON)


def _shown(value: Any) -> str:
    """A value for a message: short, redacted, and with its type where it is no text."""
    shown = excerpt(repr(value), 40)
    return shown if isinstance(value, str) or value is None else f"{shown} ({type(value).__name__})"
