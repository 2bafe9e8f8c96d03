"""Server-sent events cut into frames, whatever the size of the pieces in which they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.reading.sse import Frames

TEXT = 'event: a\ndata: {"x": 1}\n\n: a comment\nid: 7\ndata: one\ndata:two\n\nretry: 5\n\ndata: æ€😀\n\n'
DATA = ['{"x": 1}', "one\ntwo", "æ€😀"]


def taken(*chunks: str | bytes) -> list[tuple[str, bool]]:
    frames = Frames()
    return [found for chunk in chunks for found in frames.take(chunk)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_each_line_end_and_a_byte_order_mark(end: str, mark: bytes) -> None:
    wire = mark + TEXT.replace("\n", end).encode()
    if end == "\r":
        wire += b":"  # a last CR waits for what comes behind it
    assert taken(wire) == [(data, True) for data in DATA]


@given(st.lists(st.integers(0, len(TEXT.encode())), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_pieces_of_any_size(cuts: list[int], end: str) -> None:
    wire = TEXT.replace("\n", end).encode()
    borders = [0, *sorted(cuts), len(wire)]
    pieces = [wire[a:b] for a, b in pairwise(borders)]
    assert taken(*pieces) == [(data, True) for data in DATA]


def test_a_frame_is_not_handed_out_before_its_end() -> None:
    frames = Frames()
    assert list(frames.take('event: a\ndata: {"x"')) == []
    assert frames.unfinished == 'event: a\ndata: {"x"'
    assert list(frames.take(": 1}\n")) == []
    assert list(frames.take("\n")) == [('{"x": 1}', True)]
    assert frames.unfinished == ""


def test_half_a_character_is_unfinished() -> None:
    frames = Frames()
    assert list(frames.take(b"data: \xe2\x82")) == []
    assert frames.unfinished.startswith("data: ")
    assert list(frames.take(b"\xac\n\n")) == [("€", True)]


def test_a_json_text_alone_is_the_data_of_a_frame() -> None:
    assert taken('{"x": 1}', b'\n{"x": 2}') == [('{"x": 1}', True), ('\n{"x": 2}', True)]


def test_a_line_that_is_no_sse_is_handed_out_as_such() -> None:
    assert taken("HTTP/1.1 502\ndata: x\n\n") == [("HTTP/1.1 502", False), ("x", True)]
