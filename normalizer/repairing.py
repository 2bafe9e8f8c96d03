"""read -> fold -> project -> check, each by itself and as one function.

There is one repair, and it is the projection of the facts; nothing here edits a payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from normalizer import registry
from normalizer.errors import CannotProject, RuleViolations, UnreadableInput
from normalizer.folding.fold_run import fold
from normalizer.options import REASON, checked_options, checked_origin, checked_profile
from normalizer.parts import Json
from normalizer.projection import Adjustment, Projection
from normalizer.reading import host_facts, inputs, sanitizing
from normalizer.rules import judge, rejects
from normalizer.rules.again import judgement
from normalizer.util.collector import collector_paused
from normalizer.util.text import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from normalizer.facts import Fact
    from normalizer.findings import Finding, Fragment, Leftover, Reading
    from normalizer.provider import Provider
    from normalizer.reading.inputs import Source
    from normalizer.reporting.types import ReportDict
    from normalizer.rules import Violation
    from normalizer.rules.again import Judgement
    from normalizer.transcript import Transcript


P = ParamSpec("P")
R = TypeVar("R")


def _depth_reported(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with what is nested deeper than this language recurses reported as UnreadableInput (`too_deep`)."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise sanitizing.too_deep() from None

    return run


@_depth_reported
@collector_paused
def read(
    source: Source, *, format: str | None = "auto", origin: Mapping[str, Any] | None = None, to: str | None = None,  # noqa: A002
) -> Reading:  # fmt: skip
    """The facts of an input, what was wrong with it, and everything that became no fact.

    An input that fits several APIs alike is read as that of `to`, else as Chat Completions.
    Raises UnreadableInput (`no_messages` where there is nothing in it) and UnknownFormat.
    """
    known = checked_origin(origin)
    name = "auto" if format is None else format
    return inputs.read(source, name=name, origin=known, to=to, readers=registry)


@_depth_reported
def read_stream(events: Iterable[Any], target: str) -> Reading:
    """The facts of a stream's events, up to where it ends or is cut.

    Events are SDK objects, parsed `data`, or SSE text.
    """
    return inputs.read_events(events, registry.provider(target).assembler())


@_depth_reported
@collector_paused
def project(
    transcript: Transcript, target: str, *, previous: Projection | None = None, **options: Any
) -> Projection:
    """The request for one target.

    `options` are the fields of `Options`; `previous` is an earlier projection to go on from.

    Raises OpenCalls, CannotProject, UnknownFormat (no such target).
    """
    return registry.provider(target).project(transcript, checked_options(options, previous), previous)


@_depth_reported
def check(
    request: Any, target: str, *, profile: str | None = None, context: Mapping[str, Any] | None = None
) -> tuple[Violation, ...]:
    """The rules of the target that a request breaks, in the order of the rulebook."""
    if not isinstance(request, Mapping):
        raise UnreadableInput(f"a request is an object, not {shape_of(request)}")
    if not isinstance(context, Mapping | None):
        raise UnreadableInput(f"context= is {shape_of(context)}; pass an object", reason=REASON)
    known = dict(context or {})
    checked_profile(profile, target, registry.provider(target).profiles)
    if profile is not None:
        known["profile"] = profile
    return judge(registry.provider(target).rules, request, known)


@dataclass(frozen=True, slots=True)
class Repair:
    """Everything that a repair found and did; `report()` has all of it as JSON."""

    format: str
    to: str
    request: dict[str, Any]
    transcript: Transcript
    findings: tuple[Finding, ...]
    adjustments: tuple[Adjustment, ...]
    leftovers: tuple[Leftover, ...]
    fragments: tuple[Fragment, ...]
    ids: dict[str, str]
    ready: bool
    violations_before: tuple[Violation, ...]
    violations_after: tuple[Violation, ...]

    def report(self) -> ReportDict:
        """All of it as JSON, nothing cut: `{"format": "anthropic", "to": "openai_chat", "request": {…}, …}`.

        What JSON cannot hold (half a surrogate pair, NaN) is made visible in its place. Parts of the request are shared
        with the repair: do not edit them.
        """
        from normalizer.reporting import lines  # noqa: PLC0415 - loaded for those who want a report

        return {
            "format": self.format,
            "to": self.to,
            "ready": self.ready,
            "request": lines.request_dict(self.request),
            "ids": lines.ids_dict(self.ids),
            "outcomes": lines.outcomes(self.transcript),
            "findings": [lines.finding_dict(found) for found in self.findings],
            "adjustments": [lines.adjustment_dict(made) for made in self.adjustments],
            "leftovers": [lines.leftover_dict(left) for left in self.leftovers],
            "fragments": [lines.fragment_dict(cut) for cut in self.fragments],
            "violations_before": [lines.violation_dict(found) for found in self.violations_before],
            "violations_after": [lines.violation_dict(found) for found in self.violations_after],
        }


@_depth_reported
def repair(
    source: Source, *, format: str | None = "auto", to: str | None = None,  # noqa: A002
    facts: Iterable[Fact | Mapping[str, Any]] | None = (), origin: Mapping[str, Any] | None = None,
    open_calls: Any = "unknown", **options: Any,
) -> Repair:  # fmt: skip
    """Read an input, fold its facts, project them, check the request, and account for every difference.

    `facts` is what the host knows beside the input, `origin` what the input does not say of itself. Raises
    UnreadableInput, UnknownFormat, CannotProject, OpenCalls; RuleViolations would be a bug of this library.
    """
    known = checked_origin(origin)
    reading = read(source, format=format, origin=known, to=to)
    of_host = host_facts.completed(facts, reading.facts)
    transcript = fold((*reading.facts, *of_host.facts))
    target = to if to is not None else _home(reading, transcript)
    provider = registry.provider(target)
    same = reading.request is not None and reading.home == target
    model = options.pop("model", None)
    if model is None and same:
        named = reading.settings.get("model")
        model = named if isinstance(named, str) else None
    options.setdefault("account", known.get("account"))
    options.setdefault("container_expired", bool(known.get("container_expired")))
    options.setdefault("stored", reading.stored if same else None)
    projection = project(transcript, target, model=model, open_calls=open_calls, **options)
    context = {
        "history": True,
        "received_types": received_types(transcript, target),
        "profile": options.get("profile"),
    }
    adjustments = list(projection.adjustments)
    request = projection.request
    if same:
        dropped = ("container",) if known.get("container_expired") else ()
        request = _with_settings(reading, request, dropped)
        added = frozenset({"model"} - (reading.request or {}).keys())
        judged = judgement(provider.rules, request, context)
        request, judged = _without_bad_settings(
            provider, request, projection.request, judged, adjustments, added
        )
    else:
        judged = judgement(provider.rules, request, context)
        adjustments.extend(
            Adjustment("trimmed", f"the setting {key!r} of {reading.home!r} does not go to another API",
                       content=Json.of(value).text)
            for key, value in reading.settings.items()
            if key not in request
        )  # fmt: skip
    after = judged.violations
    before: tuple[Violation, ...] = ()
    if same and reading.request is not None:
        unchanged = reading.request == request
        before = after if unchanged else judged.again(reading.request).violations
    if bad := rejects(after):
        if options["stored"] is True and reading.stored is not True:
            _say_at_odds(target, bad[0])
        _give_up(target, bad, before)
    return Repair(
        format=reading.format,
        to=target,
        request=request,
        transcript=transcript,
        findings=(*reading.findings, *of_host.findings, *transcript.findings),
        adjustments=tuple(adjustments),
        leftovers=(*reading.leftovers, *of_host.leftovers),
        fragments=reading.fragments,
        ids=projection.ids,
        ready=projection.ready,
        violations_before=before,
        violations_after=after,
    )


def _say_at_odds(target: str, found: Violation) -> NoReturn:
    """The host says that the provider holds half of the history, and the input names no such half."""
    raise CannotProject(
        f"{target} would refuse the request: {found.message} (rule {found.rule}, at {found.pointer or '/'});"
        " stored=True says that the provider holds earlier items, and the input does not: leave stored=True out",
        reason="unmendable",
    )


def _give_up(target: str, bad: tuple[Violation, ...], before: tuple[Violation, ...]) -> NoReturn:
    """What is too large, or broke the same rule in the input, is no fault of the projection: it says what to do."""
    known = {found.rule for found in before}
    first = next((found for found in bad if found.rule not in known and _LIMITS not in found.rule), None)
    if first is not None:
        raise RuleViolations(target, bad)
    first = bad[0]
    limit = _LIMITS in first.rule
    raise CannotProject(
        f"{target} would refuse the request: {first.message} (rule {first.rule}, at {first.pointer or '/'}); "
        + ("shorten the history first: compact it, or begin a new one with a summary" if limit else
           f"nothing that is on record mends it; see `transcript-normalizer explain {first.rule}`"),
        reason="over_limit" if limit else "unmendable",
    )  # fmt: skip


_LIMITS = "-LIM-"
"""In the ids of rules about size, in every rulebook."""


def received_types(transcript: Transcript, target: str) -> tuple[str, ...]:
    """The block types that no reader knows and that came from the target's own API."""
    return tuple(
        sorted(
            {
                part.type
                for entry in transcript.entries
                for part in entry.parts
                if part.kind == "opaque" and getattr(entry.fact, "api", target) in (None, target)
            }
        )
    )


