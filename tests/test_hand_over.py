"""The laws of the traffic between the APIs, held against random facts and payloads of each of them."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase, assume, given
from hypothesis import strategies as st
from judging import JUDGES, TARGETS
from lawful import request_sent, within
from views import strings

import normalizer
from normalizer.facts import CallCompleted, ContactLost, ModelReplied, StartPermitted, UserSaid
from normalizer.notices import read_back
from normalizer.parts import Json, Media, Opaque, Text, ToolCall
from normalizer.projecting import canonical
from normalizer.testing import (
    assert_accepts,
    histories,
)
from normalizer.testing.strategies import PNG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from normalizer.facts import Fact
    from normalizer.transcript import Call

LEFT_OUT: Final = frozenset(
    {
        "dropped_empty", "dropped_orphan", "dropped_turn", "dropped_fragment", "dropped_server_tool", "told_as_text",
        "withheld_news", "withheld_steering",
    }
)  # fmt: skip
"""Adjustments after which a part is not there any more, or only as words."""

LAWS: dict[str, tuple[Callable[..., None], tuple[Any, ...], int]] = {}


def law(*strategies: Any, examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property: the same examples every time here, and thirty times as many random ones in the soak."""

    def register(check: Callable[..., None]) -> Callable[..., None]:
        LAWS[check.__name__] = (check, strategies, examples)
        return within(examples, derandomize=True, phases=(Phase.explicit, Phase.generate, Phase.shrink))(
            given(*strategies)(check)
        )

    return register


# ---------------------------------------------------------------- facts from any API


def read_facts(payload: dict[str, Any], api: str) -> list[Fact]:
    """The facts of a payload; none where there is nothing in it."""
    try:
        return list(normalizer.read(copy.deepcopy(payload), format=api).facts)
    except normalizer.UnreadableInput as error:
        if error.reason != "no_messages":
            raise
        return []


def projected(told: Iterable[Fact], target: str, **options: Any) -> normalizer.Projection | None:
    """The projection, or None where there is nothing to send."""
    options.setdefault("open_calls", "unknown")
    try:
        return normalizer.project(normalizer.fold(told), target, **options)
    except normalizer.CannotProject as error:
        if error.reason != "no_messages":
            raise
        return None


@pytest.mark.parametrize("more", [(), (UserSaid(fact_id="u", seq=4, parts=(Text("And then?"),)),)])
def test_a_reply_that_was_sent_first_is_read_back_with_its_late_news(more: tuple[Fact, ...]) -> None:
    call = ToolCall("toolu_1", "run", Json("{}"))
    reply = ModelReplied(fact_id="r", seq=1, parts=(call,), stop_reason="tool_use", provider="anthropic",
                         api="anthropic", model="claude-opus-4-8")  # fmt: skip
    first = projected([reply], "anthropic")
    assert first is not None
    sent = request_sent(first, fact_id="s", seq=2)
    done = CallCompleted(fact_id="c", seq=3, call_id="toolu_1", content="Done.")
    later = projected([reply, sent, done, *more], "anthropic")
    assert later is not None
    assert later.request["messages"][0]["role"] == "assistant"
    assert later.late_news
    again = normalizer.repair(copy.deepcopy(later.request), format="anthropic")
    assert again.request == later.request


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_that_was_told_as_running_is_read_back_with_its_late_news(target: str) -> None:
    """Read back it is not known how it ended; what was sent before the news stays as it was sent."""
    started = [
        UserSaid(fact_id="u", seq=1, parts=(Text("Run it."),)),
        ModelReplied(fact_id="r", seq=2, parts=(ToolCall("call_1", "run", Json("{}")),), stop_reason=None),
        StartPermitted(fact_id="p", seq=3, call_id="call_1"),
    ]
    first = projected(started, target, open_calls="say_running")
    assert first is not None
    told = [
        *started,
        request_sent(first, fact_id="s", seq=4),
        ContactLost(fact_id="l", seq=5, call_id="call_1"),
    ]
    later = projected(told, target)
    assert later is not None
    shown = json.dumps(later.request)
    assert "[tool outcome: running]" in shown
    assert "[tool outcome: unknown] [late, call call_1]" in shown
    again = normalizer.repair(copy.deepcopy(later.request), format=target)
    assert again.request == later.request
    assert again.transcript.calls["call_1"].outcome.kind == "unknown"
    # without the news nothing is frozen, and nobody says that it runs
    alone = normalizer.repair(copy.deepcopy(first.request), format=target)
    assert "[tool outcome: unknown]" in json.dumps(alone.request)
    assert "running" not in json.dumps(alone.request)
    assert normalizer.repair(copy.deepcopy(alone.request), format=target).request == alone.request


