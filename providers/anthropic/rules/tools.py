"""The tools that a request offers and the choice among them, against its history (ANT-TOOL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.anthropic import wire
from normalizer.providers.anthropic.rules import view
from normalizer.providers.anthropic.rules.caching import forces_tool
from normalizer.rules import Context, Request, Rule, Rulebook, Violation
from normalizer.rules import pointer as to_pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFINE: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools"
_CHOICES: Final = frozenset({"auto", "any", "tool", "none"})
# Keywords of JSON Schema under which schemas stand: one, a list of them, or an object of them by name.
_SCHEMA: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_LISTS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def inline_definitions(request: Request) -> Iterator[view.Block]:
    """The tools that the history itself defines (`tool_addition` with a `tool_definition`)."""
    for _, block in view.of_type(request, frozenset({"tool_addition"}), "system"):
        if view.member(block, "tool", "type") == "tool_definition":
            definition = view.member(block, "tool", "definition")
            yield definition if isinstance(definition, dict) else {}


def is_toolset(tool: view.Block) -> bool:
    """Whether an entry stands for several tools whose names the request does not say."""
    kind = view.kind(tool)
    return kind == "mcp_toolset" or "_toolset_" in kind


def calls_without_tools(request: Request, _context: Context) -> Iterator[Violation]:
    """A request whose history holds client calls or their results defines a tool.

    Any tool will do, also with `tool_choice: {"type": "none"}`. Whether each model still asks for it is not
    certain; obeying costs nothing.
    """
    if (
        request.get("tools")
        or view.continues_thread(request)
        or any(True for _ in inline_definitions(request))
    ):
        return
    for at, block in view.of_type(request, frozenset({"tool_use", "tool_result"}))[:1]:
        yield Violation(at, f"the history holds a {block['type']!r} block, but no tool is defined")


def repeated_tool_name(request: Request, _context: Context) -> Iterator[Violation]:
    """No two tools have the same name.

    Merge definitions that are equal; of two that differ one gets another name, in the history too.
    """
    seen: set[str] = set()
    for pointer, tool in view.tools(request):
        name = view.text(tool.get("name"))
        if name and name in seen:
            yield Violation(f"{pointer}/name", f"a tool named {name!r} stands before it")
        seen.add(name)


def tool_choice_without_tools(request: Request, _context: Context) -> Iterator[Violation]:
    """A choice among tools comes with tools.

    Leave `tool_choice` out where there are none.
    """
    if request.get("tool_choice") is None or request.get("tools") or view.continues_thread(request):
        return
    if not any(True for _ in inline_definitions(request)):
        yield Violation("/tool_choice", "there are no tools to choose from")


def unknown_forced_tool(request: Request, _context: Context) -> Iterator[Violation]:
    """The tool that is forced is one of those defined.

    Use `auto` where the tool is gone. Tools of a toolset are known to the server alone and not judged.
    """
    choice = request.get("tool_choice")
    if view.member(choice, "type") != "tool" or view.continues_thread(request):
        return
    tools = [*(tool for _, tool in view.tools(request)), *inline_definitions(request)]
    name = view.text(view.member(choice, "name"))
    if not any(is_toolset(tool) or (name and tool.get("name") == name) for tool in tools):
        yield Violation("/tool_choice/name", f"no tool is named {name!r}")


def forced_tool_on_thinking_model(request: Request, _context: Context) -> Iterator[Violation]:
    """Models that always think cannot be forced to call a tool.

    Use `auto` and say in the prompt that a call is wanted.
    """
    row = view.model(request)
    if row.name != "unknown" and not row.forced_tools and forces_tool(request):
        yield Violation("/tool_choice/type", f"{request.get('model')!r} takes 'auto' and 'none' only")


def only_deferred_tools(request: Request, _context: Context) -> Iterator[Violation]:
    """One tool at least is not deferred.

    The search tool is the one that stays loaded.
    """
    tools = [tool for _, tool in view.tools(request)]
    if tools and all(tool.get("defer_loading") is True for tool in tools):
        yield Violation("/tools", "every tool has defer_loading, so none can be found")


def tool_without_object_schema(request: Request, _context: Context) -> Iterator[Violation]:
    """A custom tool has an `input_schema`, and it describes an object.

    Other APIs call the schema `parameters`.
    """
    for pointer, tool in view.tools(request):
        if tool.get("type") not in (None, "custom"):
            continue
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            yield Violation(pointer, f"tool {tool.get('name')!r} has no input_schema")
        elif schema.get("type") != "object":
            yield Violation(f"{pointer}/input_schema", "the schema's type is not 'object'")


def unfit_tool_name(request: Request, _context: Context) -> Iterator[Violation]:
    """A tool's name is made of letters, digits, `_` and `-`.

    64 characters are documented, up to 128 were seen to be accepted. Map other names by one stable function,
    in the definitions, the choice and the history alike.
    """
    for pointer, tool in view.tools(request):
        name = tool.get("name")
        if name is None and tool.get("type") not in (None, "custom"):
            continue
        if not wire.TOOL_NAME.fullmatch(view.text(name)):
            yield Violation(f"{pointer}/name", f"{name!r} is no tool name")


def mixed_domain_filters(request: Request, _context: Context) -> Iterator[Violation]:
    """A web tool allows domains or blocks some, not both, and neither list is empty.

    Keep the stricter list.
    """
    for pointer, tool in view.tools(request):
        if not view.kind(tool).startswith(("web_search_", "web_fetch_")):
            continue
        lists = {
            key: tool[key] for key in ("allowed_domains", "blocked_domains") if tool.get(key) is not None
        }
        if len(lists) > 1:
            yield Violation(pointer, "the tool both allows and blocks domains")
        for key, domains in lists.items():
            if domains == []:
                yield Violation(f"{pointer}/{key}", "the list of domains is empty")


def open_strict_schema(request: Request, _context: Context) -> Iterator[Violation]:
    """In the schema of a strict tool every object is closed by `additionalProperties: false`.

    Drop `strict` rather than rewrite the caller's schema.
    """
    for pointer, tool in view.tools(request):
        if tool.get("strict") is not True:
            continue
        for steps, schema in _schemas(tool.get("input_schema")):
            if _is_object(schema) and schema.get("additionalProperties") is not False:
                yield Violation(f"{pointer}/input_schema{to_pointer(*steps)}", "the object is not closed")


def _is_object(schema: view.Block) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _schemas(root: Any) -> Iterator[tuple[tuple[str | int, ...], view.Block]]:
    """A schema and all schemas inside it, with the way to each."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while pending:
        steps, schema = pending.pop()
        if not isinstance(schema, dict):
            continue
        yield steps, schema
        below: list[tuple[tuple[str | int, ...], Any]] = [((*steps, key), schema.get(key)) for key in _SCHEMA]
        for key in _SCHEMA_LISTS:
            below += [((*steps, key, at), one) for at, one in enumerate(view.listed(schema.get(key)))]
        for key in _SCHEMA_MAPS:
            named = schema.get(key)
            below += (
                [((*steps, key, str(at)), one) for at, one in named.items()]
                if isinstance(named, dict)
                else []
            )
        pending += reversed(below)


