"""Responses events -> the facts of the replies in them.

An item is part of its reply once `response.output_item.done` has come, or a final response holds it; whatever
else began is a fragment. Deltas are for the eye. https://developers.openai.com/api/docs/guides/streaming-responses
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.facts import SteeringApplied, SteeringQueued, SteeringWithdrawn
from normalizer.parts import Text
from normalizer.providers.openai_responses import decoding, wire
from normalizer.providers.openai_responses.lanes import Response
from normalizer.reading.stream_assembler import Note, State, StreamAssembler, Table, in_states, nothing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from normalizer.parts import Part
    from normalizer.reading.stream_assembler import About, Event, Reply, Step

# Events that only show progress: what they tell comes again with the item.
_PROGRESS: Final = (
    "response.web_search_call.", "response.file_search_call.", "response.code_interpreter_call.",
    "response.image_generation_call.", "response.mcp_call.", "response.mcp_list_tools.", "response.compaction.",
    "response.audio.", "response.output_text.annotation.",
)  # fmt: skip


class Assembler(StreamAssembler):
    """Collects the events of one stream, or of one socket with several lanes."""

    def __init__(self, **about: Unpack[About]) -> None:
        super().__init__(TABLE, **about)
        self.responses: list[Response] = []
        self.lanes: dict[str | None, Response] = {}
        self.steering: dict[str, str] = {}
        self.chapters: list[Reply | Note] = []
        self._newest: dict[str | None, int] = {}

    def story(self) -> Sequence[Reply | Note]:
        """The responses, and the steering between them."""
        return self.chapters if self.responses else [*self.chapters, Response({})]

    def named(self, event: Event) -> tuple[str | None, Event]:
        """The type of an event; `progress` for all that only show progress."""
        word, _ = super().named(event)
        return ("progress" if word is not None and _shows_progress(word) else word), event

    def repeated(self, word: str, event: Event) -> bool:
        """Whether a resumed stream repeats what has come; numbers count per lane, and begin again with a response."""
        number, lane = event.get("sequence_number"), _lane(event)
        if not isinstance(number, int):
            return False
        if word == "response.created" and not self.knows(event):
            self._newest[lane] = number
            return False
        if number <= self._newest.get(lane, -1):
            return True
        self._newest[lane] = number
        return False

    def knows(self, event: Event) -> bool:
        """Whether the response of an event has begun."""
        response = event.get("response")
        found = response.get("id") if isinstance(response, dict) else None
        return any(r.id == found for r in self.responses)

    def response(self, event: Event) -> Response:
        """The response that an event belongs to; logs may begin in mid-stream."""
        lane = _lane(event)
        return self.lanes[lane] if lane in self.lanes else self.begin(lane, {})

    def begin(self, lane: str | None, about: dict[str, Any]) -> Response:
        """A response begins in a lane."""
        response = Response(about)
        self.responses.append(response)
        self.chapters.append(response)
        self.lanes[lane] = response
        return response

    def steer(self, make: type[Any], what: str, steering_id: str, **fields: Any) -> None:
        """What became of steering, in its place between the responses."""
        about = {"steering_id": steering_id, **fields}
        self.chapters.append(Note(make, f"{steering_id}/{what}", about))


def _shows_progress(word: str) -> bool:
    return word.startswith(_PROGRESS) and word not in STEPS


def _lane(event: Event) -> str | None:
    lane = event.get("stream_id")
    return lane if isinstance(lane, str) else None


# ---------------------------------------------------------------- steps: False where the event makes no sense


def _created(assembler: Assembler, event: Event) -> bool:
    response = event.get("response")
    if not isinstance(response, dict):
        return False
    if not assembler.knows(event):
        # a successor that the server began by itself took the steering for its parent
        for steering_id, parent in list(assembler.steering.items()):
            if parent == response.get("previous_response_id"):
                assembler.steer(SteeringApplied, "applied", steering_id, by_provider=True)
                del assembler.steering[steering_id]
        assembler.begin(_lane(event), response)
    return True


def _added(assembler: Assembler, event: Event) -> bool:
    item, index = event.get("item"), event.get("output_index")
    if not isinstance(index, int):
        return False
    if isinstance(item, dict):
        assembler.response(event).begin(index, item)
    return True


def _done(assembler: Assembler, event: Event) -> bool:
    item, index = event.get("item"), event.get("output_index")
    if not (isinstance(item, dict) and isinstance(index, int)):
        return False
    assembler.response(event).finish(index, item)
    return True


def _piece(assembler: Assembler, event: Event) -> bool:
    return assembler.response(event).add(event)


def _ended(assembler: Assembler, event: Event) -> bool:
    response = event.get("response")
    if not isinstance(response, dict):
        return False
    assembler.response(event).end(str(event["type"]).rpartition(".")[2], response)
    return True


def _failed(assembler: Assembler, event: Event) -> bool:
    assembler.response(event).fail(event, assembler.table.refusing)
    return True


def _accepted(assembler: Assembler, event: Event) -> bool:
    steer = event.get("steer")
    if not isinstance(steer, dict) or not isinstance(steer.get("id"), str):
        return False
    assembler.steering[steer["id"]] = str(steer.get("previous_response_id"))
    assembler.steer(SteeringQueued, "queued", steer["id"], parts=_steering_parts(steer.get("input")))
    return True


def _pending(assembler: Assembler, event: Event) -> bool:
    steer = event.get("steer")
    if isinstance(steer, dict) and isinstance(steer.get("id"), str) and steer["id"] in assembler.steering:
        return True
    return _accepted(assembler, event)


def _given_back(assembler: Assembler, event: Event) -> bool:
    """Steering that could not be applied is the client's again, words and all."""
    steer = event.get("steer")
    if not isinstance(steer, dict):
        return False
    steering_id = steer.get("id")
    if not isinstance(steering_id, str):
        steering_id = f"{assembler.fact_id}/steering-{len(assembler.chapters)}"
    if assembler.steering.pop(steering_id, None) is None:
        assembler.steer(SteeringQueued, "queued", steering_id, parts=_steering_parts(steer.get("input")))
    assembler.steer(SteeringWithdrawn, "withdrawn", steering_id)
    assembler.leave("steering that failed", event)
    return True


