"""Names and limits of the Chat Completions wire, what models and compatible servers differ in, as data.

Sources: the types of the openai SDK 3.57.0 and its OpenAPI description; for the servers, their documentation and
public reports, named beside each row. A server may have changed since, so every difference is one field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

PROVIDER: Final = "openai"
API: Final = "openai_chat"

ROLES: Final = frozenset({"developer", "system", "user", "assistant", "tool", "function"})
INSTRUCTION_ROLES: Final = frozenset({"developer", "system"})
CALL_TYPES: Final = ("function", "custom")

# https://github.com/microsoft/autogen/issues/6377, https://github.com/mcp-use/mcp-use/issues/90
CALL_ID: Final = re.compile(r"(?=.*\S).{1,40}", re.DOTALL)
CALL_ID_LIMIT: Final = 40
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SPEAKER: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

# https://github.com/openai/openai-dotnet/issues/317, https://github.com/vishalmysore/Tools4AI/issues/16,
# https://github.com/Shopify/roast/issues/52
MAX_CALLS: Final = 128
MAX_TOOLS: Final = 128
MAX_MESSAGES: Final = 2048
MAX_STRING: Final = 10_485_760

SOUND_FORMATS: Final = frozenset({"wav", "mp3"})
CUT_MARK: Final = "\n[cut here: the rest is longer than this API takes]"
"""The visible end of a text that had to be shortened."""

ENDS_WHOLE: Final = frozenset({"stop", "tool_calls", "function_call"})
"""Finish reasons after which every text and call of the choice is complete."""

# The part types of each role's messages. SDK: types/chat/chat_completion_*_message_param.py
PARTS: Final[dict[str, frozenset[str]]] = {
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
}
RESPONSES_PARTS: Final = frozenset({"input_text", "output_text", "input_image", "input_file", "summary_text"})
FOREIGN_PARTS: Final = RESPONSES_PARTS | {
    "thinking", "redacted_thinking", "reasoning", "tool_use", "tool_result", "image", "document", "tool-call",
    "tool-result", "tool_call", "function_call", "function_call_output", "audio", "search_result", "reference",
}  # fmt: skip
"""Part types of other wires, which this one is known not to have."""

ALL_PARTS: Final = frozenset().union(*PARTS.values())


def is_unknown(kind: str) -> bool:
    """Whether a part type is none that this release knows, of this wire or of another."""
    return bool(kind) and kind not in FOREIGN_PARTS and kind not in ALL_PARTS


REASONING_KEYS: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""Keys of an assistant message in which compatible servers send reasoning."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How one server differs from OpenAI's.

    `reasoning`: the key in which reasoning goes back, with `reasoning_keys` that are replayed as received;
    `reasoning_needed` beside calls, on models that think; `reasoning_turn` only in the turn that runs; `other_key`:
    what came in another server's key goes back in this one's. These three hold the id of the rule that says so.
    `makers` are the names of models that are the server's own. `no_words` is the content of a message without words:
    `null` is demanded beside calls, `string` always; `key` means any, but present; `calls` null beside calls only.
    `refusal_key`: a refusal stands in a key of its own. `objects`: arguments must be a JSON object.
    `part_keys` and `settings` are keys that this server knows besides, and request keys that it refuses.
    """

    name: str
    reasoning: str | None = None
    reasoning_keys: frozenset[str] = frozenset()
    reasoning_needed: str | None = None
    other_key: str | None = None
    reasoning_turn: str | None = None
    makers: str | None = None
    thoughtless: str | None = None
    refuses_reasoning: str | None = None
    developer: bool = True
    no_words: Literal["any", "null", "key", "string", "calls"] = "any"
    objects: bool = False
    image_urls: bool = True
    image_types: frozenset[str] | None = None
    blind: str | None = None
    refusal_key: bool = False
    files: bool = True
    sounds: bool = True
    other_parts: bool = True
    custom_tools: bool = False
    one_text: bool = False
    alternate: bool = False
    max_string: int = MAX_STRING
    developer_rule: str = "OAC-ROLE-002"
    part_keys: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()


OPENAI: Final = Profile("openai", custom_tools=True)
"""No profile: OpenAI itself."""

_CONTENT: Final = frozenset({"reasoning_content"})

PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        # https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning, pydantic-ai docs/models/openai.md
        Profile("azure", files=False, custom_tools=True),
        # https://api-docs.deepseek.com/guides/thinking_mode, vercel/ai packages/deepseek/src/chat
        Profile(
            "deepseek",
            reasoning="reasoning_content", reasoning_keys=_CONTENT, reasoning_needed="OCX-DEEPSEEK-002",
            makers=r"deepseek",
            thoughtless=r"deepseek-(chat|coder|v2|v3)\b.*", refuses_reasoning=r"(.*[/:])?deepseek-r1\b.*",
            developer=False, developer_rule="OCX-DEEPSEEK-005",
        ),
        # https://github.com/continuedev/continue/issues/11711, MoonshotAI/kimi-cli CHANGELOG
        Profile(
            "kimi",
            reasoning="reasoning_content", reasoning_keys=_CONTENT, reasoning_needed="OCX-KIMI-001",
            makers=r"kimi|moonshot",
            thoughtless=r"moonshot-v1.*|kimi-k2(-instruct|-\d{4}|-turbo).*", developer=False, no_words="null",
        ),
        # https://github.com/agentscope-ai/agentscope-java/issues/1270, vercel/ai packages/alibaba
        Profile(
            "qwen",
            reasoning="reasoning_content", reasoning_keys=_CONTENT, reasoning_turn="OCX-QWEN-007",
            makers=r"qwen|qwq|qvq",
            developer=False, developer_rule="OCX-QWEN-002", no_words="key", blind=r"(?!.*(vl|omni|qvq|ocr)).*",
            max_string=20_000_000, part_keys=frozenset({"cache_control"}),
            settings=frozenset({"store", "max_completion_tokens", "reasoning_effort"}),
        ),
        # https://github.com/vllm-project/vllm/issues/47761, https://github.com/microsoft/autogen/issues/1037
        Profile(
            "vllm",
            reasoning="reasoning_content", reasoning_keys=_CONTENT | {"reasoning"}, objects=True, alternate=True,
        ),
        # ollama/ollama openai/openai.go
        Profile(
            "ollama",
            reasoning="reasoning", reasoning_keys=frozenset({"reasoning"}), other_key="OCX-OLLAMA-006",
            objects=True, image_urls=False,
            image_types=frozenset({"image/jpeg", "image/png", "image/webp"}), files=False, sounds=False,
            other_parts=False, one_text=True, no_words="calls", refusal_key=True,
        ),
        # https://github.com/langchain-ai/langchain/issues/34140
        Profile("xai", no_words="string"),
        # https://github.com/janhq/jan/issues/8136, vercel/ai packages/groq
        Profile(
            "groq", reasoning="reasoning", reasoning_keys=frozenset({"reasoning"}), other_key="OCX-GROQ-002",
            makers=r".*",
        ),
        # https://openrouter.ai/docs/use-cases/reasoning-tokens
        Profile(
            "openrouter", reasoning="reasoning", reasoning_keys=frozenset({"reasoning", "reasoning_details"}),
            other_key="OCX-OPENROUTER-002",
            part_keys=frozenset({"cache_control"}),
        ),
    )
}  # fmt: skip


def profile_of(name: str | None) -> Profile | None:
    """The row of a profile's name, OpenAI's for None; None where there is no such profile."""
    return OPENAI if name is None else PROFILES.get(name)


def thinks(profile: Profile, model: str | None) -> bool:
    """Whether a model of this server reasons, as far as its name tells: one that no row knows is taken to."""
    return not (profile.thoughtless and model and re.fullmatch(profile.thoughtless, model.lower()))


def refuses_reasoning(profile: Profile, model: str | None) -> bool:
    """Whether this model of the server takes no reasoning in its input."""
    return bool(
        profile.refuses_reasoning and model and re.fullmatch(profile.refuses_reasoning, model.lower())
    )


def sees(profile: Profile, model: str | None) -> bool:
    """Whether this model takes pictures; without a name it is taken not to, where the server has both kinds."""
    return profile.blind is None or not re.fullmatch(profile.blind, (model or "").lower())


# ---------------------------------------------------------------- models of OpenAI

# Models that take neither system nor developer messages. https://github.com/openai/openai-python/issues/2047
_NO_INSTRUCTIONS: Final = re.compile(r"(?:.*/)?o1-(?:mini|preview)(?:-\d{4}-\d{2}-\d{2})?")
# Reasoning models, which call their instructions `developer`.
# SDK: types/chat/chat_completion_developer_message_param.py
_DEVELOPER: Final = re.compile(r"(?:.*/)?(?:o[1-9](?:\d*)?|gpt-(?:[5-9]|\d\d))(?:[-.].*)?")
_VERSION: Final = re.compile(r"(?:.*/)?gpt-(\d+)(?:\.(\d+))?(?![\d.])(?:-.*)?")
_OURS: Final = re.compile(r"(?:.*/)?(?:gpt-|chatgpt-|o[1-9]\b|ft:gpt-|codex-).*")
# Models that reason in Chat only without function tools, from this version on.
# https://github.com/pipecat-ai/pipecat/issues/4043
NO_EFFORT_WITH_TOOLS: Final = (5, 4)


def takes_instructions(model: str | None) -> bool:
    """Whether the model takes system or developer messages at all."""
    return model is None or _NO_INSTRUCTIONS.fullmatch(model) is None


def preferred_role(profile: Profile, model: str | None) -> str:
    """The role in which instructions from elsewhere are sent."""
    if not takes_instructions(model):
        return "user"
    return "developer" if profile.developer and model and _DEVELOPER.fullmatch(model) else "system"


def version(model: str) -> tuple[int, int] | None:
    """The version of a GPT model: `gpt-5.4-mini` -> (5, 4)."""
    found = _VERSION.fullmatch(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def is_openai(model: str) -> bool:
    """Whether a name is one of OpenAI's models."""
    return _OURS.fullmatch(model) is not None


def subject(name: str, arguments: str) -> str:
    """What seals the notice of a legacy call, which has no id on the wire."""
    return f"{name} {arguments}"
