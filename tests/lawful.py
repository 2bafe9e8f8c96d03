"""How a law is tried: on the same conversations with every target, each read, folded and projected once.

Of a case that breaks a law the facts that are not needed for that are taken away, one after the other. The soak tries
thirty times as many cases, other ones each time.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, event, given, seed, settings
from hypothesis import strategies as st
from judging import JUDGES, TARGETS, Judge

import normalizer
from normalizer.repairing import received_types
from normalizer.testing import histories, history

try:
    from normalizer import request_sent
except ImportError:  # it has not always been a public name
    from normalizer.projecting.sent_record import request_sent  # type: ignore[no-redef]

if TYPE_CHECKING:
    from views import Piece

    from normalizer.facts import Fact

REASONS: Final = {"no_messages"}
EXAMPLES: Final = 240
BATCH: Final = 20
SOAK: Final = 30


@dataclass(eq=False)
class Case:
    """A conversation with a target, and what the library makes of it."""

    target: str
    told: list[Fact]
    options: dict[str, Any]
    seed: int = 0
    tally: Counter[str] = field(default_factory=Counter)

    @property
    def judge(self) -> Judge:
        return JUDGES[self.target]

    @property
    def dice(self) -> Random:
        """Chance that the case brings along, the same each time."""
        return Random(self.seed)  # noqa: S311 - dice

    @cached_property
    def transcript(self) -> normalizer.Transcript:
        return normalizer.fold(self.told)

    @cached_property
    def projection(self) -> normalizer.Projection | None:
        """None where there is a documented reason why there can be none."""
        return projected(self.transcript, self.target, **self.options)

    @cached_property
    def pieces(self) -> list[Piece]:
        assert self.projection is not None
        return self.judge.pieces(self.projection.request)

    @cached_property
    def context(self) -> Mapping[str, Any]:
        return {"history": True, "received_types": received_types(self.transcript, self.target)}

    def count(self, what: str) -> None:
        """Something that happened to a case, for the law's own statistics."""
        self.tally[what] += 1
        if currently_in_test_context():
            event(what)


def projected(transcript: normalizer.Transcript, target: str, **options: Any) -> normalizer.Projection | None:
    """The projection, or None where there is nothing to send or where calls are open and that was not to be."""
    try:
        return normalizer.project(transcript, target, **options)
    except normalizer.OpenCalls as error:
        if options.get("open_calls", "refuse") != "refuse" or error.call_ids != transcript.pending:
            raise
    except normalizer.CannotProject as error:
        if error.reason not in REASONS:
            raise
    return None


def repaired(payload: Any, api: str, **options: Any) -> normalizer.Repair | None:
    """The repair of a copy of a payload, or None where there is nothing in it."""
    with contextlib.suppress(normalizer.UnreadableInput, normalizer.CannotProject):
        return normalizer.repair(copy.deepcopy(payload), format=api, **options)
    return None


def facts_of(payload: Any, api: str) -> list[Fact]:
    """The facts of a payload; none where there is nothing in it."""
    with contextlib.suppress(normalizer.UnreadableInput):
        return list(normalizer.read(copy.deepcopy(payload), format=api).facts)
    return []


# ---------------------------------------------------------------- conversations


