"""A whole run against the local implementer server with injected faults: it ends well, and the ledger is the bill.

    python scripts/check_implementer.py --candidates 200 --fault-rate 0.3

What the ledger holds must be what the server charged plus the whole reservations of the calls whose end the caller
could not see, to the cent (in fact to a billionth). Nothing learns here: `--objective none`.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from local_implementer_server import (
    USD_PER_MILLION_IN,
    USD_PER_MILLION_OUT,
    LocalProvider,
    seeded_faults,
    serving,
)

from pace_async.task import BLOCK_START, load_task

CANARY = "sk-canary-0123456789abcdef"
UNSEEN = ("timeout", "cut_stream", "invalid_answer", "no_choice", "cancelled", "unknown")


def command(folder: Path, url: str, candidates: int) -> list[str]:
    """pace run, as a user would type it."""
    settings = {
        "implementer.api_base": url,
        "implementer.price_per_million_in": USD_PER_MILLION_IN,
        "implementer.price_per_million_out": USD_PER_MILLION_OUT,
        "implementer.timeout_s": 5,
        "faults.backoff_s": 0.05,
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run = [sys.executable, "-c", "from pace_async.cli.main import main; main()", "run", "circle_packing"]
    ends = ["--candidates", str(candidates), "--objective", "none", "--display", "none", "--run-dir", str(folder)]
    return [*run, "--implementer", "openai/local", *sets, *ends]


def main() -> None:
    """Exit code 1 where anything does not hold."""
    parser = argparse.ArgumentParser(description="A whole run against a misbehaving local implementer.")
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--fault-rate", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    faulty = seeded_faults(arguments.fault_rate, arguments.seed)
    provider = LocalProvider(
        load_task("circle_packing"),
        lambda number, question: faulty(number, question) if BLOCK_START in question else "ok",
    )
    with tempfile.TemporaryDirectory(prefix="pace-") as name:
        folder = Path(name) / "run"
        with serving(provider) as url:
            environment = {**os.environ, "OPENAI_API_KEY": CANARY}
            done = subprocess.run(command(folder, url, arguments.candidates), env=environment, check=False)
        leaked = [str(path) for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
        sound = report(folder / "population.db", provider, arguments.candidates)
    print(f"exit code {done.returncode}; files that hold the key: {leaked or 'none'}")
    sys.exit(0 if sound and done.returncode == 0 and not leaked else 1)


def report(path: Path, provider: LocalProvider, candidates: int) -> bool:
    """Print what the rows say; whether they agree with the server."""
    database = sqlite3.connect(path)
    rows = database.execute(
        "select outcome, count(*), sum(cost_usd) from implementer_calls group by outcome"
    ).fetchall()
    for outcome, count, usd in rows:
        print(f"{outcome:22} {count:5} {usd:.6f} USD")
    ledger = database.execute("select sum(usd) from spend").fetchone()[0]
    unseen = sum(usd for outcome, _, usd in rows if outcome in UNSEEN)
    done = database.execute("select count(*) from candidates where candidate > 0").fetchone()[0]
    faults = database.execute("select kind, count(*) from faults group by kind").fetchall()
    database.close()
    difference = ledger - unseen - provider.charged_usd
    print("faults:", ", ".join(f"{kind} {count}" for kind, count in faults))
    print(f"{done} candidates; ledger {ledger:.6f} = bill {provider.charged_usd:.6f} + unseen {unseen:.6f} USD")
    print(f"difference {difference:+.12f} USD")
    return done == candidates and abs(difference) < 1e-4


if __name__ == "__main__":
    main()
