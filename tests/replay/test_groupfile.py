"""The group file: what goes in comes out, and what must not be trained on never gets in."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.events import AdvisorCall, TokenSpan
from pace_async.replay.groupfile import (
    Group,
    TrainedCall,
    TrainedRollout,
    group_digest,
    group_path,
    read_digested,
    write_group,
)

CALL = TrainedCall((3, 4), (5, 6), (-0.5, -1.25), (1, 2))


def group(*rollouts: TrainedRollout, update: int = 2) -> Group:
    return Group(1, update, "pace", 0.25, 2, rollouts or (TrainedRollout(4, 1.5, 2.0, (CALL,)),))


tokens = st.integers(0, 200_000)
versions = st.integers(3, 5)


@st.composite
def calls(draw: st.DrawFn) -> TrainedCall:
    length = draw(st.integers(1, 5))
    floats = st.floats(-1e6, 0, allow_nan=False)
    return TrainedCall(
        tuple(draw(st.lists(tokens, min_size=1, max_size=5))),
        tuple(draw(st.lists(tokens, min_size=length, max_size=length))),
        tuple(draw(st.lists(floats, min_size=length, max_size=length))),
        tuple(draw(st.lists(versions, min_size=length, max_size=length))),
    )


@st.composite
def groups(draw: st.DrawFn) -> Group:
    leases = sorted(draw(st.sets(st.integers(1, 99), min_size=1, max_size=4)))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    return Group(
        draw(st.integers(1, 99)),
        5,
        draw(st.sampled_from(["pace", "grpo"])),
        draw(st.floats(0, 1)),
        2,
        tuple(
            TrainedRollout(
                lease,
                draw(finite),
                draw(finite),
                tuple(draw(st.lists(calls(), min_size=1, max_size=3))),
            )
            for lease in leases
        ),
    )


@settings(max_examples=60, deadline=None)
@given(groups())
def test_a_group_read_back_is_the_group_written_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, written: Group
) -> None:
    path = tmp_path_factory.mktemp("groups") / "000001.safetensors"
    digest = write_group(path, written)
    assert read_digested(path) == (written, digest)
    assert digest == group_digest(written)
    assert [entry.name for entry in path.parent.iterdir()] == ["000001.safetensors"]


def test_the_digest_tells_groups_apart_by_any_value_and_is_the_same_for_equal_groups() -> None:
    first = group()
    others = [
        replace(first, number=2),
        replace(first, update=3),
        replace(first, alpha=0.5),
        replace(first, objective="grpo"),
        group(TrainedRollout(5, 1.5, 2.0, (CALL,))),
        group(TrainedRollout(4, 1.25, 2.0, (CALL,))),
        group(TrainedRollout(4, 1.5, 1.0, (CALL,))),
        group(TrainedRollout(4, 1.5, 2.0, (replace(CALL, versions=(2, 2)),))),
        group(TrainedRollout(4, 1.5, 2.0, (replace(CALL, logprobs=(-0.5, -1.0)),))),
        group(TrainedRollout(4, 1.5, 2.0, (replace(CALL, prompt_ids=(4, 3)),))),
        group(TrainedRollout(4, 1.5, 2.0, (replace(CALL, prompt_ids=(3,), completion_ids=(4, 5)),))),
    ]
    assert len({group_digest(other) for other in [first, *others]}) == len(others) + 1
    assert group_digest(group()) == group_digest(first)


@pytest.mark.fault("Disk, everywhere", "a byte flipped in a group file is noticed before it is trained on")
def test_a_file_with_any_changed_byte_is_refused_by_name(tmp_path: Path) -> None:
    path = group_path(tmp_path, 1)
    write_group(path, group())
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"000001\.safetensors is "):
            read_digested(path)


def test_a_file_cut_short_or_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "group.safetensors"
    write_group(path, group())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"group\.safetensors is damaged"):
        read_digested(path)
    path.write_text("not a group")
    with pytest.raises(ValueError, match=r"group\.safetensors is damaged"):
        read_digested(path)


@pytest.mark.parametrize("logprob", [math.nan, -math.inf, math.inf, 0.01])
def test_a_logprob_that_no_sampled_token_has_is_refused(logprob: float) -> None:
    with pytest.raises(ValueError, match="not the logprob"):
        replace(CALL, logprobs=(-0.5, logprob))


def test_float32_rounding_just_above_zero_is_still_a_logprob() -> None:
    assert replace(CALL, logprobs=(-0.5, 1e-7)).logprobs == (-0.5, 1e-7)


def test_an_empty_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        TrainedCall((1,), (), (), ())


def test_values_that_do_not_match_the_answers_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 answer tokens with 1 logprobs"):
        replace(CALL, logprobs=(-0.5,))
    with pytest.raises(ValueError, match="3 versions"):
        replace(CALL, versions=(1, 1, 1))


@pytest.mark.parametrize("advantage", [math.nan, math.inf, -math.inf])
def test_an_advantage_that_is_not_finite_is_refused(advantage: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        TrainedRollout(4, advantage, 2.0, (CALL,))


def test_a_rollout_staler_than_the_bound_by_its_oldest_token_is_refused() -> None:
    assert group(update=3).rollouts[0].oldest_version == 1
    with pytest.raises(ValueError, match="lease 4 is 3 versions stale, bound 2"):
        group(update=4)


def test_a_token_from_a_version_that_does_not_exist_yet_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2 is later than 1"):
        group(update=1)


def test_leases_out_of_order_or_twice_are_refused() -> None:
    first, second = TrainedRollout(1, 1.0, 0.0, (CALL,)), TrainedRollout(2, 1.0, 0.0, (CALL,))
    assert group(first, second).leases == (1, 2)
    for wrong in ((second, first), (first, first)):
        with pytest.raises(ValueError, match="leases must ascend"):
            group(*wrong)


def test_spans_of_an_advisors_call_become_one_version_for_each_token() -> None:
    call = AdvisorCall("propose", (1,), (2, 3, 4), (-1.0,) * 3, (TokenSpan(5, 2, 3), TokenSpan(4, 0, 2)), "text", 0.1)
    assert TrainedCall.of(call).versions == (4, 4, 5)
    with pytest.raises(ValueError, match="gap or overlap at token 1"):
        TrainedCall.of(replace(call, spans=(TokenSpan(4, 0, 2), TokenSpan(5, 1, 3))))
    with pytest.raises(ValueError, match="2 versions"):
        TrainedCall.of(replace(call, spans=(TokenSpan(4, 0, 2),)))
