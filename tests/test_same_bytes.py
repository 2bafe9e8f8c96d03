"""The same bytes everywhere: a repair asks neither the clock nor chance, and no order of sets shows in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
_PRINT_DIGESTS = """
import datetime, hashlib, json, os, random, sys, time, uuid
from pathlib import Path
import normalizer, normalizer.reporting, normalizer.providers.anthropic, normalizer.sessions.claude_code

def never(*args, **more):
    raise AssertionError("the library asked for the time or for chance")

cases = sorted(Path(sys.argv[1]).glob("*/input.json*"))
if sys.argv[2] == "backwards":
    cases.reverse()
for module, names in ((time, ("time", "time_ns", "monotonic", "perf_counter")), (random, ("random", "getrandbits")),
                      (uuid, ("uuid4", "uuid1")), (os, ("urandom",))):
    for name in names:
        setattr(module, name, never)
found = {}
for case in cases:
    result = normalizer.repair(case)
    text = json.dumps([result.request, result.report()], ensure_ascii=False)
    found[case.parent.name] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
print(json.dumps(found, sort_keys=True))
"""


def _digests(seed: str, order: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_DIGESTS, str(CASES), order],
        env=environment, capture_output=True, text=True, check=False, timeout=60, cwd=CASES.parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_bytes_depend_on_nothing_but_the_input() -> None:
    first = _digests("1", "forwards")
    assert len(json.loads(first)) > 20
    assert _digests("2", "backwards") == first
