"""What is stored: immutable observations, each saying who saw what. Facts are appended, never edited.

`seq` is the place of a fact in its conversation, given by the reader or the journal; order never comes
from the clock. Facts from outside are validated once, with `FACT` or `FACTS`; what we build ourselves is
trusted. A fact names a call by its key: the call's id, or `id#2` for the second call that used the id.
All kinds of facts stand here together, however long the module is: it is the closed list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from normalizer.errors import UnreadableInput
from normalizer.parts import BY_KIND, Json, Part, ResultPart, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic import TypeAdapter

PLACEHOLDER: Final = "placeholder"
"""How the evidence of an attested outcome begins that rests on a made-up text: its content is no output."""
RUNNING: Final = "told as running"
"""The evidence of an outcome that was read back from words of ours that a call was still running then."""

OutcomeKind: TypeAlias = Literal["denied", "never_run", "cancelled_while_running", "completed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What every fact says.

    `at` is UTC, ISO 8601, absent where the input has none. `source` is who observed it. `group` is shared by
    the facts that were read from one message, and keeps that message's borders.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    fact_id: str
    seq: int = 0
    at: str | None = None
    source: str = ""
    turn_id: str | None = None
    run_id: str | None = None
    group: int | None = None


# ---------------------------------------------------------------- the conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionsSet(Observation):
    """The application's instructions from here on.

    `additional`: they were given in the middle of the conversation, beside the earlier ones. `string`: they were
    one text, not a list of blocks. `raw` is the message or value where the parts do not say all of it.
    """

    kind: Literal["instructions_set"] = "instructions_set"
    parts: tuple[Part, ...]
    additional: bool = False
    string: bool = False
    raw: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsDeclared(Observation):
    """The tools offered from here on; `api` says in which provider's form their `raw` is.

    `raw` is the message that added some of them in the middle of the conversation, as it was received.
    """

    kind: Literal["tools_declared"] = "tools_declared"
    tools: tuple[Tool, ...]
    api: str | None = None
    raw: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpened(Observation):
    """A round of work began. `gated`: every start is permitted first, so a call without a permit never ran."""

    kind: Literal["turn_opened"] = "turn_opened"
    gated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSaid(Observation):
    """A message of the user's side, by a person or by the program. `string`: it was one text, not blocks.

    `raw` holds keys of the message itself that the parts do not say.
    """

    kind: Literal["user_said"] = "user_said"
    parts: tuple[Part, ...]
    by: Literal["person", "program"] | None = None
    string: bool = False
    raw: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied(Observation):
    """A reply that ended: all its complete parts.

    `provider`, `api` and `model` say where it came from; `answers` is the `fact_id` of the request it answers.
    `stop_reason` is the provider's word, None where the record does not say. `string`: the content was one text.
    `container` is the id of the provider's sandbox that the reply left open. `raw` holds what else stood beside
    the content.
    """

    kind: Literal["model_replied"] = "model_replied"
    parts: tuple[Part, ...]
    stop_reason: str | None = None
    provider: str | None = None
    api: str | None = None
    model: str | None = None
    answers: str | None = None
    string: bool = False
    container: str | None = None
    raw: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCut(Observation):
    """A reply that was cut off: the parts that were whole. Without parts and with `refused`, the request itself
    was refused by the API. `error` is what was reported, shortened and redacted.
    """

    kind: Literal["reply_cut"] = "reply_cut"
    parts: tuple[Part, ...] = ()
    error: str | None = None
    refused: bool = False
    provider: str | None = None
    api: str | None = None
    model: str | None = None
    answers: str | None = None
    string: bool = False
    container: str | None = None
    raw: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringQueued(Observation):
    """The user typed something for the running turn; it is not part of the conversation yet."""

    kind: Literal["steering_queued"] = "steering_queued"
    steering_id: str
    parts: tuple[Part, ...]
    expected_turn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringApplied(Observation):
    """Queued steering became part of the conversation here. `by_provider`: the server took it itself."""

    kind: Literal["steering_applied"] = "steering_applied"
    steering_id: str
    by_provider: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringWithdrawn(Observation):
    """Queued steering was taken back before it was applied."""

    kind: Literal["steering_withdrawn"] = "steering_withdrawn"
    steering_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised(Observation):
    """Everything up to and with `through` (a `seq`) is represented by this summary from here on."""

    kind: Literal["summarised"] = "summarised"
    parts: tuple[Part, ...]
    through: int
    string: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound(Observation):
    """The user went back: what stands after `to` (a `seq`) and before this fact is no longer history."""

    kind: Literal["rewound"] = "rewound"
    to: int


@dataclass(frozen=True, slots=True)
class Told:
    """How one call was told: `outcome` is the kind, or `running` or `void` (left out with its reply).

    `result` is the `fact_id` of the result that was sent; `text` our own words where there was none.
    """

    call_id: str
    outcome: str
    wire_id: str | None = None
    wire_name: str | None = None
    result: str | None = None
    text: str | None = None
    effects: str | None = None


@dataclass(frozen=True, slots=True)
class News:
    """News of a call, late or told in words only, as it was sent: behind the reply `after` (a `fact_id`,
    None: before the first), ordered by `seq`.
    """

    call_id: str
    outcome: str
    text: str
    seq: int
    after: str | None = None
    result: str | None = None
    effects: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that was left out, held back, trimmed or placed by choice, so that it stays so.

    `what` is a stable word (`reasoning`, `server_call`, `trimmed`, `instructions`, ...), `subject` the `fact_id` or
    call key that it is about.
    """

    what: str
    subject: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Digest:
    """Running SHA-256 (hex) of what was sent: of the instructions, of the tools, and of `count` blocks."""

    instructions: str
    tools: str
    count: int
    blocks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSent(Observation):
    """A projection of the facts up to `through` (a `seq`) went out. From here on its items are frozen.

    The chain is target, profile, model and account. `base` is the chain's request before this one; `told`, `news`
    and `choices` hold only what is new since then. `options` is what else was asked for and is not the default.
    """

    kind: Literal["request_sent"] = "request_sent"
    target: str
    through: int
    digest: Digest
    profile: str | None = None
    model: str | None = None
    account: str | None = None
    options: Json | None = None
    base: str | None = None
    told: tuple[Told, ...] = ()
    news: tuple[News, ...] = ()
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCancelRequested(Observation):
    """Somebody asked the turn to stop."""

    kind: Literal["turn_cancel_requested"] = "turn_cancel_requested"
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Observation):
    """The turn is over."""

    kind: Literal["turn_ended"] = "turn_ended"
    status: Literal["completed", "cancelled", "failed"] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLost(Observation):
    """The process that ran the turn is gone. `by` found it so, `how` says by what evidence."""

    kind: Literal["run_lost"] = "run_lost"
    by: str | None = None
    how: str | None = None


