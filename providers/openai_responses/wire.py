"""Names and limits of the OpenAI Responses wire, as data.

Sources: the types of the openai SDK 3.57.0 (`types/responses/response_input_item_param.py` unless another is named)
and the OpenAPI description published beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

PROVIDER: Final = "openai"
API: Final = "openai_responses"


@dataclass(frozen=True, slots=True)
class Item:
    """One type of item: the keys that it must have, those it may have, and which of them may be null.

    `prefix` is what its ids begin with, None where nothing is known of them.
    """

    required: frozenset[str]
    optional: frozenset[str]
    nullable: frozenset[str]
    prefix: str | None = None

    @property
    def keys(self) -> frozenset[str]:
        """All keys that the API knows."""
        return self.required | self.optional | {"type"}


def _item(required: str, optional: str = "", nullable: str = "", prefix: str | None = None) -> Item:
    return Item(frozenset(required.split()), frozenset(optional.split()), frozenset(nullable.split()), prefix)


# What the SDK demands of reasoning and assistant messages beyond this, the API does not: an id beside ciphertext,
# id and status of a message.
ITEMS: Final[dict[str, Item]] = {
    "message": _item("role content", "id status phase", "phase", "msg"),
    "reasoning": _item("summary", "id encrypted_content content status", "encrypted_content", "rs"),
    "function_call": _item("call_id name arguments", "id async caller namespace status", "caller", "fc"),
    "function_call_output": _item(
        "output", "call_id id caller name namespace status", "call_id id caller name namespace status"
    ),
    "custom_tool_call": _item("call_id name input", "id async caller namespace", "caller", "ctc"),
    "custom_tool_call_output": _item("call_id output", "id caller", "caller"),
    "computer_call": _item("id call_id pending_safety_checks status", "action actions", "", "cu"),
    "computer_call_output": _item(
        "call_id output", "id acknowledged_safety_checks status", "id acknowledged_safety_checks status"
    ),
    "shell_call": _item("call_id action", "id caller environment status", "id caller environment status", "sh"),
    "shell_call_output": _item(
        "call_id output", "id caller max_output_length status", "id caller max_output_length status"
    ),
    "local_shell_call": _item("id call_id action status", "", "", "lsh"),
    "local_shell_call_output": _item("output", "id call_id status", "status"),
    "apply_patch_call": _item("call_id operation status", "id caller", "id caller", "apc"),
    "apply_patch_call_output": _item("call_id status", "id caller output", "id caller output"),
    "tool_search_call": _item("arguments", "id call_id execution status", "id call_id status", "tsc"),
    "tool_search_output": _item("tools", "id call_id execution status", "id call_id status"),
    "web_search_call": _item("id status action", "", "", "ws"),
    "file_search_call": _item("id status queries", "results", "results", "fs"),
    "code_interpreter_call": _item("id status code container_id outputs", "", "code outputs", "ci"),
    "image_generation_call": _item(
        "id status result", "action background error output_format quality revised_prompt size svg_usage",
        "result action background output_format quality revised_prompt size", "ig",
    ),
    "mcp_call": _item(
        "id server_label name arguments", "status output error approval_request_id", "output error approval_request_id",
        "mcp",
    ),
    "mcp_list_tools": _item("id server_label tools", "error", "error", "mcpl"),
    "mcp_approval_request": _item("id server_label name arguments", "", "", "mcpr"),
    "mcp_approval_response": _item("approval_request_id approve", "id reason", "id reason"),
    "program": _item("id call_id code fingerprint"),
    "program_output": _item("id call_id result status"),
    "compaction": _item("encrypted_content", "id", "id", "cmp"),
    "compaction_trigger": _item("", "id", "id"),
    "configuration_update": _item("", "id reasoning text", "id"),
    "additional_tools": _item("role tools", "id", "id"),
    "item_reference": _item("id", "", "type"),
}  # fmt: skip

OUTPUT_ONLY: Final = frozenset({"created_by", "parsed", "parsed_arguments", "index"})
"""Keys of response objects that no input takes. SDK: types/responses/parsed_response.py"""

# Which output item answers a call of the client's, and the key that names the call in it.
ANSWERS: Final[dict[str, str]] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
}
OUTPUTS: Final[dict[str, str]] = {output: call for call, output in ANSWERS.items()}

HOSTED: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Calls that the server runs and that hold their result."""
TERMINAL: Final = frozenset({"completed", "failed", "incomplete"})
"""The statuses with which the server ends a hosted call."""
NEEDS_ID: Final = HOSTED | {
    "computer_call", "local_shell_call", "mcp_list_tools", "mcp_approval_request", "program", "program_output",
}  # fmt: skip
"""Items whose id cannot be left out."""

ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
INPUT_PARTS: Final = frozenset({"input_text", "input_image", "input_file"})
OUTPUT_PARTS: Final = frozenset({"output_text", "refusal"})
PART_KEYS: Final[dict[str, frozenset[str]]] = {
    "input_text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "input_image": frozenset({"type", "detail", "file_id", "image_url", "prompt_cache_breakpoint"}),
    "input_file": frozenset(
        {"type", "detail", "file_id", "file_url", "file_data", "filename", "prompt_cache_breakpoint"}
    ),
    "output_text": frozenset({"type", "text", "annotations", "logprobs"}),
    "refusal": frozenset({"type", "refusal"}),
}
PHASES: Final = frozenset({"commentary", "final_answer"})
SERVER_ENVIRONMENTS: Final = frozenset({"container_reference"})
"""Environments of a `shell_call` that the server runs."""

ITEM_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
CALL_ID: Final = re.compile(r"(?s:.{1,64})")
TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_ID: Final = 64
MAX_TEXT: Final = 10_485_760
MAX_IMAGE_URL: Final = 20_971_520
MAX_FILE_DATA: Final = 73_400_320
MAX_CONVERSATION_ITEMS: Final = 20
MIN_OUTPUT_TOKENS: Final = 16

IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""Pictures by value. https://developers.openai.com/api/docs/guides/images-vision"""

_MODEL: Final = re.compile(
    r"(?:.*[/:])?(?:gpt|chatgpt|o\d|codex|computer-use)(?![a-z])[\w.-]*", re.IGNORECASE
)


def is_own(model: str) -> bool:
    """Whether a model is one of OpenAI's, by its name."""
    return _MODEL.fullmatch(model) is not None


# Types of blocks of other wires, and of this one where the block is broken: such an opaque part is no item of this API.
FOREIGN: Final = frozenset(
    {
        "", "thinking", "redacted_thinking", "text", "image", "document", "tool_use", "tool_result", "server_tool_use",
        "mcp_tool_use", "mcp_tool_result", "image_url", "input_audio", "file", "audio", "tool_calls", "tool_call",
        "tool-call", "tool-result", "container_upload", "search_result", "fallback", "connector_text", "json",
    }
)  # fmt: skip
