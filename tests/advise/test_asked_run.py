"""Real runs with an advisor over the network, ended in the middle and resumed: the ledger is the bill, and no answer is
paid for twice."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
import psutil
import pytest

from pace_async.config import PromptsConfig
from pace_async.context.templates import Templates
from research.rivals.local_advice import NOTES, QUESTIONS, is_advice
from research.rivals.local_implementer_server import (
    SERVICE_FAULTS,
    USD_PER_MILLION_IN,
    USD_PER_MILLION_OUT,
    LocalProvider,
    serving,
)
from tests.faults.invariants import assert_sound
from tests.support.implementing import CANARY, TASK
from tests.support.real_runs import rows, wait_for_events

PACE = str(Path(sys.executable).with_name("pace"))
THREADS, CANDIDATES = 4, 16
FAULTS = (*(name for name in SERVICE_FAULTS if name not in ("hang", "401")), "empty", "prose", "refusal", "length")
BETWEEN = """select a.lease from advisor_calls a left join experiments e on e.run_id = a.run_id and e.lease = a.lease
             where e.lease is null and a.purpose = 'propose'"""
"""Rollouts that have an answer and no decision yet."""
TWICE = """select p.lease, count(*) from implementer_calls p where p.role = 'advisor' and p.outcome = 'ok'
           group by p.lease having count(*) > 6"""
"""Rollouts that paid for more answers than there are questions, each of which may be asked once more."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@dataclass
class Holding:
    """A provider that fails three of ten calls of an advisor. After `after` calls it holds each call that is not a
    rollout's first one, until it is let go. A held call is cut off if `cuts`."""

    after: int = 10**9
    cuts: bool = True
    draw: random.Random = field(default_factory=lambda: random.Random(7))
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go: threading.Event = field(default_factory=threading.Event)
    held: ContextVar[bool] = field(default_factory=lambda: ContextVar("held", default=False))

    def provider(self) -> LocalProvider:
        """The server's state."""
        provider = LocalProvider(TASK, self._plan)

        async def gate() -> None:
            question = str(provider.bodies[-1]["messages"][-1]["content"])
            late = provider.calls > self.after and is_advice(f"\n{question}") and QUESTIONS[0] not in question
            if late and not self.go.is_set():
                self.held.set(True)
                self.waiting.release()
                await anyio.to_thread.run_sync(self.go.wait)

        provider.gate = gate
        return provider

    def _plan(self, _number: int, question: str) -> str:
        if not is_advice(question) or (self.held.get() and not self.cuts):
            return "ok"
        if self.held.get():
            return "cut"
        return self.draw.choice(FAULTS) if self.draw.random() < 0.3 else "ok"


