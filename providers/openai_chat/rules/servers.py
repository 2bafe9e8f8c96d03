"""OCX-AZURE, -VLLM, -OLLAMA, -XAI, -GROQ, -OPENROUTER, -OTHER: the other servers. Under their profiles only.

Gateways in front of other makers' models have the profile `gateway`, servers on one's own machine `local`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from normalizer.providers.openai_chat import wire
from normalizer.providers.openai_chat.rules import (
    identifiers,
    pairing,
    requests,
    streams,
    structure,
    thinkers,
    view,
)
from normalizer.rules import Context, Request, Rule, Rulebook, Severity, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLLAMA_PARTS: Final = frozenset({"text", "image_url"})


def azure_duplicate_answer(request: Request, context: Context) -> Iterator[Violation]:
    """Azure refuses a second answer to a call, and names it."""
    if view.under(context, "azure"):
        yield from pairing.duplicate_answer(request, context)


def azure_filter_chunk(request: Request, context: Context) -> Iterator[Violation]:
    """Annotation chunks of Azure's asynchronous filter add no message and undo no finish_reason."""
    if view.under(context, "azure"):
        yield from streams.chunk_as_message(request, context)


def azure_mixed_instructions(request: Request, context: Context) -> Iterator[Violation]:
    """Azure takes developer or system messages in one request, not both."""
    if view.under(context, "azure"):
        yield from identifiers.mixed_instructions(request, context)


def azure_file(request: Request, context: Context) -> Iterator[Violation]:
    """Azure does not take file parts in Chat everywhere.

    ## Repair
    Words say that a file was there; Responses takes it.
    """
    if view.under(context, "azure"):
        yield from _parts_of(request, "file")


def _parts_of(request: Request, kind: str) -> Iterator[Violation]:
    for at, _ in view.parts_of(request, kind):
        yield Violation(at, f"this server takes no {kind} part")


def azure_partner_model(request: Request, context: Context) -> Iterator[Violation]:
    """Other makers' models behind an Azure address keep their rules: Mistral's know no `max_completion_tokens`.

    ## Repair
    The target is chosen by model, not by address.
    """
    partner = any(maker in view.model(request).lower() for maker in ("mistral", "ministral", "codestral"))
    if view.under(context, "azure") and partner and "max_completion_tokens" in request:
        yield Violation("/max_completion_tokens", "this maker's models do not know it")


# ---------------------------------------------------------------- vLLM, Ollama


def vllm_arguments(request: Request, context: Context) -> Iterator[Violation]:
    """VLLM parses the arguments of old calls again; a text that is no JSON object fails the request.

    ## Repair
    The whole raw text is carried as the one value of an object.
    """
    if view.under(context, "vllm"):
        yield from _unparsable(request)


def _unparsable(request: Request) -> Iterator[Violation]:
    for at, function in view.functions(request):
        given = function.get("arguments")
        if not isinstance(given, str) or not isinstance(structure.parsed(given), dict):
            yield Violation(f"{at}/arguments", "the arguments are no JSON object")


def vllm_alternation(request: Request, context: Context) -> Iterator[Violation]:
    """A chat template may demand that user and assistant take turns, with the system message in front.

    ## Repair
    Neighbours of one role are joined, none is dropped; instructions stand together at the beginning.
    """
    if not view.under(context, "vllm"):
        return
    before: dict[str, Any] = {}
    for index, message in view.messages(request):
        role = message.get("role")
        if role in ("system", "developer") and index > 0:
            yield Violation(f"/messages/{index}/role", "instructions behind the beginning")
        elif role in ("user", "assistant") and role == before.get("role") and not before.get("tool_calls"):
            yield Violation(f"/messages/{index}/role", f"two {role} messages in a row")
        before = message


