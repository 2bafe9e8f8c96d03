"""The laws of the house, held against random facts and random payloads."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anthropic.types.beta import BetaMessageParam
from hypothesis import assume, given
from hypothesis import strategies as st
from lawful import LAWS, OPTIONS, blocks_of, law, projected, repaired, strings, within
from pydantic import TypeAdapter

import normalizer
from normalizer.notices import MARK, read_back
from normalizer.parts import Json
from normalizer.projecting import canonical
from normalizer.reading.placeholders import placeholder
from normalizer.repairing import received_types
from normalizer.testing import anthropic_requests, assert_accepts, histories
from normalizer.testing.strategies import MODELS

if TYPE_CHECKING:
    from normalizer.facts import Fact, RequestSent

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
MESSAGE: TypeAdapter[Any] = TypeAdapter(BetaMessageParam)


# ---------------------------------------------------------------- the fold


def same(left: normalizer.Transcript, right: normalizer.Transcript) -> None:
    """Two transcripts say the same, in the same order."""
    assert left == right
    for name in ("calls", "server_calls"):
        assert list(getattr(left, name)) == list(getattr(right, name))
    assert left.heads == right.heads
    assert sorted(left.pending) == sorted(right.pending)


@law(histories(), st.randoms(use_true_random=False), examples=150)
def test_the_order_of_arrival_does_not_matter(told: list[Fact], chance: Any) -> None:
    shuffled = [*told]
    chance.shuffle(shuffled)
    same(normalizer.fold(shuffled), normalizer.fold(told))


@law(histories(), st.randoms(use_true_random=False), st.booleans(), examples=150)
def test_folding_in_pieces_is_folding_at_once(told: list[Fact], chance: Any, shuffle: bool) -> None:
    arrived = [*told]
    if shuffle:
        chance.shuffle(arrived)
    cut = chance.randint(0, len(arrived))
    first = normalizer.fold(arrived[:cut])
    same(normalizer.fold(arrived[cut:], onto=first), normalizer.fold(told))
    # somebody else may go on from the same transcript, and it is still what it was
    same(normalizer.fold(arrived[cut:], onto=first), normalizer.fold(told))
    same(first, normalizer.fold(arrived[:cut]))


@law(histories(), examples=60)
def test_a_repeated_fact_changes_nothing(told: list[Fact]) -> None:
    once = normalizer.fold(told)
    same(normalizer.fold([*told, *told]), once)
    same(normalizer.fold(told, onto=once), once)


# ---------------------------------------------------------------- the projection


@law(
    histories(),
    OPTIONS,
    examples=250,
)
def test_every_projection_is_accepted(told: list[Fact], options: dict[str, Any]) -> None:
    projection = projected(told, **options)
    assume(projection is not None)
    assert projection is not None
    received = received_types(normalizer.fold(told), "anthropic")
    assert_accepts(projection.request, "anthropic", context={"history": True, "received_types": received})


@law(histories(), OPTIONS, examples=100)
def test_every_message_is_of_the_sdks_types(told: list[Fact], options: dict[str, Any]) -> None:
    projection = projected(told, **options)
    assume(projection is not None)
    assert projection is not None
    received = set(received_types(normalizer.fold(told), "anthropic"))
    for message in projection.request["messages"]:
        _exhaust(MESSAGE.validate_python(_without(message, received)))


def _without(message: dict[str, Any], received: set[str]) -> dict[str, Any]:
    """The message without blocks of types that no schema knows."""
    content = message["content"]
    if not isinstance(content, list):
        return message
    kept = [
        {**b, "content": _without(b, received)["content"]} if isinstance(b.get("content"), list) else b
        for b in content
        if b.get("type") not in received
    ]
    return {**message, "content": kept}


def _exhaust(value: Any) -> None:
    """Look at everything that the SDK's types validate only when it is iterated."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return
    for item in value:
        _exhaust(item)


def recorded_words(told: list[Fact]) -> set[str]:
    """Every text that some fact records as the content of a call's result."""
    found: set[str] = set()
    for fact in told:
        content = getattr(fact, "content", None)
        for part in (content,) if isinstance(content, str) else content or ():
            found.add(part if isinstance(part, str) else getattr(part, "text", ""))
            if getattr(part, "kind", None) == "opaque":
                found.add(Json.of(part.raw.value).text)
        if isinstance(raw := getattr(fact, "raw", None), Json) and raw.valid:
            found.update(strings(raw.value))
    return found


@law(histories(), OPTIONS, examples=150)
def test_every_word_in_a_result_is_recorded_or_a_sealed_notice(
    told: list[Fact], options: dict[str, Any]
) -> None:
    projection = projected(told, **options)
    assume(projection is not None)
    assert projection is not None
    recorded = recorded_words(told)
    for block in blocks_of(projection.request):
        if block.get("type") == "tool_result":
            content = block.get("content") or ""
            texts = (
                [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]
            )
            for text in texts:
                assert text == "" or text in recorded or read_back(text, block["tool_use_id"])


