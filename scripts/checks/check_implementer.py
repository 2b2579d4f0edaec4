"""Checks a whole run against the local implementer server with injected faults: it ends well, and the ledger is right.

    python scripts/checks/check_implementer.py --candidates 200 --fault-rate 0.3 [--advisor]

The ledger must equal the server's bill plus the highest cost of the calls whose end the caller could not see, both as
the server counted them, to a billionth. The numbers of calls must be equal too. Each fault that the server made must be
a row under its own name. One candidate of eight is drawn to a model that refuses connections. The key of the
environment must be in no file of the run and in no output. Nothing is trained: `--objective none`.
"""

import argparse
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pace_async.task import BLOCK_START, load_task
from research.rivals.local_advice import ADVICE_FAULTS, is_advice
from research.rivals.local_implementer_server import (
    ANSWER_FAULTS,
    SERVICE_FAULTS,
    UNSEEN,
    USD_PER_MILLION_IN,
    USD_PER_MILLION_OUT,
    LocalProvider,
    seeded_faults,
    serving,
)

CANARY = "sk-canary-0123456789abcdef"
AWAY = "hosted_vllm/away"
TIMEOUT_S = 30
"""Long enough that no answer comes later on a busy machine. A later answer would be charged, unknown to the run."""
ALSO_MADE = ("no_code_block", "unchanged")
"""Outcomes that the server's own answers have too, where an experiment names no edit or the one that is there."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of a run. `charged_usd`, `unseen` and `unseen_usd` are the server's figures. `outcomes` counts the
    rows of calls, and `expected` are the right counts for the faults that were made."""

    exit_code: int
    candidates: int
    ledger_usd: float
    charged_usd: float
    unseen: int
    unseen_usd: float
    outcomes: Mapping[str, int]
    expected: Mapping[str, int]
    faults: Mapping[str, int]
    leaks: tuple[str, ...]
    errors: str

    @property
    def difference_usd(self) -> float:
        """Ledger less bill."""
        return self.ledger_usd - self.charged_usd - self.unseen_usd

    @property
    def unseen_in_ledger(self) -> int:
        """Calls that the ledger holds at their whole reservation."""
        names = {SERVICE_FAULTS[name] for name in UNSEEN} | {"cancelled", "unknown"}
        return sum(count for outcome, count in self.outcomes.items() if outcome in names)

    def misnamed(self) -> list[str]:
        """Faults whose number of rows is not the number of faults made."""
        return [
            f"{outcome}: {self.outcomes.get(outcome, 0)} rows, {count} made"
            for outcome, count in self.expected.items()
            if not (
                self.outcomes.get(outcome, 0) == count
                or (outcome in ALSO_MADE and self.outcomes.get(outcome, 0) > count)
            )
        ]

    def wrong(self, candidates: int) -> list[str]:
        """Every failed check, in words."""
        found = [
            (self.exit_code != 0, f"exit code {self.exit_code}: {self.errors}"),
            (self.candidates != candidates, f"{self.candidates} candidates of {candidates}"),
            (abs(self.difference_usd) > 1e-9, f"the ledger differs from the bill by {self.difference_usd:+.12f} USD"),
            (self.unseen_in_ledger != self.unseen, f"{self.unseen_in_ledger} calls unseen, {self.unseen} made so"),
            (not self.outcomes.get("refused_connection"), "no connection was refused"),
            (bool(self.leaks), f"the key is in {', '.join(self.leaks)}"),
        ]
        return [said for is_wrong, said in found if is_wrong] + self.misnamed()


