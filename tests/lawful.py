"""What the tests of the laws share: how a law is registered, and how a projection or repair may fail to be."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import normalizer
from normalizer.testing.strategies import MODELS

if TYPE_CHECKING:
    from normalizer.facts import Fact

OPTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from([*MODELS, None, "some-other-model"]),
        "open_calls": st.sampled_from(["say_running", "unknown", "refuse"]),
    }
)
REASONS = {"no_messages"}
LAWS: dict[str, tuple[Callable[..., None], tuple[Any, ...], int]] = {}


def law(*strategies: Any, examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property: the same examples every time here, and fifty times as many random ones in the soak."""

    def register(check: Callable[..., None]) -> Callable[..., None]:
        LAWS[check.__name__] = (check, strategies, examples)
        return within(examples, derandomize=True)(given(*strategies)(check))

    return register


def within(examples: int, *, derandomize: bool, phases: tuple[Phase, ...] = tuple(Phase)) -> settings:
    """How a law is tried."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    database = None if derandomize else settings().database
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=derandomize,
        phases=phases,
        suppress_health_check=slow,
        database=database,
    )


def projected(told: list[Fact], **options: Any) -> normalizer.Projection | None:
    """The Anthropic projection, or None where there is a documented reason why there can be none."""
    transcript = normalizer.fold(told)
    try:
        return normalizer.project(transcript, "anthropic", **options)
    except normalizer.OpenCalls as error:
        if options.get("open_calls", "refuse") != "refuse" or error.call_ids != transcript.pending:
            raise
    except normalizer.CannotProject as error:
        if error.reason not in REASONS:
            raise
    return None


def repaired(payload: Any, **options: Any) -> normalizer.Repair | None:
    """The repair of a copy of a payload, or None where there is nothing in it."""
    try:
        return normalizer.repair(copy.deepcopy(payload), format="anthropic", **options)
    except normalizer.UnreadableInput as error:
        if error.reason != "no_messages":
            raise
    except normalizer.CannotProject as error:
        if error.reason not in REASONS:
            raise
    return None


def blocks_of(request: Mapping[str, Any], role: str | None = None) -> Iterator[dict[str, Any]]:
    """The blocks of the messages, those of one role only if asked for."""
    for message in request["messages"]:
        if isinstance(message["content"], list) and role in (None, message["role"]):
            yield from message["content"]


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)
