"""Fast construction of frozen dataclasses.

A frozen dataclass sets each field through `object.__setattr__`, which costs three times an ordinary
assignment and is most of the time of reading a long history. `maker` returns a constructor for the same
class that assigns in the ordinary way: it fills a twin with the same slots and then hands it over.
The result is a true instance of the frozen class.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def maker(cls: type[T]) -> Callable[..., T]:
    """A constructor of the frozen, slotted dataclass `cls` without its per-field cost; same parameters and defaults."""
    twin = twin_of(cls)
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    scope: dict[str, Any] = {
        f"default_{field.name}": field.default
        for field in fields(cls)  # type: ignore[arg-type]
        if field.default is not MISSING
    }
    parameters = ", ".join(
        f"{n}=default_{n}" if f"default_{n}" in scope else n for n in _ordered(names, scope)
    )
    lines = [
        f"def make({parameters}):",
        "    made = new(twin)",
        *(f"    made.{name} = {name}" for name in names),
        "    made.__class__ = cls",
        "    return made",
    ]
    scope.update(twin=twin, cls=cls, new=object.__new__)
    exec("\n".join(lines), scope)  # noqa: S102 - nothing but names of dataclass fields
    make: Callable[..., T] = scope["make"]
    return make


def twin_of(cls: type) -> type:
    """A class with the slots of `cls` whose instances can be filled, and can then become instances of `cls`."""
    return type(
        cls.__name__,
        cls.__bases__,
        {
            "__slots__": cls.__dict__["__slots__"],
            # both, or Python keeps the slow path for attribute stores
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        },
    )


def _ordered(names: list[str], scope: dict[str, Any]) -> list[str]:
    """Parameters without a default first, otherwise as the class has them."""
    return sorted(names, key=lambda name: f"default_{name}" in scope)
