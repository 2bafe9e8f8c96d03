"""A host that keeps nothing but facts, and talks to the loopback server. What happens is a list of small events.

Every event is a name and a number; the number decides all that the event leaves open, so that leaving an event
out changes nothing about the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anthropic
from loopback import Answer, Block, Loopback, Refusal, Reply
from modelling import plan

import normalizer
from normalizer import facts as f
from normalizer.facts import Fact, dump_lines, load_lines
from normalizer.folding.fold_run import fold
from normalizer.parts import Json, Media, Text, Tool
from normalizer.projecting import canonical
from normalizer.projecting.sent_record import request_sent
from normalizer.providers.anthropic import stream, wire

if TYPE_CHECKING:
    from normalizer.projection import Projection
    from normalizer.transcript import Call

try:
    import httpx2 as http  # what the SDK is built on decides what a broken connection raises
except ModuleNotFoundError:  # pragma: no cover
    import httpx as http  # type: ignore[import-not-found,no-redef]

Event: TypeAlias = tuple[str, int]

BOUND, UNBOUND, OLD = "claude-opus-5-5", "claude-opus-4-8", "claude-sonnet-4-5"
MODELS: Final = (BOUND, UNBOUND, OLD)

_TURN: Final = frozenset({"turn_opened", "turn_cancel_requested", "turn_ended", "run_lost"})
_CODE: Final = "code_execution_20260120"
CLIENT_TOOLS: Final = ("get_weather", "run_command", "deploy")
_PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def tool(name: str, wording: str = "") -> Tool:
    """A tool of the host, or one that the server runs."""
    if name == "web_search":
        raw: dict[str, Any] = {"type": "web_search_20250305", "name": name}
    elif name == "code_execution":
        raw = {"type": _CODE, "name": name}
    else:
        raw = {"name": name, "description": f"{name}{wording}", "input_schema": {"type": "object"}}
        if name != "deploy":
            raw["allowed_callers"] = ["direct", _CODE]
    return Tool(name, raw=Json.of(raw), server="type" in raw)


@dataclass
class Broken(AssertionError):
    """A law that did not hold, with what is needed to see it again."""

    kind: str
    detail: str
    facts: tuple[Fact, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(slots=True)
class Chain:
    """What a model was sent last, and what has happened since that may change it."""

    sent: bytes = b""
    causes: set[str] = field(default_factory=set)


class Conversation:
    """The host. `facts` is all that it knows; the rest is for the laws that are checked at each request."""

    def __init__(self, server: Loopback, client: anthropic.Anthropic, model: str) -> None:
        server.forget()
        self.server, self.client, self.model = server, client, model
        self.facts: list[Fact] = []
        self.seq = 0
        self.turn: str | None = None
        self.turns = 0
        self.chains: dict[str, Chain] = {}
        self.transcript = fold(())
        self.folded = 0
        self.previous: dict[str, Projection] = {}
        self.steering: list[str] = []
        self.pending = "say_running"
        self.asked = 0
        self.served = 0

    # ------------------------------------------------------------ writing down

    def add(self, kind: type[Any], **about: Any) -> Any:
        """Append one fact."""
        self.seq += 1
        about = {"fact_id": f"{self.seq}", "seq": self.seq, "source": "host", **about}
        fact = kind(**about)
        self.facts.append(fact)
        return fact

    def fold(self) -> None:
        """Take in what is new."""
        self.transcript = fold(self.facts[self.folded :], onto=self.transcript)
        self.folded = len(self.facts)

    def cause(self, what: str, *models: str) -> None:
        """From here on the prefix may change once, in the chains of these models."""
        for model, chain in self.chains.items():
            if not models or model in models:
                chain.causes.add(what)

    # ------------------------------------------------------------ events

    def happen(self, event: Event) -> None:
        """One event. What makes no sense here does nothing."""
        name, number = event
        getattr(self, name)(Random(number))  # noqa: S311 - chance decides nothing but the test
        self.fold()

    def rest(self, _: Random) -> None:
        """Nothing; long lists of events shrink to it."""

    def open_turn(self, rng: Random) -> str:
        if self.turn is None:
            self.turns += 1
            self.turn = f"t{self.turns}"
            self.add(f.TurnOpened, turn_id=self.turn, gated=rng.random() < 0.4)
        return self.turn

    def say(self, rng: Random) -> None:
        """The user says something; what waited at the server is given up."""
        turn = self.open_turn(rng)
        words = f"said {self.seq}"
        parts: tuple[Any, ...] = rng.choice(
            [
                (Text(words),),
                (Text(words),),
                (Text(words), Text("\n "), Text(f"and {words}")),
                (Text(" "),),
                (Text(words), Media("image", "image/png", _PIXEL)),
            ]
        )
        self.add(
            f.UserSaid, turn_id=turn, parts=parts, by="person", string=len(parts) == 1 and rng.random() < 0.5
        )
        self.cause("gave up")

    def instruct(self, rng: Random) -> None:
        self.add(
            f.InstructionsSet, parts=(Text(f"Rule {self.seq}."),), additional=rng.random() < 0.5,
            string=rng.random() < 0.5,
        )  # fmt: skip
        self.cause("instructions", OLD)

    def retool(self, rng: Random) -> None:
        names = [name for name in (*CLIENT_TOOLS, "web_search", "code_execution") if rng.random() < 0.7]
        reworded = rng.random() < 0.2
        wording = f" {rng.randrange(3)}" if reworded else ""
        self.add(
            f.ToolsDeclared, tools=tuple(tool(name, wording) for name in names or ["deploy"]), api="anthropic"
        )
        self.cause("tools", *((OLD,) if not wording else ()))
        self.cause("tools gone")

    def steer(self, _: Random) -> None:
        steering = f"s{self.seq}"
        self.add(
            f.SteeringQueued, steering_id=steering, parts=(Text(f"steer {self.seq}"),), turn_id=self.turn
        )
        self.steering.append(steering)

    def apply(self, rng: Random) -> None:
        if self.steering:
            steering = self.steering.pop(rng.randrange(len(self.steering)))
            kind = f.SteeringApplied if rng.random() < 0.8 else f.SteeringWithdrawn
            self.add(kind, steering_id=steering, turn_id=self.turn)

    def finish(self, rng: Random) -> None:
        """The turn comes to an end, one way or another."""
        if self.turn is None:
            return
        how = rng.randrange(5)
        if how == 0:
            self.add(f.TurnCancelRequested, turn_id=self.turn, by=rng.choice(["user", None]))
            return
        if how == 1:
            self.add(f.RunLost, turn_id=self.turn, by="recovery", how="no heartbeat")
        else:
            status = rng.choice(["completed", "cancelled", "failed"])
            self.add(f.TurnEnded, turn_id=self.turn, status=status)
        self.turn = None

    def work(self, rng: Random) -> None:
        """The calls of the newest reply that nothing is known of, run to their end, all or some."""
        newest = next((e for e in reversed(self.transcript.entries) if e.kind == "reply"), None)
        if newest is not None and getattr(newest.fact, "stop_reason", None) == "refusal":
            return  # nobody runs what was refused
        keys = [key for key in (newest.calls if newest else ()) if key in self.transcript.calls]
        rng.shuffle(keys)
        some = rng.random() < 0.7
        for key in keys if some else keys[: len(keys) // 2]:
            call = self.transcript.calls[str(key)]
            if not call.facts:
                self.add(f.StartPermitted, call_id=key, turn_id=call.turn_id)
                self._complete(str(key), rng)

    def fate(self, rng: Random) -> None:
        """Something becomes known about a call, mostly about a newer one."""
        keys = list(self.transcript.calls)
        if not keys:
            return
        key = rng.choice(keys[-4:] if rng.random() < 0.7 else keys)
        turn = self.transcript.calls[key].turn_id
        kind = rng.choice(
            ["complete", "complete", "deny", "skip", "permit", "output", "terminate", "lose", "cancel", "look",
             "ask", "allow", "queue", "attest", "remote"]
        )  # fmt: skip
        if kind == "complete":
            self._complete(key, rng)
            return
        made: dict[str, tuple[type[Any], dict[str, Any]]] = {
            "deny": (f.ApprovalDenied, {"by": rng.choice(["user", "policy", None]), "reason": "no"}),
            "skip": (f.CallSkipped, {"by": "program"}),
            "permit": (f.StartPermitted, {"may_have_effects": rng.random() < 0.7}),
            "output": (f.OutputObserved, {"text": f"line {self.seq}\n"}),
            "terminate": (f.CallTerminated, {"exit_code": 137, "by": "user"}),
            "lose": (f.ContactLost, {"reason": "timeout"}),
            "cancel": (f.CallCancelRequested, {"by": "user"}),
            "look": (f.EffectsVerified, {"effects": rng.choice(["none", "happened"])}),
            "ask": (f.ApprovalRequested, {}),
            "allow": (f.ApprovalGiven, {"by": "user"}),
            "queue": (f.CallQueued, {}),
            "attest": (f.OutcomeAttested, {"attestor": rng.choice(["operator", "query", "importer"]),
                                           "outcome": rng.choice(["denied", "never_run", "completed", "unknown"])}),
            "remote": (f.RemoteCancelUpdated, {"state": "sent"}),
        }  # fmt: skip
        fact, about = made[kind]
        self.add(fact, call_id=key, turn_id=turn, **about)

    def _complete(self, key: str, rng: Random) -> None:
        words = f"result {self.seq} of {key}"
        content: Any = rng.choice(
            [
                words,
                words,
                (Text(words),),
                (Text(words), Media("image", "image/png", _PIXEL)),
                "",
                (Text(" "),),
                None,
            ]
        )
        turn = self.transcript.calls[key].turn_id
        self.add(
            f.CallCompleted,
            call_id=key,
            turn_id=turn,
            content=content,
            is_error=rng.choice([False, False, True, None]),
        )

    def summarise(self, rng: Random) -> None:
        border = self._border(rng)
        if border is not None:
            self.add(
                f.Summarised, parts=(Text(f"summary {self.seq}"),), through=border, string=rng.random() < 0.5
            )
            self.cause("summarised")

    def rewind(self, rng: Random) -> None:
        border = self._border(rng)
        if border is not None:
            self.add(f.Rewound, to=border)
            self.cause("rewound")

    def _border(self, rng: Random) -> int | None:
        """A place between steps: in front of a user's message, where `seq` parts the entries cleanly."""
        entries = self.transcript.entries
        seqs = [entry.fact.seq for entry in entries]
        clean = [
            seqs[at] - 1
            for at in range(1, len(entries))
            if entries[at].kind == "user" and max(seqs[:at]) < min(seqs[at:])
        ]
        return rng.choice(clean) if clean else None

    def switch(self, rng: Random) -> None:
        """The next request goes to another model."""
        self.model = rng.choice(MODELS)

    # ------------------------------------------------------------ requests

    def ask(self, rng: Random) -> None:
        """Project, check, send, and write down what came back."""
        projection = self._project(rng)
        if projection is None or not projection.ready:
            self.say(rng)
            projection = self._project(rng)
        if projection is None or not projection.ready:
            return
        self._send(projection, rng)

    def _project(self, rng: Random) -> Projection | None:
        self.fold()
        options: dict[str, Any] = {"model": self.model}
        whole = fold(self.facts)
        if whole.pending:
            toggle = rng.random() < 0.1
            self.pending = rng.choice(["say_running", "unknown"]) if toggle else self.pending
            options["open_calls"] = self.pending
        try:
            cold = normalizer.project(whole, "anthropic", **options)
        except normalizer.CannotProject as error:
            if error.reason != "no_messages":
                raise Broken("cannot project", str(error), tuple(self.facts)) from error
            return None
        self._same_again(cold, options, rng)
        self._prefix(cold)
        self._whole(cold)
        self._news(cold)
        return cold

    def _same_again(self, cold: Projection, options: dict[str, Any], rng: Random) -> None:
        """From shuffled facts, from stored facts and from what was projected before comes the same request."""
        shuffled = rng.sample(self.facts, len(self.facts))
        stored = load_lines(dump_lines(self.facts))
        mark = json.dumps(options, sort_keys=True)
        ways = {
            "shuffled": normalizer.project(fold(shuffled), "anthropic", **options),
            "stored": normalizer.project(fold(stored), "anthropic", **options),
            "incremental": normalizer.project(
                self.transcript, "anthropic", previous=self.previous.get(mark), **options
            ),
        }
        self.previous[mark] = ways["incremental"]
        for way, again in ways.items():
            one, other = _bytes(cold.request), _bytes(again.request)
            if one != other:
                raise Broken(f"{way} differs", _difference(one, other), tuple(self.facts))
            if cold.ready != again.ready or cold.sending() != again.sending():
                raise Broken(
                    f"{way}: ready or record differs",
                    f"{cold.sending()}\n{again.sending()}",
                    tuple(self.facts),
                )

    def _whole(self, projection: Projection) -> None:
        """Every recorded result, and every word of the user, is in the request or in the report."""
        request = json.dumps(projection.request, ensure_ascii=False)
        report = {note.call_id for note in projection.adjustments}
        aside = "".join(note.content or "" for note in projection.adjustments)
        here = {key for entry in self.transcript.entries for key in entry.calls}
        for key, call in self.transcript.calls.items():
            result = call.result
            words = result.content if result is not None else None  # type: ignore[union-attr]
            if (
                key in here
                and isinstance(words, str)
                and words
                and words not in request
                and key not in report
            ):
                raise Broken("result lost", f"{key}: {words}", tuple(self.facts))
        for entry in self.transcript.entries:
            if entry.kind == "user" and not all(
                p.text.strip() in request + aside for p in entry.parts if p.kind == "text"
            ):
                raise Broken("user text lost", f"{entry.fact.fact_id}", tuple(self.facts))

    def _news(self, projection: Projection) -> None:
        """Late news is told once for each change: something about the call or its turn came in since it was told."""
        told: dict[str, tuple[int, str, str | None]] = {}
        left = {entry.fact.fact_id for entry in self.transcript.entries}
        for at, fact in enumerate(self.facts):
            if fact.kind == "reply_cut" and fact.refused:
                told.clear()  # nothing that was told is taken as told any more
            if fact.kind == "request_sent" and fact.model == self.model:
                told.update({one.call_id: (at, one.outcome, None) for one in fact.told})
                told.update({one.call_id: (at, one.outcome, one.after) for one in fact.news})
        for one in projection.sending().news:
            at, outcome, after = told.get(one.call_id, (0, "", None))
            if after is not None and after not in left:
                continue  # a rewind or a summary took away where it was told
            turn = self.transcript.calls[one.call_id].turn_id
            since = [
                fact
                for fact in self.facts[at:]
                if getattr(fact, "call_id", None) == one.call_id
                or (fact.turn_id == turn and fact.kind in _TURN)
            ]
            if not since and outcome == one.outcome:
                raise Broken("stale news", f"{one}", tuple(self.facts))

    def _prefix(self, projection: Projection) -> None:
        """What was sent is the beginning of what will be sent, or the report says why not."""
        chain = self.chains.get(self.model)
        if chain is None or not chain.sent:
            return
        told = [note for note in projection.adjustments if note.kind == "prefix_changed"]
        holds = canonical.encode(projection.request).startswith(chain.sent)
        if not holds and not told:
            detail = _difference(chain.sent.decode(), canonical.encode(projection.request).decode())
            raise Broken("prefix changed in silence", detail, tuple(self.facts))
        # news behind a system message that got no answer: where it stands the API takes no more words
        silenced = chain.sent.rstrip(b"\n").rpartition(b"\n")[2].startswith(b'["system"')
        if told and not chain.causes and not silenced:
            detail = _difference(chain.sent.decode(), canonical.encode(projection.request).decode())
            raise Broken("prefix changed without cause", f"{told[0].message}\n{detail}", tuple(self.facts))

    def _send(self, projection: Projection, rng: Random) -> None:
        fact = request_sent(projection, fact_id=f"{self.seq + 1}", seq=self.seq + 1, turn_id=self.turn)
        self.seq += 1
        self.facts.append(fact)
        self.asked += 1
        request = {"max_tokens": 4096, **projection.request, **_thinking(projection.request, self.model)}
        answer = plan(request, rng, self.asked)
        self.chains[self.model] = Chain(canonical.encode(projection.request))
        assembler = self._talk(request, answer, fact, rng)
        if rng.random() < 0.25:  # while the reply came, other things happened
            self.fold()
            rng.choice([self.say, self.fate, self.instruct])(rng)
        if assembler is not None:
            self._receive(assembler)

    def _receive(self, assembler: stream.Assembler) -> None:
        self.seq += 1
        reply: Any = replace(assembler.reading().facts[0], fact_id=f"{self.seq}", seq=self.seq)
        self.facts.append(reply)
        self.fold()
        if getattr(reply, "refused", False):
            self.chains[self.model].causes.add("refused")
        if reply.kind == "reply_cut" or reply.stop_reason not in ("end_turn", "tool_use", "pause_turn"):
            self.cause("gave up")

    def _talk(
        self, request: dict[str, Any], answer: Answer, fact: f.RequestSent, rng: Random
    ) -> stream.Assembler | None:
        """Send the request through the SDK and listen to the end. None: nothing is heard of it."""
        self.server.replies(answer)
        assembler = stream.Assembler(turn_id=self.turn, answers=fact.fact_id)
        maker = self.client.beta.messages if "betas" in request else self.client.messages
        try:
            with maker.create(**request, stream=True) as events:
                for event in events:
                    assembler.feed(event)
        except anthropic.BadRequestError as error:
            if not isinstance(answer, Refusal):
                raise Broken("refused", error.message, tuple(self.facts)) from error
            assembler.feed(error.body)
        except anthropic.APIStatusError as error:
            assembler.feed(error.body)
        except (anthropic.APIError, http.HTTPError):
            pass
        self.served += 1
        silent = isinstance(answer, Reply) and answer.cut is not None and rng.random() < 0.3
        if silent and not assembler.reading().facts[0].parts:
            return None
        return assembler


def _by_code(call: Call) -> bool:
    raw = call.part.raw
    return raw is not None and (raw.value.get("caller") or {}).get("tool_id") is not None


def _thinking(request: dict[str, Any], model: str) -> dict[str, Any]:
    """How thinking is asked for. An open loop that did not begin with thinking goes on without (ANT-THK-005)."""
    if model != OLD:
        return {"thinking": {"type": "adaptive"}}
    asked = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    broken = normalizer.check({"max_tokens": 4096, **request, **asked}, "anthropic")
    return {} if any(found.rule == "ANT-THK-005" for found in broken) else asked


def _bytes(request: dict[str, Any]) -> str:
    return json.dumps(request, ensure_ascii=False)


def _difference(one: str, other: str) -> str:
    """Where two texts begin to differ."""
    at = next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return f"at {at}:\n  {one[max(0, at - 120) : at + 300]}\n  {other[max(0, at - 120) : at + 300]}"


__all__ = ["MODELS", "Block", "Broken", "Conversation", "Event", "wire"]
