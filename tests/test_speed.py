"""The fast constructor makes what the class itself makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from normalizer.facts import CallCompleted, ModelReplied
from normalizer.parts import Json, Text, ToolCall
from normalizer.util.speed import maker


@pytest.mark.parametrize(
    ("cls", "given"),
    [
        (Text, {"text": "Hi"}),
        (ToolCall, {"id": "toolu_1", "name": "read", "arguments": Json("{}"), "form": "custom"}),
        (ModelReplied, {"fact_id": "a", "seq": 1, "parts": (Text("Hi"),)}),
        (CallCompleted, {"fact_id": "a", "seq": 1, "call_id": "toolu_1", "is_error": True}),
    ],
)
def test_a_made_instance_is_one_of_the_class_itself(cls: type, given: dict[str, object]) -> None:
    made = maker(cls)(**given)
    assert type(made) is cls
    assert made == cls(**given)
    assert repr(made) == repr(cls(**given))
    with pytest.raises(FrozenInstanceError):
        made.kind = "other"


def test_parameters_stand_in_the_order_of_the_fields() -> None:
    assert maker(ToolCall)("toolu_1", "read", Json("{}")) == ToolCall("toolu_1", "read", Json("{}"))


def test_what_is_missing_or_too_much_is_refused() -> None:
    make = maker(Text)
    with pytest.raises(TypeError, match="text"):
        make()
    with pytest.raises(TypeError, match="other"):
        make("Hi", other=1)
