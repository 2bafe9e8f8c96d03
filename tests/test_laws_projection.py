"""Every projection, held against random facts of every target: accepted, true, whole, and the same on every way."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from judging import dumped
from known_gaps import gap
from lawful import Case, law, on_requests, projected, repaired
from record import invented, recorded_strings, same_but_for_marks, texts_in
from views import strings

import normalizer
from normalizer.notices import read_back

if TYPE_CHECKING:
    from normalizer.transcript import Call


@law(least={"looked at": 0.6})
@on_requests
def test_every_projection_passes_the_rulebook_and_the_sdks_types(case: Case) -> None:
    assert case.projection is not None
    broken = normalizer.check(case.projection.request, case.target, context=case.context)
    assert [found for found in broken if found.severity in ("reject", "policy")] == []
    case.judge.check_types(case.projection.request, case.context["received_types"])


# ---------------------------------------------------------------- nothing is invented


@law(least={"verbatim": 0.3, "notice": 0.1})
@on_requests
def test_every_result_is_the_recorded_one_or_a_sealed_notice_of_what_is_known(case: Case) -> None:
    """The result that stands at a call is that call's own; a notice tells what is known, or was when it was sent."""
    assert case.projection is not None
    keys = {wire_id: key for key, wire_id in case.projection.ids.items()}
    told = {
        (told.call_id, told.outcome)
        for f in case.told
        if f.kind == "request_sent"
        for told in (*f.told, *f.news)
    }
    for piece in case.pieces:
        if piece.kind != "result" or piece.id not in keys:
            continue
        key = keys[piece.id]
        call = case.transcript.calls.get(key)
        assert call is not None, piece
        # where an output is JSON, the notice is a text in it
        notice = next((n for text in texts_in(piece.text) if (n := read_back(text, piece.id))), None)
        if notice is None:
            texts = {piece.text, *texts_in(piece.text)}
            assert texts & set(results_of(call)) or _pictures_only(call, piece.text), piece
            case.count("verbatim")
        else:
            known = outcomes_of(call)
            assert notice.outcome in known or (key, notice.outcome) in told or notice.outcome == "running", (
                piece
            )
            case.count("notice")


def results_of(call: Call) -> list[str]:
    """The words of every recorded result of a call."""
    found = []
    for fact in call.facts:
        content = getattr(fact, "content", None)
        if isinstance(content, str):
            found.append(content)
        elif content is not None:
            found.append("\n".join(p.text for p in content if p.kind == "text"))
            found.append(
                "\n".join(getattr(p, "text", "") or p.raw.text for p in content if p.kind != "media")
            )
    return found


def _pictures_only(call: Call, text: str) -> bool:
    """Whether a result with more than words is told in its words, and in marks for the rest."""
    left = text
    for fact in call.facts:
        content = getattr(fact, "content", None)
        for part in content if isinstance(content, tuple) else ():
            left = left.replace(
                getattr(part, "text", None) or (part.raw.text if part.raw else "") or "\0", ""
            )
    return all(not line.strip() or line.startswith("[") for line in left.splitlines())


def outcomes_of(call: Call) -> set[str]:
    """The outcomes that may be told of a call now."""
    kind = call.outcome.kind
    stated = {f.outcome for f in call.facts if f.kind == "outcome_attested" and not f.late}
    return {kind, *stated} | ({"unknown", "running"} if kind == "pending" else set())


@law(least={"texts": 1.0})
@on_requests
def test_every_text_is_recorded_or_of_ours(case: Case) -> None:
    recorded = recorded_strings(case.told)
    for piece in case.pieces:
        if piece.kind == "text":
            case.count("texts")
            assert not (left := invented(piece.text, recorded)), (left, piece)


@law()
@on_requests
def test_a_server_tool_never_gets_a_result_that_it_did_not_return(case: Case) -> None:
    returned = [
        part.raw.value
        for fact in case.told
        for part in getattr(fact, "parts", ())
        if part.kind in ("server_tool_result", "server_tool_call")
    ]
    for piece in case.pieces:
        if piece.kind == "found":
            case.count("found")
            assert any(same_but_for_marks(piece.raw, raw) for raw in returned), piece


# ---------------------------------------------------------------- nothing is lost


@law(least={"words": 1.0})
@on_requests
def test_every_word_is_in_the_request_or_in_the_report(case: Case) -> None:
    assert case.projection is not None
    held = "\0".join(strings(case.projection.request)) + "\0"
    held += "\0".join(note.content or "" for note in case.projection.adjustments)
    quoted = held.replace("\\", "")  # JSON in JSON has its quotes escaped, once for each text around it
    for text in _words_of(case.transcript):
        if text.strip():
            case.count("words")
            kept = text.strip()
            assert kept in held or dumped(kept)[1:-1].replace("\\", "") in quoted, text


