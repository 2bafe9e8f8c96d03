"""The table of what becomes of each part, held against the three projections; and its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import normalizer
from normalizer import facts as f
from normalizer import registry
from normalizer.devtools import hand_over_page
from normalizer.devtools.capabilities import CAPABILITIES, Cell, Row
from normalizer.parts import (
    Json,
    Media,
    Opaque,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    Tool,
    ToolCall,
)
from normalizer.testing import assert_accepts
from normalizer.testing.strategies import PNG

if TYPE_CHECKING:
    from normalizer.facts import Fact

ROOT: Final = Path(__file__).parent.parent
MODELS: Final = {"anthropic": "claude-opus-4-8", "openai_chat": "gpt-5.2", "openai_responses": "gpt-5.2"}
BESIDE: Final = {"tools_not_declared"}
"""Adjustments that are about the request, not about the part."""
CALL: Final = ToolCall("call_1", "run", Json('{"a":1}'))
PDF: Final = Media("document", "application/pdf", "JVBERi0=", name="a.pdf")
PICTURE: Final = Media("image", "image/png", PNG)


def user(*parts: Any) -> list[Fact]:
    return [f.UserSaid(fact_id="u", seq=2, parts=(Text("look"), *parts))]


def reply(api: str, *parts: Any) -> list[Fact]:
    provider = "anthropic" if api == "anthropic" else "openai"
    said = f.ModelReplied(
        fact_id="r", seq=3, parts=parts, stop_reason=None, provider=provider, api=api, model=MODELS[api]
    )
    return [*user(), said]


def done(call_id: str = "call_1", content: Any = "ok") -> Fact:
    return f.CallCompleted(fact_id="c", seq=4, call_id=call_id, content=content, is_error=False)


def block(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def of_anthropic_search() -> list[Fact]:
    called = block("server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "w"})
    found = block("web_search_tool_result", tool_use_id="srvtoolu_1", content=[])
    call = ServerToolCall(
        "srvtoolu_1", "web_search", Json.of(called["input"]), Json.of(called), "server_tool_use"
    )
    return reply("anthropic", call, ServerToolResult("srvtoolu_1", Json.of(found)), Text("Sunny."))


def of_openai_search() -> list[Fact]:
    found = block("web_search_call", id="ws_1", status="completed", action=block("search", query="w"))
    answer = {"role": "assistant", "content": "Sunny."}
    payload = {"model": "gpt-5.2", "input": [{"role": "user", "content": "look"}, found, answer]}
    return list(normalizer.read(payload, format="openai_responses").facts)


def later_instructions() -> list[Fact]:
    more = f.InstructionsSet(fact_id="i", seq=4, parts=(Text("Be brief."),), additional=True)
    return [*reply("anthropic", Text("Hm.")), more, f.UserSaid(fact_id="v", seq=5, parts=(Text("and?"),))]


def steering() -> list[Fact]:
    queued = f.SteeringQueued(fact_id="q", seq=4, steering_id="s", parts=(Text("left"),))
    return [*reply("anthropic", Text("Hm.")), queued, f.SteeringApplied(fact_id="a", seq=5, steering_id="s")]


SHELL: Final = block(
    "shell_call", id="sh_1", call_id="call_1", action={"commands": ["ls"]}, status="completed"
)
SQL: Final = block("custom_tool_call", id="ctc_1", call_id="call_1", name="sql", input="select 1")
SEARCH: Final = block("web_search_20250305", name="web_search")
SEALED: Final = block("reasoning", id="rs_1", summary=[], encrypted_content="gAAA")
CITED: Final = block(
    "text", text="Hm.", citations=[block("search_result_location", source="u", cited_text="so")]
)
HELD: Final = block("document", source=block("file", file_id="file_1"))
SIGNED: Final = block("thinking", thinking="Hm.", signature="c2VhbA==")

SAMPLES: Final[dict[str, list[Fact]]] = {
    "user_text": user(),
    "reply_text": reply("anthropic", Text("Hm.")),
    "citations": reply("anthropic", Text("Hm.", Json.of(CITED))),
    "steering": steering(),
    "summary": [*user(), f.Summarised(fact_id="z", seq=4, parts=(Text("All went well."),), through=2)],
    "instructions": [f.InstructionsSet(fact_id="i", seq=1, parts=(Text("Be brief."),)), *user()],
    "later_instructions": later_instructions(),
    "image": user(PICTURE),
    "image_url": user(Media("image", url="https://example.test/a.png")),
    "odd_image": user(Media("image", "image/tiff", "SUkqAA==")),
    "pdf": user(PDF),
    "pdf_url": user(Media("document", url="https://example.test/a.pdf")),
    "audio": user(Media("audio", "audio/wav", "UklGRg==")),
    "anthropic_file": user(Media("document", file_id="file_1", raw=Json.of(HELD))),
    "anthropic_reasoning": reply("anthropic", Reasoning("Hm.", Json.of(SIGNED)), Text("Hm.")),
    "openai_reasoning": reply("openai_responses", Reasoning("", Json.of(SEALED)), Text("Hm.")),
    "call": [*reply("anthropic", CALL), done()],
    "result": [*reply("openai_chat", CALL), done()],
    "no_result": reply("anthropic", CALL),
    "bad_arguments": [*reply("openai_chat", ToolCall("call_1", "run", Json("oops"))), done()],
    "custom_call": [
        *reply("openai_responses", ToolCall("call_1", "sql", Json("select 1"), Json.of(SQL), "custom")), done(),
    ],
    "open_shell_call": reply(
        "openai_responses", ToolCall("call_1", "shell", Json.of(SHELL["action"]), Json.of(SHELL), "shell_call")
    ),
    "long_id": [*reply("anthropic", ToolCall("x" * 70, "run", Json("{}"))), done("x" * 70)],
    "odd_name": [*reply("openai_chat", ToolCall("call_1", "files.read", Json("{}"))), done()],
    "result_image": [*reply("anthropic", CALL), done(content=(Text("see"), PICTURE))],
    "result_pdf": [*reply("anthropic", CALL), done(content=(PDF,))],
    "anthropic_search": of_anthropic_search(),
    "openai_search": of_openai_search(),
    "anthropic_server_tool": [
        f.ToolsDeclared(
            fact_id="t", seq=1, api="anthropic", tools=(Tool("web_search", raw=Json.of(SEARCH), server=True),)
        ),
        *user(),
    ],
    "anthropic_unknown": reply("anthropic", Opaque("novelty", Json.of(block("novelty", x=1))), Text("Hm.")),
}  # fmt: skip


def test_the_table_has_a_cell_for_every_target_and_a_sample_for_every_row() -> None:
    assert [row.name for row in CAPABILITIES] == list(SAMPLES)
    for row in CAPABILITIES:
        assert tuple(row.cells) == registry.targets()


@pytest.mark.parametrize("row", CAPABILITIES, ids=lambda row: row.name)
@pytest.mark.parametrize("target", registry.targets())
def test_the_projection_does_what_the_table_says(row: Row, target: str) -> None:
    transcript = normalizer.fold(SAMPLES[row.name])
    projection = normalizer.project(transcript, target, open_calls="unknown")
    assert_accepts(projection.request, target, context={"history": True, "received_types": ["novelty"]})
    found = {a.kind for a in projection.adjustments} - BESIDE
    cell: Cell = row.cells[target]
    assert found == ({cell.adjustment} if cell.adjustment else set())


# What shows that a row's part is in a request.
MARKS: Final[dict[str, str]] = {
    "user_text": "look", "reply_text": "Hm.", "citations": '"cited_text"', "steering": "left",
    "summary": "All went well.",
    "instructions": "Be brief.", "later_instructions": "Be brief.", "image": PNG,
    "image_url": "https://example.test/a.png", "odd_image": "SUkqAA==", "pdf": "JVBERi0=",
    "pdf_url": "https://example.test/a.pdf", "audio": "UklGRg==", "anthropic_file": "file_1",
    "anthropic_reasoning": "c2VhbA==", "openai_reasoning": "gAAA", "call": '"run"', "result": '"ok"',
    "no_result": '"result"', "bad_arguments": "oops", "custom_call": "select 1", "open_shell_call": '"stdout"',
    "long_id": '"run"', "odd_name": '"files_read_', "result_image": PNG, "result_pdf": "JVBERi0=",
    "anthropic_search": "srvtoolu_1", "openai_search": "ws_1", "anthropic_server_tool": "web_search_20250305",
    "anthropic_unknown": "novelty",
}  # fmt: skip
RAW: Final[dict[str, dict[str, Any]]] = {
    "citations": CITED,
    "anthropic_file": HELD, "anthropic_reasoning": SIGNED, "openai_reasoning": SEALED, "custom_call": SQL,
    "anthropic_server_tool": SEARCH, "anthropic_unknown": block("novelty", x=1),
    "anthropic_search": block("server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "w"}),
    "openai_search": block("web_search_call", id="ws_1", status="completed", action=block("search", query="w")),
}  # fmt: skip
OURS: Final = ("[left out here: ", "[tool outcome: ")


@pytest.mark.parametrize("row", CAPABILITIES, ids=lambda row: row.name)
@pytest.mark.parametrize("target", registry.targets())
def test_the_request_has_what_the_table_says(row: Row, target: str) -> None:
    projection = normalizer.project(normalizer.fold(SAMPLES[row.name]), target, open_calls="unknown")
    request = json.dumps(projection.request, ensure_ascii=False)
    fate = row.cells[target].fate
    assert (MARKS[row.name] in request) == (fate in ("verbatim", "converted", "moved"))
    assert any(words in request for words in OURS) == (fate == "told as text")
    if fate == "verbatim":
        assert json.dumps(RAW[row.name], ensure_ascii=False) in request


def test_the_page_is_current() -> None:
    assert hand_over_page.PAGE.is_relative_to("docs")
    assert (ROOT / hand_over_page.PAGE).read_text(encoding="utf-8") == hand_over_page.render()


def test_the_generator_writes_and_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    assert hand_over_page.main(["--check"]) == 1
    assert "make docs" in capsys.readouterr().out
    assert hand_over_page.main([]) == 0
    assert hand_over_page.main(["--check"]) == 0