def vllm_auto_choice(request: Request, context: Context) -> Iterator[Violation]:
    """VLLM lets the model choose a tool only where the server was started for that.

    ## Repair
    None in the history: tell who runs the server.
    """
    auto = request.get("tool_choice", "auto") == "auto" and request.get("tools")
    if view.under(context, "vllm") and context.get("auto_tool_choice") is False and auto:
        yield Violation("/tool_choice", "the server was not started with automatic tool choice")


def ollama_null_content(request: Request, context: Context) -> Iterator[Violation]:
    """Ollama takes a null content beside calls only."""
    if view.under(context, "ollama"):
        for index, message in view.messages(request):
            if message.get("content") is None and not message.get("tool_calls"):
                yield Violation(f"/messages/{index}/content", "no content, and no calls")


def ollama_arguments(request: Request, context: Context) -> Iterator[Violation]:
    """Arguments for Ollama are the text of a JSON object; the empty text is none.

    ## Repair
    An empty text is sent as `{}`; another is carried as the one value of an object.
    """
    if view.under(context, "ollama"):
        yield from _unparsable(request)


def ollama_picture(request: Request, context: Context) -> Iterator[Violation]:
    """Ollama takes pictures as data (jpeg, png, webp), not by address.

    ## Repair
    Recorded bytes are sent; without them, words say that a picture was left out.
    """
    allowed = tuple(f"data:{kind};" for kind in sorted(wire.PROFILES["ollama"].image_types or ()))
    for at, _, part in view.parts(request) if view.under(context, "ollama") else ():
        url = view.text(view.member(part, "image_url", "url"))
        if view.kind(part) == "image_url" and not url.startswith(allowed):
            yield Violation(f"{at}/image_url/url", "no data of a picture type that the server reads")


def ollama_several_texts(request: Request, context: Context) -> Iterator[Violation]:
    """Ollama makes one message of each part of a content array.

    ## Repair
    The texts of one message are joined.
    """
    if view.under(context, "ollama"):
        for index, message in view.messages(request):
            content = view.listed(message.get("content"))
            if len(content) > 1 and all(view.kind(part) == "text" for part in content):
                yield Violation(f"/messages/{index}/content", f"{len(content)} texts in one message")


def ollama_part(request: Request, context: Context) -> Iterator[Violation]:
    """Ollama refuses types of parts that it does not know.

    ## Repair
    Words say what was left out.
    """
    for at, _, part in view.parts(request) if view.under(context, "ollama") else ():
        if view.kind(part) not in _OLLAMA_PARTS:
            yield Violation(at, f"this server takes no part of type {view.kind(part)!r}")


def _other_reasoning_key(request: Request) -> Iterator[Violation]:
    for at, _ in view.having(request, "reasoning_content", "assistant"):
        yield Violation(f"{at}/reasoning_content", "this server calls it reasoning")


def ollama_reasoning_key(request: Request, context: Context) -> Iterator[Violation]:
    """Reasoning for Ollama stands in the key `reasoning`."""
    if view.under(context, "ollama"):
        yield from _other_reasoning_key(request)


# ---------------------------------------------------------------- xAI, Groq, OpenRouter


def xai_no_content(request: Request, context: Context) -> Iterator[Violation]:
    """Each message for xAI has a content, those with calls too.

    ## Repair
    The empty text is sent; a blank would be a word that nobody said.
    """
    if view.under(context, "xai"):
        for index, message in view.messages(request):
            if message.get("content") in (None, []):
                yield Violation(f"/messages/{index}/content", "a message without content")


def xai_choice(request: Request, context: Context) -> Iterator[Violation]:
    """XAI refuses a `tool_choice` without tools."""
    if view.under(context, "xai"):
        yield from requests.choice_without_tools(request, context)


def groq_foreign_key(request: Request, context: Context) -> Iterator[Violation]:
    """Groq refuses each key that is not in its schema, by name.

    ## Repair
    Only keys of the schema are written.
    """
    if view.under(context, "groq"):
        yield from structure.foreign_key(request, context)


