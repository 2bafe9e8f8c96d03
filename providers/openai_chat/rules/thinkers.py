"""OCX-DEEPSEEK, OCX-KIMI, OCX-QWEN: servers that send reasoning, under their profiles only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat import wire
from normalizer.providers.openai_chat.rules import pairing, requests, view
from normalizer.rules import Context, Request, Rule, Rulebook, Severity, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEY: Final = "reasoning_content"
_PAIRING: Final = (
    pairing.unanswered_tool_call,
    pairing.stray_tool_message,
    pairing.unknown_call_id,
    pairing.open_end,
)


def _thinking(request: Request, context: Context) -> bool:
    """Whether the model thinks, as far as the request tells."""
    asked = view.member(request.get("thinking"), "type")
    return asked != "disabled" and wire.thinks(view.profile(context), view.model(request))


def with_calls(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """The assistant messages that hold calls."""
    for at, message in view.having(request, "tool_calls", "assistant"):
        if view.listed(message["tool_calls"]):
            yield at, message


def deepseek_reasoning_missing(request: Request, context: Context) -> Iterator[Violation]:
    """A thinking DeepSeek model gets each message with calls back with its `reasoning_content`, in all later requests.

    ## Repair
    The recorded text goes back, verbatim, beside the calls.
    """
    if view.under(context, "deepseek") and _thinking(request, context):
        refused = wire.refuses_reasoning(view.profile(context), view.model(request))
        for at, message in with_calls(request):
            if not refused and not isinstance(message.get(_KEY), str):
                yield Violation(at, "calls without the reasoning that led to them")


def deepseek_empty_reasoning_left_out(request: Request, context: Context) -> Iterator[Violation]:
    """Reasoning that is empty on record goes to DeepSeek as the empty text, as does that of another model's calls.

    ## Why
    The key is demanded, not the thought. None is made up.
    """
    yield from deepseek_reasoning_missing(request, context)


def deepseek_reasoning_refused(request: Request, context: Context) -> Iterator[Violation]:
    """The first reasoning model of DeepSeek refuses `reasoning_content` in its input.

    ## Repair
    The key is left out for that model; the two kinds are told apart by the model's name.
    """
    if view.under(context, "deepseek") and wire.refuses_reasoning(view.profile(context), view.model(request)):
        for at, _ in view.having(request, _KEY, "assistant"):
            yield Violation(f"{at}/{_KEY}", "this model takes no reasoning")


def _pairing(name: str) -> Callable[[Request, Context], Iterator[Violation]]:
    def check(request: Request, context: Context) -> Iterator[Violation]:
        if view.under(context, name):
            for rule in _PAIRING:
                yield from rule(request, context)

    return check


deepseek_pairing = _pairing("deepseek")
deepseek_pairing.__doc__ = (
    "DeepSeek pairs calls and tool messages as strictly as OpenAI; only its words differ."
)
qwen_pairing = _pairing("qwen")
qwen_pairing.__doc__ = "DashScope wraps the errors of pairing; the rules in them are OpenAI's."


def developer_role(request: Request, context: Context) -> Iterator[Violation]:
    """The server knows no developer role.

    ## Repair
    Instructions are sent as system messages.
    """
    for at, _ in view.of_role(request, "developer"):
        yield Violation(f"{at}/role", "the server does not know this role")


def deepseek_developer(request: Request, context: Context) -> Iterator[Violation]:
    """DeepSeek knows no developer role; instructions are system messages."""
    if view.under(context, "deepseek"):
        yield from developer_role(request, context)


def qwen_developer(request: Request, context: Context) -> Iterator[Violation]:
    """DashScope knows no developer role; instructions are system messages."""
    if view.under(context, "qwen"):
        yield from developer_role(request, context)


def forced_choice(request: Request) -> Iterator[Violation]:
    """A `tool_choice` that forces the model."""
    choice = request.get("tool_choice")
    if choice == "required" or (isinstance(choice, dict) and choice.get("type") in wire.CALL_TYPES):
        yield Violation("/tool_choice", "this server leaves the choice to the model")


def deepseek_forced_choice(request: Request, context: Context) -> Iterator[Violation]:
    """A thinking DeepSeek model cannot be forced to use a tool.

    ## Repair
    The choice is left out.
    """
    if view.under(context, "deepseek") and _thinking(request, context):
        yield from forced_choice(request)


# ---------------------------------------------------------------- Kimi


def kimi_reasoning_missing(request: Request, context: Context) -> Iterator[Violation]:
    """With thinking on, Kimi demands `reasoning_content` in each message with calls.

    ## Repair
    The recorded text goes back; where there is none, the empty one.
    """
    if view.under(context, "kimi") and _thinking(request, context):
        for at, message in with_calls(request):
            if not isinstance(message.get(_KEY), str):
                yield Violation(at, "calls without the reasoning that led to them")


def kimi_empty_content(request: Request, context: Context) -> Iterator[Violation]:
    """Beside calls, Kimi takes no empty text: the content is null or left out.

    ## Repair
    Null is sent.
    """
    if view.under(context, "kimi"):
        for at, message in with_calls(request):
            if message.get("content") == "":
                yield Violation(f"{at}/content", "an empty text beside calls")


def kimi_two_settings(request: Request, context: Context) -> Iterator[Violation]:
    """`thinking` and `reasoning_effort` are not sent to Kimi together.

    ## Repair
    Only `thinking` is sent.
    """
    if (
        view.under(context, "kimi")
        and request.get("thinking") is not None
        and request.get("reasoning_effort") is not None
    ):
        yield Violation("/reasoning_effort", "it says the same as thinking")


def kimi_stripped_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """Where Kimi is told to keep all earlier thinking, old messages with calls still have theirs.

    ## Repair
    What was recorded is sent, or `keep` is set to fit; the two are not mixed.
    """
    if view.under(context, "kimi") and view.member(request.get("thinking"), "keep") == "all":
        for at, message in with_calls(request):
            if not message.get(_KEY):
                yield Violation(at, "thinking is to be kept, and is not there")


def kimi_forced_choice(request: Request, context: Context) -> Iterator[Violation]:
    """Kimi does not know the choice `required`.

    ## Repair
    The choice is left out.
    """
    if view.under(context, "kimi") and request.get("tool_choice") == "required":
        yield Violation("/tool_choice", "this server leaves the choice to the model")


# ---------------------------------------------------------------- Qwen


def qwen_content_missing(request: Request, context: Context) -> Iterator[Violation]:
    """Every message to DashScope has the key content; beside calls the text may be empty.

    ## Repair
    The empty text is sent.
    """
    if view.under(context, "qwen"):
        for index, message in view.messages(request):
            if "content" not in message:
                yield Violation(f"/messages/{index}/content", "the key content is missing")


def qwen_picture(request: Request, context: Context) -> Iterator[Violation]:
    """A text model of DashScope takes no pictures.

    ## Repair
    Words say that one was left out.
    """
    if view.under(context, "qwen") and not wire.sees(view.profile(context), view.model(request)):
        for at, _ in view.parts_of(request, "image_url"):
            yield Violation(at, "this model sees no pictures")


def qwen_settings(request: Request, context: Context) -> Iterator[Violation]:
    """DashScope does not know `store`, `max_completion_tokens` and `reasoning_effort`.

    ## Repair
    They are left out.
    """
    if view.under(context, "qwen"):
        for key in sorted(view.profile(context).settings & request.keys()):
            yield Violation(f"/{key}", f"this server does not know {key!r}")


def qwen_long_text(request: Request, context: Context) -> Iterator[Violation]:
    """A text for DashScope has at most 20,000,000 characters.

    ## Repair
    A longer one is cut with a visible mark.
    """
    if view.under(context, "qwen"):
        yield from requests.longer_than(request, view.profile(context).max_string)


def qwen_old_reasoning(request: Request, context: Context) -> Iterator[Violation]:
    """DashScope ignores the reasoning of earlier turns, which costs its tokens for nothing.

    ## Repair
    It is left out, unless it was sent: what was sent stays as it was.
    """
    if not view.under(context, "qwen"):
        return
    last = max(
        (index for index, message in view.messages(request) if message.get("role") == "user"), default=-1
    )
    for index, message in view.messages(request):
        if index < last and message.get(_KEY):
            yield Violation(f"/messages/{index}/{_KEY}", "reasoning of a turn that is over")


def _rule(id: str, name: str, severity: Severity, check: Any, error: str | None, source: str) -> Rule:  # noqa: A002
    server = {"DEEPSEEK": "deepseek", "KIMI": "kimi", "QWEN": "qwen"}[id.split("-")[1]]
    return Rule(
        id=id, name=name, severity=severity, source=source, error=error, check=check, applies=f"profile {server}"
    )  # fmt: skip


_BACK: Final = "https://api-docs.deepseek.com/guides/thinking_mode"
_VERCEL: Final = "vercel/ai packages/deepseek/src/chat"
RULES: Final[Rulebook] = (
    _rule("OCX-DEEPSEEK-001", "deepseek-reasoning-missing", "reject", deepseek_reasoning_missing,
          "The `reasoning_content` in the thinking mode must be passed back to the API.", _BACK),
    _rule("OCX-DEEPSEEK-002", "deepseek-empty-reasoning-left-out", "reject", deepseek_empty_reasoning_left_out,
          "must be passed back", f"{_VERCEL}/convert-to-deepseek-chat-messages.ts"),
    _rule("OCX-DEEPSEEK-003", "deepseek-reasoning-refused", "reject", deepseek_reasoning_refused, "reasoning_content",
          f"{_VERCEL}/convert-to-deepseek-chat-messages.ts"),
    _rule("OCX-DEEPSEEK-004", "deepseek-pairing", "reject", deepseek_pairing,
          "insufficient tool messages following tool_calls message", "https://github.com/agno-agi/agno/issues/3105"),
    _rule("OCX-DEEPSEEK-005", "deepseek-developer", "reject", deepseek_developer, "developer",
          f"{_VERCEL}/deepseek-chat-api-types.ts"),
    _rule("OCX-DEEPSEEK-008", "deepseek-forced-choice", "reject", deepseek_forced_choice,
          "Only a tool_choice of 'auto' is supported", "https://github.com/can1357/oh-my-pi/issues/4715"),
    _rule("OCX-KIMI-001", "kimi-reasoning-missing", "reject", kimi_reasoning_missing,
          "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
          "https://github.com/continuedev/continue/issues/11711"),
    _rule("OCX-KIMI-002", "kimi-empty-content", "reject", kimi_empty_content, "text content is empty",
          "MoonshotAI/kimi-cli CHANGELOG; vercel/ai packages/moonshotai"),
    _rule("OCX-KIMI-003", "kimi-two-settings", "reject", kimi_two_settings, "reasoning_effort",
          "https://github.com/HKUDS/nanobot/issues/3939"),
    _rule("OCX-KIMI-004", "kimi-stripped-reasoning", "degrades", kimi_stripped_reasoning, None,
          "https://github.com/can1357/oh-my-pi/issues/1839"),
    _rule("OCX-KIMI-005", "kimi-forced-choice", "reject", kimi_forced_choice, "tool_choice",
          "https://platform.moonshot.ai/docs/guide/migrating-from-openai-to-kimi"),
    _rule("OCX-QWEN-001", "qwen-content-missing", "reject", qwen_content_missing,
          "Field required: input.messages.1.content", "https://github.com/agentscope-ai/agentscope-java/issues/1270"),
    _rule("OCX-QWEN-002", "qwen-developer", "reject", qwen_developer,
          "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']",
          "https://github.com/haru/redmine_ai_helper/issues/242"),
    _rule("OCX-QWEN-003", "qwen-picture", "reject", qwen_picture, "Unexpected item type in content.",
          "https://github.com/can1357/oh-my-pi/issues/1859"),
    _rule("OCX-QWEN-004", "qwen-pairing", "reject", qwen_pairing, "<400> InternalError.Algo.InvalidParameter:",
          "https://github.com/QwenLM/qwen-code/issues/606"),
    _rule("OCX-QWEN-005", "qwen-settings", "reject", qwen_settings, None,
          "badlogic/pi-mono packages/ai/src/providers/openai-completions.ts"),
    _rule("OCX-QWEN-006", "qwen-long-text", "reject", qwen_long_text, "20000000",
          "https://github.com/QwenLM/qwen-code/issues/1082"),
    _rule("OCX-QWEN-007", "qwen-old-reasoning", "degrades", qwen_old_reasoning, None,
          "vercel/ai packages/alibaba/src/convert-to-alibaba-chat-messages.ts"),
)  # fmt: skip
