"""What a rulebook is: rules that judge a request of one API, each with its reason.

A rule looks at a request, never at a transcript, and holds no repair. It shares no code with the projection
that it judges. What a request alone cannot show stands in the context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from normalizer.text import excerpt

_LONGEST: Final = 400

Severity: TypeAlias = Literal["reject", "policy", "degrades", "contested"]
"""`reject`: the API answers 4xx. `policy`: it may accept what nobody observed. `degrades`: accepted with a loss.
`contested`: reports differ; a warning, never a block."""

Request: TypeAlias = Mapping[str, Any]
Context: TypeAlias = Mapping[str, Any]
"""What is known beside the request, by the keys of the rulebook's page; `history`: the request is a history only,
so what the caller adds is not asked for."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a request breaks. `pointer` is a JSON pointer into the request (RFC 6901, `""` is all of it)."""

    pointer: str
    message: str
    rule: str = ""
    severity: Severity = "reject"


Check: TypeAlias = Callable[[Request, Context], Iterator[Violation]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that an API demands of a history.

    The first line of the check's docstring is the statement; the rest is the explanation, in Markdown. `error` is a
    fragment of the API's error text, None where none is known. `static`: the request alone decides.
    """

    id: str
    name: str
    severity: Severity
    source: str
    error: str | None
    check: Check
    static: bool = True
    applies: str | None = None

    @property
    def statement(self) -> str:
        """What is demanded, in one sentence."""
        return inspect.getdoc(self.check).split("\n", 1)[0]  # type: ignore[union-attr]

    @property
    def explanation(self) -> str:
        """The rest of the rule's text: why, in Markdown; may be empty."""
        return inspect.getdoc(self.check).partition("\n")[2].strip()  # type: ignore[union-attr]

    def violations(self, request: Request, context: Context) -> Iterator[Violation]:
        """The places where the request breaks this rule, in order. A place may be less severe than the rule."""
        for found in self.check(request, context):
            severity = self.severity if found.severity == "reject" else found.severity
            message = excerpt(found.message, _LONGEST)  # it quotes the request, which may hold anything
            yield replace(found, rule=self.id, severity=severity, message=message)


Rulebook: TypeAlias = tuple[Rule, ...]


Seen = TypeVar("Seen")
View: TypeAlias = Callable[[Request], Seen]
"""What a rule reads a request through."""


@dataclass(slots=True)
class _Sight:
    """The request that is being judged, and what its remembered views have shown so far."""

    request: Request
    shown: dict[View[Any], Any] = field(default_factory=dict)


_SIGHT: Final[ContextVar[_Sight | None]] = ContextVar("sight", default=None)


def remembered(view: View[Seen]) -> View[Seen]:
    """Let a view look once at the request that `judge` is judging; every rule is shown the same value.

    The value is shared, so nobody changes it, and a view that yields returns a list instead. Outside of `judge`,
    and for any other request, the view looks each time: a request that is edited is never seen as it was.
    """

    @wraps(view)
    def look(request: Request) -> Seen:
        sight = _SIGHT.get()
        if sight is None or sight.request is not request:
            return view(request)
        if view not in sight.shown:
            sight.shown[view] = view(request)
        return cast("Seen", sight.shown[view])

    return look


def judge(rulebook: Rulebook, request: Request, context: Context | None = None) -> tuple[Violation, ...]:
    """All violations of a request, rule by rule."""
    known = context or {}
    before = _SIGHT.set(_Sight(request))
    try:
        return tuple(found for rule in rulebook for found in rule.violations(request, known))
    finally:
        _SIGHT.reset(before)


def rejects(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Those for which the API would refuse the request."""
    return tuple(found for found in violations if found.severity == "reject")


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901) from its steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
