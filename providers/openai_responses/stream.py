"""Responses events -> the facts of the replies in them.

An item is part of its reply once `response.output_item.done` has come, or a final response holds it; whatever
else began is a fragment. Deltas are for the eye. What no step takes is a leftover, so that everything that came is
somewhere. https://developers.openai.com/api/docs/guides/streaming-responses
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from normalizer.facts import ModelReplied, ReplyCut, SteeringApplied, SteeringQueued, SteeringWithdrawn
from normalizer.findings import Reading
from normalizer.parts import Text
from normalizer.providers.openai_responses import decoding, wire
from normalizer.providers.openai_responses.lanes import Response
from normalizer.reading.stream_assembler import Collector, plain

if TYPE_CHECKING:
    from normalizer.facts import Fact
    from normalizer.parts import Part

Event: TypeAlias = Mapping[str, Any]

# Events that only show progress: what they tell comes again with the item.
_PROGRESS: Final = (
    "response.web_search_call.", "response.file_search_call.", "response.code_interpreter_call.",
    "response.image_generation_call.", "response.mcp_call.", "response.mcp_list_tools.", "response.compaction.",
    "response.audio.", "response.output_text.annotation.",
)  # fmt: skip
_SILENT: Final = frozenset({"keepalive", "ping", "response.queued", "response.in_progress"})


class Assembler(Collector):
    """Collects the events of one stream, or of one socket with several lanes.

    `feed` takes a parsed `data` object, an event object of the SDK, or pieces of the SSE text, cut anywhere. The
    arguments are for the facts that `reading` makes: the first reply is called `fact_id`, the next `fact_id/2`, and
    answers no request, since the server began it by itself.
    """

    _END = "[DONE]"

    def __init__(
        self,
        *,
        fact_id: str = "reply",
        seq: int = 1,
        turn_id: str | None = None,
        answers: str | None = None,
        source: str = "openai",
    ) -> None:
        super().__init__()
        self._fact_id = fact_id
        self._seq = seq
        self._about: Final[dict[str, Any]] = {"turn_id": turn_id, "source": source}
        self._answers = answers
        self._responses: list[Response] = []
        self._lanes: dict[str | None, Response] = {}
        self._newest: dict[str | None, int] = {}
        self._story: list[Response | tuple[str, str, Any]] = []
        self._steering: dict[str, str] = {}

    def _object(self, event: Any) -> None:
        if hasattr(event, "model_dump"):
            self._take(plain(event))
        else:
            self._leave("unknown event", event)

    def _take(self, event: Event) -> None:
        """Let the table decide what the event means; one that was seen before means nothing."""
        taken = self._cleaned(event)
        if taken is None:
            return
        event = taken
        kind = event.get("type")
        if not isinstance(kind, str):
            self._leave("unknown event", event)
            return
        if self._seen(kind, event) or kind in _SILENT:
            return
        step = STEPS.get(kind)
        if step is None and kind.startswith(_PROGRESS):
            return
        if step is None:
            self._leave("unknown event", event)
        elif not step(self, event):
            self._leave("unexpected event", event)

    def _seen(self, kind: str, event: Event) -> bool:
        """Whether a resumed stream repeats what has come; numbers count per lane, and begin again with a response."""
        number, lane = event.get("sequence_number"), _lane(event)
        if not isinstance(number, int):
            return False
        if kind == "response.created" and not self._known(event):
            self._newest[lane] = number
            return False
        if number <= self._newest.get(lane, -1):
            return True
        self._newest[lane] = number
        return False

    def _known(self, event: Event) -> bool:
        response = event.get("response")
        found = response.get("id") if isinstance(response, dict) else None
        return any(r.id == found for r in self._responses)

    def _response(self, event: Event) -> Response:
        """The response that an event belongs to; logs may begin in mid-stream."""
        lane = _lane(event)
        if lane not in self._lanes:
            self._begin(lane, {})
        return self._lanes[lane]

    def _begin(self, lane: str | None, about: dict[str, Any]) -> None:
        response = Response(about)
        self._responses.append(response)
        self._story.append(response)
        self._lanes[lane] = response

    # ------------------------------------------------------------ steps: False where the event makes no sense

    def _created(self, event: Event) -> bool:
        response = event.get("response")
        if not isinstance(response, dict):
            return False
        if not self._known(event):
            # a successor that the server began by itself took the steering for its parent
            for steering_id, parent in list(self._steering.items()):
                if parent == response.get("previous_response_id"):
                    self._story.append(("applied", steering_id, None))
                    del self._steering[steering_id]
            self._begin(_lane(event), response)
        return True

    def _added(self, event: Event) -> bool:
        item, index = event.get("item"), event.get("output_index")
        if not isinstance(index, int):
            return False
        if isinstance(item, dict):
            self._response(event).begin(index, item)
        return True

    def _done(self, event: Event) -> bool:
        item, index = event.get("item"), event.get("output_index")
        if not (isinstance(item, dict) and isinstance(index, int)):
            return False
        self._response(event).finish(index, item)
        return True

    def _piece(self, event: Event) -> bool:
        return self._response(event).add(event)

    def _ended(self, event: Event) -> bool:
        response = event.get("response")
        if not isinstance(response, dict):
            return False
        kind = str(event["type"]).rpartition(".")[2]
        self._response(event).end(kind, response)
        return True

    def _failed(self, event: Event) -> bool:
        self._response(event).fail(event)
        return True

    def _accepted(self, event: Event) -> bool:
        steer = event.get("steer")
        if not isinstance(steer, dict) or not isinstance(steer.get("id"), str):
            return False
        self._steering[steer["id"]] = str(steer.get("previous_response_id"))
        self._story.append(("queued", steer["id"], steer.get("input")))
        return True

    def _pending(self, event: Event) -> bool:
        steer = event.get("steer")
        if not isinstance(steer, dict) or not isinstance(steer.get("id"), str):
            return False
        if steer["id"] not in self._steering:
            return self._accepted(event)
        return True

    def _given_back(self, event: Event) -> bool:
        """Steering that could not be applied is the client's again, words and all."""
        steer = event.get("steer")
        if not isinstance(steer, dict):
            return False
        steering_id = steer.get("id")
        if not isinstance(steering_id, str):
            steering_id = f"{self._fact_id}/steering-{len(self._story)}"
        if self._steering.pop(steering_id, None) is None:
            self._story.append(("queued", steering_id, steer.get("input")))
        self._story.append(("withdrawn", steering_id, None))
        self._leave("steering that failed", event)
        return True

    # ------------------------------------------------------------ what has come so far

    def reading(self) -> Reading:
        """The facts of what has come so far, as if the stream ended here."""
        found = self._responses or [Response({})]
        last = found[-1]
        facts: list[Fact] = []
        number = 0
        for chapter in self._story or found:
            seq = self._seq + len(facts)
            if isinstance(chapter, Response):
                number += 1
                facts.append(self._reply(chapter, number, seq))
            else:
                facts.append(self._steering_fact(*chapter, seq))
        replies = [fact for fact in facts if isinstance(fact, ModelReplied | ReplyCut)]
        return Reading(
            format=wire.API,
            facts=tuple(facts),
            findings=(
                *self._findings,
                *(f for r, fact in zip(found, replies, strict=True) for f in r.findings(fact.fact_id)),
            ),
            leftovers=(
                *self._leftovers,
                *(left for r in found for left in r.leftovers()),
                *self._unfinished(),
            ),
            fragments=tuple(fragment for r in found for fragment in r.fragments()),
            home=wire.API,
            turn="ended" if last.ended else "refused" if last.refused else "cut",
            stop_reason=last.stop_reason,
            open_server_calls=_open_server_calls(replies[-1].parts) if last.ended else (),
            calls_to_run=_runnable(replies[-1].parts) if last.stop_reason == "completed" else (),
        )

    def _reply(self, response: Response, number: int, seq: int) -> ModelReplied | ReplyCut:
        about = self._about | {
            "fact_id": self._fact_id if number == 1 else f"{self._fact_id}/{number}",
            "seq": seq,
            "answers": self._answers if number == 1 else None,
            "provider": wire.PROVIDER,
            "api": wire.API,
            "parts": response.parts(),
            "model": response.model,
            "raw": response.beside(),
        }
        if response.ended:
            return ModelReplied(stop_reason=response.stop_reason, **about)
        return ReplyCut(error=response.error, refused=response.refused, **about)

    def _steering_fact(self, what: str, steering_id: str, given: Any, seq: int) -> Fact:
        fact_id = f"{self._fact_id}/{steering_id}/{what}"
        about = self._about | {"seq": seq, "steering_id": steering_id, "fact_id": fact_id}
        if what == "queued":
            return SteeringQueued(parts=_steering_parts(given), **about)
        if what == "applied":
            return SteeringApplied(by_provider=True, **about)
        return SteeringWithdrawn(**about)