def numbered(payload: Any) -> Any:
    """A payload in which no two people say the same, so that it can be seen where each text went."""
    count = 0

    def visit(value: Any, key: str) -> Any:
        nonlocal count
        if isinstance(value, dict):
            results = value.get("role") == "tool" or "tool_use_id" in value or "call_id" in value
            return value if results else {name: visit(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [visit(item, key) for item in value]
        if key in ("text", "content") and isinstance(value, str) and value.strip() and value[0] != "[":
            count += 1
            return f"§{count} {value}"
        return value

    return visit(payload, "")


def conversations(target: str) -> st.SearchStrategy[list[Fact]]:
    """Facts that a request to a target is made of: told by a host, or read from a history of any API."""
    live = history(target=target, min_size=8, max_size=16)
    read = [
        judge.payloads().map(lambda p, api=api: facts_of(numbered(p), api)) for api, judge in JUDGES.items()
    ]  # type: ignore[misc]
    return st.one_of(live, live, live, live, live, histories(target), st.one_of(read))


AS_SENT: Final = "that of the last request"


def _case(target: str, told: list[Fact], options: dict[str, Any], dice: int) -> Case:
    if options["model"] == AS_SENT:
        sent = [fact.model for fact in told if fact.kind == "request_sent"]
        options = {**options, "model": sent[-1] if sent else None}
    return Case(target, told, options, dice)


def cases(target: str) -> st.SearchStrategy[Case]:
    """Conversations, each with the options of a projection: mostly for the model that was asked before."""
    options = st.fixed_dictionaries(
        {
            "model": st.sampled_from([*[AS_SENT] * 5, JUDGES[target].model, None, "some-other-model"]),
            "open_calls": st.sampled_from(["say_running", "unknown", "say_running", "unknown", "refuse"]),
            "server_tools": st.sampled_from(["drop", "drop", "quote"]),
            "account": st.sampled_from([None, None, None, "other"]),
        }
    )
    return st.builds(_case, st.just(target), conversations(target), options, st.integers(0, 2**32))


@cache
def shared(target: str) -> list[Case]:
    """The same cases for every law, in batches: what Hypothesis tries in one it varies, so that it repeats itself."""
    found: list[Case] = []

    def take(case: Case) -> None:  # Hypothesis wants a function of Python's
        found.append(case)

    for number in range(EXAMPLES // BATCH):
        batch = within(BATCH, derandomize=False, phases=(Phase.generate,))(given(cases(target))(take))
        seed(number)(batch)()
    return Random(1).sample(found, len(found))  # noqa: S311 - dice


def within(examples: int, *, derandomize: bool, phases: tuple[Phase, ...] = tuple(Phase)) -> settings:
    """How many examples are tried, and how."""
    return settings(
        max_examples=examples, deadline=None, derandomize=derandomize, phases=phases,
        suppress_health_check=list(HealthCheck), database=None,
    )  # fmt: skip


# ---------------------------------------------------------------- laws

Law: TypeAlias = Callable[[Case], None]


def law(
    *, examples: int = EXAMPLES, least: Mapping[str, float] | None = None
) -> Callable[[Law], Callable[..., None]]:
    """A law of every target, tried on `examples` cases.

    A law counts what it sees (`case.count`). `least` are the shares of all cases that have to be counted under a name,
    so that no law can excuse every case.
    """

    def register(check: Law) -> Callable[..., None]:
        rows = [pytest.param(target, 1, id=target) for target in TARGETS]
        rows += [
            pytest.param(target, SOAK, id=f"{target}-long", marks=pytest.mark.soak) for target in TARGETS
        ]

        @pytest.mark.parametrize(("target", "times"), rows)
        def test(target: str, times: int) -> None:
            tally: Counter[str] = Counter()

            def tried(case: Case) -> None:
                case.tally = tally
                held(check, case)

            if times == 1:
                for case in shared(target)[:examples]:
                    tried(case)
            else:
                within(examples * times, derandomize=False, phases=(Phase.generate,))(
                    given(cases(target))(tried)
                )()
            print(f"{check.__name__}, {target}: {dict(sorted(tally.items()))}")  # noqa: T201 - the law's account
            for what, share in (least or {}).items():
                assert tally[what] >= share * examples * times, (what, tally)

        test.__doc__ = check.__doc__
        return test

    return register


def held(check: Law, case: Case) -> None:
    """Hold a case to a law. One that breaks it is shown as small as it gets."""
    try:
        check(case)
    except AssertionError as error:
        small = smallest(check, case)
        lines = "\n".join(f"  {fact!r}," for fact in small.told)
        note = f"{case.target}, {small.options}, dice {small.seed}; the smallest case:\n{lines}"
        with contextlib.suppress(AttributeError):
            note += "\n" + "\n".join(map(repr, small.projection.adjustments))  # type: ignore[union-attr]
            note += "\n" + repr(small.projection.request)  # type: ignore[union-attr]
        try:
            check(small)
        except AssertionError as shown:
            shown.add_note(note)
            raise shown from None
        error.add_note(note)
        raise


def smallest(check: Law, case: Case) -> Case:
    """The case with as few facts as break the law as well; what is sent in it is projected anew."""
    found, at = case, 0
    while at < len(found.told):
        fewer = replace(
            found, told=resent([*found.told[:at], *found.told[at + 1 :]], case.target), tally=Counter()
        )
        if _breaks(check, fewer):
            found = fewer
        else:
            at += 1
    return found


def _breaks(check: Law, case: Case) -> bool:
    try:
        check(case)
    except AssertionError:
        return True
    except Exception:  # noqa: BLE001 - then it is another fault, or none
        return False
    return False


def resent(told: list[Fact], target: str) -> list[Fact]:
    """The facts, with the requests in them as they would have gone out."""
    found: list[Fact] = []
    for fact in told:
        if fact.kind != "request_sent":
            found.append(fact)
            continue
        options = fact.options.value if fact.options is not None else {}
        asked = projected(normalizer.fold([x for x in found if x.seq <= fact.through]), target, **options)
        if asked is not None:
            sent = request_sent(asked, fact_id=fact.fact_id, seq=fact.seq, turn_id=fact.turn_id)
            found.append(replace(sent, options=fact.options))
    return found


def on_requests(check: Law) -> Law:
    """A law about cases that make a request."""

    def checked(case: Case) -> None:
        case.count("nothing to send" if case.projection is None else "looked at")
        if case.projection is not None:
            check(case)

    checked.__name__, checked.__doc__ = check.__name__, check.__doc__
    return checked


__all__ = [
    "Case",
    "facts_of",
    "held",
    "law",
    "on_requests",
    "projected",
    "repaired",
    "request_sent",
    "resent",
]