# ---------------------------------------------------------------- calls


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Observation):
    """A person or a rule was asked whether the call may run."""

    kind: Literal["approval_requested"] = "approval_requested"
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGiven(Observation):
    """The call may run."""

    kind: Literal["approval_given"] = "approval_given"
    call_id: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDenied(Observation):
    """The call must not run. `by` is who said so (`user`, `policy`, ...), None where the record does not say."""

    kind: Literal["approval_denied"] = "approval_denied"
    call_id: str
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQueued(Observation):
    """The call waits for its start."""

    kind: Literal["call_queued"] = "call_queued"
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSkipped(Observation):
    """The program decided not to start the call."""

    kind: Literal["call_skipped"] = "call_skipped"
    call_id: str
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPermitted(Observation):
    """The call may start now. Written before the tool starts, so a call without it never ran (in a gated turn)."""

    kind: Literal["start_permitted"] = "start_permitted"
    call_id: str
    operation_id: str | None = None
    idempotency_key: str | None = None
    remote: bool = False
    may_have_effects: bool = True
    recovery: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputObserved(Observation):
    """Output of a running call. `truncated`: more was there than was kept."""

    kind: Literal["output_observed"] = "output_observed"
    call_id: str
    text: str
    stream: str | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCancelRequested(Observation):
    """Somebody asked the call to stop."""

    kind: Literal["call_cancel_requested"] = "call_cancel_requested"
    call_id: str
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCancelUpdated(Observation):
    """What is known of a cancel that was sent to a remote tool."""

    kind: Literal["remote_cancel_updated"] = "remote_cancel_updated"
    call_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCompleted(Observation):
    """The tool ran to its end, well or badly. `content` is its output, None where it was not recorded.

    `raw` is the result block as it was received, where `content` and `is_error` do not say all of it.
    """

    kind: Literal["call_completed"] = "call_completed"
    call_id: str
    content: str | tuple[ResultPart, ...] | None = None
    is_error: bool | None = None
    truncated: bool = False
    exit_code: int | None = None
    signal: str | None = None
    raw: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTerminated(Observation):
    """A started tool was confirmed stopped. `residue` names what could not be confirmed released."""

    kind: Literal["call_terminated"] = "call_terminated"
    call_id: str
    exit_code: int | None = None
    signal: str | None = None
    by: str | None = None
    residue: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactLost(Observation):
    """Nothing more is heard of a started call."""

    kind: Literal["contact_lost"] = "contact_lost"
    call_id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsVerified(Observation):
    """Somebody looked whether the call had effects, and says what was found."""

    kind: Literal["effects_verified"] = "effects_verified"
    call_id: str
    effects: Literal["none", "happened"]
    by: str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeAttested(Observation):
    """An importer, an operator or a recovery query states an outcome, and on what evidence.

    `notice` is the body of a notice that was read back; `late`: it stood as late news, at this fact's place.
    `content` is output that came with the statement, `raw` the block as it was received.
    """

    kind: Literal["outcome_attested"] = "outcome_attested"
    call_id: str
    outcome: OutcomeKind
    attestor: Literal["importer", "operator", "query"] = "importer"
    evidence: str | None = None
    by: str | None = None
    reason: str | None = None
    content: str | tuple[ResultPart, ...] | None = None
    is_error: bool | None = None
    notice: str | None = None
    late: bool = False
    raw: Json | None = None


