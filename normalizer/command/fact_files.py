"""A host's facts from a file of JSON Lines, each line checked against `schemas/fact.json`.

A host writes these by hand or from its own records, so what is wrong is told exactly: the line, the field and
what was expected there. What every fact has but a host need not know (`fact_id`, `seq`, `at`, `source`,
`turn_id`) may be left out; the repair fills it in.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from normalizer.errors import UnreadableInput
from normalizer.schemas import schema
from normalizer.util.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MAY_BE_MISSING: Final = frozenset({"fact_id", "seq", "at", "source", "turn_id"})
"""Fields of every fact that a host may leave out."""


def load(data: bytes) -> tuple[dict[str, Any], ...]:
    """The host's facts. Raises UnreadableInput that names the line, the field and what was expected."""
    return tuple(
        _checked(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()
    )


def faults(fact: Any) -> Iterator[tuple[str, str]]:
    """What keeps a value from being a host's fact: JSON pointer and message, nothing where it is one."""
    if not isinstance(fact, dict):
        yield "", f"a fact is a JSON object, not {_name(fact)}"
        return
    kind = fact.get("kind")
    if not isinstance(kind, str) or kind not in _kinds():
        yield "/kind", _unknown_word(kind, tuple(_kinds()), "kind of fact", missing="kind" not in fact)
        return
    for error in sorted(
        _validator(kind).iter_errors(fact), key=lambda found: list(map(str, found.absolute_path))
    ):
        yield from _explain(error)


def _checked(number: int, line: bytes) -> dict[str, Any]:
    try:
        fact = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8 text, or nested too deeply"
        raise UnreadableInput(
            f"line {number}: not JSON ({why.lower()}); a fact is one JSON object on one line", line=number
        ) from None
    for pointer, message in faults(fact):
        raise UnreadableInput(f"line {number}, {pointer or '/'}: {message}", line=number, pointer=pointer)
    return fact  # type: ignore[no-any-return]  # an object: `faults` saw to it


@cache
def _kinds() -> dict[str, str]:
    """Kind of fact -> its place in the schema."""
    mapping: dict[str, str] = schema("fact")["discriminator"]["mapping"]
    return mapping


@cache
def _validator(kind: str) -> Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - heavy, and only hand-written facts need it

    whole = schema("fact")
    own = dict(whole["$defs"][_kinds()[kind].rpartition("/")[2]])
    own["required"] = [name for name in own["required"] if name not in MAY_BE_MISSING]
    return Draft202012Validator({**own, "$defs": whole["$defs"]})


def _explain(error: ValidationError) -> Iterator[tuple[str, str]]:
    """One fault, or, where one of several forms was asked for, the fault in the form that was meant."""
    meant = _meant(error)
    if meant:
        for inner in meant:
            yield from _explain(inner)
        return
    tell = _MESSAGES.get(str(error.validator), lambda found: found.message)
    for step, message in _spread(error, tell):
        pointer = "".join(
            f"/{str(s).replace('~', '~0').replace('/', '~1')}" for s in (*error.absolute_path, *step)
        )
        yield pointer, excerpt(message, 300)


def _meant(error: ValidationError) -> list[ValidationError]:
    """The inner errors of the one form that a value was meant to have, by its `kind` or by its JSON type."""
    forms: dict[int, list[ValidationError]] = {}
    for inner in error.context or ():
        forms.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
    fits = [
        found for found in forms.values()
        if not any(_wrong_form(inner, error) for inner in found)
    ]  # fmt: skip
    return fits[0] if len(fits) == 1 else []


def _wrong_form(inner: ValidationError, outer: ValidationError) -> bool:
    """Whether this says that another form was meant, not that something is wrong within the form."""
    here = len(inner.absolute_path) - len(outer.absolute_path)
    if inner.validator == "type" and here == 0:
        return True
    return inner.validator == "const" and here == 1 and inner.absolute_path[-1] == "kind"


def _spread(
    error: ValidationError, tell: Callable[[ValidationError], str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Missing and unknown fields, each at its own place."""
    known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties":
        for name in [name for name in error.instance if name not in known]:
            yield (str(name),), _unknown_word(name, tuple(known), "field here", missing=False)
    elif error.validator == "required":
        missing = next(name for name in error.validator_value if f"{name!r} is a required" in error.message)
        yield (missing,), f"the field {missing!r} is missing; expected {_expected(known.get(missing, {}))}"
    else:
        yield (), tell(error)


def _no_such_part(error: ValidationError) -> str:
    """A part of a kind that does not stand here."""
    kinds = (
        tuple(error.schema.get("discriminator", {}).get("mapping", {}))
        if isinstance(error.schema, dict)
        else ()
    )
    if isinstance(error.instance, dict) and kinds:
        untold = "kind" not in error.instance
        return _unknown_word(error.instance.get("kind"), kinds, "kind of part here", missing=untold)
    return f"expected a part, an object whose 'kind' is one of {_words(kinds)}; found {_name(error.instance)}"


_MESSAGES: Final[dict[str, Callable[[ValidationError], str]]] = {
    "type": lambda e: f"expected {_expected({'type': e.validator_value})}, found {_name(e.instance)}",
    "const": lambda e: f"expected {e.validator_value!r}, found {_name(e.instance)}",
    "enum": lambda e: f"expected one of {_words(e.validator_value)}, found {_name(e.instance)}",
    "anyOf": lambda e: f"expected {_expected(e.schema)}, found {_name(e.instance)}",
    "oneOf": _no_such_part,
}


def _unknown_word(word: Any, known: tuple[str, ...], what: str, *, missing: bool) -> str:
    if missing:
        return f"the field 'kind' is missing; expected one of {_words(known)}"
    near = get_close_matches(str(word), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {_words(known)}"
    return f"{word!r} is no {what}; {hint}"


def _expected(form: Any) -> str:
    """A schema in words."""
    if not isinstance(form, dict):
        return "something else"
    for several in ("anyOf", "oneOf"):
        if several in form:
            return " or ".join(dict.fromkeys(_expected(one) for one in form[several]))
    if "const" in form:
        return repr(form["const"])
    if "enum" in form:
        return f"one of {_words(form['enum'])}"
    if "$ref" in form:
        return f"a {form['$ref'].rpartition('/')[2]} object"
    return _TYPES.get(str(form.get("type")), "a JSON value")


_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _words(words: Any) -> str:
    return ", ".join(repr(word) for word in words)


def _name(value: Any) -> str:
    """What a JSON value is, for a message."""
    if isinstance(value, str):
        return f"the text {excerpt(value, 40)!r}"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "an object"