def _home(reading: Reading, transcript: Transcript) -> str:
    if reading.home is not None:
        return reading.home
    api = next((e.fact.api for e in reversed(transcript.entries) if e.kind == "reply" and e.fact.api), None)
    if api is None:
        raise CannotProject(
            "the input does not say which API it is for; name one with to=", reason="no_target"
        )
    return str(api)


def _with_settings(reading: Reading, projected: dict[str, Any], dropped: tuple[str, ...]) -> dict[str, Any]:
    """The projection with the input's other settings, in the input's order."""
    given = reading.request or {}
    request: dict[str, Any] = {}
    for key in given:
        if key in projected:
            request[key] = projected[key]
        elif key in reading.settings and key not in dropped:
            request[key] = reading.settings[key]
    for key, value in projected.items():
        if key not in request:
            request[key] = value
    betas = given.get("betas")
    if "betas" in projected and isinstance(betas, list):
        held = [b for b in betas if isinstance(b, str)]
        request["betas"] = [
            *betas,
            *(b for b in projected["betas"] if not any(_release(b) == _release(h) for h in held)),
        ]
    return request


def _release(beta: str) -> str:
    """A beta's name without its date."""
    return beta.rsplit("-", 3)[0]


def _setting_of(provider: Provider, found: Violation) -> str:
    """The setting that a violation is about: where it stands, or the one that gives way for its rule."""
    return provider.yielding.get(found.rule) or (found.pointer.split("/")[1] if found.pointer else "")


def _without_bad_settings(
    provider: Provider, request: dict[str, Any], projected: dict[str, Any], judged: Judgement,
    adjustments: list[Adjustment], added: frozenset[str],
) -> tuple[dict[str, Any], Judgement]:  # fmt: skip
    """Leave out settings that the API would refuse; the history is not theirs to spoil. So with a model that the input
    did not name, where the kind of request takes none (`added`).

    Returns the request and the judgement on it.
    """
    while True:
        bad = next(
            (
                (found, key)
                for found in rejects(judged.violations)
                if (key := _setting_of(provider, found)) in request and (key not in projected or key in added)
            ),
            None,
        )
        if bad is None:
            return request, judged
        found, key = bad
        request = {name: value for name, value in request.items() if name != key}
        judged = judged.again(request)
        adjustments.append(
            Adjustment("trimmed", f"the setting {key!r} is left out: {found.message}", found.rule)
        )