def command(folder: Path, url: str, *more: str) -> list[str]:
    """A run whose advisor is the provider, with the catalog as implementer."""
    settings = {
        "advisor.api_base": url,
        "advisor.price_per_million_in": USD_PER_MILLION_IN,
        "advisor.price_per_million_out": USD_PER_MILLION_OUT,
        "advisor.calls": "three",
        "advisor.timeout_s": 30,
        "advisor.deadline_s": 60,
        "faults.backoff_s": 0.01,
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run = [PACE, "run", "--advisor", "api:openai/local", "--threads", str(THREADS), "--seed", "3", "--display", "none"]
    return [*run, "--candidates", str(CANDIDATES), "--run-dir", str(folder), *sets, *more]


def environment() -> dict[str, str]:
    return {**os.environ, "OPENAI_API_KEY": CANARY}


def piped(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(arguments, env=environment(), capture_output=True, timeout=600, check=False)


def assert_balanced(folder: Path, provider: LocalProvider) -> None:
    """The ledger is the bill to a billionth, and no answer was paid for twice."""
    ledger = rows(folder, "select sum(usd) from spend")[0][0]
    assert ledger == pytest.approx(provider.charged_usd + provider.unknown_usd, abs=1e-9)
    assert rows(folder, TWICE) == []
    assert rows(folder, "select count(*) from reservations where ordinal is null") == [(0,)]
    calls = rows(folder, "select count(*) from implementer_calls where role = 'advisor'")[0][0]
    checks = rows(folder, "select count(*) from implementer_checks")[0][0]
    assert calls + checks == provider.calls
    status = json.loads(subprocess.check_output([PACE, "status", str(folder), "--json"], timeout=60))
    assert status["spend_usd"] == pytest.approx(ledger, abs=1e-9)


@pytest.mark.fault("Implementer", "an advisor over the network, killed between two calls of a rollout", only="killed")
@pytest.mark.fault("Implementer", "an advisor over the network, drained or cancelled between two calls of a rollout")
@pytest.mark.parametrize(
    "signals",
    [
        pytest.param((signal.SIGKILL,), id="killed"),
        pytest.param((signal.SIGINT,), id="drained", marks=pytest.mark.nightly),
        pytest.param((signal.SIGINT, signal.SIGINT), id="cancelled", marks=pytest.mark.nightly),
    ],
)
def test_a_run_ended_between_two_calls_of_its_rollouts_goes_on_with_the_answers_that_it_has_paid_for(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    folder = tmp_path / "run"
    drains = signals == (signal.SIGINT,)
    holding = Holding(after=20, cuts=not drains)
    with serving(provider := holding.provider()) as url:
        with subprocess.Popen(command(folder, url), env=environment()) as process:
            for _ in range(THREADS):
                assert holding.waiting.acquire(timeout=300)
            assert len(set(rows(folder, BETWEEN))) == THREADS
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signals[0])
            if signals[1:]:  # two at once would be one
                wait_for_events(folder, 1, process, lambda event: event.get("state") == "draining")
                process.send_signal(signals[1])
            if drains:
                holding.go.set()
            process.wait(timeout=300)
        holding.go.set()
        psutil.wait_procs(children, timeout=10)
        assert process.returncode == (130 if signal.SIGINT in signals else -signal.SIGKILL)
        waiting = {lease for (lease,) in rows(folder, BETWEEN)}
        assert len(waiting) == (0 if drains else THREADS)
        answers = rows(folder, "select lease, text from advisor_calls where purpose = 'propose' order by lease")
        done = piped([PACE, "resume", str(folder), "--display", "none"])
        assert done.returncode == 0, done.stderr.decode()
    assert_balanced(folder, provider)
    now = rows(folder, "select lease, text from advisor_calls where purpose = 'propose' order by lease")
    assert now[: len(answers)] == answers
    assert len(rows(folder, "select candidate from candidates where candidate > 0")) == CANDIDATES
    assert_sound(folder / "population.db", finished=True)


@pytest.mark.fault("Implementer", "an advisor over the network, stopped by its budget between two calls of a rollout")
@pytest.mark.nightly
def test_a_run_behind_a_barrier_that_its_budget_stopped_pays_for_the_missing_answers_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    holding = Holding()
    with serving(provider := holding.provider()) as url:
        more = ("--sync", "--set", "learner.group_size=4", "--budget", "0.2")
        more += ("--set", "advisor.max_tokens=1000", "--set", "advisor.max_tokens_by_call={assess: 30000}")  # 0.24 USD
        first = piped(command(folder, url, *more))
        assert first.returncode == 3, first.stderr.decode()
        assert rows(folder, "select sum(usd) from spend")[0][0] <= 0.2
        assert rows(folder, BETWEEN)
        done = piped([PACE, "resume", str(folder), "--budget", "5", "--display", "none"])
        assert done.returncode == 0, done.stderr.decode()
    assert_balanced(folder, provider)
    assert len(rows(folder, "select candidate from candidates where candidate > 0")) == CANDIDATES
    assert_sound(folder / "population.db", finished=True)


@pytest.mark.nightly
def test_a_run_keeps_notes_that_its_next_questions_show_and_every_command_reads(tmp_path: Path) -> None:
    folder, notes = tmp_path / "run", ("--set", "search.notes_every=4")
    with serving(provider := LocalProvider(TASK)) as url:
        first = piped(command(folder, url, *notes, "--candidates", "10"))
        assert first.returncode == 0, first.stderr.decode()
        assert rows(folder, "select candidates / 4 from notes order by number") == [(1,), (2,)]
        done = piped([PACE, "resume", str(folder), "--candidates", "16", "--display", "none"])
        assert done.returncode == 0, done.stderr.decode()
    assert rows(folder, "select candidates / 4 from notes order by number") == [(1,), (2,), (3,), (4,)]
    questions = [str(body["messages"][-1]["content"]) for body in provider.bodies]
    asked = [question for question in questions if is_advice(f"\n{question}")]
    assert any("layout hex, in candidate 2" in question for question in asked)
    written = [question for question in questions if NOTES in question]
    assert len(written) == 4 and ["# The notes so far" in question for question in written] == [False, True, True, True]
    shown = json.loads(piped([PACE, "prompts", "show", "circle_packing", str(folder), "--json"]).stdout)
    assert "16 tried in all" in shown["questions"][0]["text"]
    assert rows(folder, "select prompts_digest from runs") == [(Templates.of(PromptsConfig(), TASK.folder).digest,)]
    ledger, status = (
        rows(folder, "select sum(usd) from spend")[0][0],
        json.loads(piped([PACE, "status", str(folder), "--json"]).stdout),
    )
    assert ledger == pytest.approx(provider.charged_usd, abs=1e-9) and status["spend_usd"] == pytest.approx(ledger)
    assert status["spend_by_role"]["notes"] == pytest.approx(rows(folder, "select sum(cost_usd) from notes")[0][0])
    shown = piped([PACE, "show", str(folder), "--notes"]).stdout.decode()
    assert "16, of which" in shown and "    Worked:\n    layout hex, in candidate 2\n    Failed:" in shown
    pages = json.loads(piped([PACE, "show", str(folder), "--notes", "--json"]).stdout)
    assert [page["number"] for page in pages] == [1, 2, 3, 4] and all(page["cost_usd"] > 0 for page in pages)
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["notes"]["number"] for event in events if event.get("notes")] == [1, 2, 3, 4]
    assert piped([PACE, "report", str(folder)]).returncode == 0
    assert "layout hex, in candidate 2" in (folder / "report.html").read_text()
    assert piped([PACE, "db", "check", str(folder)]).returncode == 0
    assert_sound(folder / "population.db", finished=True)