def groq_reasoning_key(request: Request, context: Context) -> Iterator[Violation]:
    """Reasoning of Groq's models goes back in the key `reasoning`, and that of others not at all."""
    if view.under(context, "groq"):
        yield from _other_reasoning_key(request)


def openrouter_details_changed(request: Request, context: Context) -> Iterator[Violation]:
    """OpenRouter gets the `reasoning_details` of a message back as the same array, whole and in order.

    ## Why
    It may hold signatures and ciphertext of the model behind it.
    """
    recorded = context.get("reasoning_details") or {}
    if view.under(context, "openrouter"):
        for at, message in thinkers.with_calls(request):
            for _, call in view.objects(message["tool_calls"], ""):
                wanted = recorded.get(view.text(call.get("id")))
                if wanted is not None and message.get("reasoning_details") != wanted:
                    yield Violation(f"{at}/reasoning_details", "not the array that came with these calls")
                    break


def openrouter_reasoning_key(request: Request, context: Context) -> Iterator[Violation]:
    """Plain reasoning for OpenRouter stands in the key `reasoning`."""
    if view.under(context, "openrouter"):
        yield from _other_reasoning_key(request)


def openrouter_detail_twice(request: Request, context: Context) -> Iterator[Violation]:
    """One detail of reasoning, known by its id, stands in a history once.

    ## Repair
    It stays beside the message that it came with.
    """
    seen: set[str] = set()
    for at, message in view.of_role(request, "assistant") if view.under(context, "openrouter") else ():
        for place, detail in view.objects(message.get("reasoning_details"), f"{at}/reasoning_details"):
            found = view.text(detail.get("id"))
            if found and found in seen:
                yield Violation(f"{place}/id", f"an earlier detail has the id {found!r}")
            seen.add(found)


def openrouter_late_instructions(request: Request, context: Context) -> Iterator[Violation]:
    """OpenRouter rewrites system messages in the middle for models that have none there."""
    talked = False
    for index, message in view.messages(request) if view.under(context, "openrouter") else ():
        if view.text(message.get("role")) not in wire.INSTRUCTION_ROLES:
            talked = True
        elif talked:
            yield Violation(f"/messages/{index}/role", "instructions in the middle may be rewritten")


# ---------------------------------------------------------------- gateways, local servers


def gateway_developer(request: Request, context: Context) -> Iterator[Violation]:
    """A gateway in front of other makers' models may refuse the developer role.

    ## Repair
    Instructions are system messages unless the model is OpenAI's.
    """
    if view.under(context, "gateway") and not wire.is_openai(view.model(request)):
        yield from thinkers.developer_role(request, context)


def local_forced_choice(request: Request, context: Context) -> Iterator[Violation]:
    """A local server may leave the choice of a tool to the model only.

    ## Repair
    The choice is left out.
    """
    if view.under(context, "local"):
        yield from thinkers.forced_choice(request)


def _rule(
    rule: str,
    name: str,
    severity: Severity,
    check: Any,
    error: str | None,
    source: str,
    *,
    static: bool = True,
) -> Rule:
    server = {"OCX-OTHER-002": "gateway", "OCX-OTHER-004": "local"}.get(rule) or rule.split("-")[1].lower()
    applies = f"profile {server}"
    return Rule(
        id=rule, name=name, severity=severity, source=source, error=error, check=check, static=static, applies=applies
    )  # fmt: skip


