"""Coding agents by name, with stand-ins that take their flags and print what they are documented to print."""

import json
import sys
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from pace_async.cli.dry_run import dry_run
from pace_async.config import Config
from pace_async.config.implementer import AGENT_S
from pace_async.errors import GaveUp, UsageError
from pace_async.implement.agent_checks import refuse_unless_runnable
from pace_async.implement.agent_folder import AgentFolders
from pace_async.implement.agent_presets import PRESETS, login_missing
from pace_async.implement.assemble import open_implementer
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.runtime.start import launch
from pace_async.runtime.start.machine_checks import implementers
from pace_async.task import load_task
from tests.doubles.implementers import PlainLedger
from tests.support.implementing import PARENT, TASK
from tests.support.simulated_runs import settings

EXPERIMENT = Experiment(1, "a better start", 'Set layout to "hex".')
STAND_IN = Path(__file__).parents[1] / "doubles" / "known_agents.py"
PRICES = {"implementer__price_per_million_in": 1.0, "implementer__price_per_million_out": 10.0}


@pytest.fixture(autouse=True)
def _on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PRESETS:
        program = folder / name
        program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def configured(name: str, **more: object) -> Config:
    return settings(**({"implementer__model": name, "faults__backoff_s": 0.001, "faults__patience_s": 1e-9} | more))


async def made_by(folder: Path, config: Config) -> tuple[ImplementedProgram, PlainLedger, list[str]]:
    ledger = PlainLedger()
    folders = AgentFolders(folder / "agents", folder / "agent.log", lambda _: False, True)
    async with open_implementer(config, TASK, ledger, folders) as implementer:
        made = await implementer.implement(TASK, PARENT, EXPERIMENT)
        return made, ledger, json.loads((folder / "agents" / "1" / "ARGUMENTS.json").read_text())


@pytest.mark.parametrize(
    ("name", "cost", "arguments"),
    [
        ("claude", 0.0125, "-p --output-format json --permission-mode acceptEdits --max-turns 50"),
        ("claude:opus", 0.0125, "-p --output-format json --permission-mode acceptEdits --max-turns 50 --model opus"),
        (
            "codex:gpt-5",
            0.03,
            "exec --json --ephemeral --skip-git-repo-check --sandbox workspace-write --model gpt-5 -",
        ),
        ("opencode", 0.0125, "run --format json"),
    ],
)
async def test_a_known_agent_is_started_with_its_flags_and_its_cost_is_read(
    tmp_path: Path, name: str, cost: float, arguments: str
) -> None:
    made, ledger, given = await made_by(tmp_path, configured(name, **PRICES))
    assert 'layout = "hex"' in made.program
    assert given == arguments.split()
    assert [(call.model, call.outcome, call.cost_usd) for call in ledger.calls] == [(name, "ok", pytest.approx(cost))]


async def test_the_most_that_a_call_may_cost_and_further_flags_are_passed_on(tmp_path: Path) -> None:
    more = {"implementer__price_per_call": 0.5, "implementer__command": ["--settings", "mine.json"]}
    _, ledger, given = await made_by(tmp_path, configured("claude", **more))
    assert given[-4:] == ["--max-budget-usd", "0.5", "--settings", "mine.json"]
    assert ledger.reserved == {1: 0.5}


async def test_tokens_without_prices_count_as_the_price_of_a_call(tmp_path: Path) -> None:
    _, ledger, _ = await made_by(tmp_path, configured("codex", implementer__price_per_call=0.25))
    assert [call.cost_usd for call in ledger.calls] == [0.25]


@pytest.mark.parametrize("name", PRESETS)
async def test_a_failure_is_told_in_the_agents_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("KNOWN_AGENT_FAILS", "1")
    with pytest.raises(GaveUp, match="Not logged in"):
        await made_by(tmp_path, configured(name))


def test_an_agent_has_minutes_unless_the_user_says_otherwise() -> None:
    both, given = configured("catalog=3,claude:opus=1"), configured("codex", implementer__timeout_s=60.0)
    assert (both.implementer.timeout_s, both.implementer.deadline_s) == (AGENT_S, 2 * AGENT_S)
    assert (given.implementer.timeout_s, given.implementer.deadline_s) == (60.0, 2 * AGENT_S)
    assert configured("openai/gpt-5").implementer.timeout_s == configured("catalog").implementer.timeout_s == 180.0


@pytest.mark.parametrize("name", PRESETS)
async def test_what_is_not_installed_is_refused_and_a_missing_login_is_found_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = configured(name).implementer
    refuse_unless_runnable(config, None)
    with pytest.raises(UsageError, match=f"--budget needs to know what a call of --implementer {name} may cost"):
        refuse_unless_runnable(config, 1.0)
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in PRESETS[name].login:
        monkeypatch.delenv(place, raising=False)
    (finding,) = await implementers(config)
    assert not finding.ok and "no login was found in" in finding.found and finding.remedy == PRESETS[name].log_in
    monkeypatch.setenv(PRESETS[name].login[0], "canary")
    (finding,) = await implementers(config)
    assert finding.ok and finding.found.endswith("; a login is there") and "canary" not in finding.found
    assert login_missing(f"{name}:a-model", {PRESETS[name].login[0]: "key"}) is None
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=f"there is no '{name}' on the PATH; install it and log in"):
        refuse_unless_runnable(config, None)
    (finding,) = await implementers(config)
    assert not finding.ok and finding.found.startswith(f"{name} cannot be started")


def test_a_missing_login_is_told_before_anything_is_evaluated_and_by_a_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in PRESETS["claude"].login:
        monkeypatch.delenv(place, raising=False)
    told = f"implementer claude:opus: no login was found in {', '.join(PRESETS['claude'].login)}; if it has none: "
    config = configured("catalog=1,claude:opus=1")
    assert dry_run(config, tmp_path / "run")["plan"]["login"] == f"{told}`claude /login`"
    assert "login" not in dry_run(configured("catalog"), tmp_path / "run")["plan"]
    monkeypatch.setattr(launch, "pick_tier", AsyncMock(side_effect=UsageError("no sandbox")))
    with pytest.raises(UsageError, match="no sandbox"):
        launch.start(config, load_task(config.task), tmp_path / "run", ("plain", ()))
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"pace: {told}`claude /login`" and "proving the sandbox" in second