CallFact: TypeAlias = (
    ApprovalRequested
    | ApprovalGiven
    | ApprovalDenied
    | CallQueued
    | CallSkipped
    | StartPermitted
    | OutputObserved
    | CallCancelRequested
    | RemoteCancelUpdated
    | CallCompleted
    | CallTerminated
    | ContactLost
    | EffectsVerified
    | OutcomeAttested
)
TurnFact: TypeAlias = TurnOpened | TurnCancelRequested | TurnEnded | RunLost
ConversationFact: TypeAlias = (
    InstructionsSet
    | ToolsDeclared
    | UserSaid
    | ModelReplied
    | ReplyCut
    | SteeringQueued
    | SteeringApplied
    | SteeringWithdrawn
    | Summarised
    | Rewound
    | RequestSent
)
Fact: TypeAlias = ConversationFact | TurnFact | CallFact

if TYPE_CHECKING:
    FACT: TypeAdapter[Fact]
    FACTS: TypeAdapter[tuple[Fact, ...]]


@cache
def fact_validator() -> TypeAdapter[Fact]:
    """`FACT`: the validator of one fact, built on first use, which loads pydantic and takes a tenth of a second."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above: a program that only repairs does without it

    return TypeAdapter(Annotated[Fact, BY_KIND])


@cache
def facts_validator() -> TypeAdapter[tuple[Fact, ...]]:
    """`FACTS`: the validator of a list of facts, built on first use as well."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    return TypeAdapter(tuple[Annotated[Fact, BY_KIND], ...])


_VALIDATORS: Final[dict[str, Callable[[], TypeAdapter[Any]]]] = {
    "FACT": fact_validator,
    "FACTS": facts_validator,
}


if not TYPE_CHECKING:  # or every wrong name would be taken for one that is there

    def __getattr__(name: str) -> Any:
        if name in _VALIDATORS:
            return _VALIDATORS[name]()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dump(fact: Fact) -> bytes:
    """One line of JSON, UTF-8, without a line end. What is absent (None) is left out."""
    return fact_validator().dump_json(fact, exclude_none=True)


def dump_lines(facts: Iterable[Fact]) -> bytes:
    """Facts as JSON Lines."""
    return b"".join(dump(fact) + b"\n" for fact in facts)


def load_lines(data: bytes) -> Iterator[Fact]:
    """Facts from JSON Lines; blank lines are passed over.

    Raises UnreadableInput with the number of the line that is no fact.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    validate = fact_validator().validate_json
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                yield validate(line)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False, include_context=False)[0]
                pointer = "".join(f"/{step}" for step in first["loc"][1:])
                raise UnreadableInput(
                    f"line {number}: not a fact: {first['msg']} at {pointer or '/'}; see schemas/fact.json",
                    line=number,
                    pointer=pointer,
                ) from None
