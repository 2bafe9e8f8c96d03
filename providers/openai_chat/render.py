"""One step of the history as messages: the reply with its tool messages, then what else the user's side says.

Tool messages stand directly behind the message that made their calls; moved media follow the batch, then late news,
words and instructions in order of `seq`. Everything has a place here, so nothing waits for a later step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.facts import News
from normalizer.parts import Json
from normalizer.projecting.incremental import Rendered, Rendering, Step
from normalizer.projecting.late_updates import LateNews
from normalizer.projection import Adjustment
from normalizer.providers.openai_chat import assistant_turn, reasoning, tool_results, user_turn, wire

if TYPE_CHECKING:
    from normalizer.parts import Media
    from normalizer.projecting.sent_history import Chain
    from normalizer.projection import Options
    from normalizer.providers.openai_chat.preamble import Top
    from normalizer.providers.openai_chat.wire import Profile
    from normalizer.transcript import Entry, Transcript


@dataclass(frozen=True, slots=True)
class Flow:
    """What a step hands to the next.

    `after_user`: the last message so far asks something of the model. `aside` are keys of void calls that the last step
    tells in words.
    """

    after_user: bool = False
    aside: tuple[str, ...] = ()


@dataclass(slots=True)
class Out:
    """A step while it is being made.

    `aside` are keys of calls that are told in words, `quotes` notes about a server's calls, `moved` media of results.
    `dropped`: something of the reply was left out.
    """

    notes: list[Adjustment] = field(default_factory=list)
    choices: list[tuple[str, str, str | None]] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    moved: list[tuple[str, list[Media]]] = field(default_factory=list)
    dropped: bool = False


_ASKING: Final = Flow(after_user=True)
_SILENT: Final = Flow(after_user=False)


class Renderer:
    """Renders the steps of one projection."""

    def __init__(
        self, transcript: Transcript, options: Options, profile: Profile, model: str | None, chain: Chain,
        ids: dict[str, str], head: Top, stirred: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.transcript = transcript
        self.entries = transcript.entries
        self.calls = transcript.calls
        self.server_calls = transcript.server_calls
        self.options = options
        self.profile = profile
        self.model = model
        self.chain = chain
        self.ids = ids
        self.head = head
        self.running = options.open_calls == "say_running"
        self.news = LateNews(self.calls, chain, ids, options, stirred)
        self._details: dict[str, str] | None = None
        self._turn_from: int | None = None

    def __call__(self, step: Step, flow: Flow, before: Rendering[Flow]) -> Rendered[Flow]:  # noqa: ARG002
        """The messages of one step."""
        out = Out()
        rendered: Rendered[Flow] = Rendered([], flow, out.notes, choices=out.choices)
        asks = flow.after_user
        if step.reply is not None:
            for spoken in assistant_turn.render(self, step, out):
                rendered.messages.append(spoken.message)
                tool_results.results(self, step, spoken, out, rendered)
                asks = bool(spoken.calls)
            self._media(step.reply, out, rendered)
        aside = (*flow.aside, *out.aside)
        asks = self._behind(step, aside, out, rendered) or asks
        rendered.asks = asks
        waits = aside and not step.last and self.chain.base is not None
        rendered.flow = Flow(asks, aside) if waits else _ASKING if asks else _SILENT
        rendered.open = self.profile.reasoning_turn and self._runs(step)
        return rendered

    # ------------------------------------------------------------ the user's side

    def _media(self, entry: Entry, out: Out, rendered: Rendered[Flow]) -> None:
        """The media of this step's results, behind the whole batch."""
        blocks = [
            block
            for key, parts in out.moved
            for block in tool_results.moved_media(self, self.ids[key], parts, out, entry.fact.fact_id)
        ]
        if blocks:
            content = self.content(entry, blocks, out, single=False)
            rendered.messages.append({"role": "user", "content": content})

    def _behind(self, step: Step, aside: tuple[str, ...], out: Out, rendered: Rendered[Flow]) -> bool:
        """What stands behind the reply and its results; whether somebody says something there."""
        side = user_turn.Side(self, rendered.messages, out, own=self._is_own(step))
        for text in out.quotes:
            side.note(text)
        asks = False
        for item in self.news.items(step, aside):
            if isinstance(item, News):
                self._news(step, item, side, rendered)
                asks = asks or step.reply is not None  # at the beginning, news alone ask nothing
            elif item.kind == "instructions":
                side.instructions(item)
            elif item.kind == "news":
                side.add(self._read_news(item), item.fact.group)
                asks = asks or step.reply is not None
            elif item.kind != "tools":
                asks = side.said(item) or asks
        return asks

    def _is_own(self, step: Step) -> bool:
        """Whether the reply that the user's side stands behind came from this API; at the beginning, the first reply.

        A request that went out before there was one took what was said for its own, and stays so.
        """
        reply = step.reply
        if reply is None:
            reply = next((entry for entry in self.entries if entry.kind == "reply"), None)
            if reply is not None and any(sent.through < reply.fact.seq for sent in self.chain.sent.values()):
                return True
        return reply is None or getattr(reply.fact, "api", None) in (None, wire.API)

    def _news(self, step: Step, item: News, side: user_turn.Side, rendered: Rendered[Flow]) -> None:
        """Late news, and the media of the result that it tells."""
        side.note(item.text)
        if parts := notices.beyond_words(self.calls.get(item.call_id), item.result):
            blocks = tool_results.moved_media(
                self, self.ids[item.call_id], parts, side.out, item.result or ""
            )
            side.note(self.content(step.reply or self.entries[0], blocks, side.out, single=False))
        self.news.note(step, item, rendered)

    def _read_news(self, entry: Entry) -> str:
        """Late news that stood in what was read, sealed for the id that its call has here."""
        fact: Any = entry.fact
        return notices.news_again(fact, self.ids[fact.call_id])

    # ------------------------------------------------------------ what the helpers ask

    def limited(self, entry: Entry, text: str, out: Out) -> str:
        """A text that is not longer than the API takes; a cut one says so at its end."""
        limit = self.profile.max_string
        if len(text) <= limit:
            return text
        out.notes.append(
            Adjustment("trimmed", f"a text of {len(text)} characters is cut: the API takes {limit}", "OAC-LIMIT-001",
                       facts=(entry.fact.fact_id,), content=text[limit - len(wire.CUT_MARK) :])
        )  # fmt: skip
        return text[: limit - len(wire.CUT_MARK)] + wire.CUT_MARK

    def content(self, entry: Entry, blocks: list[dict[str, Any]], out: Out, *, single: bool) -> Any:
        """Parts as the content of a message; `single`: one plain text is sent as a text.

        Several texts are joined for a server that would make a message of each.
        """
        if all(block.keys() == {"type", "text"} for block in blocks):
            if single and len(blocks) == 1:
                return blocks[0]["text"]
            if self.profile.one_text and len(blocks) > 1:
                out.notes.append(
                    Adjustment("merged", "the texts of a message are sent as one", "OCX-OLLAMA-004",
                               facts=(entry.fact.fact_id,))
                )  # fmt: skip
                return "\n".join(block["text"] for block in blocks)
        return blocks

    def put_name(self, entry: Entry, message: dict[str, Any], name: Any, out: Out) -> None:
        """The name of who speaks, where the API takes it."""
        if name is None or (isinstance(name, str) and wire.SPEAKER.fullmatch(name)):
            message["name"] = name
            return
        out.notes.append(
            Adjustment("trimmed", "a speaker's name that the API does not take is left out", "OAC-ROLE-003",
                       facts=(entry.fact.fact_id,), content=Json.of(name).text)
        )  # fmt: skip

    def in_running_turn(self, entry: Entry) -> bool:
        """Whether nobody has said anything behind this reply."""
        return bool(entry.fact.seq > self._turn_start())

    def _runs(self, step: Step) -> bool:
        first = step.reply or (step.behind[-1] if step.behind else None)
        return first is None or bool(first.fact.seq >= self._turn_start())

    def _turn_start(self) -> int:
        if self._turn_from is None:
            self._turn_from = next(
                (e.fact.seq for e in reversed(self.entries) if e.kind in ("user", "steering", "summary")), -1
            )
        return self._turn_from

    def detail_owners(self) -> dict[str, str]:
        """Which reply a detail of reasoning came with first, by the detail's id."""
        if self._details is None:
            self._details = {}
            for entry in self.entries:
                for part in entry.parts if entry.kind == "reply" else ():
                    raw = part.raw.value if part.kind == "reasoning" and part.raw is not None else None
                    details = raw.get("reasoning_details") if isinstance(raw, dict) else None
                    for detail in details if isinstance(details, list) else ():
                        if found := reasoning.detail_id(detail):
                            self._details.setdefault(found, entry.fact.fact_id)
        return self._details