def _steering_parts(given: Any) -> tuple[Part, ...]:
    """The words of steering, as far as the event repeats them."""
    if isinstance(given, str):
        return (Text(given),)
    found: list[Part] = []
    for item in given if isinstance(given, list) else ():
        content = item.get("content") if isinstance(item, dict) else None
        pieces = [content] if isinstance(content, str) else content if isinstance(content, list) else ()
        found.extend(decoding.input_part(piece) for piece in pieces)
    return tuple(found)


# What each event does. SDK: types/responses/response_stream_event.py, types/responses/responses_server_event.py
STEPS: Final[dict[str, Step]] = {
    "response.created": _created,
    "response.output_item.added": _added,
    "response.output_item.done": _done,
    **dict.fromkeys(
        ("response.completed", "response.incomplete", "response.failed", "response.cancelled"), _ended
    ),
    "error": _failed,
    "response.steer.accepted": _accepted,
    "response.steer.pending": _pending,
    "response.steer.failed": _given_back,
    **dict.fromkeys(
        (
            "response.content_part.added", "response.content_part.done", "response.output_text.delta",
            "response.output_text.done", "response.refusal.delta", "response.refusal.done",
            "response.function_call_arguments.delta", "response.function_call_arguments.done",
            "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
            "response.mcp_call_arguments.delta", "response.mcp_call_arguments.done",
            "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
            "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
            "response.reasoning_text.delta", "response.reasoning_text.done",
            "response.code_interpreter_call_code.delta", "response.code_interpreter_call_code.done",
            "response.shell_call_command.added", "response.shell_call_command.delta",
            "response.shell_call_command.done", "response.shell_call_output_content.delta",
            "response.shell_call_output_content.done",
        ),
        _piece,
    ),
    **dict.fromkeys(("keepalive", "ping", "response.queued", "response.in_progress", "progress"), nothing),
}  # fmt: skip
# Errors by which the API refuses the request itself. https://developers.openai.com/api/docs/guides/error-codes
_REFUSING: Final = frozenset(
    {
        "invalid_request_error", "invalid_prompt", "invalid_api_key", "invalid_value", "invalid_type",
        "unknown_parameter", "missing_required_parameter", "context_length_exceeded", "model_not_found",
        "previous_response_not_found", "invalid_encrypted_content", "insufficient_quota", "array_above_max_length",
        "string_above_max_length",
    }
)  # fmt: skip
TABLE: Final = Table(
    provider=wire.PROVIDER,
    api=wire.API,
    source="openai",
    # a socket is never over: each response in it has its own beginning and end
    steps=in_states((State.NEW,), {word: (step, State.NEW) for word, step in STEPS.items()}),
    end="[DONE]",
    refusing=_REFUSING,
    runs=frozenset({"completed"}),
)
