"""What a rulebook is: rules that judge a request of one API, each with its reason.

A rule looks at a request, never at a transcript, and holds no repair. It shares no code with the projection
that it judges. What a request alone cannot show stands in the context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from normalizer.util.collector import collector_paused
from normalizer.util.text import excerpt

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
class Reach:
    """How far a rule looks that judges a history piece by piece; its violations stand in the order of the pieces.

    `history` is the key of the request's messages or items. `step`: each of them is judged by itself. `neighbours`: by
    the turns around it, two on each side, too. What else the rule reads of the request does not matter here.
    """

    history: str
    span: Literal["step", "neighbours"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that an API demands of a history.

    The first line of the check's docstring is the statement; the rest is the explanation, in Markdown. `error` is a
    fragment of the API's error text, None where none is known. `static`: the request alone decides. `reach` is None
    for a rule about the whole request.
    """

    id: str
    name: str
    severity: Severity
    source: str
    error: str | None
    check: Check
    static: bool = True
    applies: str | None = None
    reach: Reach | None = None

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


class Watched(dict[str, Any]):
    """A request that takes down in `read` which of its keys are asked for; None stands for all of them."""

    __slots__ = ("read",)

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.read: set[str | None] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is asked for hereby."""
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(key if isinstance(key, str) else None)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.read.add(None)
        return super().__iter__()

    def keys(self) -> Any:
        """All keys; every key is asked for hereby."""
        self.read.add(None)
        return super().keys()

    def values(self) -> Any:
        """All values; every key is asked for hereby."""
        self.read.add(None)
        return super().values()

    def items(self) -> Any:
        """All items; every key is asked for hereby."""
        self.read.add(None)
        return super().items()


@dataclass(slots=True)
class _Sight:
    """The request that is being judged, and what its remembered views have shown so far, and read for it."""

    request: Request
    shown: dict[View[Any], tuple[Any, set[str | None]]] = field(default_factory=dict)

    def show(self, view: View[Seen]) -> Seen:
        """What the view shows of the request; who is shown it has read what the view read."""
        request = self.request
        if not isinstance(request, Watched):
            if view not in self.shown:
                self.shown[view] = (view(request), set())
            return cast("Seen", self.shown[view][0])
        if view not in self.shown:
            outer, request.read = request.read, set()
            try:
                self.shown[view] = (view(request), request.read)
            finally:
                request.read = outer
        request.read |= self.shown[view][1]
        return cast("Seen", self.shown[view][0])


_SIGHT: Final[ContextVar[_Sight | None]] = ContextVar("sight", default=None)


@contextmanager
def in_sight(request: Request) -> Iterator[None]:
    """Let views remember this request for a while."""
    before = _SIGHT.set(_Sight(request))
    try:
        yield
    finally:
        _SIGHT.reset(before)


def remembered(view: View[Seen]) -> View[Seen]:
    """Let a view look once at the request that `judge` is judging; every rule is shown the same value.

    The value is shared, so nobody changes it, and a view that yields returns a list instead. Outside of `judge`,
    and for any other request, the view looks each time: a request that is edited is never seen as it was.
    """

    @wraps(view)
    def look(request: Request) -> Seen:
        sight = _SIGHT.get()
        return view(request) if sight is None or sight.request is not request else sight.show(view)

    return look


@collector_paused
def judge(rulebook: Rulebook, request: Request, context: Context | None = None) -> tuple[Violation, ...]:
    """All violations of a request, rule by rule."""
    known = context or {}
    with in_sight(request):
        return tuple(found for rule in rulebook for found in rule.violations(request, known))


def reaching(
    rulebook: Rulebook, history: str, step: frozenset[str], neighbours: frozenset[str] = frozenset()
) -> Rulebook:
    """The rulebook with the reach of its rules, which are named by their ids; the others are about the whole."""
    spans: dict[str, Literal["step", "neighbours"]] = {
        **dict.fromkeys(step, "step"), **dict.fromkeys(neighbours, "neighbours")
    }  # fmt: skip
    return tuple(
        replace(rule, reach=Reach(history, spans[rule.id])) if rule.id in spans else rule for rule in rulebook
    )


def rejects(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Those for which the API would refuse the request."""
    return tuple(found for found in violations if found.severity == "reject")


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901) from its steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
