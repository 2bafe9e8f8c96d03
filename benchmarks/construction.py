"""What making a frozen record costs, as ratios against a plain class with the same fields in the same run.

    python benchmarks/construction.py [--rounds 25]

"Frozen" is the dataclass's own constructor, "maker" that of `normalizer.util.speed`. Readers make some three records
for each message. The ratio is that of the best rounds: anything else on the machine only adds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import MISSING, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from normalizer.facts import CallCompleted, ModelReplied
from normalizer.parts import Json, Text, ToolCall
from normalizer.util.speed import maker

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES, LIMIT = 4000, 0.75
SAMPLES: tuple[tuple[type, dict[str, Any]], ...] = (
    (Text, {"text": "Hi"}),
    (ToolCall, {"id": "toolu_1", "name": "read", "arguments": Json("{}")}),
    (CallCompleted, {"fact_id": "a", "seq": 1, "call_id": "toolu_1"}),
    (ModelReplied, {"fact_id": "a", "seq": 1, "parts": ()}),
)


def plain(cls: type) -> type:
    """A class with the same fields that is not frozen."""
    parameters = sorted(fields(cls), key=lambda one: one.default is not MISSING)
    return make_dataclass(
        cls.__name__, [(one.name, object, field(default=one.default)) for one in parameters], slots=True
    )


def timed(make: Callable[..., object], given: dict[str, Any]) -> float:
    """Seconds for one record."""
    start = time.perf_counter()
    for _ in range(TIMES):
        make(**given)
    return (time.perf_counter() - start) / TIMES


def main() -> None:
    """Print a table and the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    for cls, given in SAMPLES:
        ways = {"plain": plain(cls), "frozen": cls, "maker": maker(cls)}
        rounds = [{name: timed(make, given) for name, make in ways.items()} for _ in range(options.rounds)]
        best = {name: min(one[name] for one in rounds) for name in ways}
        print(f"{cls.__name__}, {len(fields(cls))} fields: plain {best['plain'] * 1e6:.2f} us,", end=" ")
        print(", ".join(f"{name} {best[name] / best['plain']:.2f} x" for name in ("frozen", "maker")))
    print(f"limit: maker {LIMIT} x frozen; where it is not, `maker` has no worth any more")


if __name__ == "__main__":
    main()
