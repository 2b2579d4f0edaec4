"""A driver's answer is read strictly: nothing but one ready frame and one answer, with the right nonce, counts."""

from hypothesis import given
from hypothesis import strategies as st

from pace_async.evaluate.frames import read_answer
from pace_async.evaluate.inside.frame import ERROR, KINDS, READY, RESULT, frame

NONCE = "0123456789abcdef"
HELLO = frame(NONCE, READY, b"null")
kinds = st.sampled_from([kind for kind in KINDS if kind != READY])


@given(kinds, st.binary(max_size=300))
def test_one_ready_frame_and_one_answer_come_back_as_they_were(kind: str, payload: bytes) -> None:
    answer = read_answer(HELLO + frame(NONCE, kind, payload), NONCE)
    assert (answer.ready, answer.kind, answer.payload, answer.forged) == (True, kind, payload, None)


@given(kinds, st.binary(max_size=300), st.data())
def test_an_answer_cut_short_is_no_answer_and_no_forgery(kind: str, payload: bytes, data: st.DataObject) -> None:
    whole = HELLO + frame(NONCE, kind, payload)
    length = data.draw(st.integers(0, len(whole) - 1))
    answer = read_answer(whole[:length], NONCE)
    assert (answer.kind, answer.forged) == (None, None)
    assert answer.ready == (length >= len(HELLO))


@given(kinds, st.binary(max_size=300), st.binary(min_size=1, max_size=300))
def test_anything_after_an_answer_is_a_forgery(kind: str, payload: bytes, more: bytes) -> None:
    assert read_answer(HELLO + frame(NONCE, kind, payload) + more, NONCE).forged is not None


@given(st.binary(max_size=400))
def test_stray_bytes_are_never_an_answer(stray: bytes) -> None:
    answer = read_answer(HELLO + stray, NONCE)
    assert answer.kind is None


def test_a_wrong_nonce_an_unknown_kind_and_a_second_ready_frame_are_forgeries() -> None:
    assert read_answer(HELLO + frame("f" * 16, RESULT, b"[1]"), NONCE).forged == "a frame with the wrong nonce"
    assert read_answer(HELLO + frame(NONCE, "won", b"[1]"), NONCE).forged == "a frame of an unknown kind"
    assert read_answer(HELLO + HELLO, NONCE).forged == "more than one answer"
    assert read_answer(HELLO + frame(NONCE, ERROR, b"1") + frame(NONCE, RESULT, b"1"), NONCE).forged is not None


def test_a_length_that_is_no_number_is_a_forgery() -> None:
    for length in (b"-1", b"+3", b"1e3", b"", b"9" * 40):
        header = b"pace %s result %s\n" % (NONCE.encode(), length)
        assert read_answer(HELLO + header + b"[1]", NONCE).forged == "bytes that are no frame"
