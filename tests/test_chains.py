"""What was sent to one target: sent histories, told states, late news, and what a refusal by the API undoes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normalizer import facts as f
from normalizer import fold, project, read
from normalizer.facts import Digest, Fact, News, RequestSent, Told
from normalizer.notices import read_back
from normalizer.parts import Json, Reasoning, Text, ToolCall
from normalizer.projecting import canonical
from normalizer.projecting.sent_history import sent_history_of
from normalizer.projecting.sent_record import request_sent
from normalizer.testing import assert_accepts

if TYPE_CHECKING:
    from normalizer.projection import Projection

MODEL = "claude-opus-4-8"
BOUND = "claude-opus-5-5"


class Talk:
    """A conversation that grows: each projection can be sent, and each sending is a fact."""

    def __init__(self, model: str = MODEL) -> None:
        self.model = model
        self.facts: list[Fact] = []
        self.add(f.InstructionsSet, parts=())
        self.add(f.ToolsDeclared, tools=(), api="anthropic")

    def add(self, kind: Any, **values: Any) -> Any:
        number = len(self.facts) + 1
        fact = kind(fact_id=f"f{number}", seq=number, turn_id="t", **values)
        self.facts.append(fact)
        return fact

    def user(self, text: str) -> None:
        self.add(f.UserSaid, parts=(Text(text),))

    def reply(self, *parts: Any, sent: RequestSent | None = None, **more: Any) -> None:
        answers = sent.fact_id if sent else None
        origin = {"provider": "anthropic", "api": "anthropic", "model": self.model, "answers": answers}
        self.add(f.ModelReplied, parts=parts, **{**origin, **more})

    def project(self, **options: Any) -> Projection:
        projection = project(
            fold(self.facts), "anthropic", **{"model": self.model, "open_calls": "say_running"} | options
        )
        assert_accepts(projection.request, "anthropic", context={"history": True})
        return projection

    def send(self, **options: Any) -> tuple[Projection, RequestSent]:
        projection = self.project(**options)
        number = len(self.facts) + 1
        sent = request_sent(projection, fact_id=f"f{number}", seq=number)
        self.facts.append(sent)
        return projection, sent


def call(wire_id: str = "toolu_1") -> ToolCall:
    return ToolCall(wire_id, "run", Json('{"n":1}'))


def begins_with(later: Projection, earlier: Projection) -> bool:
    return canonical.encode(later.request).startswith(canonical.encode(earlier.request))


def kinds(projection: Projection) -> list[str]:
    return [adjustment.kind for adjustment in projection.adjustments]


def asked() -> Talk:
    talk = Talk()
    talk.user("Deploy it.")
    talk.reply(call())
    return talk


def test_what_was_asked_of_a_projection_is_on_record() -> None:
    talk = asked()
    _, sent = talk.send(open_calls="unknown", bridges=True, notices=lambda _call: "Nobody knows.")
    assert sent.options is not None
    assert sent.options.value == {"open_calls": "unknown", "bridges": True, "notices": True}
    (loaded,) = f.load_lines(f.dump(sent) + b"\n")
    assert loaded == sent
    plain = Talk()
    plain.user("Hello.")
    _, sent = plain.send(open_calls="refuse")
    assert sent.options is None


def test_a_result_takes_its_place_where_its_notice_was_never_sent() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    assert "unknown" in str(talk.project().request)
    talk.add(f.CallCompleted, call_id="toolu_1", content="published")
    later = talk.project()
    assert later.request["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "published"}
    ]
    assert later.late_news == ()


def test_a_result_after_its_notice_was_sent_is_late_news() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    first, _ = talk.send()
    talk.reply(Text("I wait."))
    talk.add(f.CallCompleted, call_id="toolu_1", content="published as revision 18")
    later = talk.project()
    assert begins_with(later, first)
    (news,) = later.late_news
    found = read_back(news, None)
    assert found is not None
    assert (found.outcome, found.form, found.call_id, found.body) == (
        "completed", "late", "toolu_1", "published as revision 18",
    )  # fmt: skip
    assert later.request["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": news}]}
    assert later.ready


def test_late_news_is_told_once_and_keeps_its_place_and_words() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    talk.send()
    talk.reply(Text("I wait."))
    talk.add(f.CallCompleted, call_id="toolu_1", content="published")
    second, _ = talk.send()
    talk.reply(Text("Good."))
    talk.user("And Rome?")
    third = talk.project(notices=lambda _: "other words")
    assert third.late_news == ()
    assert begins_with(third, second)
    assert str(third.request).count("[late, call toolu_1]") == 1


def test_several_changes_between_two_requests_are_told_once() -> None:
    talk = asked()
    talk.add(f.StartPermitted, call_id="toolu_1")
    first, _ = talk.send()
    assert "[tool outcome: running]" in str(first.request)
    talk.add(f.ContactLost, call_id="toolu_1")
    talk.add(f.EffectsVerified, call_id="toolu_1", effects="none")
    talk.add(f.CallCompleted, call_id="toolu_1", content="done")
    later = talk.project()
    assert len(later.late_news) == 1
    assert begins_with(later, first)


def test_what_changes_nothing_that_was_told_is_no_news() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    talk.send()
    talk.add(f.ContactLost, call_id="toolu_1", reason="once more")
    talk.add(f.CallCancelRequested, call_id="toolu_1")
    assert talk.project().late_news == ()


def test_effects_that_were_looked_at_are_news() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    first, _ = talk.send()
    talk.add(f.EffectsVerified, call_id="toolu_1", effects="happened")
    later = talk.project()
    assert len(later.late_news) == 1
    assert begins_with(later, first)


def test_a_reply_stands_before_what_was_typed_while_it_came() -> None:
    talk = Talk()
    talk.user("Paris?")
    _, sent = talk.send()
    talk.user("and Rome?")
    talk.reply(Text("Sunny."), sent=sent)
    assert [m["role"] for m in talk.project().request["messages"]] == ["user", "assistant", "user"]


def test_another_model_has_a_chain_of_its_own() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    talk.send()
    talk.add(f.CallCompleted, call_id="toolu_1", content="published")
    other = talk.project(model="claude-haiku-4-5")
    assert other.late_news == ()
    assert "unknown" not in str(other.request)
    assert len(talk.project().late_news) == 1


def test_a_request_that_the_api_refused_is_no_base() -> None:
    talk = Talk(BOUND)
    thought = Reasoning("Hm.", Json.of({"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="}))
    talk.user("Paris?")
    _, first = talk.send()
    talk.reply(thought, Text("Sunny."), sent=first)
    talk.user("And Rome?")
    second, sent = talk.send()
    assert "thinking" in str(second.request["messages"])
    talk.add(f.ReplyCut, refused=True, error="invalid signature in thinking block", answers=sent.fact_id)
    third = talk.project()
    assert "thinking" not in str(third.request["messages"])
    assert "prefix_changed" in kinds(third)
    fourth, _ = talk.send()
    talk.user("Hello?")
    assert begins_with(talk.project(), fourth)


def test_a_refusal_is_seen_however_many_facts_came_behind_it() -> None:
    talk = Talk()
    talk.user("Paris?")
    _, sent = talk.send()
    transcript = fold(talk.facts)
    options = {"model": MODEL, "open_calls": "say_running"}
    before = project(transcript, "anthropic", **options)
    known = len(talk.facts)
    talk.add(f.ReplyCut, refused=True, error="prompt is too long", answers=sent.fact_id)
    for text in ("a", "b", "c"):
        talk.user(text)
    going_on = project(fold(talk.facts[known:], onto=transcript), "anthropic", previous=before, **options)
    assert going_on.adjustments == talk.project().adjustments
    assert "prefix_changed" in kinds(going_on)


def test_a_history_that_was_sent_with_a_reply_in_front_keeps_it() -> None:
    talk = Talk()
    talk.reply(Text("Hello, how can I help?"))
    first, _ = talk.send()
    talk.user("And Rome?")
    later = talk.project()
    assert begins_with(later, first)
    assert "prefix_changed" not in kinds(later)


def test_reasoning_that_was_read_and_sent_goes_on_as_it_was_sent() -> None:
    """A reply that names no request was read with its history. Once that was sent it stands as it is."""
    talk = Talk(BOUND)
    thought = Json.of({"type": "thinking", "thinking": "Hm.", "signature": "s"})
    talk.user("Go")
    talk.reply(Reasoning("Hm.", thought), Text("Gone."))
    talk.user("And?")
    first, _ = talk.send()
    assert first.request["messages"][1]["content"][0] == thought.value
    second = talk.project()
    assert second.request == first.request
    assert not second.adjustments
    going_on = project(fold(talk.facts), "anthropic", model=BOUND, open_calls="say_running", previous=first)
    assert (going_on.request, going_on.adjustments) == (second.request, second.adjustments)
    # a reply that came since then and names no request: nobody knows what it was signed over
    talk.reply(Reasoning("Hm.", thought), Text("Back."))
    talk.user("And now?")
    third, _ = talk.send()
    assert [block["type"] for block in third.request["messages"][3]["content"]] == ["text"]
    assert [note.kind for note in third.adjustments] == ["dropped_reasoning"]
    fourth = talk.project()
    assert (fourth.request, fourth.adjustments) == (third.request, third.adjustments)


def test_the_first_reply_names_the_model_and_with_it_the_chain() -> None:
    """Before a reply nobody has named a model; what goes on is the history of the model which then replied."""
    talk = Talk()
    talk.user("Go")
    _, sent = talk.send()
    before = project(fold(talk.facts), "anthropic")
    talk.reply(Text("Gone."), sent=sent)
    going_on = project(fold(talk.facts), "anthropic", previous=before)
    scratch = project(fold(talk.facts), "anthropic")
    assert going_on.request == scratch.request
    assert going_on.sending() == scratch.sending()
    assert scratch.sending().base == sent.fact_id


def test_only_what_is_new_is_recorded() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    _, first = talk.send()
    assert [told.call_id for told in first.told] == ["toolu_1"]
    talk.reply(Text("I wait."))
    talk.user("Well?")
    _, second = talk.send()
    assert (second.base, second.told, second.news) == (first.fact_id, (), ())
    assert len(f.dump(second)) < 1000


def test_an_id_once_given_stays_and_goes_to_no_other_call() -> None:
    talk = Talk()
    talk.user("Go.")
    talk.reply(call("call.0"))
    talk.add(f.CallCompleted, call_id="call.0", content="ok")
    first, _ = talk.send()
    given = first.ids["call.0"]
    talk.reply(call(given))
    talk.add(f.CallCompleted, call_id=given, content="ok")
    later = talk.project()
    assert later.ids["call.0"] == given
    assert later.ids[given] != given
    assert begins_with(later, first)


def test_news_whose_place_was_rewound_is_told_again() -> None:
    talk = asked()
    talk.add(f.ContactLost, call_id="toolu_1")
    talk.send()
    talk.reply(Text("I wait."))
    kept = len(talk.facts) - 1
    talk.add(f.CallCompleted, call_id="toolu_1", content="published")
    talk.send()
    talk.add(f.Rewound, to=kept)
    talk.user("Well?")
    assert "published" in str(talk.project().request["messages"])


def test_there_is_no_news_of_a_call_that_a_rewind_took_away() -> None:
    talk = Talk()
    talk.user("Deploy it.")
    kept = len(talk.facts)
    talk.reply(call())
    talk.add(f.ContactLost, call_id="toolu_1")
    talk.send()
    talk.reply(Text("I wait."))
    talk.add(f.CallCompleted, call_id="toolu_1", content="published")
    told, _ = talk.send()
    assert len(told.late_news) == 1
    talk.add(f.Rewound, to=kept)
    talk.user("Well?")
    later = talk.project()
    assert later.late_news == ()
    assert "published" not in str(later.request)
    talk.send()
    talk.reply(Text("Well."))
    talk.user("And now?")
    assert talk.project().late_news == ()


def test_going_on_from_a_request_reports_what_beginning_anew_reports() -> None:
    talk = Talk()
    talk.user("Deploy it.")
    talk.reply(call(), stop_reason="refusal")
    talk.add(f.StartPermitted, call_id="toolu_1")
    talk.user("And now?")
    talk.reply(Text("Well."))
    talk.user("Go on.")
    options: Any = {"model": MODEL, "open_calls": "say_running"}
    transcript = fold(talk.facts)
    first = project(transcript, "anthropic", **options)
    assert kinds(first).count("told_as_text") == 1
    number = len(talk.facts)
    talk.facts.append(request_sent(first, fact_id=f"f{number + 1}", seq=number + 1))
    talk.reply(Text("Yes."))
    talk.user("Good.")
    grown = fold(talk.facts[number:], onto=transcript)
    again, anew = (project(grown, "anthropic", previous=before, **options) for before in (first, None))
    assert again.request == anew.request
    assert again.adjustments == anew.adjustments
    assert "told_as_text" not in kinds(again)


def test_late_news_that_corrects_a_denial_is_read_back_as_the_correction() -> None:
    talk = asked()
    talk.add(f.ApprovalDenied, call_id="toolu_1")
    talk.add(f.TurnEnded)
    talk.send()
    talk.reply(Text("Then not."))
    talk.add(f.OutputObserved, call_id="toolu_1", text="half")
    told = talk.project()
    assert fold(talk.facts).calls["toolu_1"].outcome.kind == "unknown"
    again = fold(read(told.request, format="anthropic").facts)
    assert again.calls["toolu_1"].outcome.kind == "unknown"


def test_a_reply_in_front_goes_when_a_user_comes_also_when_going_on() -> None:
    talk = Talk()
    talk.reply(Text("Hello."))
    talk.reply()
    known, before = len(talk.facts), talk.project()
    transcript = fold(talk.facts)
    talk.user("And Rome?")
    going_on = project(
        fold(talk.facts[known:], onto=transcript),
        "anthropic",
        previous=before,
        model=MODEL,
        open_calls="say_running",
    )
    assert going_on.request == talk.project().request


# ---------------------------------------------------------------- the chain itself


def _sent(number: int, *, model: str = MODEL, **more: Any) -> RequestSent:
    none = Digest("", "", 0, "")
    return RequestSent(
        fact_id=f"s{number}",
        seq=number,
        target="anthropic",
        model=model,
        through=number - 1,
        digest=none,
        **more,
    )


def test_a_chain_adds_up_what_was_told() -> None:
    first = _sent(2, told=(Told("a", "running"), Told("b", "completed", result="c1")))
    second = _sent(4, news=(News("a", "completed", "text", None, 3, "c2"),), base="s2")
    history = sent_history_of(fold([first, second]), "anthropic", MODEL, None, None)
    assert history.base == second
    assert history.states == {"a": ("completed", "c2", None), "b": ("completed", "c1", None)}
    assert history.told["a"].outcome == "running"
    assert [news.call_id for news in history.news] == ["a"]


def test_a_chain_is_a_target_a_model_a_profile_and_an_account() -> None:
    facts = [_sent(1), _sent(2, model="other"), _sent(3, account="other"), _sent(4, profile="p")]
    transcript = fold(facts)
    for key, expected in [
        ((MODEL, None, None), "s1"),
        (("other", None, None), "s2"),
        ((MODEL, None, "other"), "s3"),
    ]:
        base = sent_history_of(transcript, "anthropic", *key).base
        assert base is not None
        assert base.fact_id == expected
    assert sent_history_of(transcript, "mistral", MODEL, None, None).base is None


def test_a_chain_goes_on_from_an_earlier_one() -> None:
    facts: list[Fact] = [_sent(1), _sent(3, told=(Told("a", "unknown"),))]
    earlier = sent_history_of(fold(facts[:1]), "anthropic", MODEL, None, None)
    later = sent_history_of(fold(facts), "anthropic", MODEL, None, None, earlier)
    assert later == sent_history_of(fold(facts), "anthropic", MODEL, None, None)
    assert earlier.told == {}
    assert sent_history_of(fold(facts), "anthropic", MODEL, None, None, later) is later


def test_refusals_are_cuts_that_say_so() -> None:
    facts: list[Fact] = [
        _sent(1),
        f.ReplyCut(fact_id="a", seq=2, answers="s1", refused=True, error="no"),
        f.ReplyCut(fact_id="b", seq=3, answers="s9"),
    ]
    assert sent_history_of(fold(facts), "anthropic", MODEL, None, None).base is None


def test_a_call_that_is_renamed_behind_results_changes_no_reasoning_before_them() -> None:
    talk = Talk()
    thought = Json.of({"type": "thinking", "thinking": "Hm.", "signature": "seal"})
    talk.user("Go")
    talk.reply(Reasoning("Hm.", thought), call(), stop_reason="pause_turn")
    talk.add(f.CallCompleted, call_id="toolu_1", content="ok")
    first, sent = talk.send()
    talk.reply(call(), sent=sent)  # an id that the model uses again
    talk.add(f.CallCompleted, call_id="toolu_1#2", content="ok")
    later = talk.project()
    assert later.ids["toolu_1#2"] != "toolu_1"
    assert begins_with(later, first)
    assert not {"dropped_reasoning", "prefix_changed"} & set(kinds(later))
