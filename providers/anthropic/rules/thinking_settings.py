"""How thinking is asked for, by model (ANT-THK-011 to 016)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from normalizer.providers.anthropic.rules import view
from normalizer.providers.anthropic.rules.caching import forces_tool
from normalizer.rules import Context, Request, Rule, Rulebook, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_THINKING: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking"
_TROUBLE: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting"
_ERRORS: Final = "https://platform.claude.com/docs/en/api/errors"
_MANUAL: Final = "manual thinking"

LEAST_BUDGET: Final = 1024
_INTERLEAVED: Final = "interleaved-thinking-"
# Rows of models that refuse sampling parameters for certain.
_NO_SAMPLING: Final = frozenset({"opus-4-7", "opus-4-8", "opus-5", "opus-5-5", "fable-5", "fable-5-1"})
# Efforts at which Opus 5 cannot stop thinking.
_HIGHEST_EFFORTS: Final = frozenset({"xhigh", "max"})


def unfit_thinking_budget(request: Request, _context: Context) -> Iterator[Violation]:
    """A budget for thinking is at least 1024 tokens and below the output limit.

    Thinking that is interleaved with tools may go above `max_tokens`. Raise the limit or lower the budget.
    """
    if view.thinking(request) != "enabled":
        return
    budget, limit = view.member(request["thinking"], "budget_tokens"), request.get("max_tokens")
    interleaved = bool(request.get("tools")) and view.has_beta(request, _INTERLEAVED)
    if not isinstance(budget, int) or isinstance(budget, bool):
        yield Violation("/thinking/budget_tokens", "manual thinking has no budget")
    elif budget < LEAST_BUDGET:
        yield Violation("/thinking/budget_tokens", f"{budget} is below {LEAST_BUDGET}")
    elif isinstance(limit, int) and budget >= limit and not interleaved:
        yield Violation("/thinking/budget_tokens", f"{budget} is not below max_tokens, {limit}")


def forced_tool_with_manual_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """Manual thinking does not go with a forced tool.

    Choose `auto` or `none`, or turn thinking off. With adaptive thinking a tool can be forced where the model
    allows it.
    """
    if view.thinking(request) == "enabled" and forces_tool(request):
        yield Violation("/tool_choice", "a tool is forced while manual thinking is on")


def _refused(request: Request, wish: str) -> bool:
    """Whether the model is known to refuse this type of thinking, and it is asked for."""
    accepted = view.model(request).thinking
    return view.thinking(request) == wish and accepted is not None and wish not in accepted


def manual_thinking_on_adaptive_model(request: Request, _context: Context) -> Iterator[Violation]:
    """Models from 4.7 on take no manual thinking.

    Ask for `adaptive`.
    """
    if _refused(request, "enabled"):
        yield Violation("/thinking/type", f"{request.get('model')!r} does not take 'enabled'")


def adaptive_thinking_on_manual_model(request: Request, _context: Context) -> Iterator[Violation]:
    """Models up to 4.5 take no adaptive thinking.

    Ask for `enabled` with a budget.
    """
    if _refused(request, "adaptive"):
        yield Violation("/thinking/type", f"{request.get('model')!r} does not take 'adaptive'")


def thinking_turned_off(request: Request, _context: Context) -> Iterator[Violation]:
    """Models that always think cannot be told not to.

    Leave `thinking` out. Opus 5 stops thinking at an effort up to `high` only.
    """
    if _refused(request, "disabled"):
        yield Violation("/thinking/type", f"{request.get('model')!r} always thinks")
    effort = view.text(view.member(request.get("output_config"), "effort"))
    if (
        view.model(request).name == "opus-5"
        and view.thinking(request) == "disabled"
        and effort in _HIGHEST_EFFORTS
    ):
        yield Violation("/thinking/type", f"at effort {effort!r} the model always thinks")


def sampling_with_thinking(request: Request, _context: Context) -> Iterator[Violation]:
    """Sampling stays at its defaults where the model thinks by hand, and on models from 4.7 on.

    Leave `temperature`, `top_k` and `top_p` out. A temperature or `top_p` of 1 is the default. Models of
    which it is not verified are not judged.
    """
    refuses = view.model(request).name in _NO_SAMPLING
    if view.thinking(request) != "enabled" and not refuses:
        return
    if request.get("temperature") not in (None, 1):
        yield Violation("/temperature", f"{request['temperature']!r} is not the default, 1")
    if request.get("top_k") is not None:
        yield Violation("/top_k", "top_k is set")
    if refuses and request.get("top_p") not in (None, 1):
        yield Violation("/top_p", f"{request['top_p']!r} is not the default, 1")


RULES: Rulebook = (
    Rule(
        id="ANT-THK-011",
        name="unfit-thinking-budget",
        severity="reject",
        source=f"{_THINKING}; reports in github.com/themaximalist/llm.js",
        error="budget_tokens",
        check=unfit_thinking_budget,
        applies=_MANUAL,
    ),
    Rule(
        id="ANT-THK-012",
        name="forced-tool-with-manual-thinking",
        severity="reject",
        source=f"{_THINKING}; https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
        error="Thinking may not be enabled when tool_choice forces tool use",
        check=forced_tool_with_manual_thinking,
        applies=_MANUAL,
    ),
    Rule(
        id="ANT-THK-013",
        name="manual-thinking-on-adaptive-model",
        severity="reject",
        source=f"{_ERRORS}; {_TROUBLE}",
        error='"thinking.type.enabled" is not supported for this model',
        check=manual_thinking_on_adaptive_model,
        applies="Opus 4.7 and later, models of line 5",
    ),
    Rule(
        id="ANT-THK-014",
        name="adaptive-thinking-on-manual-model",
        severity="reject",
        source=f"{_ERRORS}; {_TROUBLE}",
        error="adaptive thinking is not supported on this model",
        check=adaptive_thinking_on_manual_model,
        applies="models of 4.5 and before",
    ),
    Rule(
        id="ANT-THK-015",
        name="thinking-turned-off",
        severity="reject",
        source=f"{_ERRORS}; {_TROUBLE}",
        error='"thinking.type.disabled" is not supported for this model',
        check=thinking_turned_off,
        applies="Fable 5, Mythos 5, Mythos Preview, Opus 5.5, Fable 5.1 and later; Opus 5 in part",
    ),
    Rule(
        id="ANT-THK-016",
        name="sampling-with-thinking",
        severity="reject",
        source=f"{_THINKING}; {_ERRORS}",
        error="temperature",
        check=sampling_with_thinking,
        applies="manual thinking, and models from 4.7 on",
    ),
)
