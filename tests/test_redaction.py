"""Secrets do not get into messages or logs; ordinary words do."""

from __future__ import annotations

import pytest

import normalizer
from normalizer.util.redaction import named, redact

# Made up, and put together here so that no scanner takes this file for a leak.
LETTERS = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
PRIVATE_KEY = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{LETTERS}\n{LETTERS}\n-----END RSA {'PRIVATE'} KEY-----"

SECRETS = {
    "anthropic": f"sk-ant-api03-{LETTERS}",
    "openai": f"sk-proj-{LETTERS}",
    "google": f"AIza{LETTERS}",
    "google token": f"ya29.{LETTERS}",
    "aws": "AKIA" + LETTERS.upper()[:16],
    "github": f"ghp_{LETTERS}",
    "github fine": f"github_pat_{LETTERS}",
    "gitlab": f"glpat-{LETTERS}",
    "slack": f"xoxb-12345678901-{LETTERS}",
    "stripe": f"sk_live_{LETTERS}",
    "hugging face": f"hf_{LETTERS}",
    "groq": f"gsk_{LETTERS}",
    "npm": f"npm_{LETTERS}",
    "jwt": f"eyJ{LETTERS}.eyJ{LETTERS}.{LETTERS}",
    "private key": PRIVATE_KEY,
    "cut private key": PRIVATE_KEY[:60],
}
VALUES = {
    "bearer": "Authorization: Bearer {}",
    "basic": "Authorization: Basic {}",
    "address": "postgresql://app:{}@db.example.test/shop",
    "shell": "export DB_PASSWORD={}",
    "json": '{{"password": "{}", "user": "app"}}',
    "json in json": '{{"arguments": "{{\\"api_key\\": \\"{}\\"}}"}}',
    "python": "client(token='{}')",
    "yaml": "client_secret: {}",
    "query": "https://example.test/x?access_key={}&page=2",
    "header": "Set-Cookie: {}",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_makers_key_is_recognised_by_its_form(secret: str) -> None:
    shown = redact(f"before {secret} after")
    assert secret not in shown
    assert LETTERS[4:20] not in shown
    assert shown.startswith("before [redacted: ")


@pytest.mark.parametrize("form", VALUES.values(), ids=VALUES)
def test_a_value_that_is_called_a_secret_is_one(form: str) -> None:
    shown = redact(form.format("hunter2-and-more"))
    assert "hunter2" not in shown
    assert "more" not in shown
    assert "[redacted: " in shown


def test_what_stands_around_a_secret_stays() -> None:
    assert (
        redact('{"password": "a b, c\\" d", "user": "app"}')
        == '{"password": "[redacted: secret value]", "user": "app"}'
    )
    assert redact("postgresql://app:pw@db/x") == "postgresql://app:[redacted: password in an address]@db/x"
    assert redact("PASSWORD=abc\\nNEXT=1") == "PASSWORD=[redacted: secret value]\\nNEXT=1"


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 4096, "usage": {"input_tokens": 9}}',
        "the token bucket and the bearer of news",
        "see https://example.test/a/b?page=2",
        "toolu_01AbCdEfGhIjKlMnOpQrStUv",
        "a secret is no secret once told",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_redacting_twice_changes_nothing() -> None:
    everything = "\n".join(
        [*SECRETS.values(), *(form.format("hunter2-and-more") for form in VALUES.values())]
    )
    assert redact(redact(everything)) == redact(everything)


USUAL = ["toolu_01AbC", "call_0", "call_0#2", "srvtoolu_1", "fc_12", "/messages/1:0", "9chars_-:", "x" * 80]
ODD = ["x" * 81, "a id", "id\n\x1b[2J", "\u202eid", "", "naïve", "half \ud800"]


@pytest.mark.parametrize("identifier", USUAL)
def test_what_looks_like_an_id_is_told_whole(identifier: str) -> None:
    assert named(identifier) == repr(identifier)


@pytest.mark.parametrize("identifier", ODD)
def test_what_does_not_look_like_an_id_is_short_and_plain(identifier: str) -> None:
    shown = named(identifier)
    assert len(shown) <= 60
    assert shown.isprintable()
    assert shown.encode()


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("frame", ["{}", "call {}", "words " * 6 + "{}"])
def test_an_id_shows_no_secret(secret: str, frame: str) -> None:
    assert LETTERS[-8:] not in named(frame.format(secret))
    assert LETTERS[:12] not in named(frame.format(secret))


def test_no_message_shows_a_secret_that_stands_in_an_id() -> None:
    secret = f"sk-ant-api03-{LETTERS}"
    calls = [
        {"type": "tool_use", "id": i, "name": "f", "input": {}} for i in (secret, "a" * 90 + " b", "toolu_1")
    ]
    replies = [{"role": "assistant", "content": [call, *calls]} for call in calls]
    result = {"type": "tool_result", "tool_use_id": secret, "content": "x"}
    orphan = {"type": "tool_result", "tool_use_id": f"{secret}2", "content": "x"}
    user = {"role": "user", "content": [{"type": "text", "text": "u"}, result, result, orphan]}
    given = [{"role": "user", "content": "u"}, replies[0], user, *replies[1:], user]
    for target in ("anthropic", "openai_chat", "openai_responses"):
        repaired = normalizer.repair(given, format="anthropic", to=target)
        messages = [found.message for found in (*repaired.findings, *repaired.adjustments)]
        messages += [found.message for found in normalizer.check({"messages": given}, "anthropic")]
        assert len(messages) > 10
        for message in messages:
            assert LETTERS[-8:] not in message
            assert "a" * 60 not in message
    with pytest.raises(normalizer.OpenCalls) as caught:
        raise normalizer.OpenCalls([secret])
    assert LETTERS[-8:] not in str(caught.value)
