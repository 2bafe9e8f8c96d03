"""Hypothesis strategies for the facts of whole conversations.

A conversation is told action after action, as a live agent or an importer would record it, with everything
that goes wrong: odd and repeated ids, calls about which any facts are known, cuts, refusals, late facts.
Requests are recorded from real projections, so what is `request_sent` was really made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, get_args

from hypothesis import strategies as st

from normalizer import facts as f
from normalizer.errors import NormalizerError
from normalizer.folding.fold_run import fold
from normalizer.parts import Json, Media, Opaque, Text, Tool, ToolCall
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

_WORDS: Final = (
    "Deploy it.", "And Rome?", "", " ", "\n\n", "\u3000", "done \n", "Grüße, 東京 🚀", "[tool outcome: unknown]"
)  # fmt: skip
TEXTS: Final = st.one_of(
    st.sampled_from(_WORDS),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)
"""Words that people, models and tools write; blank ones too."""

IDS: Final = st.sampled_from(
    ["toolu_1", "toolu_2", "toolu_3", "call_0", "functions.run:0", "トール", "", None, "x" * 70, "toolu_1#2",
     "toolu_1_2"]
)  # fmt: skip
ARGUMENTS: Final = st.sampled_from(
    ['{"path":"a.txt"}', "{}", '{"b":1,"a":[null,2.5]}', "", "null", "[1]", '"text"', '{"path":"a.t', '{"n":NaN}']
)  # fmt: skip
NAMES: Final = st.sampled_from(["run", "read_file", "files.read", "run"])
_SERVER_IDS: Final = st.sampled_from(["srvtoolu_1", "srvtoolu_2", "srvtoolu_3"])


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


def _call(wire_id: str | None, name: str, arguments: str, marked: bool) -> ToolCall:
    given = Json(arguments)
    raw = None
    if marked and given.valid and isinstance(given.value, dict) and wire_id:
        block = {"type": "tool_use", "id": wire_id, "name": name, "input": given.value}
        raw = Json.of({**block, "cache_control": {"type": "ephemeral"}})
    return ToolCall(wire_id, name, given, raw)


CALLS: Final = st.builds(_call, IDS, NAMES, ARGUMENTS, st.booleans())


# ---------------------------------------------------------------- conversations

Draw = Any


@dataclass(frozen=True)
class Home:
    """An API that replies come from: its models, and what only its replies hold.

    `make` draws the parts of one of `kinds`, as a reader of this API makes them; it is given a mark that no other part
    has, and the ids of the server's calls so far. `server_tool` is a tool that its server runs, as it is declared,
    `frame` what may stand beside the content of a reply.
    """

    api: str | None
    provider: str | None = None
    models: tuple[str | None, ...] = (None,)
    kinds: tuple[str, ...] = ()
    make: Callable[[Draw, str, str, Sequence[str]], tuple[Any, ...]] | None = None
    server_tool: Any = None
    frame: st.SearchStrategy[Json | None] = st.none()  # noqa: RUF009 - a strategy is a value


HOMES: Final[dict[str, Home]] = {}
"""By target. A target that has none here talks in texts, calls and media only."""


class _Story:
    """A conversation while it is told. Each action appends facts; `told` is what there is so far."""

    def __init__(self, draw: Draw, home: Home, model: str | None) -> None:
        self.draw = draw
        self.home = home
        self.model = model
        self.told: list[Fact] = []
        self.seq = 0
        self.turn: str | None = "turn-1"
        self.turns = 1
        self.calls: list[str] = []
        self.server_ids: list[str] = []
        self.questions: list[str] = []
        self.texts = 0
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

    def own(self, part: Any) -> Any:
        """The text or text part with a number before its words, so that nobody else says the same, mostly."""
        text = part if isinstance(part, str) else getattr(part, "text", "")
        if not text.strip() or self.chance(8):
            return part
        self.texts += 1
        said = f"§{self.texts} {text}"
        if isinstance(part, str):
            return said
        raw = part.raw and Json.of({**part.raw.value, "text": said})
        return Text(said, raw)

    def user(self) -> None:
        parts = tuple(map(self.own, self.draw(user_parts())))
        plain = len(parts) == 1 and parts[0].kind == "text" and parts[0].raw is None
        self.add(f.UserSaid, parts=parts, string=plain and self.chance(2))

    def instructions(self) -> None:
        parts = tuple(map(self.own, self.draw(st.lists(text_parts(), max_size=2))))
        self.add(f.InstructionsSet, parts=parts, additional=self.seq > 0 and self.chance(2))

    def tools(self) -> None:
        names = self.draw(
            st.lists(st.sampled_from(["run", "read_file", "files.read"]), unique=True, max_size=3)
        )
        tools = [Tool(name, "A tool.", Json.of({"type": "object"})) for name in names]
        if self.home.server_tool is not None and self.chance(2):
            tools.append(Tool("web_search", raw=Json.of(self.home.server_tool), server=True))
        self.add(f.ToolsDeclared, tools=tuple(tools), api=self.home.api)

    def reply(self) -> None:
        origin, home = self._origin()
        parts = self._reply_parts(home)
        ending = st.sampled_from(["end_turn", "tool_use", None, "pause_turn", "refusal", "max_tokens"])
        plain = len(parts) == 1 and parts[0].kind == "text" and parts[0].raw is None
        string = plain and self.chance(2)
        self.add(f.ModelReplied, parts=parts, stop_reason=self.draw(ending), string=string, **origin)

    def cut(self) -> None:
        if self.asked is not None and self.chance(3):
            errors = st.sampled_from(["invalid signature in thinking block", "prompt is too long", None])
            self.add(f.ReplyCut, refused=True, error=self.draw(errors), **self._origin()[0])
            return
        origin, home = self._origin()
        self.add(f.ReplyCut, parts=self._reply_parts(home), **origin)

    def _origin(self) -> tuple[dict[str, Any], Home]:
        """Where a reply comes from: mostly from where this conversation is had; an answer always."""
        home, answers, self.asked = self.home, self.asked, None
        about = {"provider": home.provider, "api": home.api, "model": self.model, "answers": answers}
        if answers is None and self.chance(4):
            if self.chance(3):
                return {}, home  # nothing is said about it
            home = self.draw(st.sampled_from([*HOMES.values(), home]))
            model = self.draw(st.sampled_from(home.models))
            about = {"provider": home.provider, "api": home.api, "model": model}
        return {**about, "raw": self.draw(home.frame)}, home

    def _reply_parts(self, home: Home) -> tuple[Any, ...]:
        kinds = st.sampled_from(["text", "call", "call", *home.kinds, "media"])
        parts: list[Any] = []
        for kind in self.draw(st.lists(kinds, min_size=0 if self.chance(8) else 1, max_size=5)):
            parts.extend(self._parts(home, kind, f"{self.seq}x{len(parts)}"))
        if self.chance(8) and parts:
            parts.append(parts[0])
        return tuple(parts)

    def _parts(self, home: Home, kind: str, mark: str) -> tuple[Any, ...]:
        match kind:
            case "text":
                found: tuple[Any, ...] = (self.own(self.draw(text_parts())),)
            case "call":
                call: ToolCall = self.draw(CALLS)
                if self.chance(3):  # a model that numbers its calls well
                    call = ToolCall(f"toolu_{len(self.calls)}_of_{self.seq}", call.name, call.arguments)
                elif home.api != "anthropic":  # whose blocks `CALLS` holds
                    call = ToolCall(call.id, call.name, call.arguments)
                found = (call,)
            case "media":
                found = (self.draw(MEDIA),)
            case _:
                assert home.make is not None  # noqa: S101 - there are no kinds without it
                found = home.make(self.draw, kind, mark, self.server_ids)
        for part in found:
            if part.kind == "tool_call":
                self.calls.append(part.id or f"f{len(self.told)}:0")
            elif part.kind == "server_tool_call" and part.id:
                self.server_ids.append(part.id)
                if "approval" in (part.form or ""):
                    self.questions.append(part.id)
        return found

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
        self.add(f.SteeringQueued, steering_id=number, parts=(self.own(self.draw(text_parts())),))
        if self.chance(2):
            self.apply_steering()

    def apply_steering(self) -> None:
        if self.steering:
            kind = self.draw(st.sampled_from([f.SteeringApplied, f.SteeringApplied, f.SteeringWithdrawn]))
            self.add(kind, steering_id=self.draw(st.sampled_from(self.steering)))

    def summarise(self) -> None:
        self.add(f.Summarised, parts=(self.own(Text("All went well so far.")),), through=self._border())

    def rewind(self) -> None:
        self.add(f.Rewound, to=self._border())

    def _border(self) -> int:
        """Somewhere in what was told, mostly near its end."""
        return int(self.draw(st.integers(0 if self.chance(4) else max(0, self.seq - 4), self.seq)))

    def about_a_call(self) -> None:
        known = st.sampled_from([*self.calls, f"{self.calls[0]}#2"]) if self.calls else st.just("toolu_1")
        draw, call_id = self.draw, self.draw(known)
        by = draw(st.sampled_from([None, "user", "policy"]))
        kind = draw(st.sampled_from(_CALL_FACTS))
        values: dict[str, Any] = {}
        if kind is f.CallCompleted:
            content = draw(result_contents())
            content = (
                tuple(map(self.own, content)) if isinstance(content, tuple) else content and self.own(content)
            )
            values = {"content": content, "is_error": draw(st.sampled_from([None, False, True]))}
        elif kind is f.OutputObserved:
            values = {"text": self.own(draw(TEXTS)), "truncated": self.chance(3)}
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
                self.add(
                    f.CallCompleted,
                    call_id=call_id,
                    content=self.own(self.draw(TEXTS)),
                    is_error=self.chance(4),
                )

    def exchange(self) -> None:
        """A request goes out, a reply comes, and something becomes of its calls, sooner or later."""
        self.send()
        self.reply()
        if self.chance(2):
            self.results()
        elif not self.chance(4):
            self.add(f.UserSaid, parts=(self.own(Text("Are you there?")),))
            self.finish()

    def finish(self) -> None:
        """A call is done, one of the newest and perhaps long after its turn."""
        if self.calls:
            call_id = self.draw(st.sampled_from(self.calls[-3:]))
            self.add(
                f.CallCompleted, call_id=call_id, content=self.own(self.draw(TEXTS)), is_error=self.chance(4)
            )

    def run(self) -> None:
        """A call may start, runs, and comes to an end, or its process does."""
        if self.calls:
            about = {"call_id": self.draw(st.sampled_from(self.calls[-3:]))}
            self.add(f.StartPermitted, **about, operation_id="op-1", may_have_effects=not self.chance(2))
            if self.chance(2):
                self.add(f.OutputObserved, **about, text=self.own("half of it\n"))
            self.draw(
                st.sampled_from([self.finish, self.end_turn, self.end_turn, self.about_a_call, self.send])
            )()

    def decide(self) -> None:
        """Somebody answers a question that the provider's server has put."""
        if self.questions:
            answer = self.draw(st.sampled_from([f.ApprovalGiven, f.ApprovalDenied]))
            self.add(answer, call_id=self.draw(st.sampled_from(self.questions)))

    def send(self) -> None:
        """Project what there is, and record that it went out; something may be appended in between."""
        options: dict[str, Any] = {"open_calls": self.draw(st.sampled_from(["say_running", "unknown"]))}
        options["model"] = self.draw(st.sampled_from(self.home.models)) if self.chance(8) else self.model
        try:
            projection = project(fold(self.told), self.home.api or "", **options)
        except NormalizerError:
            return
        if self.chance(4):
            self.about_a_call()
        self.seq += 1
        fact = request_sent(projection, fact_id=f"f{len(self.told)}", seq=self.seq, turn_id=self.turn)
        sent = replace(fact, options=Json.of(options))
        self.told.append(sent)
        self.asked = sent.fact_id


_CALL_FACTS: Final = (f.CallCompleted, *get_args(f.CallFact))
ACTIONS: Final = (
    "reply", "reply", "reply", "user", "user", "results", "results", "about_a_call", "about_a_call", "about_a_call",
    "send", "send", "cut", "open_turn", "end_turn", "steer", "apply_steering", "instructions", "tools", "summarise",
    "rewind", "decide", "exchange", "exchange", "exchange", "finish", "run", "run",
)  # fmt: skip


def story(draw: Draw, home: Home, model: str | None) -> _Story:
    """A conversation with an API that nothing was said in yet; `ACTIONS` are the names of what may happen in it."""
    return _Story(draw, home, model)
