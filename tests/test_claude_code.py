"""Claude Code session files: what is read from each situation, and that nothing is lost or raised on junk."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normalizer.errors import UnreadableInput
from normalizer.facts import dump_lines
from normalizer.folding.fold_run import fold
from normalizer.sessions.claude_code.evidence import Told, prove
from normalizer.sessions.claude_code.format import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from normalizer.findings import Reading
    from normalizer.transcript import Transcript

FIXTURES = Path(__file__).parent.parent / "fixtures" / "claude_code"
FILES = sorted(FIXTURES.glob("*.jsonl"))
DONE, UNKNOWN, STOPPED, DENIED, NEVER = (
    "completed",
    "unknown",
    "cancelled_while_running",
    "denied",
    "never_run",
)


@dataclass(frozen=True)
class Expected:
    """What a file says: outcomes in order of the calls, kinds of findings, words that live on, words that do not."""

    outcomes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    turns: tuple[str, ...] | None = None


MARKER = "[Request interrupted"
TWO = ("Run two commands", "Running both commands.")
ASKED = (*TWO, "What happened?")

# Written by hand from what each situation is known to be.
EXPECTED: dict[str, Expected] = {
    "interrupted_marker_only": Expected(
        (UNKNOWN,), findings=("missing_result",), live=("I will list them first.", "Leave the branches alone"),
        gone=(MARKER,),
        turns=("cancelled", "completed"),
    ),
    "started_then_told_rejected": Expected((STOPPED,), ("contradiction",), ("Did the commit land?",), ("rejected",)),
    "two_denials_one_reason": Expected((DENIED, UNKNOWN), live=("Go on with the rest of the list.",)),
    "siblings_cancelled_by_program": Expected((DONE, NEVER, NEVER), live=("Carry on.",)),
    "result_arrives_after_compaction": Expected(
        (UNKNOWN,), ("orphan_result",), ("the reports page is being rewritten", "How far are you?"),
        ("Start the long import", "Imported 120 rows."),
    ),
    "real_result_comes_much_later": Expected(
        (DONE,), ("displaced_result", "duplicate_result"), ("I cannot tell; no result was recorded.", "Check again.")
    ),
    "thinking_signed_by_another_model": Expected((DONE,), live=("Pages stay for a day.", "Shorter, please.")),
    "last_line_cut_in_half": Expected(
        (DONE, UNKNOWN), ("bad_line", "missing_result"), ("It is permissive.", "And the notice file?")
    ),
    "bad_line_in_the_middle": Expected((), ("bad_line",), ("First answer.", "Second answer.", "Third question.")),
    "two_records_on_one_line": Expected(
        (), ("bad_line",), ("Name a river.", "The Aare.", "Name a lake.", "Lake Thun.", "Name a hill.")
    ),
    "history_written_again_and_again": Expected((), (), ("Say one.", "one", "Say two.", "two!", "Say three.")),
    "parallel_results_form_a_tree": Expected((DONE, DONE), live=("Write two files.", "Both files are written.")),
    "reply_and_hook_share_a_parent": Expected(
        (), (), ("What is the plan?", "Plan: measure, cut, glue.", "Start with step one."), ("1 hook ran",)
    ),
    "helper_interrupted": Expected(
        (UNKNOWN,), findings=("missing_result",), live=("Let a helper read the docs.", "What did the helper find?"),
        gone=("Inner document text", "Read docs and report"),
    ),
    "hook_lines_between_call_and_result": Expected(
        (DONE,), ("displaced_result",), ("PostToolUse hook: formatter ran", "Thanks. Next file."), ("hook ok",)
    ),
    "error_lines_saved_as_assistant": Expected(
        (), (), ("The index maps words", "Give an example.", "try again", "please answer"), ("API Error: 400",),
        ("completed", "failed", "failed", "completed"),
    ),
    "assistant_line_never_written": Expected(
        (DONE, DONE), ("orphan_result", "parent_missing"), ("Which one is down?",), ("two is up",)
    ),
    "partial_output_of_a_stopped_command": Expected((STOPPED,), live=("How many pages are done?",)),
    "esc_with_three_open_calls": Expected(
        (UNKNOWN,) * 3, findings=("missing_result",) * 3, live=("Use only folder b.",), gone=(MARKER,)
    ),
    "whitespace_only_assistant_text": Expected((), (), ("Think about it.", "Well?", "Here is my answer.", "Good.")),
    "run_of_nul_bytes": Expected((), ("bad_line",), ("First.", "First reply.", "Second reply.", "Third.")),
    "parent_that_was_never_written": Expected(
        (), ("parent_missing",), ("Question one.", "Answer one.", "Question two.", "Answer two.", "Question three.")
    ),
    "broken_orphan_result_call_line_lost": Expected(
        (DONE,), ("orphan_result", "parent_missing", "parent_missing"), ("What is in this folder?", "The folder holds")
    ),
    "broken_result_line_lost_later_turns_present": Expected(
        (UNKNOWN, DONE), ("missing_result", "parent_missing"),
        ("What is in this folder?", "I will look", "The folder holds"),
    ),
    "broken_same_line_twice": Expected((DONE, DONE), (), ("I will look", "The folder holds")),
    "broken_torn_last_line": Expected((UNKNOWN, DONE), ("bad_line", "missing_result"), ("I will look",)),
    "broken_torn_line_glued_to_next_record": Expected(
        (UNKNOWN, DONE), ("bad_line", "missing_result", "parent_missing"), ("I will look", "The folder holds")
    ),
    "broken_two_results_for_one_call": Expected(
        (DONE, DONE), ("contradiction", "duplicate_result"), ("The folder holds",)
    ),
    "repaired_linear_chain": Expected((DONE, DONE), live=TWO),
    "v2076_broken_killed_mid_tool": Expected((DONE, UNKNOWN), findings=("missing_result",), live=TWO),
    "v2076_interrupted_while_running": Expected(
        (DONE, STOPPED), live=ASKED, gone=(MARKER,), turns=("cancelled", "completed")
    ),
    "v21197_api_error_400": Expected((DONE,), gone=("API Error",), turns=("failed",)),
    "v21197_broken_killed_mid_tool": Expected((DONE, UNKNOWN), findings=("missing_result",), live=TWO),
    "v21197_denied_by_policy_print_mode": Expected((DENIED,), live=("Create made.txt",)),
    "v21197_healthy_parallel_calls": Expected((DONE, DONE), live=("I will look", "The folder holds")),
    "v21197_healthy_with_steering_message": Expected(
        (DONE, DONE), live=(*TWO, "Also say hello."), turns=("completed",)
    ),
    "v21197_interrupted_mid_stream": Expected(
        (), (), ("One two three four five", "What happened?"), (MARKER,), ("cancelled", "completed")
    ),
    "v21197_interrupted_while_running": Expected(
        (DONE, UNKNOWN), live=ASKED, gone=(MARKER,), turns=("cancelled", "completed")
    ),
    "v21197_killed_then_resumed_by_cli": Expected(
        (DONE, UNKNOWN), findings=("missing_result",), live=ASKED, gone=("No response requested", "Continue from where")
    ),
    "v21197_subagent": Expected((DONE,), live=("Count the lines of notes.txt", "Two lines.")),
    "v21197_terminal_ui_interrupts_and_subagent": Expected(
        (STOPPED, DONE), live=("Run it", "Slow words one two three four", "The helper counted two lines."),
        gone=(MARKER,), turns=("cancelled", "cancelled", "completed"),
    ),
    "v21197_terminal_ui_reject_feedback_queue_compact": Expected(
        (UNKNOWN, DENIED, STOPPED), live=("Summary of the talk", "All fine now.", "After compaction"),
        gone=("Please write a file", "Understood, I will not write it.", "Tell me more"),
    ),
    "v21328_api_error_400": Expected((DONE,), gone=("API Error",), turns=("failed",)),
    "v21328_broken_killed_mid_tool": Expected((DONE, UNKNOWN), findings=("missing_result",), live=TWO),
    "v21328_denied_by_callback_with_reason": Expected((DENIED, DENIED), turns=("completed",)),
    "v21328_healthy_with_steering_message": Expected((DONE, DONE), live=(*TWO, "Also say hello.")),
    "v21328_interrupted_at_permission_prompt": Expected((NEVER, NEVER), turns=("cancelled", "completed")),
    "v21328_interrupted_mid_stream": Expected(
        (), (), ("One two three four five",), (MARKER,), ("cancelled", "completed")
    ),
    "v21328_interrupted_while_running": Expected(
        (DONE, STOPPED), live=ASKED, gone=("rejected", MARKER), turns=("cancelled", "completed")
    ),
    "v21328_killed_then_resumed_by_cli": Expected((DONE, UNKNOWN), live=ASKED, gone=("No response requested",)),
    "v21328_permission_prompt_unanswered": Expected((NEVER, NEVER), turns=("completed",)),
}  # fmt: skip


def _read(name: str) -> tuple[Reading, Transcript]:
    reading = FORMAT.read((FIXTURES / f"{name}.jsonl").read_bytes(), {})
    return reading, fold(reading.facts)


def _live(transcript: Transcript) -> str:
    return "\n".join(entry.text for entry in transcript.entries)


def test_every_file_has_an_expectation() -> None:
    assert {path.stem for path in FILES} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_situation(name: str) -> None:
    expected = EXPECTED[name]
    reading, transcript = _read(name)
    assert tuple(call.outcome.kind for call in transcript.calls.values()) == expected.outcomes
    kinds = sorted(finding.kind for finding in (*reading.findings, *transcript.findings))
    assert kinds == sorted(expected.findings)
    live = _live(transcript)
    places = [live.find(words) for words in expected.live]
    assert -1 not in places
    assert places == sorted(places)
    assert not [words for words in expected.gone if words in live]
    if expected.turns is not None:
        assert tuple(turn.status for turn in transcript.turns.values()) == expected.turns


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sniff(path: Path) -> None:
    data = path.read_bytes()
    assert FORMAT.sniff(data[:65536]) >= 85
    assert (
        FORMAT.sniff(
            b'{"parentUuid":null,"isSidechain":false,"type":"user","message":{"content":"' + b"a" * 99
        )
        >= 50
    )


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\0\0",
        b'{"messages": []}',
        b'{"type":"session_meta","payload":{}}\n',
        b"[1]",
        b'{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[]}}',
    ],
)
def test_sniff_refuses(head: bytes) -> None:
    assert FORMAT.sniff(head) == 0


# ---------------------------------------------------------------- nothing is lost


def _strings(value: Any) -> Iterator[str]:
    """All strings in a value, without the types of blocks that a fact says by being what it is."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "type" or item not in ("text", "tool_use", "tool_result"):
                yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _kept(reading: Reading) -> set[str]:
    """Every string of what was read, also those inside JSON texts."""
    texts = [line.decode() for line in dump_lines(reading.facts).split(b"\n") if line]
    texts += [left.text for left in reading.leftovers]
    texts += [fragment.text for fragment in reading.fragments]
    found: set[str] = set()
    waiting: list[str] = texts
    while waiting:
        text = waiting.pop()
        if text in found:
            continue
        found.add(text)
        if text[:1] in ("{", "[", '"'):
            try:
                waiting.extend(_strings(json.loads(text)))
            except ValueError:
                continue
    return found


