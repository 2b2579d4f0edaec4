"""Versions that a real vLLM server fetches, because it sees no file of the run.

`tests/publish/test_other_machine.py` has an engine in another network too.
"""

from pathlib import Path

import pytest

from tests.support.fetching import fetched_by_another_machine
from tests.support.needed import without
from tests.support.noisy_versions import version_of
from tests.support.vllm_servers import SharedServer

pytestmark = [pytest.mark.needs_vllm, pytest.mark.timeout(900)]


async def test_a_vllm_server_that_sees_no_version_fetches_one_and_keeps_the_old_one_if_a_fetch_breaks_off(
    server: SharedServer, hidden: Path | None
) -> None:
    if hidden is None:
        without("NETWORK_NAMESPACES", "needs the right to mount, to hide a folder from the server")
    versions = [version_of(hidden / str(seed), seed) for seed in range(3)]
    await fetched_by_another_machine(server.handle.url, "127.0.0.1", versions)
    assert len(list((server.fetched / "versions").glob("*/COMPLETE"))) == 2
