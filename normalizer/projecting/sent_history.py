"""What was sent to one target: the chain of its `request_sent` facts, added up.

A chain is a target with profile, model and account; each has a prefix of its own. A request that the API
refused is no base: the chain begins again behind it.
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
class Chain:
    """Everything that was sent to one target so far. `states` is the newest told state of each call.

    `aside` are calls that were told in words only. `gone` are the states that news told of calls which summaries and
    rewinds have taken away together with the news. `barred` is the `seq` up to which no reasoning goes back, since a
    request with it was refused. `restarted` says that the newest request was refused, so that the prefix begins anew.
    `began` is the same object for a chain and what it grows to: what was rendered for it stands. One that begins anew
    behind a refusal has another.
    """

    base: RequestSent | None = None
    told: dict[str, Told] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    news: tuple[News, ...] = ()
    aside: frozenset[str] = frozenset()
    gone: dict[str, State] = field(default_factory=dict)
    choices: dict[tuple[str, str], str | None] = field(default_factory=dict)
    sent: dict[str, RequestSent] = field(default_factory=dict)
    barred: int = -1
    restarted: bool = False
    seen: int = 0
    refusals: int = 0
    cuts: int = 0
    began: object = field(default_factory=object, compare=False)

    def chosen(self, what: str, subject: str) -> bool:
        """Whether this was chosen when something was sent, so that it stays so."""
        return (what, subject) in self.choices

    def _copy(self) -> Chain:
        return replace(
            self,
            told=dict(self.told),
            states=dict(self.states),
            gone=dict(self.gone),
            choices=dict(self.choices),
            sent=dict(self.sent),
        )

    def _add(self, sent: RequestSent) -> None:
        self.sent[sent.fact_id] = sent
        self.base = sent
        self.restarted = False
        for told in sent.told:
            self.told[told.call_id] = told
            self.states[told.call_id] = (told.outcome, told.result, told.effects)
        for news in sent.news:
            self.states[news.call_id] = (news.outcome, news.result, news.effects)
            if news.call_id not in self.told:
                self.aside |= {news.call_id}
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
        self.aside = frozenset(news.call_id for news in self.news if news.call_id not in self.told)

    def _restart(self, refused: RequestSent, error: str | None) -> None:
        """The API refused it: nothing is frozen any more."""
        if error is not None and any(word in error for word in ("thinking", "signature", "encrypted")):
            self.barred = max(self.barred, refused.through)
        self.base, self.news, self.aside, self.restarted = None, (), frozenset(), True
        self.told, self.states, self.gone, self.choices = {}, {}, {}, {}


def chain_of(
    transcript: Transcript,
    target: str,
    model: str | None,
    profile: str | None,
    account: str | None,
    before: Chain | None = None,
) -> Chain:
    """The chain of a target in this transcript; `before` is that of an earlier transcript that this one grew from."""
    requests, refused = transcript.requests, transcript.refusals
    cuts = transcript.cuts
    if before is not None and (
        before.refusals != len(refused) or before.cuts != cuts or before.seen > len(requests)
    ):
        before = None
    if before is not None and before.seen == len(requests):
        return before
    chain = before._copy() if before is not None else Chain()  # noqa: SLF001
    for sent in requests[chain.seen :]:
        if (sent.target, sent.model, sent.profile, sent.account) == (target, model, profile, account):
            chain._add(sent)  # noqa: SLF001
            if sent.fact_id in refused:
                chain._restart(sent, refused[sent.fact_id])  # noqa: SLF001
    chain.seen = len(requests)
    chain.refusals = len(refused)
    chain.cuts = cuts
    if cuts:
        left = [entry for entry in transcript.entries if entry.kind == "reply"]
        shown = {key for entry in left for key in entry.calls}
        chain._keep_news({entry.fact.fact_id for entry in left}, shown)  # noqa: SLF001
    return chain


def base_of(
    transcript: Transcript, target: str, model: str | None, profile: str | None, account: str | None
) -> RequestSent | None:
    """The base of a chain, without the rest of it."""
    for sent in reversed(transcript.requests):
        if (sent.target, sent.model, sent.profile, sent.account) == (target, model, profile, account):
            return None if sent.fact_id in transcript.refusals else sent
    return None


@dataclass(frozen=True, slots=True)
class Stirred:
    """The calls of which something else is known than was told, up to a place in the log of what was touched.

    In the order in which it became known.
    """

    keys: tuple[str, ...]
    began: object
    touches: int


def stirred(
    transcript: Transcript,
    chain: Chain,
    newly_told: Iterable[str],
    before: Stirred | None,
    *,
    running: bool,
) -> Stirred:
    """What has changed since it was told. `before` are those of an earlier transcript that this one grew from.

    Then only what was touched, or told, since is looked at. `running` as in `notices.told_kind`.
    """
    keys: Iterable[str] = chain.states
    if before is not None and before.began is chain.began and before.touches <= transcript.touches:
        touched = transcript.touched(before.touches)
        if touched is not None:
            keys = {*before.keys, *touched, *newly_told}
    found = []
    for key in keys:
        call, told = transcript.calls.get(key), chain.states.get(key)
        if call is None or told is None:
            continue
        if len(call.facts) == 1 and told[0] == "completed" and told[1] == call.facts[0].fact_id:
            continue
        if state(call, told_kind(call, running=running)) != told:
            found.append((call.facts[-1].seq if call.facts else 0, key))
    return Stirred(tuple(key for _, key in sorted(found)), chain.began, transcript.touches)


def state(call: Call, kind: str) -> State:
    """What there is to tell about a call now."""
    result = call.result if kind == "completed" else None
    return kind, result.fact_id if result is not None else None, call.effects
