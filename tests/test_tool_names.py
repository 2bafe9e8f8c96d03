"""The names of tools: one name for one tool in a request, whatever else is declared, called or was sent."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lawful import within

import normalizer
from normalizer import facts as f
from normalizer import registry
from normalizer.parts import Json, Opaque, Text, Tool, ToolCall
from normalizer.projecting.dialect_policies import CAUSES, IdPolicy
from normalizer.projecting.sent_record import request_sent

if TYPE_CHECKING:
    from collections.abc import Iterator

ODD: Final = "read file"
MADE: Final = "read_file_b1c237ba"
"""What the odd name is sent as where nothing has that name: its letters, and the beginning of a SHA-256."""
NAMES: Final = (ODD, "read.file", MADE, MADE.upper(), "read_file", "lecture/é", "x" * 200, "look")
FITS: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Talk:
    """A conversation, grown fact by fact; each request is gone on to from the last one, and made from scratch."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.facts: list[f.Fact] = []
        self.transcript = normalizer.fold([])
        self.last: normalizer.Projection | None = None
        self.calls = 0
        self.add(f.UserSaid, turn_id="t", parts=(Text("Go."),))

    def add(self, kind: Any, **fields: Any) -> Any:
        seq = len(self.facts) + 1
        fact = kind(fact_id=f"fact-{seq}", seq=seq, source="test", **fields)
        self.facts.append(fact)
        self.transcript = normalizer.fold([fact], onto=self.transcript)
        return fact

    def declare(self, *names: str) -> None:
        tools = tuple(
            Tool(name, f"Does {number}.", Json.of({"type": "object"})) for number, name in enumerate(names)
        )
        self.add(f.ToolsDeclared, tools=tools)

    def call(self, name: str) -> None:
        self.calls += 1
        key = f"call_{self.calls}"
        answers = next((fact.fact_id for fact in reversed(self.facts) if fact.kind == "request_sent"), None)
        self.add(f.ModelReplied, turn_id="t", parts=(ToolCall(key, name, Json("{}")),), answers=answers)
        self.add(f.CallCompleted, call_id=key, content="done")

    def send(self) -> normalizer.Projection:
        projection = self.project()
        seq = len(self.facts) + 1
        sent = request_sent(projection, fact_id=f"fact-{seq}", seq=seq)
        self.facts.append(sent)
        self.transcript = normalizer.fold([sent], onto=self.transcript)
        return projection

    def refuse(self) -> None:
        newest = next(fact for fact in reversed(self.facts) if fact.kind == "request_sent")
        self.add(f.ReplyCut, refused=True, error="invalid_request_error", answers=newest.fact_id)

    def project(self) -> normalizer.Projection:
        transcript = self.transcript
        self.last = normalizer.project(transcript, self.target, previous=self.last)
        scratch = normalizer.project(normalizer.fold(self.facts), self.target)
        assert self.last.request == scratch.request
        assert self.last.adjustments == scratch.adjustments
        assert self.last.sending() == scratch.sending()
        return scratch