def unknown_tool_choice(request: Request, _context: Context) -> Iterator[Violation]:
    """A choice among tools is an object of type `auto`, `any`, `tool` or `none`.

    What others call `required` is `any`, a named function is `tool`, and a ban on parallel calls is
    `disable_parallel_tool_use`.
    """
    choice = request.get("tool_choice")
    if choice is not None and view.text(view.member(choice, "type")) not in _CHOICES:
        yield Violation("/tool_choice", f"{choice!r} is no form of tool_choice")


RULES: Rulebook = (
    Rule(
        id="ANT-TOOL-001",
        name="calls-without-tools",
        severity="reject",
        source="comments of several public clients; UKGovernmentBEIS/inspect_ai",
        error="Requests which include `tool_use` or `tool_result` blocks must define tools",
        check=calls_without_tools,
    ),
    Rule(
        id="ANT-TOOL-002",
        name="repeated-tool-name",
        severity="reject",
        source="github.com/anthropics/claude-code",
        error="Tool names must be unique",
        check=repeated_tool_name,
    ),
    Rule(
        id="ANT-TOOL-003",
        name="tool-choice-without-tools",
        severity="reject",
        source="error text quoted by public clients and proxies",
        error="tool_choice may only be specified while providing tools",
        check=tool_choice_without_tools,
    ),
    Rule(
        id="ANT-TOOL-004",
        name="unknown-forced-tool",
        severity="reject",
        source="error text quoted by public proxies",
        error="not found in provided tools",
        check=unknown_forced_tool,
    ),
    Rule(
        id="ANT-TOOL-005",
        name="forced-tool-on-thinking-model",
        severity="reject",
        source=_DEFINE,
        error="tool_choice",
        check=forced_tool_on_thinking_model,
        applies="Mythos Preview, Opus 5.5, Fable 5.1 and later",
    ),
    Rule(
        id="ANT-TOOL-006",
        name="only-deferred-tools",
        severity="reject",
        source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool",
        error="At least one tool must have defer_loading=false",
        check=only_deferred_tools,
        applies="tool search",
    ),
    Rule(
        id="ANT-TOOL-007",
        name="tool-without-object-schema",
        severity="reject",
        source=f"{_DEFINE}; a published live probe (2026-08-28)",
        error="input_schema",
        check=tool_without_object_schema,
    ),
    Rule(
        id="ANT-TOOL-008",
        name="unfit-tool-name",
        severity="reject",
        source=_DEFINE,
        error="String should match pattern",
        check=unfit_tool_name,
    ),
    Rule(
        id="ANT-TOOL-009",
        name="mixed-domain-filters",
        severity="reject",
        source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool",
        error="domains",
        check=mixed_domain_filters,
        applies="web search and web fetch",
    ),
    Rule(
        id="ANT-TOOL-010",
        name="open-strict-schema",
        severity="reject",
        source="a published live probe (claude-haiku-4-5, 2026-08-28)",
        error="'additionalProperties' must be explicitly set to false",
        check=open_strict_schema,
        applies="strict tools",
    ),
    Rule(
        id="ANT-TOOL-011",
        name="unknown-tool-choice",
        severity="reject",
        source="a published live probe (2026-08-28)",
        error="tool_choice",
        check=unknown_tool_choice,
    ),
)
