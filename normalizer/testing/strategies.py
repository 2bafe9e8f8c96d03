"""Hypothesis strategies for the facts of whole conversations.

A conversation is told action after action, as a live agent or an importer would record it, with everything
that goes wrong: odd and repeated ids, calls about which any facts are known, cuts, refusals, late facts.
Requests are recorded from real projections, so what is `request_sent` was really made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

from hypothesis import strategies as st

from normalizer import facts as f
from normalizer.errors import NormalizerError
from normalizer.folding.fold_run import fold
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
from normalizer.projecting.sent_record import request_sent
from normalizer.repairing import project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from normalizer.facts import Fact

MODELS: Final = ("claude-opus-4-8", "claude-opus-5-5", "claude-sonnet-4-5", "claude-sonnet-5-5")
"""Models of different habits: plain, thinking bound to its prefix, prefill, bound to account and prefix."""

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A picture of one pixel."""

TEXTS: Final = st.one_of(
    st.sampled_from(
        [
            "Deploy it.",
            "And Rome?",
            "",
            " ",
            "\n\n",
            "\u3000",
            "done \n",
            "Grüße, 東京 🚀",
            "[tool outcome: unknown]",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)
"""Words that people, models and tools write; blank ones too."""

IDS: Final = st.sampled_from(
    [
        "toolu_1",
        "toolu_2",
        "toolu_3",
        "call_0",
        "functions.run:0",
        "トール",
        "",
        None,
        "x" * 70,
        "toolu_1#2",
        "toolu_1_2",
    ]
)
ARGUMENTS: Final = st.sampled_from(
    [
        '{"path":"a.txt"}',
        "{}",
        '{"b":1,"a":[null,2.5]}',
        "",
        "null",
        "[1]",
        '"text"',
        '{"path":"a.t',
        '{"n":NaN}',
    ]
)
NAMES: Final = st.sampled_from(["run", "read_file", "files.read", "run"])
_SERVER_IDS: Final = st.sampled_from(["srvtoolu_1", "srvtoolu_2", "srvtoolu_3"])


# ---------------------------------------------------------------- parts


def text_parts() -> st.SearchStrategy[Text]:
    """Words, sometimes with a block that says more."""
    marked = TEXTS.map(
        lambda t: Text(t, Json.of({"type": "text", "text": t, "cache_control": {"type": "ephemeral"}}))
    )
    return st.one_of(TEXTS.map(Text), TEXTS.map(Text), marked)


def _picture(*, raw: bool) -> Media:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return Media("image", "image/png", PNG, raw=Json.of({"type": "image", "source": source}) if raw else None)


MEDIA: Final = st.sampled_from(
    [
        _picture(raw=True),
        _picture(raw=False),
        Media("document", url="https://example.test/a.pdf"),
        Media("audio", "audio/wav", "UklGRg=="),
        Media("image", "image/tiff", "SUkqAA=="),
        Media("file", file_id="file_1", raw=Json.of({"type": "container_upload", "file_id": "file_1"})),
    ]
)
OPAQUE: Final = st.sampled_from([Opaque("novelty", Json.of({"type": "novelty", "data": {"deep": ["kept"]}}))])


def user_parts() -> st.SearchStrategy[tuple[Any, ...]]:
    """What a user's message holds."""
    return st.lists(st.one_of(text_parts(), text_parts(), MEDIA, OPAQUE), max_size=3).map(tuple)


def result_contents() -> st.SearchStrategy[str | tuple[Any, ...] | None]:
    """What a tool returns; None where it was not recorded."""
    return st.one_of(
        TEXTS, TEXTS, st.none(), st.lists(st.one_of(text_parts(), MEDIA, OPAQUE), max_size=3).map(tuple)
    )


def _thought(text: str, form: str) -> Reasoning:
    raw: dict[str, Any] | None = {"type": "thinking", "thinking": text, "signature": f"seal-{len(text)}=="}
    if form == "redacted":
        return Reasoning("", Json.of({"type": "redacted_thinking", "data": "b3BhcXVl"}))
    if form == "unsigned":
        raw = {"type": "thinking", "thinking": text, "signature": ""}
    return Reasoning(text, Json.of(raw) if form != "foreign" else None)


REASONING: Final = st.builds(
    _thought, TEXTS, st.sampled_from(["signed", "signed", "redacted", "unsigned", "foreign"])
)


def _call(wire_id: str | None, name: str, arguments: str, marked: bool) -> ToolCall:
    given = Json(arguments)
    raw = None
    if marked and given.valid and isinstance(given.value, dict) and wire_id:
        block = {"type": "tool_use", "id": wire_id, "name": name, "input": given.value}
        raw = Json.of({**block, "cache_control": {"type": "ephemeral"}})
    return ToolCall(wire_id, name, given, raw)


CALLS: Final = st.builds(_call, IDS, NAMES, ARGUMENTS, st.booleans())


def _search(wire_id: str) -> ServerToolCall:
    block = {"type": "server_tool_use", "id": wire_id, "name": "web_search", "input": {"query": "weather"}}
    return ServerToolCall(wire_id, "web_search", Json.of(block["input"]), Json.of(block), "server_tool_use")


def _found(wire_id: str, *, failed: bool) -> ServerToolResult:
    content: Any = {"type": "web_search_tool_result_error", "error_code": "unavailable"} if failed else []
    block = {"type": "web_search_tool_result", "tool_use_id": wire_id, "content": content}
    return ServerToolResult(wire_id, Json.of(block), failed)


# ---------------------------------------------------------------- conversations


class _Story:
    """A conversation while it is told. Each action appends facts; `told` is what there is so far."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], model: str) -> None:
        self.draw = draw
        self.model = model
        self.told: list[Fact] = []
        self.seq = 0
        self.turn: str | None = "turn-1"
        self.turns = 1
        self.calls: list[str] = []
        self.server_ids: list[str] = []
        self.steering: list[str] = []
        self.asked: str | None = None

    def chance(self, of: int) -> bool:
        """True once in `of` times; False is the simpler case."""
        return bool(self.draw(st.integers(0, of - 1)) == of - 1)

    def add(self, kind: Callable[..., Fact], **values: Any) -> Fact:
        self.seq += 1
        number = len(self.told)
        fact = kind(fact_id=f"f{number}", seq=self.seq, turn_id=values.pop("turn_id", self.turn), **values)
        self.told.append(fact)
        return fact

    # ------------------------------------------------------------ what is said

    def user(self) -> None:
        parts = self.draw(user_parts())
        plain = len(parts) == 1 and parts[0].kind == "text" and parts[0].raw is None
        self.add(f.UserSaid, parts=parts, string=plain and self.chance(2))

    def instructions(self) -> None:
        parts = self.draw(st.lists(text_parts(), max_size=2).map(tuple))
        self.add(f.InstructionsSet, parts=parts, additional=self.seq > 0 and self.chance(2))

    def tools(self) -> None:
        names = self.draw(
            st.lists(st.sampled_from(["run", "read_file", "files.read"]), unique=True, max_size=3)
        )
        tools = [Tool(name, "A tool.", Json.of({"type": "object"})) for name in names]
        if self.chance(2):
            search = {"type": "web_search_20250305", "name": "web_search"}
            tools.append(Tool("web_search", raw=Json.of(search), server=True))
        self.add(f.ToolsDeclared, tools=tuple(tools), api="anthropic")

    def reply(self) -> None:
        parts = self._reply_parts()
        ending = st.sampled_from(["end_turn", "tool_use", None, "pause_turn", "refusal", "max_tokens"])
        self.add(f.ModelReplied, parts=parts, stop_reason=self.draw(ending), **self._origin())

    def cut(self) -> None:
        if self.asked is not None and self.chance(3):
            errors = st.sampled_from(["invalid signature in thinking block", "prompt is too long", None])
            self.add(f.ReplyCut, refused=True, error=self.draw(errors), **self._origin())
            return
        self.add(f.ReplyCut, parts=self._reply_parts(), **self._origin())

    def _origin(self) -> dict[str, Any]:
        answers, self.asked = self.asked, None
        if answers is not None or not self.chance(4):
            return {"provider": "anthropic", "api": "anthropic", "model": self.model, "answers": answers}
        elsewhere: dict[str, Any] = self.draw(st.sampled_from(_ELSEWHERE))
        return elsewhere

    def _reply_parts(self) -> tuple[Any, ...]:
        kinds = st.sampled_from(["text", "call", "call", "thought", "search", "found", "opaque", "media"])
        parts = [self._part(kind) for kind in self.draw(st.lists(kinds, max_size=5))]
        if self.chance(8) and parts:
            parts.append(parts[0])
        return tuple(part for part in parts if part is not None)

    def _part(self, kind: str) -> Any:
        match kind:
            case "text":
                return self.draw(text_parts())
            case "call":
                call: ToolCall = self.draw(CALLS)
                if self.chance(3):  # a model that numbers its calls well
                    call = ToolCall(f"toolu_{len(self.calls)}_of_{self.seq}", call.name, call.arguments)
                self.calls.append(call.id or f"f{len(self.told)}:0")
                return call
            case "thought":
                return self.draw(REASONING)
            case "search":
                wire_id: str = self.draw(_SERVER_IDS)
                self.server_ids.append(wire_id)
                return _search(wire_id)
            case "found":
                known = st.sampled_from(self.server_ids) if self.server_ids else _SERVER_IDS
                return _found(self.draw(known), failed=self.chance(3))
            case "opaque":
                return self.draw(OPAQUE)
        return self.draw(MEDIA)

    # ------------------------------------------------------------ turns, steering, cuts of the history

    def open_turn(self) -> None:
        if self.chance(2):
            self.add(f.TurnEnded, status=self.draw(st.sampled_from(["completed", "cancelled", "failed"])))
        self.turns += 1
        self.turn = f"turn-{self.turns}" if not self.chance(6) else None
        if self.turn is not None and self.chance(2):
            self.add(f.TurnOpened, gated=self.chance(2))

    def end_turn(self) -> None:
        kinds = st.sampled_from([f.TurnEnded, f.TurnCancelRequested, f.RunLost])
        self.add(self.draw(kinds))

    def steer(self) -> None:
        number = f"s{len(self.steering)}"
        self.steering.append(number)
        self.add(f.SteeringQueued, steering_id=number, parts=(self.draw(text_parts()),))

    def apply_steering(self) -> None:
        if self.steering:
            kind = self.draw(st.sampled_from([f.SteeringApplied, f.SteeringApplied, f.SteeringWithdrawn]))
            self.add(kind, steering_id=self.draw(st.sampled_from(self.steering)))

    def summarise(self) -> None:
        through = self.draw(st.integers(0, self.seq))
        self.add(f.Summarised, parts=(Text("Summary: all went well so far."),), through=through)

    def rewind(self) -> None:
        self.add(f.Rewound, to=self.draw(st.integers(0, self.seq)))

    # ------------------------------------------------------------ calls

    def about_a_call(self) -> None:
        known = st.sampled_from([*self.calls, f"{self.calls[0]}#2"]) if self.calls else st.just("toolu_1")
        draw, call_id = self.draw, self.draw(known)
        by = draw(st.sampled_from([None, "user", "policy"]))
        kind = draw(st.sampled_from(_CALL_FACTS))
        values: dict[str, Any] = {}
        if kind is f.CallCompleted:
            values = {
                "content": draw(result_contents()),
                "is_error": draw(st.sampled_from([None, False, True])),
            }
        elif kind is f.OutputObserved:
            values = {"text": draw(TEXTS), "truncated": self.chance(3)}
        elif kind is f.OutcomeAttested:
            values = {"outcome": draw(st.sampled_from(get_args(f.OutcomeKind))), "by": by}
            values["attestor"] = draw(st.sampled_from(["importer", "operator", "query"]))
        elif kind is f.EffectsVerified:
            values = {"effects": draw(st.sampled_from(["none", "happened"])), "by": by}
        elif kind is f.RemoteCancelUpdated:
            values = {"state": draw(st.sampled_from(["requested", "confirmed", "refused"]))}
        elif kind is f.StartPermitted:
            values = {
                "operation_id": "op-1",
                "remote": self.chance(2),
                "may_have_effects": not self.chance(2),
            }
        elif kind is f.CallTerminated:
            values = {"exit_code": draw(st.sampled_from([None, 130])), "by": by}
        elif kind in (f.ApprovalDenied, f.CallSkipped, f.CallCancelRequested):
            values = {"by": by, "reason": draw(st.sampled_from([None, "not on a Friday"]))}
        self.add(kind, call_id=call_id, **values)

    def results(self) -> None:
        """Every call that nothing is known about ends well, as it does most of the time."""
        spoken = {getattr(fact, "call_id", None) for fact in self.told}
        for call_id in dict.fromkeys(self.calls):
            if call_id not in spoken:
                self.add(f.CallCompleted, call_id=call_id, content=self.draw(TEXTS), is_error=self.chance(4))

    # ------------------------------------------------------------ requests

    def send(self) -> None:
        """Project what there is, and record that it went out; something may be appended in between."""
        options = {"open_calls": self.draw(st.sampled_from(["say_running", "unknown"])), "model": self.model}
        try:
            projection = project(fold(self.told), "anthropic", **options)
        except NormalizerError:
            return
        if self.chance(4):
            self.about_a_call()
        self.seq += 1
        fact = request_sent(projection, fact_id=f"f{len(self.told)}", seq=self.seq, turn_id=self.turn)
        sent = replace(fact, options=Json.of(options))
        self.told.append(sent)
        self.asked = sent.fact_id


_ELSEWHERE: Final[list[dict[str, Any]]] = [
    {},
    {"provider": "anthropic", "api": "anthropic", "model": "claude-haiku-4-5"},
    {"provider": "openai", "api": "openai_responses", "model": "gpt-5.2"},
]
_CALL_FACTS: Final = (f.CallCompleted, *get_args(f.CallFact))
_ACTIONS: Final = (
    "reply", "reply", "reply", "user", "user", "results", "results", "about_a_call", "about_a_call", "about_a_call",
    "send", "send", "cut", "open_turn", "end_turn", "steer", "apply_steering", "instructions", "tools", "summarise",
    "rewind",
)  # fmt: skip


@st.composite
def history(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    *,
    model: str | None = None,
    actions: Sequence[str] = _ACTIONS,
    min_size: int = 1,
    max_size: int = 14,
) -> list[Fact]:
    """The facts of one conversation, in order of `seq`. `actions` are the names of what may happen in it."""
    story = _Story(draw, model or draw(st.sampled_from(MODELS)))
    for opening in ("instructions", "tools", "user"):
        if opening in actions and not story.chance(6):
            getattr(story, opening)()
    least = draw(st.sampled_from([min_size, max(min_size, max_size // 2)]))  # lists alone are mostly short
    for action in draw(st.lists(st.sampled_from(actions), min_size=least, max_size=max_size)):
        getattr(story, action)()
    return story.told


def histories(*, model: str | None = None, max_size: int = 14) -> st.SearchStrategy[list[Fact]]:
    """Any plausible set of facts of one conversation with everything that can happen in it, in order of `seq`."""
    return history(model=model, max_size=max_size)