def _words_of(transcript: normalizer.Transcript) -> list[str]:
    """Every text of the conversation as it is now, and of the results of its calls."""
    # of instructions that were replaced before anything was said, nothing is to be sent
    heads = [entry for entry in transcript.heads if entry.kind == "instructions"]
    newest = max((n for n, entry in enumerate(heads) if not entry.fact.additional), default=0)
    replaced = {entry.fact.fact_id for entry in heads[:newest]}
    shown_entries = [entry for entry in transcript.entries if entry.fact.fact_id not in replaced]
    found = [part.text for entry in shown_entries for part in entry.parts if part.kind == "text"]
    shown = {key for entry in transcript.entries for key in entry.calls}
    for key, call in transcript.calls.items():
        if key in shown and call.result is not None:
            content: Any = call.result.content  # type: ignore[union-attr]
            found += [content] if isinstance(content, str) else [p.text for p in content if p.kind == "text"]
    return found


# ---------------------------------------------------------------- the same on every way


@law(examples=150, least={"went on": 1.0})
def test_going_on_from_a_projection_is_projecting_from_scratch(case: Case) -> None:
    dice, told, target = case.dice, case.told, case.target
    transcript, previous, at = normalizer.fold([]), None, 0
    options = {**case.options, "open_calls": dice.choice(["say_running", "unknown"])}
    while at < len(told):
        step = dice.randint(1, 4)
        transcript = normalizer.fold(told[at : at + step], onto=transcript)
        at += step
        scratch = projected(normalizer.fold(told[:at]), target, **options)
        if scratch is None:
            continue
        if previous is not None:
            case.count("went on")
        going_on = normalizer.project(transcript, target, previous=previous, **options)
        for one, other in zip(going_on.adjustments, scratch.adjustments, strict=True):
            wrong = f"going on reports {one}, from scratch it is {other}"
            if one != other and (known := gap(target, wrong)):
                case.count(f"known gap: {known}")
            else:
                assert one == other, wrong
        for name in ("ids", "late_news", "ready"):
            assert getattr(going_on, name) == getattr(scratch, name), name
        assert dumped(going_on.request) == dumped(scratch.request)
        assert going_on.sending() == scratch.sending()
        previous = going_on


@law(least={"calls": 0.5})
@on_requests
def test_what_we_said_is_read_back_as_the_same_outcomes(case: Case) -> None:
    assert case.projection is not None
    read = normalizer.fold(normalizer.read(copy.deepcopy(case.projection.request), format=case.target).facts)
    shown = {piece.id for piece in case.pieces if piece.kind == "result"}  # a call may stay open
    waiting = {a.call_id for a in case.projection.adjustments if a.kind == "withheld_news"}
    running = case.options["open_calls"] == "say_running"
    for key, wire_id in case.projection.ids.items():
        if wire_id not in shown or key in waiting or wire_id not in read.calls:
            continue
        case.count("calls")
        kind = case.transcript.calls[key].outcome.kind
        # what ran when it was told may have ended since, and who only reads that does not know
        expected = {"unknown", "pending"} if running else {"unknown"}
        assert read.calls[wire_id].outcome.kind in (expected if kind == "pending" else {kind}), key


@law(least={"same": 0.6})
@on_requests
def test_repairing_a_projection_changes_nothing(case: Case) -> None:
    assert case.projection is not None
    again = repaired(case.projection.request, case.target)
    assert again is not None
    if dumped(again.request) == dumped(case.projection.request):
        case.count("same")
        return
    # Read alone, a reply that is first or last looks like one that was cut off there, and what ran is not known to run.
    cut = any(note.kind in ("dropped_turn", "dropped_orphan") for note in again.adjustments)
    unfinished = any(note.kind in ("trimmed", "dropped_reasoning") for note in again.adjustments)
    running = "[tool outcome: running]" in "".join(piece.text for piece in case.pieces)
    excuses = {
        "begins with a reply": cut and case.pieces[0].side != "user",
        "ends with a reply": unfinished and case.pieces[-1].side == "reply",
        "says that a call runs": running and case.options["open_calls"] == "say_running",
    }
    assert any(excuses.values()), again.adjustments
    case.count(next(name for name, holds in excuses.items() if holds))


@law(least={"looked at": 0.6})
@on_requests
def test_each_call_has_an_id_of_its_own(case: Case) -> None:
    """Whoever answers a call in the request's words is understood."""
    assert case.projection is not None
    sent = [piece.id for piece in case.pieces if piece.kind == "call" and piece.id is not None]
    assert len(sent) == len(set(sent)), "an id stands for two calls"
    ids = [wire_id for wire_id in case.projection.ids.values() if wire_id in set(sent)]
    assert len(ids) == len(set(ids)), "two keys are sent as one id"
    assert set(sent) <= set(ids), "a call is sent that the map does not have"
