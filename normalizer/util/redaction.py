"""Secrets are cut out of everything that is shown or logged: a table of patterns, one row a kind of secret.

A row may keep what stands before the secret (group `keep`). The net is cast wide: a word too much in
brackets costs nothing, a key in a log does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Secret:
    """One kind of secret, and how it looks."""

    name: str
    pattern: re.Pattern[str]


def _secret(name: str, pattern: str) -> Secret:
    return Secret(name, re.compile(pattern, re.DOTALL))


_NAMES: Final = (
    r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key"
    r"|private[_-]?key|auth(?:orization)?|credentials?|(?:set-)?cookie)"
)
# The quote behind a name, in JSON, in Python, and in JSON that stands inside another JSON text.
_ASSIGNED: Final = _NAMES + r"\\*[\"']?\s*(?:=|:)\s*"

SECRETS: Final = (
    _secret("private key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)"),
    _secret("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{8,}"),
    _secret("OpenAI key", r"\bsk-[A-Za-z0-9_-]{16,}"),
    _secret("Google key", r"\bAIza[A-Za-z0-9_-]{20,}"),
    _secret("Google token", r"\bya29\.[A-Za-z0-9._-]{16,}"),
    _secret("Google secret", r"\bGOCSPX-[A-Za-z0-9_-]{16,}"),
    _secret("AWS key id", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _secret("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    _secret("GitLab token", r"\bgl(?:pat|rt|dt|ptt)-[A-Za-z0-9_-]{16,}"),
    _secret("Slack token", r"\bxox[abceoprs]-[A-Za-z0-9-]{10,}"),
    _secret("Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _secret("Hugging Face token", r"\bhf_[A-Za-z0-9]{20,}"),
    _secret("model host key", r"\b(?:gsk_|xai-|pplx-|r8_|fw_|nvapi-|csk-)[A-Za-z0-9_-]{20,}"),
    _secret("package index token", r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,})"),
    _secret("SendGrid key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _secret("JSON Web Token", r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*"),
    _secret("bearer token", r"(?P<keep>\b(?i:bearer)\s+)[A-Za-z0-9._~+/=-]{8,}"),
    _secret("basic login", rf"(?P<keep>{_ASSIGNED}\\*[\"']?(?i:basic)\s+)[^\s\"'\\]+"),
    _secret("password in an address", r"(?P<keep>://[^\s/:@\"'\\]*:)[^\s/@\"'\\]+(?=@)"),
    _secret("secret value", rf"(?P<keep>{_ASSIGNED}(?P<q>[\"']))(?!\[redacted)(?:\\.|(?!(?P=q)).)+"),
    _secret("secret value", rf"(?P<keep>{_ASSIGNED}(?P<q>\\+[\"']))(?!\[redacted)(?:(?!(?P=q)).)+"),
    _secret(
        "secret value", rf"(?P<keep>{_ASSIGNED})(?!\[redacted|(?i:bearer|basic)\s|\\*[\"'{{\[])[^\s\"'&;\\]+"
    ),
)
"""Order matters: what a maker's own form recognises is named so, the general rows take what is left."""


def redact(text: str) -> str:
    """The text with every secret replaced by `[redacted: KIND]`."""
    for secret in SECRETS:
        text = secret.pattern.sub(lambda found, name=secret.name: _mask(found, name), text)  # type: ignore[misc]
    return text


def _mask(found: re.Match[str], name: str) -> str:
    keep = found.groupdict().get("keep") or ""
    return f"{keep}[redacted: {name}]"


# What the ids of calls look like: as the makers of models write them, and at all. `#2` is the second call of that id.
_USUAL_ID: Final = re.compile(r"(?:[a-z]+_)?(?:toolu|call|fc|ctc|tool)_[0-9A-Za-z_]{1,40}(?:#[0-9]+)?")
_ID: Final = re.compile(r"[0-9A-Za-z_.:|/#~-]{1,80}")
_LONGEST: Final = 40


def named(identifier: object) -> str:
    """An id between quotes, for a message. What does not look like one may hold anything: it is redacted and cut."""
    if not isinstance(identifier, str):
        return repr(identifier) if identifier is None else named(repr(identifier))
    if _USUAL_ID.fullmatch(identifier) is not None:
        return f"'{identifier}'"
    # Redacted before it is cut, with room, so that no secret is cut in half and slips through.
    shown = redact(identifier[:4096])
    if _ID.fullmatch(identifier) is None and len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST - 1]}…"
    return repr(shown)
