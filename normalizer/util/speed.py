"""Fast construction of frozen dataclasses.

A frozen dataclass sets each field through `object.__setattr__`, which costs several times an ordinary
assignment and is most of the time of reading a long history. `maker` returns a constructor for the same
class that assigns in the ordinary way: it fills a twin with the same slots, which then becomes an instance of the
frozen class. `benchmarks/construction.py` says what that is worth.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def maker(cls: type[T]) -> Callable[..., T]:
    """A constructor of the frozen, slotted dataclass `cls` without its per-field cost.

    It takes the same parameters with the same defaults, those without a default first. A `__post_init__` of `cls` is
    not called.
    """

    def become(made: T) -> None:
        made.__class__ = cls

    # not frozen, so that its constructor assigns; not keyword-only, since defaults by position are found faster
    parameters = sorted(fields(cls), key=lambda one: one.default is not MISSING)  # type: ignore[arg-type]
    ordinary = make_dataclass(
        cls.__name__,
        [(one.name, object, field(default=one.default)) for one in parameters],
        namespace={"__post_init__": become},
        repr=False,
        eq=False,
    )
    return cast("Callable[..., T]", twin_of(cls, __init__=vars(ordinary)["__init__"], __post_init__=become))


def twin_of(cls: type, **methods: Any) -> type:
    """A class with the slots of `cls` whose instances can be filled, and can then become instances of `cls`."""
    return type(
        cls.__name__,
        cls.__bases__,
        {
            "__slots__": cls.__dict__["__slots__"],
            # both, or Python keeps the slow path for attribute stores
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
            **methods,
        },
    )
