"""A search whose advisor SkyRL's server trains and serves, killed and resumed, beside the server's own record of it.

PACE_TINKER_CANDIDATES=120 make test-tinker ARGS="-k killed" is the long one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.runtime.children.advisor_folder import TINY
from tests.faults.invariants import assert_sound, candidates_of
from tests.support.real_runs import rows, wait_for_candidates
from tests.support.skyrl_server import answered, skyrl_server, until_up

CANDIDATES, GROUP, BOUND = int(os.environ.get("PACE_TINKER_CANDIDATES", "16")), 4, 2
PROMPT, SAMPLED, TRAINED = 1e-6, 2e-6, 3e-6
"""USD a token."""
PACE = str(Path(sys.executable).with_name("pace"))
LONGEST_S = max(600, 60 * CANDIDATES)
pytestmark = pytest.mark.timeout(LONGEST_S)  # compilation on a busy machine


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The advisor of the package, as any other model in a folder."""
    return shutil.copytree(TINY, tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def server(tiny: Path) -> Generator[str]:
    with skyrl_server(tiny, adapters=CANDIDATES // GROUP + 8) as url:
        anyio.run(until_up, url)
        yield url


def settings_of(tiny: Path, url: str) -> list[str]:
    given: dict[str, Any] = {
        "advisor.model": tiny,
        "implementer.model": "catalog",
        "learner.trainer": "tinker",
        "learner.group_size": GROUP,
        "learner.k": BOUND,
        "learner.lora_rank": 8,
        "learner.learning_rate": 1e-3,
        "reward.lower": 0.9,  # what the first programs score
        "reward.upper": 2.64,
        "search.memory": "pool",  # as the advisor of the package is asked
        "search.threads": GROUP,
        "stop.candidates": CANDIDATES,
        "tinker.url": url,
        "tinker.reduction": "mean",
        "tinker.price_per_million_prompt": 1e6 * PROMPT,
        "tinker.price_per_million_sampled": 1e6 * SAMPLED,
        "tinker.price_per_million_trained": 1e6 * TRAINED,
    }
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


def test_a_search_is_killed_and_resumed_within_the_bound_and_its_ledger_is_exact(
    tiny: Path, server: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    database = run / "population.db"
    search = [PACE, "run", "circle_packing", "--async", "--max-staleness", str(BOUND), "--seed", "3"]
    run.mkdir()
    (run / "events.jsonl").touch()
    where = ["--run-dir", str(run), "--display", "none"]
    with subprocess.Popen([*search, *settings_of(tiny, server), *where]) as process:
        wait_for_candidates(run, CANDIDATES // 2, process, LONGEST_S)
        process.send_signal(signal.SIGKILL)
    kept = candidates_of(database)
    done = subprocess.run([PACE, "resume", str(run), "--display", "none"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

    assert_sound(database, kept=kept, finished=True)
    assert len(candidates_of(database)) == CANDIDATES + 1
    assert rows(run, "select max(staleness) from leases")[0][0] <= BOUND
    assert_exact(run, tiny)


def assert_exact(run: Path, tiny: Path) -> None:
    """The rows are what the server did, but for the calls in flight at the kill, each of which cost all that it may."""
    paid = rows(
        run,
        """select c.model, c.outcome, c.lease, c.prompt_tokens, c.completion_tokens, c.cost_usd, r.cost_usd
        from implementer_calls c left join reservations r on (c.run_id, c.lease, c.ordinal) =
        (r.run_id, r.lease, r.ordinal) where c.role = 'advisor'""",
    )
    assert len(paid) == rows(run, "select count(*) from reservations")[0][0]
    shown = subprocess.run([PACE, "status", str(run), "--json"], capture_output=True, check=True).stdout
    assert json.loads(shown)["spend_usd"] == pytest.approx(sum(row[5] for row in paid), rel=1e-9)

    sampled, lost = _closed(paid, f"tinker:{tiny}", PROMPT, SAMPLED)
    _assert_had(
        [(prompt, answer) for _, prompt, answer in sampled],
        [(_length(asked["prompt"]), len(said["sequences"][0]["tokens"])) for asked, said in answered(tiny, "SAMPLE")],
        lost,
    )

    stepped, lost = _closed(paid, f"tinker:{tiny} (training)", TRAINED, TRAINED)
    for place, kind in ((1, "FORWARD"), (2, "FORWARD_BACKWARD")):
        groups = [sum(1 + _length(call["model_input"]) for call in asked["data"]) for asked, _ in answered(tiny, kind)]
        _assert_had([row[place] for row in stepped if row[place]], groups, lost)
    trained = rows(
        run,
        """select max(l.lease), sum(c.tokens), sum(c.tokens) from leases l
        join groups g on (l.run_id, l.group_number) = (g.run_id, g.group_number)
        join (select run_id, lease, sum(prompt_tokens + completion_tokens) tokens from advisor_calls group by 1, 2) c
        on (l.run_id, l.lease) = (c.run_id, c.lease) where g.state = 'trained' group by l.group_number""",
    )
    assert trained
    paid_for, made = Counter(row for row in stepped if row[2]), Counter(trained)
    # At the kill one step may have been paid for and not saved yet, or saved and not paid for yet.
    assert ((paid_for - made) + (made - paid_for)).total() <= 1
    assert 0 <= len(answered(tiny, "OPTIM_STEP")) - len(trained) <= 1


def _closed(paid: list[tuple[Any, ...]], model: str, first: float, second: float) -> tuple[list[tuple[int, ...]], int]:
    """Lease and both counts of tokens of each call on this model, at these prices, and how many were lost."""
    calls, lost = list[tuple[int, ...]](), 0
    for name, outcome, lease, before, after, usd, reserved in paid:
        if name != model:
            continue
        if outcome == "ok":
            assert usd == pytest.approx(before * first + after * second, rel=1e-9)
            calls.append((lease, before, after))
        else:
            assert (outcome, before, after, usd) == ("unknown", 0, 0, reserved)
            lost += 1
    return calls, lost


def _assert_had(paid: list[Any], had: list[Any], lost: int) -> None:
    assert Counter(paid) <= Counter(had)
    assert (Counter(had) - Counter(paid)).total() <= lost


def _length(given: dict[str, Any]) -> int:
    return sum(len(chunk["tokens"]) for chunk in given["chunks"])