def _assert_nothing_lost(data: bytes) -> None:
    reading = FORMAT.read(data, {})
    ids = [fact.fact_id for fact in reading.facts]
    assert len(ids) == len(set(ids))
    places = [fact.seq for fact in reading.facts]
    assert len(places) == len(set(places))
    kept = _kept(reading)
    for line in data.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        assert not [text for text in _strings(value) if text not in kept]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_lost(path: Path) -> None:
    _assert_nothing_lost(path.read_bytes())


def test_damaged_pieces_are_kept_whole() -> None:
    data = (FIXTURES / "broken_torn_line_glued_to_next_record.jsonl").read_bytes()
    reading = FORMAT.read(data, {})
    torn = [left.text for left in reading.leftovers if left.reason == "a piece of a line that is no record"]
    assert len(torn) == 1
    assert torn[0].encode() in data
    assert torn[0].startswith('{"parentUuid"')
    assert reading.findings[0].line == 11


# ---------------------------------------------------------------- single points


def _line(kind: str, uuid: str, parent: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False, **more}
    if content is not None:
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            message |= {
                "id": more.get("mid", f"msg_{uuid}"),
                "model": "claude-opus-4-8",
                "stop_reason": "tool_use",
            }
        line["message"] = message
    return line


def _call(call_id: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call_id, "name": "Bash", "input": arguments}]


