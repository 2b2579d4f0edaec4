"""A driver's answer is read strictly: nothing counts but the frames that are due, in order, with the right nonce."""

from hypothesis import given
from hypothesis import strategies as st

from pace_async.evaluate.sandbox.converse import Answers
from pace_async.evaluate.sandbox.inside.frame import ECHO, ERROR, KINDS, LOADED, READY, RESULT, frame

NONCE = "0123456789abcdef"
HELLO = frame(NONCE, READY, b"null") + frame(NONCE, LOADED, b"null")
endings = st.sampled_from([kind for kind in KINDS if kind not in (READY, ECHO, LOADED, RESULT)])
payloads = st.binary(max_size=300)


def heard(data: bytes, instances: int = 1, echoes: int = 0, given: int | None = None) -> Answers:
    """What the bytes say, if that many instances had been given before they came."""
    answers = Answers(NONCE, instances, echoes)
    answers.given = instances if given is None else given
    answers.read_on(data)
    return answers


@given(st.lists(payloads, min_size=1, max_size=4), st.integers(0, 3))
def test_echoes_and_one_result_for_each_instance_are_read_back(outputs: list[bytes], echoes: int) -> None:
    data = frame(NONCE, ECHO, b"1") * echoes + HELLO + b"".join(frame(NONCE, RESULT, output) for output in outputs)
    answers = heard(data, len(outputs), echoes)
    assert (answers.ready, answers.loaded, answers.outputs) == (True, True, outputs)
    assert (answers.echoed, answers.failure, answers.forged) == (echoes, None, None)


@given(endings, payloads)
def test_a_failure_is_kept_with_its_reason(kind: str, payload: bytes) -> None:
    answers = heard(HELLO + frame(NONCE, kind, payload))
    assert (answers.outputs, answers.failure, answers.reason, answers.forged) == ([], kind, payload, None)


@given(payloads, st.data())
def test_a_partial_answer_is_no_forgery_and_is_complete_with_its_rest(payload: bytes, data: st.DataObject) -> None:
    whole = HELLO + frame(NONCE, RESULT, payload)
    length = data.draw(st.integers(0, len(whole) - 1))
    answers = heard(whole[:length])
    assert (answers.outputs, answers.failure, answers.forged) == ([], None, None)
    answers.read_on(whole)
    assert (answers.outputs, answers.forged) == ([payload], None)


@given(st.sampled_from([RESULT, ERROR]), payloads, st.binary(min_size=6, max_size=300))
def test_anything_after_the_last_answer_is_a_forgery(kind: str, payload: bytes, more: bytes) -> None:
    data = HELLO + frame(NONCE, kind, payload)
    assert heard(data + b"\0" * 6 + more).forged is not None
    assert heard(data + frame(NONCE, RESULT, more)).forged == "more than one answer"


@given(st.binary(max_size=400))
def test_stray_bytes_are_never_an_answer(stray: bytes) -> None:
    answers = heard(stray)
    assert (answers.outputs, answers.failure) == ([], None)


def test_a_result_that_comes_before_its_instance_was_given_is_a_forgery() -> None:
    data = HELLO + frame(NONCE, RESULT, b"1")
    assert heard(data, instances=2, given=1).forged is None
    assert heard(data, instances=2, given=0).forged == "a frame before its time"
    assert heard(data + frame(NONCE, RESULT, b"2"), instances=2, given=1).forged == "more than one answer"


def test_frames_out_of_order_a_wrong_nonce_and_an_unknown_kind_are_forgeries() -> None:
    ready, loaded, echo = (frame(NONCE, kind, b"1") for kind in (READY, LOADED, ECHO))
    for data in (loaded, ready + ready, HELLO + loaded, ready + echo, frame(NONCE, ERROR, b"1"), echo):
        assert heard(data).forged == "a frame before its time"
    assert heard(ready, echoes=1).forged == "a frame before its time"
    assert heard(HELLO + frame("f" * 16, RESULT, b"[1]")).forged == "a frame with the wrong nonce"
    assert heard(HELLO + frame(NONCE, "won", b"[1]")).forged == "a frame of an unknown kind"


def test_a_length_that_is_no_number_is_a_forgery() -> None:
    for length in (b"-1", b"+3", b"1e3", b"", b"9" * 40):
        header = b"pace %s result %s\n" % (NONCE.encode(), length)
        assert heard(HELLO + header + b"[1]").forged == "bytes that are not a frame"
