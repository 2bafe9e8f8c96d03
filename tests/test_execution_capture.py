"""What is kept of a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.execution.capture import Capture, readable, shortened

pieces = st.lists(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), max_size=20)


def captured(chunks: list[bytes], head: int, tail: int) -> Capture:
    capture = Capture(head, tail)
    for chunk in chunks:
        capture.feed(chunk)
    return capture


@given(pieces, st.integers(0, 60), st.integers(0, 60))
def test_text_is_whole_or_marked_and_can_always_be_stored(chunks: list[bytes], head: int, tail: int) -> None:
    whole = b"".join(chunks)
    capture = captured(chunks, head, tail)
    text = capture.text()
    text.encode()
    assert "\0" not in text
    assert capture.truncated == (len(whole) > head + tail)
    if not capture.truncated:
        assert text == readable(whole)
    else:
        assert "bytes left out …]" in text


@given(pieces, st.integers(0, 60), st.integers(0, 60))
def test_pieces_joined_say_what_the_whole_says(chunks: list[bytes], head: int, tail: int) -> None:
    capture, told = Capture(head, tail), ""
    for chunk in chunks:
        capture.feed(chunk)
        told += capture.take()
    told += capture.rest()
    assert not capture.untold
    if not capture.truncated:
        assert told == readable(b"".join(chunks))


@given(st.text(alphabet="aé€😀", min_size=40, max_size=200), st.integers(8, 40))
def test_no_character_is_cut_in_half(text: str, limit: int) -> None:
    short, cut = shortened(text, limit)
    assert cut == (len(text.encode()) > limit)
    assert "\ufffd" not in short
    if cut:
        before, _, after = short.partition("\n[… ")
        assert text.startswith(before)
        assert text.endswith(after.partition(" bytes left out …]\n")[2])
        left_out = int(after.split(" ")[0])
        kept = len(before.encode()) + len(after.partition(" bytes left out …]\n")[2].encode())
        assert left_out + kept == len(text.encode())


@pytest.mark.parametrize("piece", [b"x" * 100_000, b"y" * 7])
def test_memory_is_bounded_however_long_the_stream(piece: bytes) -> None:
    capture = captured([piece] * 3000 if len(piece) > 7 else [piece] * 60_000, 100, 100)
    assert len(capture._tail) <= 200 + 65_536 + len(piece)
    assert capture.total == len(piece) * (3000 if len(piece) > 7 else 60_000)
    assert capture.text().startswith(chr(piece[0]) * 100)