@law(histories(), OPTIONS, examples=150)
def test_a_server_tool_never_gets_a_result_that_it_did_not_return(
    told: list[Fact], options: dict[str, Any]
) -> None:
    projection = projected(told, **options)
    assume(projection is not None)
    assert projection is not None
    returned = [
        part.raw.value
        for fact in told
        for part in getattr(fact, "parts", ())
        if part.kind == "server_tool_result"
    ]
    for block in blocks_of(projection.request):
        if str(block.get("type")).endswith("_tool_result"):
            assert {k: v for k, v in block.items() if k != "cache_control"} in returned


@law(histories(), examples=250)
def test_what_was_sent_is_a_prefix_of_what_is_sent_later(told: list[Fact]) -> None:
    base: tuple[RequestSent, dict[str, Any]] | None = None
    for number, fact in enumerate(told, start=1):
        if fact.kind == "reply_cut" and fact.refused:
            base = None  # it is no base: the prefix begins anew
        if fact.kind == "request_sent":
            assert fact.options is not None
            held = projected([x for x in told if x.seq <= fact.through], **fact.options.value)
            assert held is not None
            base = fact, held.request
        if base is not None:
            _is_prefix(*base, told[:number])


def _is_prefix(sent: RequestSent, request: dict[str, Any], told: list[Fact]) -> None:
    """The request begins a later one, or the later one says that it does not, for a reason that the design lists."""
    assert sent.options is not None
    since = [fact for fact in told if fact.seq > sent.through]
    rebased = any(fact.kind in ("summarised", "rewound") for fact in since)
    later = projected(told, **sent.options.value)
    if later is None:
        assert rebased or _given_up(request)
        return
    reported = [a for a in later.adjustments if a.kind == "prefix_changed"]
    if not reported:
        assert canonical.encode(later.request).startswith(canonical.encode(request))
        return
    assert rebased or _top_replaced(request, since) or _given_up(request) or _a_rule_would_break(request)


def _top_replaced(request: dict[str, Any], since: list[Fact]) -> bool:
    """Instructions or tools came, or a tool was called that nobody had declared, so that it has to be."""
    declared = {tool.get("name") for tool in request.get("tools", ())}
    called = {p.name for f in since for p in getattr(f, "parts", ()) if p.kind == "tool_call"}
    return not called <= declared or any(f.kind in ("instructions_set", "tools_declared") for f in since)


def _given_up(request: dict[str, Any]) -> bool:
    """The request held a server call that was open, which the user may give up."""
    answered = {b.get("tool_use_id") for b in blocks_of(request)}
    opened = {b["id"] for b in blocks_of(request) if b.get("type") in ("server_tool_use", "mcp_tool_use")}
    return not opened <= answered


def _a_rule_would_break(request: dict[str, Any]) -> bool:
    """The request ended with a system message, which nothing but a reply may follow (ANT-SYS-005)."""
    return bool(request["messages"][-1]["role"] == "system")


@law(
    histories(),
    st.sampled_from(MODELS),
    st.randoms(use_true_random=False),
    examples=150,
)
def test_going_on_from_a_projection_is_projecting_from_scratch(
    told: list[Fact], model: str, chance: Any
) -> None:
    transcript, previous = normalizer.fold([]), None
    at = 0
    while at < len(told):
        step = chance.randint(1, 4)
        transcript = normalizer.fold(told[at : at + step], onto=transcript)
        at += step
        options = {"model": model, "open_calls": "say_running"}
        scratch = projected(told[:at], **options)
        if scratch is None:
            continue
        going_on = normalizer.project(transcript, "anthropic", previous=previous, **options)
        for name in ("request", "adjustments", "ids", "late_news", "ready"):
            assert getattr(going_on, name) == getattr(scratch, name), name
        assert json.dumps(going_on.request) == json.dumps(scratch.request)
        assert going_on.sending() == scratch.sending()
        previous = going_on


@law(histories(), st.sampled_from(MODELS), examples=150)
def test_what_we_said_is_read_back_as_the_same_outcomes(told: list[Fact], model: str) -> None:
    projection = projected(told, model=model, open_calls="unknown")
    assume(projection is not None)
    assert projection is not None
    transcript = normalizer.fold(told)
    read = normalizer.fold(normalizer.read(copy.deepcopy(projection.request), format="anthropic").facts)
    shown = {b["id"] for b in blocks_of(projection.request, "assistant") if b.get("type") == "tool_use"}
    waiting = {a.call_id for a in projection.adjustments if a.kind == "withheld_news"}
    for key, wire_id in projection.ids.items():
        if wire_id in shown and key not in waiting:
            kind = transcript.calls[key].outcome.kind
            assert read.calls[wire_id].outcome.kind == ("unknown" if kind == "pending" else kind), key


