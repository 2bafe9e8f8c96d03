"""What rules look at: a request is sorted once, each rule looks at what it is about, a second look is at changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import test_anthropic_rules
from ruling import expanded, lines

import normalizer
from normalizer import registry
from normalizer.repairing import received_types
from normalizer.rules import Violation, Watched, in_sight, judge
from normalizer.rules.again import judgement, same
from normalizer.rules.index import Index

if TYPE_CHECKING:
    from collections.abc import Iterator

HISTORY = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input"}
OPENAI_FILES = {
    "openai_chat": ("openai_chat_cases.jsonl", "openai_compatible_cases.jsonl"),
    "openai_responses": ("openai_responses_cases.jsonl",),
}


def cases(api: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The requests of the rules' cases, with what is known beside them."""
    if api == "anthropic":
        for case in test_anthropic_rules.CASES:
            yield test_anthropic_rules.expanded(case), test_anthropic_rules.context(case)
    for name in OPENAI_FILES.get(api, ()):
        for case in lines(name):
            profile = {"profile": case["profile"]} if "profile" in case else {}
            yield expanded(case["request"]), {**(case.get("context") or {}), **profile}


def small_cases(api: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    key = HISTORY[api]
    return [
        (request, context)
        for request, context in cases(api)
        if isinstance(request.get(key), list) and len(request[key]) < 50
    ]


# ---------------------------------------------------------------- looks are counted


class Looked(dict[str, Any]):
    """An object of a request that counts how often somebody looks into it."""

    looks: ClassVar[Counter[int]] = Counter()

    def _look(self) -> None:
        Looked.looks[id(self)] += 1

    def get(self, key: str, default: Any = None) -> Any:
        self._look()
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._look()
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._look()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._look()
        return super().__iter__()

    def keys(self) -> Any:
        self._look()
        return super().keys()

    def values(self) -> Any:
        self._look()
        return super().values()

    def items(self) -> Any:
        self._look()
        return super().items()


def looked(value: Any) -> Any:
    """The value, with all objects in it counting."""
    if isinstance(value, dict):
        return Looked({key: looked(item) for key, item in value.items()})
    return [looked(item) for item in value] if isinstance(value, list) else value


def inside(value: Any) -> Iterator[Looked]:
    """The counting objects of a value."""
    if isinstance(value, Looked):
        yield value
        for item in dict.values(value):
            yield from inside(item)
    elif isinstance(value, list):
        for item in value:
            yield from inside(item)


def anthropic(steps: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for n in range(steps):
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "run", "input": {"command": "ls"}}
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "ok"}
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
        messages += [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, call]},
            {"role": "user", "content": [answer, {"type": "text", "text": "And then?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
        ]
    tools = [{"name": "run", "input_schema": {"type": "object"}}]
    return {"model": "claude-opus-4-8", "max_tokens": 9, "messages": messages, "tools": tools}


def openai_chat(steps: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for n in range(steps):
        function = {"name": "run", "arguments": '{"command": "ls"}'}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{n}", "content": "ok"},
            {"role": "assistant", "content": "Done."},
        ]
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    return {"model": "gpt-5.2", "messages": messages, "tools": tools}


def openai_responses(steps: int) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for n in range(steps):
        said = [{"type": "output_text", "text": "Done.", "annotations": []}]
        items += [
            {"role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "gAAA"},
            {
                "type": "function_call",
                "call_id": f"call_{n}",
                "name": "run",
                "arguments": "{}",
                "id": f"fc_{n}",
            },
            {"type": "function_call_output", "call_id": f"call_{n}", "output": "ok"},
            {"type": "message", "role": "assistant", "id": f"msg_{n}", "content": said},
        ]
    tools = [{"type": "function", "name": "run", "parameters": {"type": "object"}}]
    return {"model": "gpt-5.2", "input": items, "tools": tools, "store": False}


MADE = {"anthropic": anthropic, "openai_chat": openai_chat, "openai_responses": openai_responses}
CONTEXT = {"history": True}

# So often is an object of a history looked into in a whole check, on the average; a check that scans is far above.
LOOKS = {"anthropic": 13, "openai_chat": 16, "openai_responses": 26}
# Rules that look at each message or item, because any of them may hold what they are about.
ALL = {"OAR-STRUCT-007": "each key of each item may be null"}
LONG = 5000


def looks(api: str, steps: int) -> float:
    request = looked(MADE[api](steps))
    Looked.looks.clear()
    assert judge(registry.provider(api).rules, request, CONTEXT) == ()
    return Looked.looks.total() / sum(1 for _ in inside(request[HISTORY[api]]))


@pytest.mark.parametrize("api", HISTORY)
def test_each_object_is_looked_at_a_few_times_however_long_the_history(api: str) -> None:
    assert looks(api, 200) <= looks(api, 20) <= LOOKS[api]


@pytest.mark.parametrize("api", HISTORY)
def test_no_rule_looks_at_the_whole_list_again(api: str) -> None:
    request = looked(MADE[api](20))
    history = {id(message) for message in dict.__getitem__(request, HISTORY[api])}
    blocks = {id(one) for one in inside(dict.__getitem__(request, HISTORY[api]))} - history
    scanning = set()
    with in_sight(request):
        for rule in registry.provider(api).rules:
            list(rule.violations(request, CONTEXT))  # what it asks for is sorted, and remembered
        for rule in registry.provider(api).rules:
            Looked.looks.clear()
            list(rule.violations(request, CONTEXT))
            seen = Looked.looks.keys()
            if history <= seen or (blocks and blocks <= seen):
                scanning.add(rule.id)
    assert scanning == {rule for rule in ALL if rule in {one.id for one in registry.provider(api).rules}}


@pytest.mark.parametrize("api", HISTORY)
def test_a_scan_is_found(api: str) -> None:
    request = looked(MADE[api](20))
    history = {id(message) for message in dict.__getitem__(request, HISTORY[api])}
    Looked.looks.clear()
    assert [message.get("role") for message in request[HISTORY[api]]]
    assert history <= Looked.looks.keys()


def test_an_index_answers_in_document_order() -> None:
    kinds = [("a", {"x": 1}), ("b", {}), ("a", {"y": 1}), ("c", {"x": 1, "y": 2})]
    index: Index[tuple[str]] = Index(
        tuple, (((kind,), (f"/{number}", item)) for number, (kind, item) in enumerate(kinds))
    )
    assert [at for at, _ in index.where(lambda sort, _: sort[0] in "ac")] == ["/0", "/2", "/3"]
    assert [at for at, _ in index.having("x")] == ["/0", "/3"]
    assert [at for at, _ in index.having("x", "y")] == ["/0", "/2", "/3"]
    assert index.numbers(lambda sort, keys: sort == ("b",) and not keys) == [1]
    assert [(sort, at) for sort, (at, _) in index.sorted_where(lambda _, keys: "y" in keys)] == [
        (("a",), "/2"), (("c",), "/3")
    ]  # fmt: skip


# ---------------------------------------------------------------- a second look


def grown(key: str, number: int, case: dict[str, Any], pool: list[Any]) -> list[dict[str, Any]]:
    """The request of a case, in a longer history, and two that differ from it a little: in history, in settings."""
    rng = random.Random(number)  # noqa: S311 - any will do, always the same
    request = {**case}
    request[key] = [*rng.choices(pool, k=5), *request[key], *rng.choices(pool, k=rng.choice((0, 5)))]
    made = [request]
    history = list(request[key])
    at = rng.randrange(len(history))
    history[at : at + rng.randint(0, 2)] = rng.choices(pool, k=rng.randint(0, 2))
    made.append({**request, key: history})
    other = {"model": "another"} if number % 2 else {"tools": []}
    made.append({**request, **other} if number % 3 else {name: request[name] for name in reversed(request)})
    return made


@pytest.mark.parametrize("api", HISTORY)
def test_a_second_look_finds_what_a_first_one_does(api: str) -> None:
    rulebook, small, key = registry.provider(api).rules, small_cases(api), HISTORY[api]
    pool = [message for request, _ in small if len(str(request)) < LONG for message in request[key]]
    reached: Counter[str] = Counter()
    for number, (case, context) in enumerate(small):
        before, *others = grown(key, number, case, pool)
        look = judgement(rulebook, before, context)
        for request in others:
            anew = judge(rulebook, request, context)
            assert look.again(request).violations == anew
            reached.update(violation.rule for violation in anew)
    local = {rule.id for rule in rulebook if rule.reach is not None and "-LIM" not in rule.id}
    assert local <= reached.keys()


@pytest.mark.parametrize("api", HISTORY)
def test_a_repair_tells_of_its_input_what_a_check_does(api: str) -> None:
    told = 0
    for request, known in small_cases(api):
        try:
            done = normalizer.repair(request, format=api, profile=known.get("profile"))
        except normalizer.NormalizerError:
            continue
        if done.to != api or "\ufffd" in str(done.request):
            continue
        context = {
            **CONTEXT, "received_types": received_types(done.transcript, api), "profile": known.get("profile")
        }  # fmt: skip
        assert done.violations_before == judge(registry.provider(api).rules, request, context)
        assert done.violations_after == judge(registry.provider(api).rules, done.request, context)
        told += bool(done.violations_before)
    assert told > len(small_cases(api)) / 8


@pytest.mark.parametrize("api", HISTORY)
def test_a_second_look_is_at_what_changed(api: str) -> None:
    rulebook = tuple(rule for rule in registry.provider(api).rules if rule.reach is not None)
    seen = []
    for steps in (20, 40):
        request, key = looked(MADE[api](steps)), HISTORY[api]
        history = list(request[key])
        changed = {
            **request,
            key: [*history[:40], looked({"role": "user", "content": "And?"}), *history[40:]],
        }
        first = judgement(rulebook, request, CONTEXT)
        Looked.looks.clear()
        again = first.again(changed)
        seen.append(len(Looked.looks))
        assert again.violations == judge(rulebook, changed, CONTEXT)
    assert seen[0] == seen[1] < 30


def test_a_rule_that_points_elsewhere_looks_at_the_whole() -> None:
    """A reach is a promise about pointers, too; one that is not kept costs time and nothing else."""
    rule = next(one for one in registry.provider("openai_responses").rules if one.id == "OAR-STRUCT-002")
    request = {"input": [{"role": "user"}, {"role": "nobody", "content": "x"}]}
    first = judgement((rule,), request, {})
    elsewhere = ((Violation("/tools", "x", rule.id),), first.found[0][1])
    moved = {"input": [{"role": "user"}, *request["input"]]}
    again = type(first)((rule,), request, {}, (elsewhere,)).again(moved)
    assert again.violations == judge((rule,), moved)


def test_values_that_a_rule_can_tell_apart_are_not_the_same() -> None:
    assert same({"a": [1, "x", None]}, {"a": [1, "x", None]})
    assert not same({"a": 1}, {"a": True})
    assert not same({"a": 1}, {"a": 1.0})
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same([{"a": "x"}], [{"a": "y"}])


def test_what_is_asked_of_a_request_is_taken_down() -> None:
    def read(*names: str | None) -> bool:
        found, request.read = request.read, set()
        return found == set(names)

    request = Watched({"a": 1, "b": 2})
    assert (request.get("a"), request.get("z", 0), request["b"], "c" in request) == (1, 0, 2, False)
    assert read("a", "z", "b", "c")
    assert list(request) == ["a", "b"]
    assert read(None)
    assert dict(request.items()) == {"a": 1, "b": 2}
    assert read(None)
    assert [*request.values()] == [1, 2]
    assert read(None)
    assert request.keys() == {"a", "b"}
    assert read(None)
    assert 1 not in request
    assert read(None)