def _lane(event: Event) -> str | None:
    lane = event.get("stream_id")
    return lane if isinstance(lane, str) else None


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


def _open_server_calls(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Ids of the server's calls and questions that have no result yet."""
    answered = {part.call_id for part in parts if part.kind == "server_tool_result"}
    called = [part.id for part in parts if part.kind == "server_tool_call"]
    return tuple(dict.fromkeys(found for found in called if found and found not in answered))


def _runnable(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Ids of our calls whose arguments parse."""
    called = [part for part in parts if part.kind == "tool_call"]
    return tuple(
        dict.fromkeys(p.id for p in called if p.id and (p.arguments.valid or not p.arguments.text.strip()))
    )


Step: TypeAlias = Callable[[Assembler, Event], bool]

# What each event does. SDK: types/responses/response_stream_event.py, types/responses/responses_server_event.py
STEPS: Final[dict[str, Step]] = {
    "response.created": Assembler._created,  # noqa: SLF001 - the table of this class
    "response.output_item.added": Assembler._added,  # noqa: SLF001
    "response.output_item.done": Assembler._done,  # noqa: SLF001
    "response.completed": Assembler._ended,  # noqa: SLF001
    "response.incomplete": Assembler._ended,  # noqa: SLF001
    "response.failed": Assembler._ended,  # noqa: SLF001
    "response.cancelled": Assembler._ended,  # noqa: SLF001
    "error": Assembler._failed,  # noqa: SLF001
    "response.steer.accepted": Assembler._accepted,  # noqa: SLF001
    "response.steer.pending": Assembler._pending,  # noqa: SLF001
    "response.steer.failed": Assembler._given_back,  # noqa: SLF001
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
        Assembler._piece,  # noqa: SLF001
    ),
}  # fmt: skip
