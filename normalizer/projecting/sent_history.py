"""What was sent to one target: its `request_sent` facts, added up.

Requests to one target, profile, model and account make one sent history (a chain); each has a prefix of its own. A
request that the API refused is no base: the history begins again behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from normalizer.notices import told_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.facts import News, RequestSent, Told
    from normalizer.transcript import Call, Transcript

State: TypeAlias = tuple[str, str | None, str | None]
"""What was told of a call: outcome, `fact_id` of the result, effects."""


@dataclass(slots=True)
class SentHistory:
    """Everything that was sent to one target so far. `states` is what was said last of each call.

    `told` is what was sent of a call in its result's place, `news` the late updates. `as_text` are calls that were only
    rendered as text. `gone` are the states that late updates told of calls which summaries and rewinds have taken away
    together with the updates. `reasoning_cutoff` is the `seq` up to which no reasoning goes back, since a request with
    it was refused. `restarted` says that the newest request was refused, so that the prefix begins anew. `began` is the
    same object for a history and what it grows to: what was rendered for it stands.
    """

    base: RequestSent | None = None
    told: dict[str, Told] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    news: tuple[News, ...] = ()
    as_text: frozenset[str] = frozenset()
    gone: dict[str, State] = field(default_factory=dict)
    choices: dict[tuple[str, str], str | None] = field(default_factory=dict)
    requests: dict[str, RequestSent] = field(default_factory=dict)
    reasoning_cutoff: int = -1
    restarted: bool = False
    seen: int = 0
    refusals: int = 0
    cuts: int = 0
    began: object = field(default_factory=object, compare=False)

    def chosen(self, what: str, subject: str) -> bool:
        """Whether this was chosen when something was sent, so that it stays so."""
        return (what, subject) in self.choices

    def _copy(self) -> SentHistory:
        return replace(
            self,
            told=dict(self.told),
            states=dict(self.states),
            gone=dict(self.gone),
            choices=dict(self.choices),
            requests=dict(self.requests),
        )

    def _add(self, sent: RequestSent) -> None:
        self.requests[sent.fact_id] = sent
        self.base = sent
        self.restarted = False
        for told in sent.told:
            self.told[told.call_id] = told
            self.states[told.call_id] = (told.outcome, told.result, told.effects)
        for news in sent.news:
            self.states[news.call_id] = (news.outcome, news.result, news.effects)
            if news.call_id not in self.told:
                self.as_text |= {news.call_id}
        self.news = (*self.news, *sent.news)
        for choice in sent.choices:
            self.choices[choice.what, choice.subject] = choice.detail

    def _keep_news(self, replies: set[str], shown: set[str | None]) -> None:
        """What was told behind a reply that is no longer history is not told any more.

        A call that is still shown may need it again; one that is gone with its reply does not.
        """
        given = self.news
        self.news = tuple(news for news in given if news.after is None or news.after in replies)
        self.states = {key: (told.outcome, told.result, told.effects) for key, told in self.told.items()}
        for news in given:
            if news.after is not None and news.after not in replies and news.call_id not in shown:
                self.gone[news.call_id] = (news.outcome, news.result, news.effects)
        self.states.update(self.gone)
        self.states.update({news.call_id: (news.outcome, news.result, news.effects) for news in self.news})
        self.as_text = frozenset(news.call_id for news in self.news if news.call_id not in self.told)

    def _restart(self, refused: RequestSent, error: str | None) -> None:
        """The API refused it: nothing is frozen any more."""
        if error is not None and any(word in error for word in ("thinking", "signature", "encrypted")):
            self.reasoning_cutoff = max(self.reasoning_cutoff, refused.through)
        self.base, self.news, self.as_text, self.restarted = None, (), frozenset(), True
        self.told, self.states, self.gone, self.choices = {}, {}, {}, {}


def sent_history_of(
    transcript: Transcript,
    target: str,
    model: str | None,
    profile: str | None,
    account: str | None,
    before: SentHistory | None = None,
) -> SentHistory:
    """What was sent to a target; `before` is that of an earlier transcript that this one grew from."""
    requests, refused = transcript.requests, transcript.refusals
    cuts = transcript.cuts
    if before is not None and (
        before.refusals != len(refused) or before.cuts != cuts or before.seen > len(requests)
    ):
        before = None
    if before is not None and before.seen == len(requests):
        return before
    history = before._copy() if before is not None else SentHistory()  # noqa: SLF001
    for sent in requests[history.seen :]:
        if (sent.target, sent.model, sent.profile, sent.account) == (target, model, profile, account):
            history._add(sent)  # noqa: SLF001
            if sent.fact_id in refused:
                history._restart(sent, refused[sent.fact_id])  # noqa: SLF001
    history.seen = len(requests)
    history.refusals = len(refused)
    history.cuts = cuts
    if cuts:
        left = [entry for entry in transcript.entries if entry.kind == "reply"]
        shown = {key for entry in left for key in entry.calls}
        history._keep_news({entry.fact.fact_id for entry in left}, shown)  # noqa: SLF001
    return history


def base_of(
    transcript: Transcript, target: str, model: str | None, profile: str | None, account: str | None
) -> RequestSent | None:
    """The base of a sent history, without the rest of it."""
    for sent in reversed(transcript.requests):
        if (sent.target, sent.model, sent.profile, sent.account) == (target, model, profile, account):
            return None if sent.fact_id in transcript.refusals else sent
    return None


@dataclass(frozen=True, slots=True)
class ChangedSinceSent:
    """The calls of which something else is known than was told, up to a place in the log of what was touched.

    In the order in which it became known.
    """

    keys: tuple[str, ...]
    began: object
    touches: int


def changed_since_sent(
    transcript: Transcript,
    history: SentHistory,
    newly_told: Iterable[str],
    before: ChangedSinceSent | None,
    *,
    running: bool,
) -> ChangedSinceSent:
    """What has changed since it was told. `before` are those of an earlier transcript that this one grew from.

    Then only what was touched, or told, since is looked at. `running` as in `notices.told_kind`.
    """
    keys: Iterable[str] = history.states
    if before is not None and before.began is history.began and before.touches <= transcript.touches:
        touched = transcript.touched(before.touches)
        if touched is not None:
            keys = {*before.keys, *touched, *newly_told}
    found = []
    for key in keys:
        call, told = transcript.calls.get(key), history.states.get(key)
        if call is None or told is None:
            continue
        if len(call.facts) == 1 and told[0] == "completed" and told[1] == call.facts[0].fact_id:
            continue
        if state(call, told_kind(call, running=running)) != told:
            found.append((call.facts[-1].seq if call.facts else 0, key))
    return ChangedSinceSent(tuple(key for _, key in sorted(found)), history.began, transcript.touches)


def state(call: Call, kind: str) -> State:
    """What there is to tell about a call now."""
    result = call.result if kind == "completed" else None
    return kind, result.fact_id if result is not None else None, call.effects