def _result(call_id: str, text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"tool_use_id": call_id, "type": "tool_result", "content": text, **more}]


def _file(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _fold(*lines: dict[str, Any]) -> tuple[Reading, Transcript]:
    data = _file(*lines)
    reading = FORMAT.read(data, {})
    _assert_nothing_lost(data)
    return reading, fold(reading.facts)


def test_rewound_branch_is_left_out() -> None:
    reading, transcript = _fold(
        _line("user", "u1", None, "Question"),
        _line("assistant", "a1", "u1", [{"type": "text", "text": "Old answer"}]),
        _line("user", "u2", None, "Better question"),
        _line("assistant", "a2", "u2", [{"type": "text", "text": "Good answer"}]),
    )
    assert _live(transcript) == "Better question\nGood answer"
    assert {left.reason for left in reading.leftovers} == {"another branch", "what stands beside the message"}


def test_named_leaf_decides() -> None:
    lines = (
        _line("user", "u1", None, "Question"),
        _line("assistant", "a1", "u1", [{"type": "text", "text": "First"}]),
        _line("assistant", "a2", "u1", [{"type": "text", "text": "Second"}]),
    )
    _, transcript = _fold(*lines)
    assert _live(transcript) == "Question\nSecond"
    last = {"type": "last-prompt", "leafUuid": "a1", "sessionId": "s"}
    _, transcript = _fold(*lines, last)
    assert _live(transcript) == "Question\nFirst"
    _, transcript = _fold(*lines, last, _line("user", "u3", "a1", "Go on"))
    assert _live(transcript) == "Question\nFirst\nGo on"


def test_newer_reply_on_the_other_parallel_result_is_found() -> None:
    _, transcript = _fold(
        _line("user", "u1", None, "Both"),
        _line("assistant", "a1", "u1", _call("t1"), mid="m"),
        _line("assistant", "a2", "a1", _call("t2"), mid="m"),
        _line("user", "r1", "a1", _result("t1", "one")),
        {"type": "last-prompt", "leafUuid": "r1", "sessionId": "s"},
        _line("user", "r2", "a2", _result("t2", "two")),
        _line("assistant", "a3", "r2", [{"type": "text", "text": "Both done"}]),
    )
    assert [call.outcome.kind for call in transcript.calls.values()] == [DONE, DONE]
    assert len(transcript.entries) == 3
    assert _live(transcript).endswith("Both done")


def test_kept_piece_that_was_hung_behind_its_summary() -> None:
    boundary = _line("system", "b", None, subtype="compact_boundary", logicalParentUuid="a2")
    boundary["compactMetadata"] = {
        "preservedSegment": {"headUuid": "u2", "anchorUuid": "s1", "tailUuid": "a2"}
    }
    _, transcript = _fold(
        _line("user", "u1", None, "Old question"),
        _line("assistant", "a1", "u1", [{"type": "text", "text": "Old answer"}]),
        _line("user", "u2", "s1", "Kept question"),
        _line("assistant", "a2", "u2", [{"type": "text", "text": "Kept answer"}]),
        boundary,
        _line("user", "s1", "b", "The summary", isCompactSummary=True),
        _line("user", "u3", "a2", "New question"),
    )
    assert _live(transcript) == "The summary\nKept question\nKept answer\nNew question"
    assert "Old answer" in dump_lines(transcript.facts).decode()


def test_ring_of_parents_ends() -> None:
    reading, transcript = _fold(
        _line("user", "u1", "a1", "Question"),
        _line("assistant", "a1", "u1", [{"type": "text", "text": "Answer"}]),
    )
    assert _live(transcript) == "Question\nAnswer"
    assert [finding.kind for finding in reading.findings] == ["parent_missing"]


def test_replies_with_one_id_from_a_gateway_stay_apart() -> None:
    text = [{"type": "text", "text": "Hi"}]
    _, transcript = _fold(
        _line("user", "u1", None, "One"),
        _line("assistant", "a1", "u1", text, mid="same"),
        _line("user", "u2", "a1", "Two"),
        _line("assistant", "a2", "u2", text, mid="same"),
    )
    assert _live(transcript) == "One\nHi\nTwo\nHi"


def test_foreign_model_has_no_provider() -> None:
    reading, _ = _read("thinking_signed_by_another_model")
    replies = [fact for fact in reading.facts if fact.kind == "model_replied"]
    assert {(reply.model, reply.provider, reply.api) for reply in replies} == {("glm-4.6", None, "anthropic")}


def test_blocks_of_a_reply_follow_their_numbers() -> None:
    _, transcript = _fold(
        _line("user", "u1", None, "Go"),
        _line("assistant", "a2", "u1", [{"type": "text", "text": "second"}], mid="m", apiBlockIndex=1),
        _line("assistant", "a1", "a2", [{"type": "text", "text": "first"}], mid="m", apiBlockIndex=0),
    )
    assert transcript.entries[1].text == "first\nsecond"


def test_words_of_a_denial_and_output_before_a_stop_are_kept() -> None:
    _, transcript = _read("two_denials_one_reason")
    assert transcript.calls["toolu_h1"].outcome.reason == "keep build, it holds the signed packages"
    assert transcript.calls["toolu_h1"].outcome.by == "user"
    _, transcript = _read("partial_output_of_a_stopped_command")
    assert transcript.calls["toolu_ef1"].output == "page 1 done\npage 2 done"


def test_progress_shows_a_start_and_its_output() -> None:
    data = {"type": "bash_progress", "output": "b", "fullOutput": "a\nb"}
    _, transcript = _fold(
        _line("user", "u1", None, "Go"),
        _line("assistant", "a1", "u1", _call("t1")),
        _line("progress", "p1", "a1", data=data, toolUseID="x", parentToolUseID="t1"),
    )
    call = transcript.calls["t1"]
    assert (call.outcome.kind, call.outcome.basis, call.output) == (UNKNOWN, "no_end_recorded", "a\nb")


def test_hook_progress_shows_no_start() -> None:
    hook = {"type": "hook_progress", "hookEvent": "PreToolUse"}
    _, transcript = _fold(
        _line("user", "u1", None, "Go"),
        _line("assistant", "a1", "u1", _call("t1")),
        _line("progress", "p1", "a1", data=hook, toolUseID="t1", parentToolUseID="t1"),
    )
    assert transcript.calls["t1"].outcome.basis == "not_recorded"


def test_queued_words_that_were_never_given_are_steering() -> None:
    queue = {"type": "queue-operation", "sessionId": "s"}
    _, transcript = _fold(
        _line("user", "u1", None, "Go"),
        {**queue, "operation": "enqueue", "content": "First"},
        {**queue, "operation": "enqueue", "content": "Second"},
        {**queue, "operation": "remove", "content": "First"},
    )
    assert len(transcript.steering) == 1
    assert "Second" not in _live(transcript)


def test_meta_and_commands_are_the_programs() -> None:
    _, transcript = _fold(
        _line("user", "u1", None, "Caveat", isMeta=True),
        _line("user", "u2", "u1", "<command-name>/x</command-name>"),
        _line("user", "u3", "u2", "<local-command-stdout>out</local-command-stdout>"),
        _line("user", "u4", "u3", "Timer", origin={"kind": "task-notification"}),
        _line("user", "u5", "u4", "Words", origin={"kind": "human"}),
    )
    assert [entry.fact.by for entry in transcript.entries] == ["program"] * 4 + ["person"]  # type: ignore[union-attr]


def test_lone_surrogates_and_nul_are_replaced_and_kept() -> None:
    text = b"a\\ud800b\\u0000c \\ud83d\\ude00 \\\\ud800"
    bad = b'{"type":"user","uuid":"u1","parentUuid":null,"message":{"content":"' + text + b'"}}\n'
    reading = FORMAT.read(bad, {})
    assert _live(fold(reading.facts)) == "a\ufffdb\ufffdc \U0001f600 \\ud800"
    assert [finding.kind for finding in reading.findings] == ["bad_unicode"]
    assert bad.decode().strip() in {left.text for left in reading.leftovers}


def test_bytes_that_are_no_utf8() -> None:
    reading = FORMAT.read(
        b'{"type":"user","uuid":"u1","parentUuid":null,"message":{"content":"a\xffb"}}\r\n\r\n', {}
    )
    assert _live(fold(reading.facts)) == "a\ufffdb"
    assert [finding.kind for finding in reading.findings] == ["bad_unicode"]


@pytest.mark.parametrize(
    ("text", "line", "proof"),
    [
        (
            "The user doesn't want to proceed with this tool use.",
            {"toolDenialKind": "user-rejected"},
            "unknown",
        ),
        ("x", {"toolDenialKind": "user-rejected", "version": "2.1.322"}, "unknown"),
        ("x", {"toolDenialKind": "user-rejected", "version": "2.1.326"}, "stopped"),
        (
            "x",
            {"toolDenialKind": "user-rejected", "version": "2.1.326", "toolDenialBeforeRun": True},
            "skipped",
        ),
        ("[Request interrupted by user for tool use]", {"version": "2.0.76"}, "stopped"),
        ("[Request interrupted by user for tool use]", {"version": "1.0.3"}, "unknown"),
        ("The user doesn't want to take this action right now.", {}, "unknown"),
        ("Auto mode could not evaluate this action", {}, "skipped"),
        ("Claude requested permissions to use Bash, but you haven't granted it yet.", {}, "denied"),
        ("Permission to use Bash has been denied.", {}, "denied"),
        ("Exit code 1\nPermission to use Bash has been denied.", {}, "completed"),
        ("whatever", {"toolUseResult": {"interrupted": True}}, "stopped"),
        ("boom", {}, "completed"),
    ],
)
def test_evidence(text: str, line: dict[str, Any], proof: str) -> None:
    assert prove(Told(text, is_error=True, line=line)).proof == proof


@pytest.mark.parametrize(
    "text", ["Permission to use X has been denied", "[Request interrupted by user for tool use]"]
)
def test_output_that_reads_like_a_denial_is_output(text: str) -> None:
    assert prove(Told(text, is_error=False, line={})).proof == "completed"


# ---------------------------------------------------------------- junk


def _read_or_refuse(data: bytes) -> Reading | None:
    """The reading, or None where the file holds no message; any other error fails the test."""
    try:
        return FORMAT.read(data, {})
    except UnreadableInput as error:
        if error.reason != "no_messages":
            raise
        return None


def _survives(data: bytes) -> None:
    FORMAT.sniff(data)
    reading = _read_or_refuse(data)
    if reading is not None:
        fold(reading.facts)


@given(st.binary(max_size=300))
def test_binary_junk(data: bytes) -> None:
    _survives(data)
    _survives(FILES[0].read_bytes()[:2000] + data)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cut_and_scrambled_files(path: Path) -> None:
    data = path.read_bytes()
    chance = random.Random(path.stem)  # noqa: S311 - a place to cut
    for _ in range(6):
        cut = chance.randrange(len(data))
        _survives(data[:cut])
        _survives(data[cut:])
        _survives(data[:cut] + bytes([chance.randrange(256)]) * 3 + data[cut + 3 :])
    lines = data.split(b"\n")
    chance.shuffle(lines)
    _assert_nothing_lost(b"\n".join(lines))


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["user", "u1", "text", "tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "content", "id", "name", "input", "tool_use_id", "text", "role", "model", "is_error"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "odd"])},
        optional={
            "id": st.sampled_from(["t1", "t2"]),
            "tool_use_id": st.sampled_from(["t1", "t2", 3]),
            "name": st.just("Bash"),
            "input": JUNK,
            "text": st.sampled_from(
                ["words", "[Request interrupted by user]", "Continue from where you left off."]
            ),
            "content": JUNK | st.sampled_from(["out", "Exit code 1", "<tool_use_error>no</tool_use_error>"]),
            "is_error": st.booleans(),
            "thinking": st.text(max_size=3),
        },
    ),
    max_size=3,
)
LINES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["user", "assistant", "system", "attachment", "progress", "last-prompt", "odd"]
        ),
        "uuid": st.sampled_from(["u1", "u2", "u3", "u4"]),
    },
    optional={
        "parentUuid": st.sampled_from(["u1", "u2", "u3", "u4", "gone", None]),
        "logicalParentUuid": st.sampled_from(["u1", "u2"]),
        "message": JUNK
        | st.fixed_dictionaries(
            {"content": JUNK | BLOCKS | BLOCKS, "id": st.sampled_from(["m1", "m2"])},
            optional={"model": st.sampled_from(["claude-x", "<synthetic>", 4]), "stop_reason": JUNK},
        ),
        "isSidechain": st.booleans(),
        "isMeta": st.booleans(),
        "isCompactSummary": st.booleans(),
        "subtype": st.sampled_from(["compact_boundary", "task_started"]),
        "compactMetadata": JUNK,
        "leafUuid": st.sampled_from(["u1", "u4"]),
        "toolUseResult": JUNK,
        "attachment": JUNK | st.fixed_dictionaries({"type": st.just("queued_command"), "prompt": JUNK}),
        "data": JUNK | st.just({"type": "bash_progress", "output": "so far"}),
        "toolUseID": st.sampled_from(["t1", "t2"]),
        "parentToolUseID": st.sampled_from(["t1", "t2"]),
        "tool_use_id": st.sampled_from(["t1", "t2"]),
        "version": JUNK,
    },
)


@settings(max_examples=150)
@given(st.lists(LINES, max_size=8))
def test_lines_of_any_shape(lines: list[dict[str, Any]]) -> None:
    data = _file(*lines)
    reading = _read_or_refuse(data)
    if reading is not None:
        _assert_nothing_lost(data)
        fold(reading.facts)


def test_nothing_usable() -> None:
    with pytest.raises(UnreadableInput) as caught:
        FORMAT.read(b'{"type":"summary","summary":"x","leafUuid":"y"}\n{"torn', {})
    assert caught.value.reason == "no_messages"
