"""A version in memory that another process opens: real processes on the processor, and what is kept of a card's."""

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pace_async.advise.engines.load import BadCheckpoint, digested
from pace_async.advise.engines.shared import OpenedVersion
from pace_async.learn import share
from pace_async.learn.client import ProcessLearner
from pace_async.learn.process import serve
from pace_async.learn.send import CannotSend, Source
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.share import CannotShare, SharedVersion
from pace_async.transfer import ALIGNED, CardHandle, HostHandle, SharedBuffer, Table, laid_out
from pace_async.weights import checkpoint_digests
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import written_groups
from tests.support.shared_versions import HELD, SERVED, TABLE
from tests.support.tensor_files import load_file
from tests.support.transfers import table_of

ROOT = Path(__file__).parents[2]

READS = """
import json, sys
from pathlib import Path
from pace_async.advise.engines.load import digested
from pace_async.advise.engines.shared import OpenedVersion
from pace_async.transfer import SharedBuffer
opened = OpenedVersion(SharedBuffer.from_json(json.load(sys.stdin)))
print(json.dumps(digested(Path("version"), opened.tensors)))
"""

SHARES = """
import json, sys
from pace_async.learn.share import SharedVersion
from tests.support.shared_versions import HELD, TABLE
shared = SharedVersion()
print(json.dumps(shared.share(HELD, TABLE).to_json()), flush=True)
sys.stdin.read()
"""


def digests() -> dict[str, str]:
    return digested(Path("version"), SERVED)


def shared_here() -> int:
    """How many shared versions this process has open."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder itself
            found += "pace-version" in str(entry.readlink())
    return found


@pytest.mark.long
def test_another_process_reads_the_bits_that_were_shared() -> None:
    version = SharedVersion()
    text = json.dumps(version.share(HELD, TABLE).to_json())
    done = subprocess.run([sys.executable, "-c", READS], input=text, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == digests()
    version.end(closed=True)


@pytest.mark.long
@pytest.mark.fault("Weights", "a push that fails before the transfer")
def test_what_was_opened_stays_when_the_learner_is_killed_and_nothing_more_can_be_opened() -> None:
    command = [sys.executable, "-c", SHARES]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        shared = SharedBuffer.from_json(json.loads(learner.stdout.readline()))
        opened = OpenedVersion(shared)
        learner.send_signal(signal.SIGKILL)
        learner.wait()
        assert digested(Path("version"), opened.tensors) == digests()
        with pytest.raises(BadCheckpoint, match="the learner's memory cannot be opened"):
            OpenedVersion(shared)
    assert opened.close()


def test_a_version_is_shared_until_its_end_and_leaves_nothing_open() -> None:
    before, version = shared_here(), SharedVersion()
    shared = version.share(HELD, TABLE)
    again = version.share(HELD, TABLE)
    assert shared_here() == before + 1, "a second version takes the place of the first"
    assert OpenedVersion(again).close()
    version.end(closed=False)
    assert shared_here() == before
    for one in (shared, again):
        with pytest.raises(BadCheckpoint):
            OpenedVersion(one)


def test_nobody_can_change_a_shared_version() -> None:
    version = SharedVersion()
    shared = version.share(HELD, TABLE)
    assert isinstance(shared.handle, HostHandle)
    other = os.open(f"/proc/self/fd/{shared.handle.descriptor}", os.O_RDWR)
    with pytest.raises(PermissionError):
        os.write(other, b"x")
    with pytest.raises(PermissionError):
        os.ftruncate(other, 0)
    os.close(other)
    reader = OpenedVersion(shared)
    mark = reader.mark()
    reader.tensors["matrix"].fill_(7.0)
    assert reader.mark() != mark
    assert digested(Path("version"), OpenedVersion(shared).tensors) == digests(), "a reader changes its own copy only"
    version.end(closed=True)


def test_a_reader_closes_the_buffer_only_when_nothing_refers_to_it() -> None:
    version = SharedVersion()
    opened = OpenedVersion(version.share(HELD, TABLE))
    kept = opened.tensors["matrix"]
    assert not opened.close()
    del kept
    assert opened.close()
    version.end(closed=True)


def _file(size: int) -> int:
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return os.dup(file.fileno())


def _without_seals(size: int) -> int:
    descriptor = os.memfd_create("other")
    os.ftruncate(descriptor, size)
    return descriptor


@pytest.mark.parametrize("other", [_file, _without_seals])
def test_other_files_are_not_read_as_a_version(other: Callable[[int], int]) -> None:
    version = SharedVersion()
    shared = version.share(HELD, TABLE)
    descriptor = other(shared.size)
    with pytest.raises(BadCheckpoint, match="what was opened is not"):
        OpenedVersion(replace(shared, handle=HostHandle(os.getpid(), descriptor)))
    os.close(descriptor)
    with pytest.raises(BadCheckpoint, match="not a version that the learner has written"):
        OpenedVersion(replace(shared, size=shared.size + ALIGNED))
    version.end(closed=True)


def test_a_wrong_table_is_refused() -> None:
    version = SharedVersion()
    shared = version.share(HELD, TABLE)
    for wrong in (
        replace(shared, offsets=[shared.size, *shared.offsets[1:]]),
        replace(shared, offsets=[-8, *shared.offsets[1:]]),
        replace(shared, offsets=shared.offsets[1:]),
        replace(shared, dtypes=["object", *shared.dtypes[1:]]),
    ):
        with pytest.raises(BadCheckpoint, match=r"table of a shared version is wrong|does not lie in"):
            OpenedVersion(wrong)
    version.end(closed=True)


def test_a_model_without_the_tensors_of_its_files_shares_nothing() -> None:
    with pytest.raises(CannotSend, match="the model has no tensor one number"):
        SharedVersion().share({"matrix": HELD["matrix"]}, TABLE)


def test_a_version_without_room_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    before = shared_here()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CannotShare, match=r"bytes cannot be shared: .*Cannot allocate memory"):
        SharedVersion().share(HELD, TABLE)
    assert shared_here() == before


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_tensors_of_a_buffer_are_aligned_and_do_not_overlap(lengths: list[int]) -> None:
    offsets, size = laid_out(lengths)
    ends = [offset + length for offset, length in zip(offsets, lengths, strict=True)]
    assert all(offset % ALIGNED == 0 for offset in (*offsets, size))
    assert all(end <= following for (_, end), (following, _) in pairwise(zip(offsets, ends, strict=True)))
    assert max(ends, default=0) <= size <= sum(lengths) + ALIGNED * max(1, len(lengths))


CARD = CardHandle("6b0c", "63ff", 512, 256, "2f74", 3, "00", awaits_event=True)


@pytest.mark.parametrize("handle", [CARD, HostHandle(12, 5)])
def test_a_handle_is_the_same_after_its_way_as_json(handle: CardHandle | HostHandle) -> None:
    shared = SharedBuffer(handle, 512, ["a"], ["float32"], [[2, 3]], [0])
    assert SharedBuffer.from_json(json.loads(json.dumps(shared.to_json()))) == shared


def test_torch_has_what_shares_memory_of_a_card() -> None:
    for name in ("_share_cuda_", "_new_shared_cuda"):
        assert callable(getattr(torch.UntypedStorage, name))


def test_a_buffer_of_a_card_whose_reader_is_not_known_to_have_closed_it_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[torch.Tensor] = []

    def new(size: int, device: torch.device) -> torch.Tensor:
        made.append(torch.empty(size, dtype=torch.uint8))
        return made[-1]

    def exported(buffer: torch.Tensor) -> CardHandle:
        assert buffer is made[-1]
        return CARD

    def nothing() -> None:
        """In place of torch's."""

    monkeypatch.setattr(Source, "device", torch.device("cuda", 0))
    monkeypatch.setattr(share, "_new", new)
    monkeypatch.setattr(share, "_exported", exported)
    monkeypatch.setattr(torch.cuda, "ipc_collect", nothing)
    version = SharedVersion()
    for closed, buffers in ((True, 1), (True, 2), (False, 3), (True, 3), (True, 3)):
        assert version.share(HELD, TABLE).handle == CARD
        version.end(closed=closed)
        assert len(made) == buffers


