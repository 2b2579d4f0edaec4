"""A benchmark that is terminated ends its runs, and the same command goes on with them."""

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from research.benchmarks import bench_runs

SCRIPT = """
import sys
from pathlib import Path
from research.benchmarks.bench_runs import Wanted, run_all
run_all([Wanted(Path(sys.argv[1]), ["circle_packing", "--objective", "none", "--candidates", "4000"])], jobs=1)
"""


def candidates(run: Path) -> int:
    try:
        with sqlite3.connect(f"file:{run / 'population.db'}?mode=ro", uri=True) as database:
            ((count,),) = database.execute("select count(*) from candidates")
    except sqlite3.Error:
        return 0
    return int(count)


@pytest.mark.long
@pytest.mark.nightly
def test_a_benchmark_that_is_terminated_leaves_no_run_behind(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-c", SCRIPT, str(run)]
    with subprocess.Popen(
        command, cwd=Path(bench_runs.__file__).parent, stderr=subprocess.PIPE, text=True
    ) as benchmark:
        while candidates(run) < 10 and benchmark.poll() is None:
            time.sleep(0.1)
        family = psutil.Process(benchmark.pid).children(recursive=True)
        benchmark.send_signal(signal.SIGTERM)
        _, said = benchmark.communicate(timeout=120)
    assert benchmark.returncode == 130, said
    assert "the same command goes on" in said
    assert len(family) > 1
    _, left = psutil.wait_procs(family, timeout=20)
    assert left == []
    with sqlite3.connect(f"file:{run / 'population.db'}?mode=ro", uri=True) as database:
        states = [state for (state,) in database.execute("select state from run_states order by number")]
    assert states[-1] == "interrupted"
