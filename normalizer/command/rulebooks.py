"""Rules on the command line: the list of them, and one explained."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from normalizer import registry
from normalizer.command import console
from normalizer.util.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from normalizer.rules import Rule


def tell_all(apis: Iterable[str], *, as_json: bool) -> None:
    """A line for each rule of these APIs, or all that is known of them as JSON."""
    books = [(api, registry.provider(api).rules) for api in apis]
    if as_json:
        listed = [_as_dict(api, rule) for api, book in books for rule in book]
        console.emit(json_text(listed).encode() + b"\n")
        return
    for api, book in books:
        console.say(f"{api}: {len(book)} rules; `transcript-normalizer explain RULE` says more about one")
        for rule in book:
            console.say(f"  {rule.id:<14} {rule.severity:<10} {rule.statement}")


def tell(name: str, *, as_json: bool) -> str | None:
    """Explain the rule with this id or name. Where there is none, nothing is said: a hint comes back."""
    rules = [(api, rule) for api in registry.targets() for rule in registry.provider(api).rules]
    found = [(api, rule) for api, rule in rules if name.lower() in (rule.id.lower(), rule.name.lower())]
    if not found:
        known = [word for _, rule in rules for word in (rule.id, rule.name)]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        return f"did you mean {', '.join(near)}?" if near else "`transcript-normalizer rules` lists them"
    for api, rule in found:
        if as_json:
            console.emit(json_text(_as_dict(api, rule)).encode() + b"\n")
        else:
            _explain(api, rule)
    return None


def _as_dict(api: str, rule: Rule) -> dict[str, Any]:
    return {
        "api": api,
        "id": rule.id,
        "name": rule.name,
        "severity": rule.severity,
        "statement": rule.statement,
        "explanation": rule.explanation,
        "source": rule.source,
        "error": rule.error,
        "static": rule.static,
        "applies": rule.applies,
    }


def _explain(api: str, rule: Rule) -> None:
    console.say(f"{rule.id} ({rule.name}), {api}, {rule.severity}")
    console.say(rule.statement)
    for line in rule.explanation.splitlines():
        console.say(line)
    if rule.applies:
        console.say(f"Applies: {rule.applies}")
    console.say(f"Source: {rule.source}")
    if rule.error:
        console.say(f"The API says: {rule.error}")
