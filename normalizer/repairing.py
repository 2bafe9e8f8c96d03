"""read -> fold -> project -> check, each by itself and as one function.

There is one repair, and it is the projection of the facts; nothing here edits a payload.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from normalizer import admission, cleaning, hosts, registry
from normalizer.errors import CannotProject, RuleViolations, UnknownFormat, UnreadableInput
from normalizer.facts import load_lines
from normalizer.folding import fold
from normalizer.parts import Json
from normalizer.pausing import collector_paused
from normalizer.projection import Adjustment, Projection
from normalizer.reading import Finding, Leftover, Reading
from normalizer.rules import judge, rejects
from normalizer.text import excerpt

if TYPE_CHECKING:
    from normalizer.facts import Fact
    from normalizer.provider import Assembler, Provider
    from normalizer.reading import Fragment
    from normalizer.rules import Violation
    from normalizer.shapes import ReportDict
    from normalizer.transcript import Transcript

# marks of UTF-16 and UTF-32, and how JSON begins in them without one
_OTHER_ENCODINGS: Final = (
    b"\xff\xfe",
    b"\xfe\xff",
    b"\0\0\xfe\xff",
    b"{\0",
    b"[\0",
    b"\0{",
    b"\0[",
    b"\0\0\0{",
    b"\0\0\0[",
)
Source: TypeAlias = "Path | str | bytes | bytearray | Mapping[str, Any] | Sequence[Any]"
"""A path, a text (a path unless it begins with `{` or `[`), bytes, or parsed JSON with SDK objects anywhere in it."""

_CERTAIN = 100
_SNIFFED = 65_536
_WHERE_IN_DOUBT = "openai_chat"
_HOLDERS = frozenset(  # keys of requests, messages, responses and lists of items
    {"messages", "content", "choices", "tool_calls", "input", "output", "data"}
)


# ---------------------------------------------------------------- read


@collector_paused
def read(
    source: Source, *, format: str | None = "auto", origin: Mapping[str, Any] | None = None, to: str | None = None,  # noqa: A002
) -> Reading:  # fmt: skip
    """The facts of an input, what was wrong with it, and everything that became no fact.

    An input that fits several APIs alike is read as that of `to`, else as Chat Completions.
    Raises UnreadableInput (`no_messages` where there is nothing in it) and UnknownFormat.
    """
    known = admission.origin(origin)
    name = "auto" if format is None else format
    if isinstance(source, (Path, str, bytes, bytearray)):
        reading = _from_bytes(_load(source), name, known, to)
    else:
        reading = _borrowed(source, name, known) or _from_value(cleaning.from_value(source), name, known, to)
    model = known.get("model")
    if model:
        facts = tuple(
            replace(fact, model=model)
            if fact.kind in ("model_replied", "reply_cut") and fact.model is None
            else fact
            for fact in reading.facts
        )
        reading = replace(reading, facts=facts)
    return reading


def _load(source: Path | str | bytes | bytearray) -> bytes:
    if isinstance(source, str):
        if source.lstrip()[:1] in ("{", "["):
            return source.encode("utf-8", "surrogatepass")
        source = Path(source)
    if isinstance(source, Path):
        try:
            return source.read_bytes()
        except OSError as error:
            what = error.strerror or type(error).__name__
            raise UnreadableInput(
                f"cannot read {str(source)!r}: {what}; check the path", reason="not_found"
            ) from None
        except ValueError:
            raise UnreadableInput(
                "the path holds a NUL character; check the path", reason="not_found"
            ) from None
    return bytes(source)


def _from_bytes(data: bytes, name: str, origin: Mapping[str, Any], to: str | None) -> Reading:
    if not data.strip(b" \t\r\n\0"):
        raise UnreadableInput("the input is empty: there are no messages in it", reason="no_messages")
    if not isinstance(name, str) or name in registry.FORMATS:
        return registry.session_format(name).read(data, origin)
    if name == "facts" or (name == "auto" and _is_facts(data)):
        return Reading(format="facts", facts=tuple(load_lines(data)))
    if name == "auto":
        head = data[:_SNIFFED]
        scores = {n: registry.session_format(n).sniff(head) for n in registry.FORMATS}
        best = max(scores, key=lambda n: scores[n], default="")
        if scores.get(best, 0) > 0:
            return registry.session_format(best).read(data, origin)
    elif name not in registry.PROVIDERS:
        registry.session_format(name)  # raises with the names there are
    try:
        cleaned = cleaning.from_text(data)
    except ValueError as error:
        found = _lines(data)
        if found is None:
            raise _no_json(data, error) from None
        cleaned = found
    return _from_value(cleaned, name, origin, to)


def _is_facts(data: bytes) -> bool:
    first = data.lstrip()[:400]
    return first.startswith(b'{"fact_id"') or (
        first.startswith(b"{") and b'"fact_id"' in first and b'"kind"' in first
    )


def _no_json(data: bytes, error: ValueError) -> UnreadableInput | UnknownFormat:
    if data.startswith(_OTHER_ENCODINGS):
        return UnreadableInput("the input is not UTF-8, it looks like UTF-16 or UTF-32; save it as UTF-8")
    if not isinstance(error, json.JSONDecodeError) and "digits" in str(error):
        # only the language's own limit on numbers says this: as JSON the text is sound
        return UnreadableInput("a number in the input has more digits than can be read; no API accepts it")
    if data[:1] not in b"{[" and data.lstrip()[:1] not in b"{[":
        return UnknownFormat(
            "the input is no JSON and no session file that is known; pass the history as JSON"
        )
    line = getattr(error, "lineno", None)
    where = f"line {line}, column {getattr(error, 'colno', 0)}: " if line else ""
    return UnreadableInput(
        f"{where}the input is not valid JSON ({getattr(error, 'msg', 'cut off?')})", line=line
    )


def _lines(data: bytes) -> cleaning.Cleaned | None:
    """Messages one a line; a line that is none is a finding."""
    result = cleaning.Cleaned([])
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            found = cleaning.from_text(line)
        except ValueError:
            found = None
        if found is None or not (isinstance(found.value, dict) and "role" in found.value):
            if number == 1:
                return None
            place = Finding("bad_line", "the line is no message", line=number)
            result.findings.append(place)
            text = line.decode("utf-8", "replace")
            result.leftovers.append(Leftover("a line that is no message", text, line=number))
            continue
        result.value.append(found.value)
        result.findings.extend(found.findings)
        result.leftovers.extend(found.leftovers)
    return result if result.value else None


def _borrowed(value: Any, name: str, origin: Mapping[str, Any]) -> Reading | None:
    """The reading of a usual request by a reader that copies only what it keeps, which saves a quarter of the time.

    None where there is no such reader, or where it met anything unusual.
    """
    if type(value) is not dict or _empty(value):
        return None
    for each in registry.PROVIDERS if name == "auto" else (name,) if name in registry.PROVIDERS else ():
        provider = registry.provider(each)
        if provider.borrow is not None and (name != "auto" or provider.sniff(value) == _CERTAIN):
            try:
                return provider.borrow(value, origin)
            except cleaning.Unclean:
                return None
    return None


def _from_value(cleaned: cleaning.Cleaned, name: str, origin: Mapping[str, Any], to: str | None) -> Reading:
    value = cleaned.value
    if name != "auto":
        chosen = _named(name)
    else:
        scores = {n: registry.provider(n).sniff(value) for n in registry.PROVIDERS}
        best = max(scores, key=lambda n: (scores[n], n == to, n == _WHERE_IN_DOUBT))
        if scores[best] <= 0:
            if _empty(value):
                raise UnreadableInput("there are no messages in the input", reason="no_messages")
            raise UnknownFormat(
                f"this JSON ({_shape(value)}) is no history that is known; formats: {', '.join(registry.names())}"
            )
        chosen = registry.provider(best)
    if _empty(value):
        raise UnreadableInput("there are no messages in the input", reason="no_messages")
    if not isinstance(value, (dict, list)) or not (isinstance(value, list) or not _HOLDERS.isdisjoint(value)):
        raise UnknownFormat(f"this JSON ({_shape(value)}) is no history of {chosen.name!r}")
    try:
        reading = chosen.read(value, origin)
    except cleaning.Unclean:
        cleaned = cleaning.clean(cleaned)
        reading = chosen.read(cleaned.value, origin)
    if cleaned.findings:
        reading = replace(
            reading,
            findings=(*cleaned.findings, *reading.findings),
            leftovers=(*cleaned.leftovers, *reading.leftovers),
        )
    return reading


def _named(name: Any) -> Provider:
    """The reader of parsed JSON of this name."""
    if isinstance(name, str) and name in (*registry.FORMATS, "facts"):
        raise UnknownFormat(f"{name!r} is a format of files; pass a path, or the bytes or text of one")
    if not isinstance(name, str) or name not in registry.PROVIDERS:
        registry.session_format(name)  # raises with the names there are
    return registry.provider(name)


def _empty(value: Any) -> bool:
    return value in ([], {}) or (
        isinstance(value, dict) and any(value.get(k) == [] for k in ("messages", "input", "contents"))
    )


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(repr(excerpt(str(k), 30)) for k in list(value)[:5]) or 'no keys'}"
    if isinstance(value, list):
        return (
            f"a list of {len(value)} items, the first a {type(value[0]).__name__}"
            if value
            else "an empty list"
        )
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def read_stream(events: Iterable[Any], target: str) -> Reading:
    """The facts of a stream's events, up to where it ends or is cut.

    Events are SDK objects, parsed `data`, or SSE text.
    """
    assembler: Assembler = registry.provider(target).assembler()
    if not isinstance(events, Iterable):
        raise UnreadableInput(f"a stream is an iterable of events, not {_shape(events)}")
    for event in events:
        assembler.feed(event)
    return assembler.reading()


# ---------------------------------------------------------------- project and check


@collector_paused
def project(
    transcript: Transcript, target: str, *, previous: Projection | None = None, **options: Any
) -> Projection:
    """The request for one target.

    `options` are the fields of `Options`; `previous` is an earlier projection to go on from.

    Raises OpenCalls, CannotProject, UnknownFormat (no such target).
    """
    return registry.provider(target).project(transcript, admission.options(options, previous), previous)


def check(
    request: Any, target: str, *, profile: str | None = None, context: Mapping[str, Any] | None = None
) -> tuple[Violation, ...]:
    """The rules of the target that a request breaks, in the order of the rulebook."""
    if not isinstance(request, Mapping):
        raise UnreadableInput(f"a request is an object, not {_shape(request)}")
    if not isinstance(context, Mapping | None):
        raise UnreadableInput(f"context= is {_shape(context)}; pass an object", reason=admission.REASON)
    known = dict(context or {})
    if profile is not None:
        known["profile"] = profile
    return judge(registry.provider(target).rules, request, known)


# ---------------------------------------------------------------- repair


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
        """All of it as a JSON-able dict, nothing cut."""
        from normalizer.reporting import report  # noqa: PLC0415 - reporting stands above this module

        return report(self)


def repair(
    source: Source, *, format: str | None = "auto", to: str | None = None,  # noqa: A002
    facts: Iterable[Fact | Mapping[str, Any]] | None = (), origin: Mapping[str, Any] | None = None,
    open_calls: Any = "unknown", **options: Any,
) -> Repair:  # fmt: skip
    """Read an input, fold its facts, project them, check the request, and account for every difference.

    `facts` is what the host knows beside the input, `origin` what the input does not say of itself. Raises
    UnreadableInput, UnknownFormat, CannotProject, OpenCalls; RuleViolations would be a bug of this library.
    """
    known = admission.origin(origin)
    reading = read(source, format=format, origin=known, to=to)
    said = hosts.heard(facts, reading.facts)
    transcript = fold((*reading.facts, *said.facts))
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
        request, after = _without_bad_settings(
            provider, request, projection.request, context, adjustments, added
        )
    else:
        after = check(request, target, profile=options.get("profile"), context=context)
        adjustments.extend(
            Adjustment("trimmed", f"the setting {key!r} of {reading.home!r} does not go to another API",
                       content=Json.of(value).text)
            for key, value in reading.settings.items()
            if key not in request
        )  # fmt: skip
    before: tuple[Violation, ...] = ()
    if same and reading.request is not None:
        unchanged = reading.request == request
        before = (
            after
            if unchanged
            else check(reading.request, target, profile=options.get("profile"), context=context)
        )
    if bad := rejects(after):
        if options["stored"] is True and reading.stored is not True:
            _say_at_odds(target, bad[0])
        _give_up(target, bad, before)
    return Repair(
        format=reading.format,
        to=target,
        request=request,
        transcript=transcript,
        findings=(*reading.findings, *said.findings, *transcript.findings),
        adjustments=tuple(adjustments),
        leftovers=(*reading.leftovers, *said.leftovers),
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
           f"nothing that is on record mends it; see `normalizer explain {first.rule}`"),
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
    provider: Provider, request: dict[str, Any], projected: dict[str, Any], context: Mapping[str, Any],
    adjustments: list[Adjustment], added: frozenset[str],
) -> tuple[dict[str, Any], tuple[Violation, ...]]:  # fmt: skip
    """Leave out settings that the API would refuse; the history is not theirs to spoil. So with a model that the input
    did not name, where the kind of request takes none (`added`).

    Returns the request and its violations.
    """
    while True:
        violations = judge(provider.rules, request, context)
        bad = next(
            (
                (found, key)
                for found in rejects(violations)
                if (key := _setting_of(provider, found)) in request and (key not in projected or key in added)
            ),
            None,
        )
        if bad is None:
            return request, violations
        found, key = bad
        request = {name: value for name, value in request.items() if name != key}
        adjustments.append(
            Adjustment("trimmed", f"the setting {key!r} is left out: {found.message}", found.rule)
        )