def check(
    folder: Path, candidates: int, fault_rate: float, seed: int, advisor: bool = False, away: int = 1
) -> Findings:
    """Run in `folder`, which must not exist, and check the results. `advisor`: the server is the advisor too, and its
    answers to the advisor fail as often. `away` of 7 + `away` candidates are drawn to the model that refuses
    connections: in a short run whose advisor fails too, more of them must be, so that one gets that far."""
    faulty = seeded_faults(fault_rate, seed)
    misled = seeded_faults(fault_rate, seed + 1, (*SERVICE_FAULTS, *ADVICE_FAULTS))

    def plan(number: int, question: str) -> str:
        if is_advice(question):
            return misled(number, question)
        return faulty(number, question) if BLOCK_START in question else "ok"

    provider = LocalProvider(load_task("circle_packing"), plan)
    with serving(provider) as url, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens: connections are refused
        environment = {
            **os.environ,
            "OPENAI_API_KEY": CANARY,
            "OPENAI_API_BASE": url,
            "HOSTED_VLLM_API_KEY": CANARY,
            "HOSTED_VLLM_API_BASE": f"http://127.0.0.1:{taken.getsockname()[1]}/v1",
        }
        command = _command(folder, candidates, advisor, f"openai/local=7,{AWAY}={away}")
        done = subprocess.run(command, env=environment, check=False, capture_output=True)
    printed = done.stdout + done.stderr
    leaks = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and _holds(path)]
    return _findings(folder / "population.db", provider, done.returncode, leaks, printed)


def _command(folder: Path, candidates: int, advisor: bool, implementers: str) -> list[str]:
    """pace run, as a user would type it."""
    settings: dict[str, object] = {"faults.backoff_s": 0.05}
    for role in ("implementer", "advisor") if advisor else ("implementer",):
        settings |= {
            f"{role}.price_per_million_in": USD_PER_MILLION_IN,
            f"{role}.price_per_million_out": USD_PER_MILLION_OUT,
            f"{role}.timeout_s": TIMEOUT_S,
            f"{role}.deadline_s": TIMEOUT_S + 10,
        }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run = [sys.executable, "-c", "from pace_async.cli.main import main; main()", "run", "circle_packing"]
    ends = ["--candidates", str(candidates), "--objective", "none", "--display", "plain", "--run-dir", str(folder)]
    ends += ["--advisor", "api:openai/local"] if advisor else []
    return [*run, "--implementer", implementers, *sets, *ends]


def _holds(path: Path) -> bool:
    return CANARY.encode() in path.read_bytes()


def _findings(path: Path, provider: LocalProvider, code: int, leaks: list[str], printed: bytes) -> Findings:
    expected = Counter[str]()
    for given, names in (
        (provider.given, {**SERVICE_FAULTS, **ANSWER_FAULTS}),
        (provider.advised, {**SERVICE_FAULTS, **ADVICE_FAULTS}),
    ):
        for behaviour, count in given.items():
            if names.get(behaviour, "ok") != "ok":
                expected[names[behaviour]] += count
    database = sqlite3.connect(path)
    try:
        outcomes = dict(database.execute("select outcome, count(*) from implementer_calls group by outcome").fetchall())
        faults = dict(database.execute("select kind, count(*) from faults group by kind").fetchall())
        (ledger,) = database.execute("select sum(usd) from spend").fetchone()
        (done,) = database.execute("select count(*) from candidates where candidate > 0").fetchone()
    finally:
        database.close()
    return Findings(
        exit_code=code,
        candidates=done,
        ledger_usd=ledger,
        charged_usd=provider.charged_usd,
        unseen=provider.unknown,
        unseen_usd=provider.unknown_usd,
        outcomes=outcomes,
        expected=expected,
        faults=faults,
        leaks=(*leaks, *(["what it printed"] if CANARY.encode() in printed else [])),
        errors=printed.decode(errors="replace")[-2000:],
    )


def main() -> None:
    """Exit code 1 if a check fails."""
    parser = argparse.ArgumentParser(description="A whole run against a misbehaving local implementer.")
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--fault-rate", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--advisor", action="store_true", help="The server is the advisor too.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pace-") as name:
        found = check(Path(name) / "run", arguments.candidates, arguments.fault_rate, arguments.seed, arguments.advisor)
    for outcome, count in sorted(found.outcomes.items()):
        print(f"{outcome:22} {count:5}")
    print("faults:", ", ".join(f"{kind} {count}" for kind, count in sorted(found.faults.items())))
    print(f"{found.candidates} candidates, exit code {found.exit_code}")
    print(f"ledger {found.ledger_usd:.6f} = bill {found.charged_usd:.6f} + unseen {found.unseen_usd:.6f} USD")
    print(f"difference {found.difference_usd:+.12f} USD; calls unseen {found.unseen_in_ledger}, made so {found.unseen}")
    wrong = found.wrong(arguments.candidates)
    print("\n".join(f"WRONG: {said}" for said in wrong) or "all of it holds, and the key is nowhere")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