# ---------------------------------------------------------------- payloads

STRUCTURE = {
    "user", "assistant", "system", "tool", "developer", "text", "tool_use", "tool_result", "thinking", "image",
    "base64", "server_tool_use", "web_search_tool_result", "ephemeral", "object",
}  # fmt: skip
"""Words of the wire's own grammar: roles and types."""


@law(anthropic_requests(), examples=250)
def test_nothing_of_a_payload_is_lost_in_reading(payload: dict[str, Any]) -> None:
    try:
        reading = normalizer.read(copy.deepcopy(payload), format="anthropic")
    except normalizer.UnreadableInput as error:
        if error.reason != "no_messages":
            raise
        return
    kept: set[str] = set()
    for fact in reading.facts:
        _collect(json.loads(normalizer.facts.dump(fact)), kept)
    for piece in (*reading.leftovers, *reading.fragments):
        _collect(piece.text, kept)
        _collect(getattr(piece, "call_id", None), kept)
        _collect(getattr(piece, "name", None), kept)
    whole = "\0".join(kept)
    for key in ("messages", "system", "tools"):
        for text in strings(payload.get(key)):
            assert text in STRUCTURE or text in whole


@law(anthropic_requests(), examples=150)
def test_a_caller_may_go_on_changing_what_was_read(payload: dict[str, Any]) -> None:
    given = copy.deepcopy(payload)
    try:
        reading = normalizer.read(given, format="anthropic")
    except normalizer.UnreadableInput as error:
        if error.reason != "no_messages":
            raise
        return
    of_text = normalizer.read(json.dumps(payload), format="anthropic")
    assert given == payload
    _overwrite(given)
    for name in ("facts", "findings", "leftovers", "fragments", "settings"):
        assert getattr(reading, name) == getattr(of_text, name), name


def _overwrite(value: Any) -> None:
    """Change everything in a value that can be changed."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _overwrite(item)
        value.clear()


def _collect(value: Any, kept: set[str]) -> None:
    """All strings of a value, also of the JSON texts in it."""
    for text in strings(value):
        kept.add(text)
        if text[:1] in '{["':
            try:
                inner = json.loads(text)
            except ValueError:
                continue
            if inner != text:
                _collect(inner, kept)


@law(anthropic_requests(), examples=250)
def test_every_payload_is_repaired_and_repairing_twice_changes_nothing(payload: dict[str, Any]) -> None:
    first = repaired(payload)
    assume(first is not None)
    assert first is not None
    second = repaired(first.request)
    assert second is not None
    assert json.dumps(second.request) == json.dumps(first.request)
    assert second.ready == first.ready
    for key, wire_id in first.ids.items():
        if wire_id in second.ids:
            assert second.transcript.calls[wire_id].outcome.kind == first.transcript.calls[key].outcome.kind


@law(anthropic_requests(), examples=200)
def test_a_payload_without_fault_comes_out_as_it_was(payload: dict[str, Any]) -> None:
    assume(payload["messages"])
    assume(not any(text.startswith(MARK) or placeholder(text) or "\0" in text for text in strings(payload)))
    assume(not normalizer.check(payload, "anthropic"))
    result = repaired(payload)
    assert result is not None
    assert result.request == payload
    assert list(result.request) == list(payload)


@law(anthropic_requests(), examples=150)
def test_every_difference_is_reported(payload: dict[str, Any]) -> None:
    result = repaired(payload)
    assume(result is not None)
    assert result is not None
    if result.request != payload:
        assert result.findings or result.adjustments
    if canonical.encode(result.request) != canonical.encode({**payload, "messages": _objects(payload)}):
        unreadable = {
            "bad_unicode",
            "bad_line",
            "unknown_block",
            "orphan_result",
            "duplicate_result",
            "fragment",
        }
        assert result.adjustments or unreadable & {finding.kind for finding in result.findings}


def _objects(payload: dict[str, Any]) -> list[Any]:
    """The messages, with blocks that are no objects left out: they have no canonical bytes."""
    return [
        {**m, "content": [b for b in m["content"] if isinstance(b, dict)]}
        if isinstance(m.get("content"), list)
        else m
        for m in payload["messages"]
    ]


@law(anthropic_requests(broken=False), examples=60)
def test_a_healthy_payload_breaks_no_rule(payload: dict[str, Any]) -> None:
    assert normalizer.check(payload, "anthropic") == ()


# ---------------------------------------------------------------- the same bytes everywhere

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


@pytest.mark.soak
@pytest.mark.parametrize("name", LAWS)
def test_soak(name: str) -> None:
    check, strategies, examples = LAWS[name]
    within(50 * examples, derandomize=False)(given(*strategies)(check))()
