"""A push that fails half-way, after which only a restart helps, and no process left of a server that was killed."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from pace_async.publish.base import PushFailed
from tests.support.noisy_versions import version_of
from tests.support.vllm_servers import SharedServer

pytestmark = [pytest.mark.needs_vllm, pytest.mark.timeout(900)]


async def test_a_checkpoint_that_does_not_fit_is_never_labelled(
    server: SharedServer, versions: list[Path], tmp_path: Path
) -> None:
    """The last use of this server."""
    await server.publisher.publish(200, versions[1])
    half = version_of(tmp_path / "half", 6, model__norm__weight=None)
    with pytest.raises(PushFailed) as caught:
        await server.publisher.publish(201, half)
    assert caught.value.began
    assert await server.engine.served_version() == 200
    family = server.family()
    assert len(family) >= 3
    os.kill(server.handle.pid, signal.SIGKILL)
    assert await server.handle.wait_died() == -signal.SIGKILL
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
