"""Ids of business operations, their idempotency keys, and what may be tried again.

An operation is what the world would see once (a page published, an invoice sent), however many calls it takes. Its id
and key are made once, go into the permit of each try, and are the same at every retry: a remote that knows the key does
not do it twice. What was started and whose end is not known is tried again only with a key, or after somebody looked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from normalizer.errors import StartRefused
from normalizer.util.text import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from normalizer.transcript import Call


@dataclass(frozen=True, slots=True)
class Operation:
    """One business operation. `idempotency_key` is None where the remote knows no such keys."""

    operation_id: str
    idempotency_key: str | None = None


def named(*names: str | int, keyed: bool = True) -> Operation:
    """The operation that the caller names in full (`named("c-42", "publish", "page-7", "revision-18")`).

    The same names give the same operation, in every process and every year; leave nothing out that makes it another.
    """
    if not names:
        raise ValueError("an operation needs at least one name")
    digest = hashlib.sha256(json_text(list(names)).encode()).hexdigest()
    return Operation(f"op_{digest[:32]}", f"key_{digest[32:]}" if keyed else None)


def of_call(call: Call) -> Operation | None:
    """The operation that the call's permit names; None where it names none."""
    for fact in call.facts:
        if fact.kind == "start_permitted" and fact.operation_id is not None:
            return Operation(fact.operation_id, fact.idempotency_key)
    return None


class Operations:
    """Operations by the caller's own names, with ids from a factory (by default random ones).

    What is on record is taken up with `remember`, so that a name keeps its id over a restart.
    """

    def __init__(self, make_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._make_id = make_id
        self._known: dict[str, Operation] = {}

    def of(self, name: str, *, keyed: bool = True) -> Operation:
        """The operation of this name, made the first time that it is asked for."""
        if name not in self._known:
            made = self._make_id()
            self._known[name] = Operation(made, made if keyed else None)
        return self._known[name]

    def remember(self, name: str, operation: Operation) -> Operation:
        """Bind a name to an operation on record. One that has another already is an error of the caller."""
        if self._known.setdefault(name, operation) != operation:
            raise ValueError(f"operation {name!r} is already {self._known[name].operation_id!r}")
        return operation


_LOOK: Final = "look at what it would have changed and record `effects_verified`, or name an idempotency key"

# Why a call is not tried again.
REFUSALS: Final[dict[str, str]] = {
    "still_running": "it may still be running; wait for its end or stop it first",
    "denied": "it was denied; ask for approval with a call of its own",
    "already_completed": "it was completed and its result is on record; to do it again, name another operation",
    "already_happened": "a check found that it had its effects; to do it again, name another operation",
    "retry_unverified": f"it was started and may have had effects, and has no idempotency key; {_LOOK}",
}
# The calls whose end, or whose effects, are not known.
_OPEN: Final = frozenset({"unknown", "cancelled_while_running"})


def retry(call: Call) -> Operation:
    """The operation for another try of this call: the same one. Raises `StartRefused` where a try could do harm.

    Where the call's permit named no operation, its retry gets one without a key, made from run and call.
    """
    operation = of_call(call)
    reason = _refusal(call, keyed=operation is not None and operation.idempotency_key is not None)
    if reason is not None:
        raise StartRefused(f"call {call.key!r} is not tried again: {REFUSALS[reason]}", reason=reason)
    return operation or named("run", call.run_id or "", "call", call.key, keyed=False)


def _refusal(call: Call, *, keyed: bool) -> str | None:
    kind, effects = call.outcome.kind, call.effects
    if kind in _OPEN:
        if keyed or effects == "none":
            return None
        return "already_happened" if effects == "verified" else "retry_unverified"
    if kind == "completed":
        return None if call.outcome.is_error else "already_completed"
    return {"pending": "still_running", "denied": "denied"}.get(kind)
