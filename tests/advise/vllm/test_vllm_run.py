"""A whole run on a vLLM server that is killed in the middle of it: it goes on by itself, and whatever was trained was
sampled by the weights that its rows name."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from pace_async.events import AdvisorCall
from pace_async.population.checking import check_population
from pace_async.population.connect import engine
from pace_async.population.reading.read_facts import advice_of
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.weights import checkpoint_digests, is_complete
from tests.support.command_line import PACE
from tests.support.engine_models import plain_logprobs

pytestmark = [pytest.mark.needs_vllm, pytest.mark.nightly, pytest.mark.timeout(900)]

UPDATES, TRAINED = 24, 15
"""Groups, and how many of them are trained at least: the first ones are skipped while nothing is worth anything."""
NOISE = 1e-3
MANY = 3000
"""Tokens that are enough to compare."""
ESTABLISHED = "01"
"""In the kernel's table of connections."""


@dataclass
class Finished:
    """A run that is over: what it said after its server had been killed, and what was left alive of it."""

    folder: Path
    code: int
    said: str
    left: list[psutil.Process]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(f"file:{self.folder / 'population.db'}?mode=ro", uri=True)
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("vllm") / "run"
    asked = ["--async", "--max-staleness", "2", "--engine", "vllm", "--updates", str(UPDATES), "--seed", "0"]
    small = ["--set", "advisor.kv_cache_gib=0.25", "--set", "advisor.gpu_memory=0.3"]
    command = [PACE, "run", "circle_packing", *asked, *small, "--run-dir", str(folder), "--display", "plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if " 40 candidates " in line:
                break
        (server,) = servers(psutil.Process(run.pid))
        os.kill(server.pid, signal.SIGSTOP)  # or it might be killed just when it had no request
        wait_asked(server)
        os.kill(server.pid, signal.SIGKILL)
        said, _ = run.communicate()
        family = [child for child in psutil.process_iter(["environ"]) if runs_in(child, folder)]
    _, left = psutil.wait_procs(family, timeout=20)
    return Finished(folder, run.returncode, said, left)


def servers(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children() if any("vllm_server" in word for word in child.cmdline())]


def wait_asked(server: psutil.Process) -> None:
    """Return when something that was sent to a stopped server lies there unread, or when so much time has passed that
    everybody must be waiting for what was sent before."""
    words = server.cmdline()
    port = int(words[words.index("--port") + 1])
    end = time.monotonic() + 60.0
    while unread_bytes(port) == 0 and time.monotonic() < end:
        time.sleep(0.02)


def unread_bytes(port: int) -> int:
    """Of all connections to this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    queues = [row[4] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == ESTABLISHED]
    return sum(int(queue.partition(":")[2], 16) for queue in queues)


def runs_in(process: psutil.Process, folder: Path) -> bool:
    """Whether the process has something of the run's folder in its command."""
    try:
        return any(str(folder) in word for word in process.cmdline())
    except psutil.Error:
        return False


def test_a_run_whose_server_was_killed_in_the_middle_goes_on_by_itself(finished: Finished) -> None:
    assert finished.code == 0, finished.said
    assert finished.left == []
    kinds = {kind for (kind,) in finished.rows("select kind from faults")}
    assert "engine_died" in kinds
    # by the part of vLLM that ended first
    broken_off = {"engine_unreachable", "engine_error", "voided", "push_unreachable"}
    assert kinds & broken_off, "answers or a push were on their way"
    ((trained, stalest),) = finished.rows(
        "select (select count(*) from groups where state = 'trained'), max(staleness) from leases"
        " where state = 'trained'"
    )
    assert trained >= TRAINED
    assert 0 <= stalest <= 2


def test_the_record_of_such_a_run_is_consistent(finished: Finished) -> None:
    with open_readonly(finished.folder / "population.db") as reader:
        assert [check for check in check_population(reader) if not check.ok] == []


def test_every_version_was_published_with_a_whole_receipt_and_a_probe(finished: Finished) -> None:
    versions = finished.rows("select version, state, receipt, probe_k3, weights from versions where version > 0")
    assert len(versions) >= TRAINED
    for version, state, receipt, k3, weights in versions:
        assert state == "published", version
        assert 0 <= k3 < 5e-3
        if is_complete(Path(str(weights))):
            assert json.loads(str(receipt)) == checkpoint_digests(Path(str(weights)))


def calls(finished: Finished) -> list[AdvisorCall]:
    leases = [lease for (lease,) in finished.rows("select lease from leases")]
    opened = engine(finished.folder / "population.db", "read")
    with opened.connect() as connection:
        advised = advice_of(connection, 1, leases)
    opened.dispose()
    return [call for advice in advised.values() for call in advice.calls]


def test_each_token_has_the_logprob_that_the_weights_named_in_its_row_give_it(finished: Finished) -> None:
    """Of version 0, which was sampled before the kill, and the last ones, whose weights are still kept."""
    rows = finished.rows("select version, weights from versions where version > 0")
    kept = {version: Path(str(weights)) for version, weights in rows if is_complete(Path(str(weights)))}
    assert len(kept) >= 2
    kept[0] = TINY
    compared = Counter[bool]()
    for call in calls(finished):
        for span in call.spans:
            if span.version in kept and compared[span.version == 0] < MANY:
                truth = plain_logprobs(kept[span.version], call.prompt_ids, call.completion_ids, 1.0)
                part = slice(span.start, span.end)
                assert call.logprobs[part] == pytest.approx(truth[part], abs=NOISE)
                compared[span.version == 0] += span.end - span.start
    assert min(compared[True], compared[False]) >= 100