def test_any_request_may_end_the_sharing_and_a_model_that_cannot_be_shared_names_the_setting() -> None:
    lineage = SimpleNamespace(trainer=SimpleNamespace(policy=torch.nn.Linear(2, 3)))
    replies = io.StringIO()

    def last() -> dict[str, Any]:
        return json.loads(replies.getvalue().splitlines()[-1])

    def requests() -> Iterator[str]:
        yield json.dumps({"id": 1, "share": {"names": ["weight"], "dtypes": ["float32"], "shapes": [[3, 2]]}})
        shared = SharedBuffer.from_json(last()["shared"])
        opened = OpenedVersion(shared)
        assert torch.equal(opened.tensors["weight"], lineage.trainer.policy.weight)
        yield json.dumps({"id": 2, "ping": True, "unshare": True})
        assert last() == {"id": 2, "here": True}
        with pytest.raises(BadCheckpoint):
            OpenedVersion(shared)
        yield json.dumps({"id": 3, "share": {"names": ["other"], "dtypes": ["float32"], "shapes": [[2, 2]]}})

    serve(lineage, cast("Any", requests()), replies, beat_s=60.0)
    assert last()["setting"]
    assert last()["refused"].endswith("cannot be shared: set advisor.transport to file")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
async def test_a_learner_shares_the_version_that_it_wrote_until_it_hears_that_the_push_is_over(tmp_path: Path) -> None:
    toy = write_llama(tmp_path / "toy", vocab=40, width=16, layers=1)
    (group,) = written_groups(tmp_path / "groups", 1, vocab=40)
    async with ProcessLearner(toy, tmp_path / "out", TrainerConfig(learning_rate=1e-3)) as learner:
        step = await learner.train(group)
        assert step.weights is not None
        shared = await learner.share(1, files_table(step.weights))
        opened = OpenedVersion(shared)
        assert digested(step.weights, opened.tensors) == checkpoint_digests(step.weights)
        assert opened.close()
        learner.end_share(closed=True)
        await learner.logprobs(1, (2, 3), (4, 5))
        with pytest.raises(BadCheckpoint):
            OpenedVersion(shared)


def files_table(folder: Path) -> Table:
    return table_of(load_file(folder / "model.safetensors"))