@pytest.mark.parametrize("target", TARGETS)
def test_a_started_call_with_broken_arguments_is_read_back_as_unknown(target: str) -> None:
    """Arguments that do not parse show that nothing ran only as long as nobody saw a start."""
    asked = UserSaid(fact_id="u", seq=1, parts=(Text("Go."),))
    reply = ModelReplied(
        fact_id="r", seq=2, parts=(ToolCall("call_1", "run", Json('{"n":NaN}')),), stop_reason=None
    )
    lost_call = ContactLost(fact_id="l", seq=3, call_id="call_1")
    for facts, outcome in (([asked, reply], "never_run"), ([asked, reply, lost_call], "unknown")):
        projection = projected(facts, target)
        assert projection is not None
        again = normalizer.repair(copy.deepcopy(projection.request), format=target)
        assert again.transcript.calls["call_1"].outcome.kind == outcome
        assert again.request == projection.request


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("refused", [True, False])
def test_a_picture_in_late_news_goes_with_it(target: str, refused: bool) -> None:
    """News tells a result in words; what else it holds stands behind them, or in the report."""
    asked = UserSaid(fact_id="u", seq=1, parts=(Text("Go."),))
    reply = ModelReplied(fact_id="r", seq=2, parts=(ToolCall("call_1", "run", Json("{}")),), api="anthropic",
                         stop_reason="refusal" if refused else "tool_use")  # fmt: skip
    held = (Text("Seen."), Media("image", "image/png", PNG), Media("audio", "audio/x-odd", "UklGRg==", name="a"),
            Opaque("novelty", Json('{"deep":"kept"}')))  # fmt: skip
    done = CallCompleted(fact_id="c", seq=4, call_id="call_1", content=held)
    facts: list[Fact] = [asked, reply]
    if not refused:
        first = projected(facts, target)
        assert first is not None
        facts.append(request_sent(first, fact_id="s", seq=3))
    facts.append(done)
    later = projected(facts, target)
    assert later is not None
    assert_accepts(later.request, target, context={"history": True})
    shown = json.dumps(later.request)
    assert PNG in shown
    assert "kept" in shown
    assert shown.count("[from the result of call call_1]") == 1
    assert "UklGRg==" in "".join(note.content or "" for note in later.adjustments)
    again = normalizer.repair(copy.deepcopy(later.request), format=target)
    assert again.request == later.request
    facts += [request_sent(later, fact_id="t", seq=5), UserSaid(fact_id="v", seq=6, parts=(Text("And?"),))]
    last = projected(facts, target)
    assert last is not None
    assert canonical.encode(last.request).startswith(canonical.encode(later.request))


# ---------------------------------------------------------------- there and back

WRAPPED: Final = "INVALID_JSON"
OURS: Final = ("[left out here:", "[from the result of call")
"""How words of ours begin, which are no words of anybody's."""


def of_ours(text: str) -> bool:
    """Whether a text is late news, a call told in words, or a label of ours."""
    return text.startswith(OURS) or read_back(text, None) is not None


