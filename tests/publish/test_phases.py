"""Whatever phase fails, the publisher knows whether the old version is still served, and leaves the pause so."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import pytest
import torch

from pace_async.publish.base import PushFailed
from pace_async.publish.file import FilePublisher
from pace_async.publish.phases import Phases, is_finite
from pace_async.runtime.children.engines import KillsWhatItLeftUnknown
from pace_async.simulate.virtual import run_virtually
from pace_async.weights import checkpoint_digests, record_digests, recorded_digests, tensors
from tests.doubles.publishers import Failure, PushedEngine, breaking, refusing
from tests.support.publishing import BEFORE, PHASES
from tests.support.tensor_files import save_file


@pytest.mark.fault("Weights", "cached prefixes of old weights")
async def test_the_phases_are_those_of_the_protocol_in_order(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    receipt = await engine.publish(7, weights)
    assert tuple(engine.asked) == PHASES
    assert receipt.digests == checkpoint_digests(weights)
    assert engine.bodies["pause"] == {"mode": "keep", "clear_cache": "true"}
    assert engine.bodies["init_weight_transfer_engine"] == {"init_info": {"path": str(weights)}}
    assert engine.bodies["update_weights"] == {"update_info": {"path": str(weights)}}
    assert engine.bodies["finish_weight_update"] == {"weight_version": "7"}


@pytest.mark.fault("Weights", "a push that fails before the transfer")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("failure", "kind"), [(refusing, "push_refused"), (breaking, "push_unreachable")])
async def test_a_failing_phase_ends_the_push_there(weights: Path, phase: str, failure: Failure, kind: str) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.failing[phase] = failure
    with pytest.raises(PushFailed) as caught:
        await engine.publish(1, weights)
    assert (caught.value.kind, caught.value.began) == (kind, phase not in BEFORE)
    resumed = ["resume"] if phase == "pause" else []
    assert engine.asked == [*PHASES[: PHASES.index(phase) + 1], *resumed]


SPOILS: list[Callable[[list[dict[str, str]]], object]] = [
    lambda receipts: receipts[1].update(a="0" * 32),
    lambda receipts: receipts[0].pop("b"),
    lambda receipts: receipts[0].update(c="0" * 32),
    lambda receipts: receipts.clear(),
]


@pytest.mark.fault("Weights", "a push that loads nothing")
@pytest.mark.fault("Weights", "a push that loads half the names")
@pytest.mark.parametrize("spoil", SPOILS)
async def test_an_unproven_version_is_neither_labelled_nor_resumed(
    weights: Path, spoil: Callable[[list[dict[str, str]]], object]
) -> None:
    engine = PushedEngine(checkpoint_digests(weights), workers=2)
    spoil(engine.receipts)
    with pytest.raises(PushFailed) as caught:
        await engine.publish(1, weights)
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", True)
    assert engine.asked[-1] == "weight_receipt"


def divided(digests: dict[str, str]) -> list[dict[str, str]]:
    """Receipts of two ranks: each holds a row of `a` and half of `b`, and the second half of `a` is cut once more."""
    return [
        {"a": f"{digests['a']} 0:1,0:3", "b": f"{digests['b']} 0:1,0:1"},
        {"a": f"{digests['a']} 1:2,0:1 1:2,1:3", "b": f"{digests['b']} 1:2,0:1"},
    ]


async def test_a_version_that_is_divided_among_ranks_is_whole_by_all_their_slices(weights: Path) -> None:
    digests = checkpoint_digests(weights)
    engine = PushedEngine(digests, workers=2)
    engine.receipts = divided(digests)
    assert (await engine.publish(1, weights)).digests == digests
    engine.receipts[1]["b"] = engine.receipts[0]["b"] = digests["b"]  # each rank may hold a whole tensor
    assert (await engine.publish(2, weights)).digests == digests


GAPS: list[Callable[[list[dict[str, str]]], object]] = [
    lambda receipts: receipts.pop(0),
    lambda receipts: receipts.pop(1),
    lambda receipts: receipts[1].update(a=receipts[0]["a"]),
    lambda receipts: receipts[1].update(a=receipts[1]["a"].rpartition(" ")[0]),
    lambda receipts: receipts[0].update(a=receipts[0]["a"].replace("0:3", "0:2")),
    lambda receipts: receipts[1].pop("b"),
    lambda receipts: receipts[1].update(b="0" * 32 + " 1:2,0:1"),
    lambda receipts: receipts[1].update(b=receipts[1]["b"] + ","),
    lambda receipts: receipts[1].clear(),
]


@pytest.mark.fault("Weights", "a push that loads half the names")
@pytest.mark.parametrize("spoil", GAPS)
async def test_a_rank_that_is_missing_or_proves_less_than_its_slice_fails_the_push(
    weights: Path, spoil: Callable[[list[dict[str, str]]], object]
) -> None:
    digests = checkpoint_digests(weights)
    engine = PushedEngine(digests, workers=2)
    engine.receipts = divided(digests)
    spoil(engine.receipts)
    with pytest.raises(PushFailed) as caught:
        await engine.publish(1, weights)
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", True)
    assert engine.asked[-1] == "weight_receipt"


async def test_an_engine_that_answers_something_else_gave_no_receipt(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.failing["weight_receipt"] = lambda request: httpx.Response(200, text="")
    with pytest.raises(PushFailed, match="no receipt"):
        await engine.publish(1, weights)


async def test_generation_goes_on_until_the_engine_has_read_the_announced_checkpoint(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.looks = 2
    await engine.publish(1, weights)
    assert engine.asked == [PHASES[0], *["weights_prepared"] * 3, *PHASES[2:]]


@pytest.mark.fault("Weights", "a push that fails before the transfer")
@pytest.mark.parametrize("read", [{"a": "0" * 32}, {}], ids=["other bytes", "nothing"])
async def test_an_engine_that_read_something_else_is_not_even_paused(weights: Path, read: dict[str, str]) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.read = read
    with pytest.raises(PushFailed) as caught:
        await engine.publish(1, weights)
    assert (caught.value.kind, caught.value.began) == ("receipt_differs", False)
    assert engine.asked == list(PHASES[:2])


async def test_an_engine_that_never_finishes_reading_ends_the_push(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    engine.looks = 1_000_000
    async with FilePublisher("http://engine", transport=httpx.MockTransport(engine), phase_s=0.05) as publisher:
        with pytest.raises(PushFailed) as caught:
            await publisher.publish(1, weights)
    assert (caught.value.kind, caught.value.began) == ("push_timeout", False)
    assert set(engine.asked) == set(PHASES[:2])


@pytest.mark.fault("Disk, everywhere", "a byte flipped in weights is noticed before they are served")
async def test_the_writers_digests_are_used_unless_a_file_has_changed(weights: Path) -> None:
    record_digests(weights)
    true = checkpoint_digests(weights)
    assert recorded_digests(weights) == true
    file = weights / "model.safetensors"
    whole = file.read_bytes()
    data = bytearray(whole)
    data[-1] ^= 1
    stat = file.stat()
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    engine = PushedEngine(checkpoint_digests(weights))
    with pytest.raises(PushFailed, match="1 of 2 tensors"):  # what is on the disk is not what was written
        await engine.publish(1, weights)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert recorded_digests(weights) is None
    with pytest.raises(PushFailed, match=r"damaged_checkpoint.*is not what was written"):  # wherever it was copied to
        await engine.publish(1, weights)
    file.write_bytes(whole)
    assert recorded_digests(weights) is None
    assert (await PushedEngine(true).publish(1, weights)).digests == true


@pytest.mark.fault("Weights", "a push that fails after the transfer has begun")
async def test_after_a_push_began_every_failure_says_that_it_began_until_one_succeeds(
    weights: Path, tmp_path: Path
) -> None:
    engine = PushedEngine(checkpoint_digests(weights))
    began: list[bool] = []

    async with FilePublisher("http://engine", transport=httpx.MockTransport(engine)) as publisher:

        async def attempt(phase: str | None, folder: Path = weights) -> None:
            engine.failing = {phase: refusing} if phase is not None else {}
            try:
                await publisher.publish(1, folder)
            except PushFailed as error:
                began.append(error.began)

        await attempt("pause")
        await attempt("update_weights")
        engine.asked.clear()
        await attempt("pause")
        assert "resume" not in engine.asked
        await attempt(None, tmp_path / "absent")
        await attempt(None)
        await attempt("pause")
    assert began == [False, True, True, True, False]


@pytest.mark.fault("Weights", "a push that fails after the transfer has begun")
@pytest.mark.parametrize("phase", PHASES)
async def test_a_server_is_ended_when_a_push_to_it_broke_off_after_it_had_begun(weights: Path, phase: str) -> None:
    engine, killed = PushedEngine(checkpoint_digests(weights)), list[str]()

    class Server:
        def kill(self) -> None:
            killed.append(phase)

    engine.failing[phase] = refusing
    async with FilePublisher("http://engine", transport=httpx.MockTransport(engine)) as publisher:
        with pytest.raises(PushFailed):
            await KillsWhatItLeftUnknown(publisher, Server()).publish(1, weights)
    assert killed == ([] if phase in BEFORE else [phase])


@pytest.mark.fault("Weights", "a push that hangs")
async def test_a_phase_that_takes_too_long_ends_the_push(weights: Path) -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with FilePublisher("http://engine", transport=httpx.MockTransport(silent), phase_s=0.01) as publisher:
        with pytest.raises(PushFailed) as caught:
            await publisher.publish(1, weights)
    assert (caught.value.kind, caught.value.began) == ("push_timeout", False)


@pytest.mark.fault("Weights", "two pushes at once")
async def test_pushes_do_not_overlap(weights: Path) -> None:
    engine = PushedEngine(checkpoint_digests(weights))

    async def slow(request: httpx.Request) -> httpx.Response:
        await anyio.lowlevel.checkpoint()
        return engine(request)

    async with (
        FilePublisher("http://engine", transport=httpx.MockTransport(slow)) as publisher,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(publisher.publish, 1, weights)
        tasks.start_soon(publisher.publish, 2, weights)
    assert tuple(engine.asked) == PHASES * 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_numbers_are_found_in_every_float_type(tmp_path: Path, dtype: torch.dtype, value: float) -> None:
    largest = torch.finfo(dtype).max
    fine = torch.tensor([0.0, largest, -largest, torch.finfo(dtype).smallest_normal / 2], dtype=dtype)
    whole = torch.tensor([2**31 - 1, -1], dtype=torch.int32)
    bad = torch.cat([fine, torch.tensor([value], dtype=dtype)])
    save_file({"fine": fine, "whole": whole, "bad": bad}, tmp_path / "model.safetensors")
    found = {name: is_finite(kind, data) for name, kind, _, data in tensors(tmp_path / "model.safetensors")}
    assert found == {"fine": True, "whole": True, "bad": False}


def test_a_version_is_not_asked_for_before_one_was_ever_ready() -> None:
    """On virtual time: reading takes a second, then four, then one."""
    looks: list[float] = []
    ready = 0.0

    def answer(request: httpx.Request) -> httpx.Response:
        looks.append(anyio.current_time())
        return httpx.Response(200, json={"results": [{"a": "1"} if looks[-1] >= ready else None]})

    async def read(phases: Phases, seconds: float) -> tuple[float, float]:
        """When it was first asked for, and when it was found."""
        nonlocal ready
        began, ready = anyio.current_time(), anyio.current_time() + seconds
        looks.clear()
        await phases.wait_prepared({"a": "1"})
        return looks[0] - began, looks[-1] - began

    async def pushes() -> list[tuple[float, float]]:
        phases = Phases("http://engine", phase_s=60.0, transport=httpx.MockTransport(answer))
        try:
            return [await read(phases, seconds) for seconds in (1.0, 4.0, 1.0)]
        finally:
            await phases.aclose()

    first, *later = run_virtually(pushes)
    assert first[0] == 0.0
    assert all(0.4 < asked < 1.0 for asked, _ in later), "by the least that reading has taken, never the last"
    assert [found for _, found in (first, *later)] == pytest.approx([1.0, 4.0, 1.0], abs=0.05)
