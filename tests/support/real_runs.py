"""Real runs as processes: their rows, and how far they are."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any


def rows(run: Path, sql: str) -> list[tuple[Any, ...]]:
    """Answer of the run's database, read as anybody would."""
    database = sqlite3.connect(f"file:{run / 'population.db'}?mode=ro", uri=True)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def wait_for_candidates(run: Path, count: int, process: subprocess.Popen[bytes], seconds: int = 500) -> None:
    """Follow the run's own log of events until so many candidates are committed."""
    wait_for_events(run, count, process, lambda event: event.get("event") == "Evaluated", seconds)


def wait_for_events(
    run: Path,
    count: int,
    process: subprocess.Popen[bytes],
    wanted: Callable[[dict[str, Any]], bool],
    seconds: int = 500,
) -> None:
    """Follow the run's own log of events until it has so many that are wanted. Then the process must still live."""
    seen = 0
    follow = ["timeout", str(seconds), "tail", "-n", "+1", "-F", str(run / "events.jsonl")]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tail:
        assert tail.stdout is not None
        for line in tail.stdout:
            seen += wanted(json.loads(line))
            if seen >= count:
                break
        tail.terminate()
    assert process.poll() is None
    assert seen >= count
