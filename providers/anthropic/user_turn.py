"""The user's side of a step as messages, with the borders that they had.

Results come first, then late news and words in order of `seq`. Where a server call is kept open, nothing but results
may stand behind it, and the rest waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer import notices
from normalizer.facts import News
from normalizer.projecting.unmapped_fields import whole
from normalizer.projection import Adjustment
from normalizer.providers.anthropic import encoding, pictures, schema_keys, system_messages, tool_results

if TYPE_CHECKING:
    from normalizer.projecting.incremental import Rendered, Step
    from normalizer.providers.anthropic.render import Flow, Out, Renderer
    from normalizer.transcript import Entry

_SYSTEM_SIDE: Final = frozenset({"instructions", "tools"})


class Side:
    """The user messages behind a reply, with the borders that they had.

    What came in one message (`group`) stays in one; what has no group joins the message before it. `later` are
    blocks that may not stand in a result and come behind all results.
    """

    __slots__ = ("blocks", "group", "later", "messages", "string")

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages
        self.blocks: list[dict[str, Any]] = []
        self.group: int | None = None
        self.string = False
        self.later: list[dict[str, Any]] = []

    def add(self, blocks: list[dict[str, Any]], group: int | None, *, string: bool = False) -> None:
        """Blocks of one message, or of no message in particular."""
        if self.blocks and group is not None and group != self.group:
            self.close()
        if not self.blocks:
            self.group, self.string = group, string
        else:
            self.string = False
        self.blocks = [*self.blocks, *blocks] if self.blocks else blocks

    def close(self) -> None:
        """End the message."""
        if self.blocks:
            plain = self.string and len(self.blocks) == 1 and len(self.blocks[0]) == 2
            self.messages.append(
                {"role": "user", "content": self.blocks[0]["text"] if plain else self.blocks}
            )
        self.blocks, self.group, self.string = [], None, False


def put(
    renderer: Renderer, step: Step, flow: Flow, out: Out, rendered: Rendered[Any]
) -> tuple[tuple[Any, ...], tuple[Entry, ...], tuple[str, ...]]:
    """Put the user's side of a step behind its reply.

    Returns what waits for a later place, what a system message says, and void calls that the last step will tell.
    """
    side = Side(rendered.messages)
    if out.calls:
        tool_results.results(renderer, out, side, rendered, step)
    if (
        len(step.behind) == 1
        and step.behind[0].kind == "user"
        and not (flow.waiting or flow.aside or out.told_aside or step.last or out.held or side.later)
        and step.after not in renderer.news.by_step
    ):
        _entry(renderer, step.behind[0], side, out)
        side.close()
        return (), (), ()
    aside = (*flow.aside, *(call.key for call in out.told_aside))
    items = [*flow.waiting, *renderer.news.items(step, aside)]
    if step.last or renderer.chain.base is None:
        aside = ()
    if out.held:
        _withhold(renderer, step, items, rendered)
        side.close()
        return tuple(items), (), aside
    system: list[Any] = []
    passed: dict[str, None] = dict.fromkeys(e.fact.fact_id for e in flow.system) if not out.blocks else {}
    for item in items:
        if not isinstance(item, News) and item.kind in _SYSTEM_SIDE:
            if item.fact.fact_id in renderer.head.later:
                system.append(item)
            continue
        if isinstance(item, News):
            _news(renderer, step, item, side, rendered)
        else:
            _entry(renderer, item, side, out)
        passed.update(dict.fromkeys(e.fact.fact_id for e in system))
    system_messages.note_passed(passed, rendered, out)
    for text in side.later:
        side.add([text], None)
    side.close()
    return (), tuple(system), aside


def _news(renderer: Renderer, step: Step, item: News, side: Side, rendered: Rendered[Any]) -> None:
    behind = _behind_news(renderer, item, rendered)
    side.add([{"type": "text", "text": item.text}, *behind], None)
    renderer.news.note(step, item, rendered)


def _entry(renderer: Renderer, entry: Entry, side: Side, out: Out) -> None:
    """Words of the user's side; blank ones are left out."""
    fact = entry.fact
    if entry.kind == "news":
        text = notices.news_again(fact, renderer.ids[fact.call_id])
        side.add([{"type": "text", "text": text}], fact.group)
        return
    blocks = encoding.user_blocks(renderer, entry, out)
    string = getattr(fact, "string", False)
    if blocks:
        side.add(blocks, fact.group, string=string)


def _withhold(renderer: Renderer, step: Step, items: list[Any], rendered: Rendered[Any]) -> None:
    """While the server goes on with its call, nothing but results may be said."""
    if not step.last:
        return
    for item in items:
        news = isinstance(item, News)
        if not news and item.kind in _SYSTEM_SIDE and item.fact.fact_id not in renderer.head.later:
            continue
        rendered.adjustments.append(
            Adjustment(
                "withheld_news" if news else "withheld_steering",
                "it waits: the provider's server goes on with its own call first",
                "ANT-SRV-003",
                item.call_id if news else None,
                () if news else (item.fact.fact_id,),
                item.text,
            )
        )


def _behind_news(renderer: Renderer, item: News, rendered: Rendered[Any]) -> list[dict[str, Any]]:
    """What the result in news holds beside words, under a label that names its call; what has no form is reported."""
    kept: list[dict[str, Any]] = []
    for part in notices.beyond_words(renderer.calls.get(item.call_id), item.result):
        made = encoding.block_of(part) if part.kind == "media" else {"type": "text", "text": part.raw.text}  # type: ignore[union-attr]
        block = pictures.honest(made, rendered.adjustments, item.result or "")
        if block is not None and (part.kind != "media" or encoding.usable(block)):
            kept.append({key: block[key] for key in block if key in schema_keys.BLOCK_KEYS[block["type"]]})
            continue
        rendered.adjustments.append(
            Adjustment("media_moved", "a medium in news that the API cannot take is left out", "ANT-BLK-006",
                       item.call_id, (item.result or "",), whole(part))
        )  # fmt: skip
    label = {"type": "text", "text": f"[from the result of call {renderer.ids[item.call_id]}]"}
    return [label, *kept] if kept else []
