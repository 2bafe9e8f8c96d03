"""Help for tests of programs that use this library: an assertion, and Hypothesis strategies.

Needs Hypothesis, which the extra `testing` brings: `pip install 'transcript-normalizer[testing]'`.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from normalizer import facts as f
from normalizer.parts import Json
from normalizer.repairing import check
from normalizer.rules import rejects

try:
    from hypothesis import strategies as st
except ImportError as missing:
    raise ImportError(
        "normalizer.testing needs Hypothesis, which is not installed;"
        " install it with: pip install 'transcript-normalizer[testing]'",
        name=missing.name,
    ) from missing

from normalizer.testing.openai_strategies import openai_chat_requests, openai_responses_requests
from normalizer.testing.payload_strategies import anthropic_requests
from normalizer.testing.strategies import ACTIONS, HOMES, Draw, Home, story

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from normalizer.facts import Fact


def assert_accepts(
    request: Mapping[str, Any],
    target: str,
    *,
    profile: str | None = None,
    context: Mapping[str, Any] | None = None,
) -> None:
    """Fail with every `reject` violation of a request, so with every reason for which the API would refuse it.

    `context` is that of `normalizer.check`; pass `{"history": True}` for the request of a projection, to which the
    caller still adds `max_tokens`.
    """
    found = rejects(check(request, target, profile=profile, context=context))
    if found:
        lines = [f"  {v.rule} at {v.pointer or '/'}: {v.message}" for v in found]
        raise AssertionError(f"{target!r} would reject this request:\n" + "\n".join(lines))


@st.composite
def history(
    draw: Draw,
    *,
    target: str = "anthropic",
    model: str | None = None,
    actions: Sequence[str] = ACTIONS,
    min_size: int = 1,
    max_size: int = 14,
) -> list[Fact]:
    """The facts of one conversation with a target, in order of `seq`. `actions` name what may happen in it."""
    home = HOMES.get(target, Home(target))
    teller = story(draw, home, model or draw(st.sampled_from(home.models)))
    for opening in ("instructions", "tools", "user"):
        if opening in actions and not teller.chance(6):
            getattr(teller, opening)()
    least = draw(st.sampled_from([min_size, max(min_size, max_size // 2)]))  # lists alone are mostly short
    for action in draw(st.lists(st.sampled_from(actions), min_size=least, max_size=max_size)):
        getattr(teller, action)()
    return teller.told


def histories(
    target: str = "anthropic", *, model: str | None = None, max_size: int = 14
) -> st.SearchStrategy[list[Fact]]:
    """Any plausible facts of one conversation with a target, with everything that can happen in it, by `seq`."""
    return history(target=target, model=model, max_size=max_size)


_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
).map(lambda value: Json(Json.of(value).text))
st.register_type_strategy(Json, _JSON)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    required = {x.name: st.from_type(hints[x.name]) for x in fields(kind) if x.default is MISSING}
    optional = {
        x.name: st.just(x.default) | st.from_type(hints[x.name])
        for x in fields(kind)
        if x.default is not MISSING and x.name != "kind"
    }
    return st.builds(kind, **required, **optional)


def facts() -> st.SearchStrategy[Fact]:
    """One fact of any kind, with any values: what can be stored, not what is plausible."""
    kinds = [kind for group in get_args(f.Fact) for kind in (get_args(group) or (group,))]
    return st.one_of([_of(kind) for kind in kinds])


__all__ = [
    "anthropic_requests",
    "assert_accepts",
    "facts",
    "histories",
    "history",
    "openai_chat_requests",
    "openai_responses_requests",
]