def names_in(value: Any) -> Iterator[str]:
    """Every name of a tool in a request, declared or called, in order."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from names_in(item)


def offered(projection: normalizer.Projection) -> list[str]:
    return list(names_in(projection.request.get("tools")))


def renames(projection: normalizer.Projection) -> dict[str, str]:
    """The reported names, as recorded -> as sent."""
    found = {}
    for note in projection.adjustments:
        if note.kind == "renamed_tool":
            told = re.fullmatch(r"the tool name '(.*)' is sent as '(.*)'", note.message)
            assert told is not None
            assert told[1] not in found
            found[told[1]] = told[2]
    return found


def sound(projection: normalizer.Projection, recorded: set[str], target: str) -> dict[str, str]:
    """The reported renames, after it was shown that each tool has a name of its own that every API takes."""
    reported = renames(projection)
    sent = {reported.get(name, name) for name in recorded}
    assert len(sent) == len(recorded)
    assert set(names_in(projection.request)) == sent
    assert all(map(FITS.fullmatch, reported.values()))
    assert {name for name in recorded if not FITS.fullmatch(name) and len(name) <= 128} <= set(reported)
    rules = {rule.id for rule in registry.provider(target).rules}
    assert {note.because for note in projection.adjustments if note.kind == "renamed_tool"} <= rules
    return reported


SITUATIONS: Final[dict[str, tuple[list[str], list[str]]]] = {
    "declared behind it": ([ODD, MADE], []),
    "declared before it": ([MADE, ODD], []),
    "called, and declared nowhere": ([ODD], [MADE]),
    "all called, none declared": ([], [ODD, MADE]),
    "declared and called": ([ODD, MADE], [MADE, ODD]),
    "two that look alike": ([ODD, "read.file", "read/file"], ["read_file", "read,file"]),
    "other case": ([ODD, MADE.upper()], []),
    "made twice": ([ODD, MADE, "read_file_952aa37c"], []),
    "too long": (["x" * 200, "x" * 201, "x" * 40], []),
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("target", registry.targets())
def test_a_made_name_is_no_other_tools(target: str, situation: str) -> None:
    declared, called = SITUATIONS[situation]
    talk = Talk(target)
    if declared:
        talk.declare(*declared)
    for name in called:
        talk.call(name)
    reported = sound(talk.project(), {*declared, *called}, target)
    assert not {name for name in reported if FITS.fullmatch(name)}


@pytest.mark.parametrize("target", registry.targets())
def test_a_made_name_differs_in_more_than_case(target: str) -> None:
    talk = Talk(target)
    talk.declare(ODD, MADE.upper())
    assert renames(talk.project())[ODD].casefold() != MADE.casefold()


@pytest.mark.parametrize("target", registry.targets())
def test_a_name_that_nothing_stands_in_the_way_of_is_always_the_same(target: str) -> None:
    talk = Talk(target)
    talk.declare(ODD, "look")
    talk.call(ODD)
    assert renames(talk.project()) == {ODD: MADE}


@pytest.mark.parametrize("target", registry.targets())
def test_a_later_tool_does_not_take_the_name_that_was_sent_for_another(target: str) -> None:
    talk = Talk(target)
    talk.declare(ODD)
    assert offered(talk.send()) == [MADE]
    talk.call(ODD)
    talk.declare(ODD, MADE)
    later = talk.project()
    reported = sound(later, {ODD, MADE}, target)
    assert reported[ODD] == MADE
    assert reported[MADE] != MADE


@pytest.mark.parametrize("target", registry.targets())
def test_what_was_not_sent_gives_way_to_a_later_tool(target: str) -> None:
    talk = Talk(target)
    talk.declare(ODD)
    assert offered(talk.project()) == [MADE]
    talk.declare(ODD, MADE)
    reported = sound(talk.project(), {ODD, MADE}, target)
    assert set(reported) == {ODD}


@pytest.mark.parametrize("target", registry.targets())
def test_a_model_that_calls_a_tool_by_the_name_it_was_sent_means_that_tool(target: str) -> None:
    talk = Talk(target)
    talk.declare(ODD)
    first = talk.send()
    talk.call(MADE)
    second = talk.send()
    assert offered(second) == offered(first) == [MADE]
    assert set(names_in(second.request)) == {MADE}
    assert renames(second) == {ODD: MADE}
    assert not [note for note in second.adjustments if note.kind == "prefix_changed"]
    talk.call(MADE)
    assert not [note for note in talk.project().adjustments if note.kind == "prefix_changed"]


@pytest.mark.parametrize("target", registry.targets())
def test_a_request_that_was_refused_fixes_no_name(target: str) -> None:
    talk = Talk(target)
    talk.declare(ODD)
    talk.send()
    talk.refuse()
    talk.declare(ODD, MADE)
    reported = sound(talk.project(), {ODD, MADE}, target)
    assert set(reported) == {ODD}


@pytest.mark.parametrize("target", registry.targets())
def test_the_record_of_what_was_sent_says_which_name_a_call_had(target: str) -> None:
    talk = Talk(target)
    talk.call(ODD)
    projection = talk.send()
    other = Talk(target)
    for fact in talk.facts[1:]:
        text = f.FACT.dump_json(fact).decode().replace(MADE, "as_it_was_made_before")
        other.facts.append(f.FACT.validate_json(text))
    other.transcript = normalizer.fold(other.facts)
    assert MADE in set(names_in(projection.request))
    assert set(names_in(other.project().request)) == {"as_it_was_made_before"}


EVENTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("declare"), st.lists(st.sampled_from(NAMES), max_size=4, unique=True)),
        st.tuples(st.just("call"), st.sampled_from(NAMES)),
        st.tuples(st.just("send"), st.none()),
        st.tuples(st.just("refuse"), st.none()),
    ),
    max_size=8,
)


@pytest.mark.parametrize("target", registry.targets())
def test_a_name_that_was_sent_stays_and_goes_to_no_other_tool(target: str) -> None:
    @within(60, derandomize=True)
    @given(EVENTS)
    def check(events: list[tuple[str, Any]]) -> None:
        talk = Talk(target)
        fixed: dict[str, str] = {}
        declared: set[str] = set()
        for what, about in events:
            if what == "declare":
                talk.declare(*about)
                declared = set(about)
            elif what == "call":
                talk.call(about)
            elif what == "send":
                projection = talk.send()
                reported = renames(projection)
                fixed |= {name: reported.get(name, name) for name in declared if name not in fixed}
            elif any(fact.kind == "request_sent" for fact in talk.facts):
                talk.refuse()
                fixed = {}
            reported = renames(talk.project())
            tools = [reported.get(name, name) for name in declared]
            assert len(set(tools)) == len(tools)
            called = {fact.parts[0].name for fact in talk.facts if fact.kind == "model_replied"}
            for name in declared:
                # a call by the name that was made for a tool is a call of that tool
                others = {reported.get(other, other) for other in called if other != name} - set(
                    fixed.values()
                )
                assert reported.get(name, name) not in others
            for name in declared & fixed.keys():
                assert reported.get(name, name) == fixed[name]

    check()


# ---------------------------------------------------------------- what each API says of itself


@pytest.mark.parametrize("target", registry.targets())
def test_what_is_reported_of_tools_has_a_rule_of_the_api_or_none(target: str) -> None:
    policy = import_module(f"{registry.PROVIDERS[target]}.preamble").POLICY
    assert policy.because.keys() == CAUSES
    assert set(policy.because.values()) - {None} <= {rule.id for rule in registry.provider(target).rules}
    assert policy.because["tool-name"]


def test_an_id_that_fits_is_kept_and_no_other_call_gets_it() -> None:
    policy = IdPolicy(pattern=re.compile("[a-z_0-9]{1,8}"), prefix="made_", limit=8)
    assert policy.give("key", "own", ()) == "own"
    assert policy.give("key", "own", {"own"}) == "own_2"
    assert policy.give("key", "own", {"own", "own_2"}) == "own_3"
    assert policy.give("key", "not own", ()).startswith("call_")
    assert policy.give("key", None, ()).startswith("made_")
    assert policy.give("key", None, ()) != policy.give("other", None, ())


@pytest.mark.parametrize("target", registry.targets())
def test_of_tools_with_one_name_the_first_is_sent_where_the_api_wants_it_so(target: str) -> None:
    policy = import_module(f"{registry.PROVIDERS[target]}.preamble").POLICY
    talk = Talk(target)
    talk.add(f.ToolsDeclared, tools=(Tool(ODD, "One."), Tool("look"), Tool(ODD, "Two.")))
    projection = talk.project()
    merged = [note for note in projection.adjustments if note.kind == "merged"]
    every = policy.repeated_tools == "all"
    assert offered(projection) == [MADE, "look", *([MADE] if every else [])]
    assert ["Two." in (note.content or "") for note in merged] == ([] if every else [True])
    assert [note.because for note in merged] == ([] if every else [policy.because["repeated-tool"]])


@pytest.mark.parametrize("target", registry.targets())
def test_names_of_tools_that_a_system_message_declares_are_taken_too(target: str) -> None:
    talk = Talk(target)
    change = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": MADE}}}
    talk.add(f.InstructionsSet, additional=True, parts=(Opaque("tool_addition", Json.of(change)),))
    talk.declare(ODD)
    assert renames(talk.project())[ODD] != MADE


@pytest.mark.parametrize("target", registry.targets())
def test_names_inside_of_what_a_server_runs_are_taken_too(target: str) -> None:
    talk = Talk(target)
    space = {"type": "namespace", "name": "files", "tools": [{"type": "function", "name": MADE}]}
    talk.add(f.ToolsDeclared, tools=(Tool(ODD), Tool("files", raw=Json.of(space), server=True)))
    assert renames(talk.project()).keys() == {ODD}
    assert MADE not in set(names_in(talk.project().request))