_OLLAMA: Final = "ollama/ollama openai/openai.go"
RULES: Final[Rulebook] = (
    _rule("OCX-AZURE-001", "azure-duplicate-answer", "reject", azure_duplicate_answer,
          "Duplicate value for 'tool_call_id' of 'call_1' in messages[2] and messages[3]",
          "https://github.com/fatwang2/search2ai/issues/30"),
    _rule("OCX-AZURE-002", "azure-filter-chunk", "policy", azure_filter_chunk, None,
          "openai SDK, lib/streaming/chat/_completions.py", static=False),
    _rule("OCX-AZURE-006", "azure-mixed-instructions", "degrades", azure_mixed_instructions, None,
          "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning"),
    _rule("OCX-AZURE-007", "azure-file", "reject", azure_file, None, "pydantic/pydantic-ai docs/models/openai.md"),
    _rule("OCX-AZURE-008", "azure-partner-model", "reject", azure_partner_model, "max_completion_tokens",
          "https://github.com/pydantic/pydantic-ai/issues/6593"),
    _rule("OCX-VLLM-001", "vllm-arguments", "reject", vllm_arguments, "JSON decode error",
          "https://github.com/vllm-project/vllm/issues/47761"),
    _rule("OCX-VLLM-002", "vllm-alternation", "reject", vllm_alternation,
          "Conversation roles must alternate user/assistant/user/assistant/...",
          "https://github.com/microsoft/autogen/issues/1037"),
    _rule("OCX-VLLM-005", "vllm-auto-choice", "reject", vllm_auto_choice,
          '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
          "https://github.com/agentscope-ai/QwenPaw/issues/1449", static=False),
    _rule("OCX-OLLAMA-001", "ollama-null-content", "reject", ollama_null_content, "invalid message content type: <nil>",
          _OLLAMA),
    _rule("OCX-OLLAMA-002", "ollama-arguments", "reject", ollama_arguments, "invalid tool call arguments", _OLLAMA),
    _rule("OCX-OLLAMA-003", "ollama-picture", "reject", ollama_picture,
          "image URLs are not currently supported, please use base64 encoded data instead", _OLLAMA),
    _rule("OCX-OLLAMA-004", "ollama-several-texts", "degrades", ollama_several_texts, None, _OLLAMA),
    _rule("OCX-OLLAMA-005", "ollama-part", "reject", ollama_part, "invalid message format", _OLLAMA),
    _rule("OCX-OLLAMA-006", "ollama-reasoning-key", "degrades", ollama_reasoning_key, None, _OLLAMA),
    _rule("OCX-XAI-001", "xai-no-content", "reject", xai_no_content,
          "Each message must have at least one content element.", "https://github.com/langchain-ai/langchain/issues/34140"),
    _rule("OCX-XAI-002", "xai-choice", "reject", xai_choice,
          "A tool_choice was set on the request but no tools were specified.",
          "https://github.com/All-Hands-AI/OpenHands/issues/7078"),
    _rule("OCX-GROQ-001", "groq-foreign-key", "reject", groq_foreign_key,
          "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property"
          " 'reasoning_content' is unsupported)]", "https://github.com/janhq/jan/issues/8136"),
    _rule("OCX-GROQ-002", "groq-reasoning-key", "degrades", groq_reasoning_key, None,
          "vercel/ai packages/groq/src/convert-to-groq-chat-messages.ts"),
    _rule("OCX-OPENROUTER-001", "openrouter-details-changed", "degrades", openrouter_details_changed, None,
          "https://openrouter.ai/docs/use-cases/reasoning-tokens", static=False),
    _rule("OCX-OPENROUTER-002", "openrouter-reasoning-key", "degrades", openrouter_reasoning_key, None,
          "https://openrouter.ai/docs/use-cases/reasoning-tokens"),
    _rule("OCX-OPENROUTER-003", "openrouter-detail-twice", "reject", openrouter_detail_twice,
          "Duplicate item found with id rs_1.", "https://github.com/OpenRouterTeam/ai-sdk-provider/issues/254"),
    _rule("OCX-OPENROUTER-005", "openrouter-late-instructions", "degrades", openrouter_late_instructions, None,
          "https://openrouter.ai/docs"),
    _rule("OCX-OTHER-002", "gateway-developer", "reject", gateway_developer, "developer",
          "https://github.com/egoist/chatwise-releases/issues/971"),
    _rule("OCX-OTHER-004", "local-forced-choice", "reject", local_forced_choice,
          '`tool_choice` must either be a named tool or "auto"', "https://github.com/tenstorrent/tt-example-apps/issues/1"),
)  # fmt: skip