class Account:
    """What the adjustments of a way there and back say, by what they are about."""

    def __init__(self, *ways: tuple[str, normalizer.Projection]) -> None:
        self.notes = [note for _, projection in ways for note in projection.adjustments]
        self.gone = {note.call_id for note in self.notes if note.kind in LEFT_OUT and note.call_id}
        self.facts = {fact for note in self.notes if note.kind in LEFT_OUT for fact in note.facts}
        # an error is said in words where there is no flag and no result either
        self.unflagged = {
            note.call_id
            for target, projection in ways
            for note in projection.adjustments
            if note.content == "is_error"
            or (target != "anthropic" and (note.kind, note.because) == ("notice", "completed"))
        }
        self.texts = {
            flat(text) for note in self.notes if note.content is not None for text in texts_in(note.content)
        }

    def tells(self, text: str) -> bool:
        """Whether a text stands in the content of an adjustment, whole."""
        return any(text in told for told in self.texts)

    def has(self, *kinds: str) -> bool:
        """Whether anything of these kinds is reported."""
        return any(note.kind in kinds for note in self.notes)


def texts_in(content: str) -> Iterator[str]:
    """A text, and all texts in it if it is JSON."""
    yield content
    with contextlib.suppress(ValueError):
        value = json.loads(content)
        if not isinstance(value, str):
            yield from strings(value)


def flat(text: str) -> str:
    return " ".join(text.split())


def words(transcript: normalizer.Transcript, kind: str) -> list[str]:
    """The texts that were said on one side, in order. Our own notes and blanks do not count."""
    return [
        flat(part.text)
        for entry in transcript.entries
        if entry.kind == kind
        for part in entry.parts
        if part.kind == "text" and part.text.strip() and not of_ours(part.text)
    ]


def told_of(call: Call) -> tuple[str, Any, bool]:
    """Outcome, words of the result, and whether it was an error."""
    content = call.result.content if call.result is not None else None
    texts: Any = (
        content
        if content is None or isinstance(content, str)
        else "".join(part.text for part in content if part.kind == "text")
    )
    kind = call.outcome.kind
    return ("unknown" if kind == "pending" else kind), texts or "", bool(call.outcome.is_error)


def pictures(transcript: normalizer.Transcript) -> int:
    """How many pictures and documents there are."""
    results = [call.result.content for call in transcript.calls.values() if call.result is not None]
    held = [part for content in results if isinstance(content, tuple) for part in content]
    said = [part for entry in transcript.entries for part in entry.parts]
    return sum(part.kind == "media" for part in (*held, *said))


@law(
    st.sampled_from(TARGETS).flatmap(lambda api: st.tuples(st.just(api), JUDGES[api].payloads())),
    st.sampled_from(TARGETS),
    examples=160,
)
def test_there_and_back_nothing_changes_that_no_adjustment_dropped(
    start: tuple[str, dict[str, Any]], there: str
) -> None:
    here, payload = start
    first = projected(read_facts(payload, here), here)
    assume(first is not None)
    assert first is not None
    _there_and_back(read_facts(first.request, here), here, there)


@law(
    st.sampled_from(TARGETS).flatmap(lambda api: st.tuples(st.just(api), histories(api))),
    st.sampled_from(TARGETS),
    examples=110,
)
def test_there_and_back_from_facts(start: tuple[str, list[Fact]], there: str) -> None:
    here, told = start
    first = projected(told, here)
    assume(first is not None)
    assert first is not None
    _there_and_back(read_facts(first.request, here), here, there)


