"""Random conversations with the loopback server: a host that holds nothing but facts is never refused.

Before every request the facts alone give the request again: shuffled, stored and read, and in steps. What was sent
stays the beginning of what is sent, or the report names one of the causes that the design allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anthropic
import pytest
from conversing import MODELS, Broken, Conversation, Event
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from loopback import Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore:The model 'claude-sonnet-4-5' is deprecated")

# The first event does nothing: lists of events shrink to it. Events that are named more often come more often.
EVENTS: Final = (
    "rest",
    *["ask"] * 12,
    *["work"] * 6,
    *["fate"] * 5,
    *["say"] * 3,
    *["finish"] * 2,
    "instruct",
    "retool",
    "steer",
    "apply",
    "summarise",
    "rewind",
    "switch",
)
event = st.tuples(st.sampled_from(EVENTS), st.integers(0, 99_999))
events = st.lists(event, min_size=24, max_size=32)
long = st.lists(event, min_size=100, max_size=160)


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback() as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Loopback) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as found:
        yield found


def converse(
    server: Loopback, client: anthropic.Anthropic, model: str, happened: list[Event]
) -> Conversation:
    """One conversation from its beginning: instructions and tools, then whatever happens."""
    conversation = Conversation(server, client, model)
    for event in (("instruct", 1), ("retool", 0), *happened):
        conversation.happen(event)
    return conversation


_QUIET: Final = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


@settings(_QUIET, max_examples=70, derandomize=True)
@given(model=st.sampled_from(MODELS), happened=events)
def test_no_conversation_is_refused(
    server: Loopback, client: anthropic.Anthropic, model: str, happened: list[Event]
) -> None:
    converse(server, client, model, happened)


@pytest.mark.soak
@settings(_QUIET, max_examples=4_000)
@given(model=st.sampled_from(MODELS), happened=st.one_of(events, long))
def test_no_long_conversation_is_refused(
    server: Loopback, client: anthropic.Anthropic, model: str, happened: list[Event]
) -> None:
    converse(server, client, model, happened)


def test_the_conversations_get_answers(server: Loopback, client: anthropic.Anthropic) -> None:
    """What is tested above is worth something: requests are sent and most are answered."""
    conversation = converse(server, client, MODELS[0], [("ask", number) for number in range(20)])
    assert conversation.served >= 15
    assert sum(exchange.status == 200 for exchange in server.exchanges) >= 12


def test_a_broken_law_is_noticed(server: Loopback, client: anthropic.Anthropic) -> None:
    conversation = converse(server, client, MODELS[0], [("say", 1), ("ask", 2)])
    conversation.chains[MODELS[0]].sent = b"something else"
    with pytest.raises(Broken, match="prefix changed in silence"):
        conversation.happen(("ask", 3))
