"""OAR-TSEARCH, OAR-NS, OAR-PROG: searches for tools, namespaces, and programs that call tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_responses.rules import view
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.util.redaction import named

if TYPE_CHECKING:
    from collections.abc import Iterator

_ITEMS: Final = "SDK types/responses/response_input_item_param.py"
_AGENTS: Final = "openai/openai-agents-python src/agents/run_internal/items.py"


def _searches(request: Request, execution: str) -> list[view.Placed]:
    return [
        (at, item) for at, item in view.of_kind(request, "tool_search_call")
        if (item.get("execution") or "client") == execution
    ]  # fmt: skip


def search_without_output(request: Request, context: Context) -> Iterator[Violation]:
    """Every search for tools that the client runs has an output with a list of tools.

    ## Repair
    Send the recorded tools. A search that was not run has no true list: leave the call out.
    """
    answered = {view.call_id(item) for _, item in view.of_kind(request, "tool_search_output")} - {""}
    for at, item in _searches(request, "client"):
        if view.call_id(item) and view.call_id(item) not in answered:
            yield Violation(at, f"call {named(view.call_id(item))} has no output")
    for at, item in view.of_kind(request, "tool_search_output"):
        if not isinstance(item.get("tools"), list):
            yield Violation(f"{at}/tools", "the output holds no list of tools")


def unpaired_search(request: Request, context: Context) -> Iterator[Violation]:
    """A search without `call_id` pairs with the next output without one, of the same execution.

    ## Why
    Named and nameless items never pair.

    ## Repair
    Replay the items in their order.
    """
    waiting: dict[str, list[str]] = {}
    for at, item in view.of_kind(request, "tool_search_call", "tool_search_output"):
        if view.call_id(item):
            continue
        execution = view.text(item.get("execution")) or "client"
        if view.kind(item) == "tool_search_call":
            waiting.setdefault(execution, []).append(at)
        elif waiting.get(execution):
            waiting[execution].pop(0)
        else:
            yield Violation(at, "no search without call_id waits for this output")
    for places in waiting.values():
        for at in places:
            yield Violation(at, "the search has no output")


def changed_search(request: Request, context: Context) -> Iterator[Violation]:
    """A search that the server ran goes back as it came, call and output.

    ## Repair
    Treat the pair as a hosted call: without its output the call is left out.
    """
    given = [item for item in view.native(context) if view.kind(item) == "tool_search_output"]
    if not any(view.kind(item) == "tool_search_call" for item in view.native(context)):
        return
    for at, item in view.of_kind(request, "tool_search_output"):
        if view.served(item) and item not in given:
            yield Violation(at, "the server gave no such output")


def lost_namespace(request: Request, context: Context) -> Iterator[Violation]:
    """A call goes back with the namespace that it came with.

    ## Repair
    Replay it as a key of its own, not as a part of the name.
    """
    for at, item, given in view.originals(request, context, "function_call", "custom_tool_call"):
        if given.get("namespace") is not None and item.get("namespace") != given["namespace"]:
            yield Violation(f"{at}/namespace", f"the namespace was {given['namespace']!r}")


def changed_program(request: Request, context: Context) -> Iterator[Violation]:
    """A program goes back with its code and its fingerprint unchanged.

    ## Repair
    Replay it, or leave it out with all that it owns.
    """
    for at, item in view.of_kind(request, "program"):
        for key in ("code", "fingerprint"):
            if not isinstance(item.get(key), str):
                yield Violation(f"{at}/{key}", f"a program needs its {key}")
    for at, item, given in view.originals(request, context, "program"):
        for key in ("code", "fingerprint"):
            if key in item and item[key] != given.get(key):
                yield Violation(f"{at}/{key}", f"the {key} is not as it was received")


def _caller(item: view.Item) -> str | None:
    caller = view.mapped(item.get("caller"))
    return view.text(caller.get("caller_id")) if caller.get("type") == "program" else None


def call_without_program(request: Request, context: Context) -> Iterator[Violation]:
    """A call that a program made says so, and the program stands before it.

    ## Repair
    Program, calls, their outputs and the program's output stay together.
    """
    elsewhere = view.continues(request)
    known: set[str] = set()
    for at, item in view.history(request).where(
        lambda sort, keys: sort.kind == "program" or "caller" in keys
    ):
        if view.kind(item) == "program":
            known.add(view.call_id(item))
        elif (caller := _caller(item)) is not None and caller not in known and not elsewhere:
            yield Violation(f"{at}/caller", f"no program {named(caller)} stands before it")
    for at, item, given in view.originals(request, context, "function_call", "custom_tool_call"):
        if _caller(given) is not None and _caller(item) != _caller(given):
            yield Violation(f"{at}/caller", f"the program {named(_caller(given))} made the call")


def invented_program_output(request: Request, context: Context) -> Iterator[Violation]:
    """The output of a program has its program before it, and comes from the server.

    ## Repair
    Without its program it is left out. An interrupted program gets no result.
    """
    issued = context.get("native_ids")
    known: set[str] = set()
    for at, item in view.of_kind(request, "program", "program_output"):
        if view.kind(item) == "program":
            known.add(view.call_id(item))
            continue
        if view.call_id(item) not in known and not view.continues(request):
            yield Violation(at, f"no program {named(item.get('call_id'))} stands before it")
        if isinstance(issued, list) and item.get("id") not in issued:
            yield Violation(f"{at}/id", "the server gave no such output")


def _rule(rule_id: str, name: str, error: str | None, check: Any, source: str, severity: Any = "reject",
          *, static: bool = True) -> Rule:  # fmt: skip
    return Rule(f"OAR-{rule_id}", name, severity, source, error, check, static)


RULES: Final[Rulebook] = (
    _rule(
        "TSEARCH-001", "search-without-output", "No tool output found for tool search call call_1.",
        search_without_output, f"SDK types/responses/response_steer_required_input.py; {_AGENTS}",
    ),
    _rule("TSEARCH-002", "unpaired-search", "No tool output found for tool search call", unpaired_search, _AGENTS),
    _rule(
        "TSEARCH-003", "changed-search", None, changed_search,
        f"SDK types/responses/response_tool_search_output_item.py; {_AGENTS}", "policy", static=False,
    ),
    _rule(
        "NS-001", "lost-namespace", "Missing namespace for function_call 'get_time'.", lost_namespace,
        "https://github.com/vercel/ai/issues/15193; https://github.com/vercel/ai/issues/20265;"
        " https://github.com/earendil-works/pi/issues/7709; https://github.com/github/copilot-cli/issues/4519",
        static=False,
    ),
    _rule(
        "PROG-001", "changed-program", "Missing required parameter: 'input[1].fingerprint'", changed_program,
        f"{_ITEMS}; https://developers.openai.com/api/docs/guides/tools-programmatic-tool-calling", static=False,
    ),
    _rule("PROG-002", "call-without-program", "caller", call_without_program, _AGENTS, static=False),
    _rule(
        "PROG-003", "invented-program-output", "program_output", invented_program_output, f"{_ITEMS}; {_AGENTS}",
        static=False,
    ),
)  # fmt: skip
