"""One undivided vLLM server for the tests of this folder: a start takes more of the processor than any of them.

It has what one of them needs: the stand-in for NCCL, a card's name, and a folder that it sees empty. The last file is
that of what may leave it broken.
"""

import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.fetched import PLACE
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_managed import VllmHandle
from pace_async.errors import InfrastructureFault
from pace_async.publish.file import FilePublisher
from pace_async.runtime.children.advisor_folder import TINY
from tests.support.noisy_versions import version_of
from tests.support.other_machine import hiding
from tests.support.vllm_servers import SIMULATED_NCCL, SharedServer, installed_vllm, small_server


class _Handle(VllmHandle):
    """A server that sees the folder `hidden` empty, unless that is None, and keeps what it fetches in `fetched`."""

    hidden: Path | None = None
    fetched: Path

    async def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        there = command if self.hidden is None else hiding(self.hidden, command)
        await super()._run(there, {**environment, PLACE: str(self.fetched)})


@pytest.fixture(scope="package")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A folder that can be hidden from the server. None: this user may not mount."""
    folder = tmp_path_factory.mktemp("hidden")
    may = os.geteuid() == 0 and subprocess.run(hiding(folder, ["true"]), check=False).returncode == 0
    return folder if may else None


@pytest.fixture(scope="package")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("versions")
    return [version_of(folder / str(seed), seed) for seed in range(3)]


@pytest.fixture(scope="package")
async def server(hidden: Path | None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedServer]:
    folder, build = tmp_path_factory.mktemp("vllm"), installed_vllm()
    given = serve_from(TINY, folder / "model")
    settings = small_server(build, gpus=("0",), arguments=SIMULATED_NCCL)
    handle = _Handle(build, settings, log=folder / "engine.log", start_s=600.0)
    handle.hidden, handle.fetched = hidden, folder / "fetched"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
        await handle.start(given)
    try:
        async with HttpEngine(handle.url, timeout_s=120.0) as engine, FilePublisher(handle.url) as publisher:
            at_first = await engine.served_version()
            with pytest.raises(InfrastructureFault) as caught:
                await engine.generate((0, 5, 6), max_tokens=2, temperature=1.0, seed=0)
            yield SharedServer(handle, engine, publisher, given, at_first, caught.value.kind, handle.fetched)
    finally:
        await handle.stop()
