"""Help for tests of programs that use this library: an assertion, and Hypothesis strategies.

Needs Hypothesis, which the extra `testing` brings: `pip install 'transcript-normalizer[testing]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from normalizer.repairing import check
from normalizer.rules import rejects

try:
    import hypothesis as _hypothesis
except ImportError as missing:
    raise ImportError(
        "normalizer.testing needs Hypothesis, which is not installed;"
        " install it with: pip install 'transcript-normalizer[testing]'",
        name=missing.name,
    ) from missing
else:
    del _hypothesis

from normalizer.payload_strategies import anthropic_requests
from normalizer.strategies import facts, histories, history, send

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def assert_accepts(
    request: Mapping[str, Any],
    target: str,
    *,
    profile: str | None = None,
    context: Mapping[str, Any] | None = None,
) -> None:
    """Fail with every `reject` violation of a request, so with every reason for which the API would refuse it.

    `context` is that of `normalizer.check`; pass `{"history": True}` for the request of a projection, to which the caller
    still adds `max_tokens`.
    """
    found = rejects(check(request, target, profile=profile, context=context))
    if found:
        lines = [f"  {v.rule} at {v.pointer or '/'}: {v.message}" for v in found]
        raise AssertionError(f"{target!r} would reject this request:\n" + "\n".join(lines))


__all__ = ["anthropic_requests", "assert_accepts", "facts", "histories", "history", "send"]