def _there_and_back(facts: list[Fact], here: str, there: str) -> None:
    origin = normalizer.fold(facts)
    over = projected(facts, there)
    assume(over is not None)
    assert over is not None
    abroad = read_facts(over.request, there)
    foreign = normalizer.fold(abroad)
    home = projected(abroad, here)
    if home is None:  # instructions alone go on top, and nothing is left to send
        told = Account((there, over)).facts
        assert all(e.fact.fact_id in told for e in origin.entries if e.kind in ("user", "reply"))
        assert not any(e.kind in ("user", "reply") for e in foreign.entries)
        return
    returned = normalizer.fold(read_facts(home.request, here))
    account = Account((there, over), (here, home))
    for key, call in origin.calls.items():
        wire_id = over.ids.get(key)
        if key in account.gone or wire_id in account.gone or call.reply in account.facts:
            continue
        assert wire_id in foreign.calls, f"{key} is gone, and nothing says so"
        if foreign.calls[wire_id].reply in account.facts:
            continue
        assert wire_id in home.ids, f"{key} is gone on the way back, and nothing says so"
        _same_call(call, returned.calls[home.ids[wire_id]], account, {key, wire_id})
    for side in ("user", "reply", "instructions"):
        before, after = words(origin, side), words(returned, side)
        if side == "instructions" and account.has("merged"):
            before, after = [" ".join(before)], [" ".join(after)]
        _same_words(before, after, account, side)
    if not account.has("media_moved", *LEFT_OUT):
        assert pictures(returned) == pictures(origin)


def _same_call(before: Call, after: Call, account: Account, ids: set[str]) -> None:
    """Outcome, arguments, result and error of a call are as they were, but for what is reported of them."""
    kind, texts, failed = told_of(before)
    assert told_of(after) == (kind, texts, failed and not ids & account.unflagged)
    if not account.has("renamed_tool"):
        assert after.name == before.name
    arguments = after.arguments
    if arguments != before.arguments:
        assert any(note.call_id in ids and "arguments" in note.message for note in account.notes)
        assert arguments == {WRAPPED: before.part.arguments.text}


def _same_words(before: list[str], after: list[str], account: Account, side: str) -> None:
    """Every text comes back in its place, or stands in the report; and none comes back that was not there."""
    kept = [text for text in before if not account.tells(text)]
    rest = iter(after)
    for text in kept:
        assert any(text == found for found in rest), (
            f"{text!r} of the {side} side is gone, and nothing says so"
        )
    for text in after:
        assert text in before or account.tells(text), f"{text!r} is nobody's"


# ---------------------------------------------------------------- the prefix


@pytest.mark.parametrize("target", TARGETS)
def test_what_becomes_known_of_a_refused_replys_call_stands_behind_what_was_sent(target: str) -> None:
    origin = {"provider": "anthropic", "api": "anthropic", "model": "claude-opus-4-8"}
    call = ToolCall("toolu_1", "run", Json("{}"))
    told: list[Fact] = [
        UserSaid(fact_id="u", seq=1, parts=(Text("Go"),)),
        ModelReplied(fact_id="r", seq=2, parts=(call,), stop_reason="refusal", **origin),  # type: ignore[arg-type]
        UserSaid(fact_id="v", seq=3, parts=(Text("Again"),)),
        ModelReplied(fact_id="s", seq=4, parts=(Text("Done."),), stop_reason="end_turn", **origin),  # type: ignore[arg-type]
    ]
    words = "[tool outcome: completed] [told, call toolu_1]"
    sent: normalizer.Projection | None = None
    for seq, more in enumerate(
        (
            UserSaid(fact_id="w", seq=10, parts=(Text("And?"),)),
            CallCompleted(fact_id="c", seq=20, call_id="toolu_1", content="ok"),
            UserSaid(fact_id="x", seq=30, parts=(Text("And now?"),)),
        ),
        start=1,
    ):
        told.append(more)
        now = projected(told, target, model=JUDGES[target].model)
        assert now is not None
        assert not any(note.kind == "prefix_changed" for note in now.adjustments)
        assert json.dumps(now.request).count(words) == (1 if seq > 1 else 0)
        if sent is not None:
            assert canonical.encode(now.request).startswith(canonical.encode(sent.request))
        told.append(request_sent(now, fact_id=f"sent/{seq}", seq=seq * 10 + 5))
        sent = now


@pytest.mark.soak
@pytest.mark.parametrize("name", LAWS)
def test_soak(name: str) -> None:
    check, strategies, examples = LAWS[name]
    within(30 * examples, derandomize=False)(given(*strategies)(check))()
