"""Folding: entries in order, calls by occurrence, turns, steering, summaries and rewinds."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from normalizer import facts as f
from normalizer import fold
from normalizer.facts import Digest, Fact
from normalizer.parts import Json, Part, ServerToolCall, ServerToolResult, Text, ToolCall

if TYPE_CHECKING:
    from normalizer.transcript import Transcript

NO_DIGEST = Digest("", "", 0, "")


def said(seq: int, text: str) -> Fact:
    return f.UserSaid(fact_id=f"u{seq}", seq=seq, turn_id="t", parts=(Text(text),))


def call(wire_id: str | None, name: str = "run", arguments: str = "{}") -> ToolCall:
    return ToolCall(wire_id, name, Json(arguments))


def reply(seq: int, *parts: Part | str, answers: str | None = None, **more: Any) -> Fact:
    made = tuple(Text(p) if isinstance(p, str) else p for p in parts)
    return f.ModelReplied(fact_id=f"r{seq}", seq=seq, parts=made, answers=answers, **{"turn_id": "t", **more})


def done(seq: int, call_id: str, content: str) -> Fact:
    return f.CallCompleted(
        fact_id=f"c{seq}", seq=seq, turn_id="t", call_id=call_id, content=content, is_error=False
    )


def sent(seq: int, through: int) -> Fact:
    return f.RequestSent(fact_id=f"s{seq}", seq=seq, target="anthropic", through=through, digest=NO_DIGEST)


def texts(transcript: Transcript) -> list[str]:
    return [entry.text for entry in transcript.entries]


def every_order(*told: Fact) -> Transcript:
    """The transcript of these facts, after every order of arrival was shown to give it."""
    expected = fold(told)
    for order in itertools.permutations(told):
        assert fold(order) == expected
        for cut in range(len(order)):
            assert fold(order[cut:], onto=fold(order[:cut])) == expected
    return expected


def test_entries_stand_in_the_order_of_seq_whatever_their_time_says() -> None:
    early = f.UserSaid(fact_id="b", seq=2, at="2020-01-01T00:00:00Z", parts=(Text("second"),))
    late = f.UserSaid(fact_id="a", seq=1, at="2030-01-01T00:00:00Z", parts=(Text("first"),))
    assert texts(every_order(early, late)) == ["first", "second"]


def test_a_reply_stands_directly_behind_what_its_request_held() -> None:
    transcript = every_order(
        said(1, "Paris?"), sent(2, 1), said(3, "and Rome?"), reply(4, "Sunny.", answers="s2")
    )
    assert texts(transcript) == ["Paris?", "Sunny.", "and Rome?"]


def test_a_reply_to_an_unknown_request_stands_at_its_own_place() -> None:
    assert texts(fold([said(1, "a"), reply(2, "b", answers="gone"), said(3, "c")])) == ["a", "b", "c"]


def test_ids_that_a_model_uses_again_are_two_calls() -> None:
    transcript = every_order(
        reply(1, call("call_0")),
        done(2, "call_0", "one"),
        reply(3, call("call_0")),
        done(4, "call_0#2", "two"),
    )
    assert list(transcript.calls) == ["call_0", "call_0#2"]
    results = [each.result.content for each in transcript.calls.values() if each.result]  # type: ignore[union-attr]
    assert results == ["one", "two"]
    assert [finding.kind for finding in transcript.findings] == ["duplicate_id"]


def test_the_same_call_twice_in_one_reply_is_one_call() -> None:
    transcript = fold([reply(1, call("toolu_1"), call("toolu_1"))])
    assert list(transcript.calls) == ["toolu_1"]
    assert transcript.entries[0].calls == ("toolu_1", None)
    assert [finding.kind for finding in transcript.findings] == ["duplicate_call"]


def test_equal_ids_with_other_arguments_are_two_calls() -> None:
    transcript = fold([reply(1, call("toolu_1"), call("toolu_1", arguments='{"a":1}'))])
    assert list(transcript.calls) == ["toolu_1", "toolu_1#2"]


def test_a_call_without_an_id_is_keyed_by_its_place() -> None:
    transcript = fold([reply(1, "hm", call(None)), done(2, "r1:1", "ok")])
    assert transcript.calls["r1:1"].outcome.kind == "completed"


def test_a_fact_may_come_before_the_reply_that_it_is_about() -> None:
    transcript = every_order(done(1, "toolu_1", "early"), reply(2, call("toolu_1")))
    assert transcript.calls["toolu_1"].outcome.kind == "completed"
    assert transcript.findings == ()


def test_a_fact_about_a_call_that_nobody_made_is_a_finding() -> None:
    transcript = fold([done(1, "toolu_9", "?")])
    assert [(x.kind, x.call_id, x.facts) for x in transcript.findings] == [
        ("unknown_call", "toolu_9", ("c1",))
    ]


def test_a_late_callback_of_an_old_run_does_not_touch_the_new_runs_call() -> None:
    transcript = fold(
        [
            reply(1, call("call_0"), turn_id="a"),
            reply(2, call("call_0"), turn_id="b"),
            done(3, "call_0", "of the old run"),
        ]
    )
    assert transcript.calls["call_0"].outcome.kind == "completed"
    assert transcript.calls["call_0#2"].outcome.kind == "unknown"


# ---------------------------------------------------------------- turns


def test_the_end_of_a_turn_decides_about_calls_that_had_started() -> None:
    started = f.StartPermitted(fact_id="p", seq=2, turn_id="t", call_id="toolu_1")
    ended = f.TurnEnded(fact_id="e", seq=3, turn_id="t", status="cancelled")
    open_turn = fold([reply(1, call("toolu_1")), started])
    assert open_turn.calls["toolu_1"].outcome.kind == "pending"
    assert open_turn.pending == ("toolu_1",)
    over = every_order(reply(1, call("toolu_1")), started, ended)
    assert over.calls["toolu_1"].outcome.kind == "unknown"
    assert over.pending == ()
    assert over.turns["t"].status == "cancelled"


def test_a_cancelled_turn_may_hold_completed_calls() -> None:
    ended = f.TurnEnded(fact_id="e", seq=9, turn_id="t", status="cancelled")
    transcript = every_order(reply(1, call("a"), call("b")), done(2, "a", "ok"), ended)
    assert [each.outcome.kind for each in transcript.calls.values()] == ["completed", "unknown"]


@pytest.mark.parametrize(
    ("facts", "status", "over"),
    [
        ((), "running", False),
        ((f.TurnCancelRequested(fact_id="x", seq=2, turn_id="t"),), "cancelling", False),
        ((f.RunLost(fact_id="x", seq=2, turn_id="t", by="watchdog", how="no heartbeat"),), "running", True),
        ((f.TurnEnded(fact_id="x", seq=2, turn_id="t", status="failed"),), "failed", True),
    ],
)
def test_a_turn_has_a_life_of_its_own(facts: tuple[Fact, ...], status: str, over: bool) -> None:
    turn = fold([f.TurnOpened(fact_id="o", seq=1, turn_id="t", run_id="run-1"), *facts]).turns["t"]
    assert (turn.status, turn.over) == (status, over)
    assert turn.run_ids == ("run-1",)


def test_a_gate_is_known_whenever_it_is_told() -> None:
    opened = f.TurnOpened(fact_id="o", seq=1, turn_id="t", gated=True)
    ended = f.TurnEnded(fact_id="e", seq=4, turn_id="t")
    transcript = every_order(opened, reply(2, call("toolu_1")), ended)
    assert (transcript.calls["toolu_1"].outcome.kind, transcript.calls["toolu_1"].outcome.basis) == (
        "never_run",
        "gate_closed",
    )


def test_the_three_ids_are_apart() -> None:
    permit = f.StartPermitted(
        fact_id="p", seq=2, turn_id="t", run_id="run-7", call_id="toolu_1", operation_id="op-3"
    )
    each = fold([reply(1, call("toolu_1")), permit]).calls["toolu_1"]
    assert (each.id, each.run_id, each.operation_id) == ("toolu_1", "run-7", "op-3")


def test_what_is_kept_beside_an_outcome() -> None:
    facts: list[Fact] = [
        reply(1, call("toolu_1")),
        f.StartPermitted(fact_id="p", seq=2, turn_id="t", call_id="toolu_1", recovery="query"),
        f.OutputObserved(fact_id="o", seq=3, turn_id="t", call_id="toolu_1", text="half", truncated=True),
        f.CallCancelRequested(fact_id="x", seq=4, turn_id="t", call_id="toolu_1"),
        f.RemoteCancelUpdated(fact_id="m", seq=5, turn_id="t", call_id="toolu_1", state="requested"),
        f.TurnEnded(fact_id="e", seq=6, turn_id="t"),
    ]
    each = fold(facts).calls["toolu_1"]
    assert each.outcome.kind == "unknown"
    assert (each.output, each.output_truncated) == ("half", True)
    assert (each.cancel_requested, each.remote_cancel_state) == (True, "requested")
    assert (each.effects, each.recovery_action) == ("to_verify", "query")
    assert each.last_observation is not None
    assert each.last_observation.fact_id == "m"
    looked = f.EffectsVerified(fact_id="v", seq=7, call_id="toolu_1", effects="none")
    again = fold([looked], onto=fold(facts)).calls["toolu_1"]
    assert (again.outcome.kind, again.effects, again.recovery_action) == ("unknown", "none", None)


# ---------------------------------------------------------------- steering, summaries, rewinds


def test_steering_stands_where_it_was_applied() -> None:
    queued = f.SteeringQueued(fact_id="q", seq=2, steering_id="s", parts=(Text("faster"),))
    applied = f.SteeringApplied(fact_id="p", seq=4, steering_id="s")
    assert fold([said(1, "go"), queued]).steering == ("s",)
    transcript = every_order(said(1, "go"), queued, reply(3, "ok"), applied)
    assert texts(transcript) == ["go", "ok", "faster"]
    assert transcript.entries[-1].kind == "steering"
    assert transcript.steering == ()


def test_steering_that_was_taken_back_is_not_said() -> None:
    queued = f.SteeringQueued(fact_id="q", seq=2, steering_id="s", parts=(Text("faster"),))
    withdrawn = f.SteeringWithdrawn(fact_id="w", seq=3, steering_id="s")
    transcript = every_order(said(1, "go"), queued, withdrawn)
    assert texts(transcript) == ["go"]
    assert transcript.steering == ()


def test_a_summary_stands_for_what_it_sums_up_and_the_calls_stay_known() -> None:
    told = [said(1, "a"), reply(2, call("toolu_1")), said(3, "b")]
    summary = f.Summarised(fact_id="z", seq=4, parts=(Text("so far"),), through=2)
    transcript = every_order(*told, summary)
    assert texts(transcript) == ["so far", "b"]
    assert "toolu_1" in transcript.calls
    assert len(transcript.facts) == 4


def test_instructions_outlive_a_summary() -> None:
    told = f.InstructionsSet(fact_id="i", seq=1, parts=(Text("Be brief."),))
    summary = f.Summarised(fact_id="z", seq=3, parts=(Text("so far"),), through=2)
    assert texts(every_order(told, said(2, "a"), summary)) == ["Be brief.", "so far"]


def test_a_later_summary_takes_the_place_of_an_earlier_one_that_it_covers() -> None:
    first = f.Summarised(fact_id="y", seq=2, parts=(Text("one"),), through=1)
    second = f.Summarised(fact_id="z", seq=4, parts=(Text("two"),), through=3)
    assert texts(every_order(said(1, "a"), first, said(3, "b"), second)) == ["two"]


def test_a_rewind_puts_away_what_stands_behind_its_border() -> None:
    back = f.Rewound(fact_id="z", seq=3, to=1)
    assert texts(every_order(said(1, "a"), said(2, "b"), back, said(4, "c"))) == ["a", "c"]


def test_a_rewind_before_a_summary_and_one_behind_it() -> None:
    back = f.Rewound(fact_id="y", seq=3, to=1)
    summary = f.Summarised(fact_id="z", seq=4, parts=(Text("so far"),), through=1)
    assert texts(every_order(said(1, "a"), said(2, "b"), back, summary)) == ["so far"]


# ---------------------------------------------------------------- server calls

SEARCH = ServerToolCall("srvtoolu_1", "web_search", Json("{}"))
FOUND = ServerToolResult(
    "srvtoolu_1", Json.of({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1"})
)


def test_a_server_call_gets_the_result_that_came_in_a_later_reply() -> None:
    transcript = fold([reply(1, SEARCH, stop_reason="pause_turn"), reply(2, FOUND)])
    found = transcript.server_calls["srvtoolu_1"]
    assert (found.outcome.kind, found.result_reply) == ("completed", "r2")


def test_a_paused_server_call_waits_and_a_left_one_is_unknown() -> None:
    assert (
        fold([reply(1, SEARCH, stop_reason="pause_turn")]).server_calls["srvtoolu_1"].outcome.kind
        == "pending"
    )
    left = fold([reply(1, SEARCH, stop_reason="pause_turn"), reply(2, "never mind")])
    assert left.server_calls["srvtoolu_1"].outcome.kind == "unknown"


def test_a_paused_server_call_does_not_wait_once_another_has_its_id() -> None:
    first, second = reply(1, SEARCH, stop_reason="pause_turn"), reply(2, SEARCH, stop_reason="pause_turn")
    for transcript in (fold([first, second]), fold([second], onto=fold([first]))):
        kinds = {key: found.outcome.kind for key, found in transcript.server_calls.items()}
        assert kinds == {"srvtoolu_1": "unknown", "srvtoolu_1#2": "pending"}


def test_a_servers_result_without_its_call_is_a_finding() -> None:
    assert [finding.kind for finding in fold([reply(1, FOUND)]).findings] == ["orphan_result"]


def test_folding_onto_leaves_the_older_transcript_as_it_was() -> None:
    first = fold([said(1, "a"), reply(2, call("toolu_1"))])
    fold([done(3, "toolu_1", "ok"), said(4, "b")], onto=first)
    other = fold([said(5, "c")], onto=first)
    assert texts(first) == ["a", ""]
    assert first.calls["toolu_1"].outcome.kind == "unknown"
    assert texts(other) == ["a", "", "c"]
    assert other.calls["toolu_1"].outcome.kind == "unknown"


def test_two_folds_at_the_same_time_share_their_beginning_with_one_of_them_only() -> None:
    kept = fold([said(1, "a")])._kept
    one, other = kept.extended(), kept.extended()  # the second before the first has added anything
    assert one.facts is kept.facts
    assert other.facts == kept.facts
    assert not {id(one.facts), id(one.index), id(one.touched)} & {
        id(other.facts),
        id(other.index),
        id(other.touched),
    }
