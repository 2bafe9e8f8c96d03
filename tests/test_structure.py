"""The structure of the code: modules do not need one another in a circle, and arrows point one way."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "normalizer"

# What programs import, and from where: these names stay there, wherever the code behind them moves.
KEPT: Final = {
    "normalizer": """CannotProject JournalError NormalizerError OpenCalls Projection Reading Repair RuleViolations
        StartRefused Transcript TurnClosed UnknownFormat UnreadableInput check fold open_async_journal open_journal
        project read read_stream recover repair request_sent""",
    "normalizer.errors": """CannotProject JournalError NormalizerError OpenCalls RuleViolations StartRefused TurnClosed
        UnknownFormat UnreadableInput""",
    "normalizer.execution": "",
    "normalizer.execution.contract": "CancelRequest Control End Finished Permit Stopped Unit Unknown",
    "normalizer.execution.functions": "FunctionCall",
    "normalizer.execution.local": "DEFAULTS Limits LocalCommand",
    "normalizer.execution.mcp": "RemoteCall",
    "normalizer.execution.operations": "Operation",
    "normalizer.facts": """ApprovalDenied ApprovalGiven ApprovalRequested CallCancelRequested CallCompleted CallFact
        CallQueued CallSkipped CallTerminated Choice ContactLost ConversationFact Digest EffectsVerified FACT FACTS Fact
        InstructionsSet ModelReplied News Observation OutcomeAttested OutcomeKind OutputObserved RemoteCancelUpdated
        ReplyCut RequestSent Rewound RunLost StartPermitted SteeringApplied SteeringQueued SteeringWithdrawn Summarised
        Told ToolsDeclared TurnCancelRequested TurnEnded TurnFact TurnOpened UserSaid dump dump_lines load_lines""",
    "normalizer.folding": "fold",
    "normalizer.journal": "open_async_journal open_journal",
    "normalizer.notices": "ERROR_FLAGGED Form MARK",
    "normalizer.outcomes": "Basis Conflict OUTCOMES Outcome Row conflicts decide mark",
    "normalizer.parts": """Json Media Opaque OptionalId Part Reasoning ResultPart ServerToolCall ServerToolResult Text
        Tool ToolCall""",
    "normalizer.projection": "Adjustment AdjustmentKind Notices Options Projection Sending",
    "normalizer.provider": "Assembler Format Origin Projector Provider Reader",
    "normalizer.reading": "Finding FindingKind Fragment Leftover Reading",
    "normalizer.recovery": "Answer Found Handler Question Recovery Row recover",
    "normalizer.registry": "FORMATS PROVIDERS names provider session_format targets",
    "normalizer.rules": """Check Context Request Rule Rulebook Severity Violation judge pointer rejects remembered""",
    "normalizer.testing": """anthropic_requests assert_accepts facts histories history openai_chat_requests
        openai_responses_requests""",
    "normalizer.transcript": "Call Entry EntryKind ServerCall Transcript Turn TurnStatus",
}

Graph = dict[str, set[str]]


def sources() -> dict[str, str]:
    """The text of every module of the package, by its full name."""
    found = {}
    for folder in (PACKAGE, "providers", "schemas"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            steps = list(path.relative_to(ROOT).with_suffix("").parts)
            if folder == PACKAGE and steps[1] in ("providers", "schemas"):
                continue  # the links to the two other folders
            name = ".".join(steps if folder == PACKAGE else [PACKAGE, *steps])
            found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def imports(modules: dict[str, str]) -> Graph:
    """Which modules each one names in an import anywhere in it, or as a string, as `import_module` takes it.

    A package counts where a name of its own is imported, not for the modules in it.
    """
    return {name: _named(name, text, modules.keys()) - {name} for name, text in modules.items()}


def _named(importer: str, text: str, known: Collection[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{importer} imports a name that is not a full one"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in known else str(node.module))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            found.add(node.value)
    return found.intersection(known)


def circles(graph: Graph) -> list[list[str]]:
    """The knots of a graph: groups of modules each of which leads to each other one."""
    reached = {name: _reached(name, graph) for name in graph}
    knots = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }
    return sorted(sorted(knot) for knot in knots)


def _reached(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead.extend(graph[name])
    return found


def test_no_module_needs_itself_by_way_of_others_types_included() -> None:
    assert circles(imports(sources())) == [], "these modules need one another in a circle"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("import normalizer.b", "from normalizer import a"),
        ("from normalizer.b import x", "from normalizer.a import y"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from normalizer.b import x",
            "import normalizer.a",
        ),
        ("def f():\n    from normalizer.b import x", "import normalizer.a"),
        ('import_module("normalizer.b")', "import normalizer.a"),
    ],
    ids=["imports", "names", "types", "in a function", "by its name"],
)
def test_a_circle_of_any_kind_is_seen(one: str, other: str) -> None:
    modules = {
        "normalizer": "",
        "normalizer.a": one,
        "normalizer.b": other,
        "normalizer.c": "import normalizer.a",
    }
    assert circles(imports(modules)) == [["normalizer.a", "normalizer.b"]]


def test_a_package_is_not_needed_for_the_sake_of_a_module_in_it() -> None:
    modules = {
        "normalizer": "",
        "normalizer.a": "from normalizer.a import b",
        "normalizer.a.b": "from normalizer.a import c",
        "normalizer.a.c": "",
    }
    assert circles(imports(modules)) == []
    modules["normalizer.a.b"] = "from normalizer.a import a_name_of_the_package"
    assert circles(imports(modules)) == [["normalizer.a", "normalizer.a.b"]]


@pytest.mark.parametrize("module", KEPT)
def test_what_programs_import_is_there(module: str) -> None:
    here = import_module(module)
    assert [name for name in KEPT[module].split() if not hasattr(here, name)] == []


def test_the_package_names_all_that_it_offers() -> None:
    import normalizer

    assert sorted(normalizer.__all__) == sorted(KEPT["normalizer"].split())
    with pytest.raises(AttributeError, match="has no attribute 'mend'"):
        _ = normalizer.mend  # type: ignore[attr-defined]
