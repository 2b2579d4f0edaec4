"""An agent of the user's as implementer: real processes, in separate folders."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.events import ImplementerTry
from pace_async.implement.agent import words_of
from pace_async.implement.agent_checks import refuse_unless_runnable
from pace_async.implement.agent_folder import OUTPUT, AgentFolders
from pace_async.implement.agent_presets import reported_cost
from pace_async.implement.agent_process import run_agent
from pace_async.implement.agent_prompt import files_for, prompt_for
from pace_async.implement.assemble import open_implementer
from pace_async.implement.base import Experiment, Implementer, Unusable
from pace_async.implement.edits import program_left
from pace_async.search.state import Member
from pace_async.task import load_task, split_block
from tests.doubles import agents
from tests.doubles.implementers import PlainLedger
from tests.support.implementing import PARENT, TASK
from tests.support.process_tasks import make_process_task
from tests.support.simulated_runs import settings

EXPERIMENT = Experiment(1, "a better start", 'Set layout to "hex".')
SECRET = "canary-0123456789abcdef"


def command(*way: str) -> list[str]:
    """The stand-in's command, without the cost of site-packages."""
    return [sys.executable, "-I", "-S", str(Path(agents.__file__)), *way]


def configured(*way: str, **more: object) -> Config:
    given: dict[str, object] = {"implementer__model": "command", "implementer__command": command(*way)}
    return settings(**(given | {"faults__backoff_s": 0.001, "faults__patience_s": 1e-9} | more))  # no second call


@asynccontextmanager
async def working(
    folder: Path, config: Config, ended: Callable[[int], bool] = lambda _: False
) -> AsyncGenerator[tuple[Implementer, PlainLedger]]:
    ledger = PlainLedger()
    folders = AgentFolders(folder / "agents", folder / "agent.log", ended, config.implementer.keep_folders)
    async with open_implementer(config, TASK, ledger, folders) as implementer:
        yield implementer, ledger


async def test_what_the_command_leaves_in_the_program_is_the_candidate_and_it_reports_its_cost(tmp_path: Path) -> None:
    async with working(tmp_path, configured("apply", "0.0123", implementer__price_per_call=0.05)) as (agent, ledger):
        made = await agent.implement(TASK, PARENT, EXPERIMENT)
        assert {path.name for path in (tmp_path / "agents" / "1").iterdir()} == {
            *("initial.py", "PROMPT.md", "TASK.md", "EXPERIMENT.md", "experiment.json", OUTPUT)
        }
    assert split_block(made.program)[1] == split_block(TASK.program)[1].replace('layout = "rings"', 'layout = "hex"')
    assert made.tried == ImplementerTry(1, "command", "ok", "", made.program, None)
    assert ledger.reserved == {1: 0.05}
    assert [(call.outcome, call.cost_usd, call.reservation) for call in ledger.calls] == [("ok", 0.0123, 1)]
    assert ledger.faults == []


@pytest.mark.parametrize(
    ("way", "kind", "said"),
    [
        (("nothing",), "unchanged", "does the same as its parent"),
        (("delete",), "empty_answer", "initial.py is gone"),
        (("folder",), "empty_answer", "initial.py is a folder, which is not read"),
        (("pipe",), "empty_answer", "initial.py is a pipe, which is not read"),
        (("sparse",), "program_too_long", "10737418240 bytes"),
        (("write", ""), "empty_block", "nothing would be left"),
        (("too_long",), "program_too_long", "characters, of 262144 allowed"),
        (("huge",), "program_too_long", "3000000 bytes"),
        (("outside",), "edit_leaves_block", "outside the evolve block"),
        (("marks",), "markers_in_block", "inside the evolve block"),
        (("broken",), "syntax_error", "line "),
        (("binary",), "not_text", "initial.py is not UTF-8"),
    ],
)
async def test_a_useless_program_is_the_candidates_fault_with_the_names_that_others_have(
    tmp_path: Path, way: tuple[str, ...], kind: str, said: str
) -> None:
    async with working(tmp_path, configured(*way, implementer__price_per_call=0.25)) as (agent, ledger):
        with pytest.raises(Unusable, match=said) as fault:
            await agent.implement(TASK, PARENT, EXPERIMENT)
    assert fault.value.kind == kind
    assert [(call.outcome, call.cost_usd, call.tried) for call in ledger.calls] == [(kind, 0.25, fault.value.tried)]
    assert (fault.value.tried.program is not None) == (kind == "syntax_error")


async def test_a_program_longer_than_the_task_allows_is_refused_before_it_is_evaluated(tmp_path: Path) -> None:
    size = len(TASK.program.replace('layout = "rings"', 'layout = "hex"'))
    exact, short = (
        replace(TASK, spec=TASK.spec.model_copy(update={"longest_program": most})) for most in (size, size - 1)
    )
    async with working(tmp_path, configured("apply")) as (agent, ledger):
        await agent.implement(exact, PARENT, EXPERIMENT)
        assert files_for(exact, PARENT, EXPERIMENT)["TASK.md"].endswith(f" may have at most {size} characters.\n")
        with pytest.raises(Unusable, match=f"{size} characters, of {size - 1} allowed"):
            await agent.implement(short, PARENT, Experiment(2, EXPERIMENT.idea, EXPERIMENT.description))
    assert ledger.outcomes == ["ok", "program_too_long"]


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("link", "initial.py is a link, which is not read"),
        ("hard_link", "initial.py is a second name of another file, which is not read"),
        ("folder_link", "the folder of the program is gone"),
    ],
)
async def test_nothing_from_outside_its_folder_becomes_a_program_and_nothing_is_written_there(
    tmp_path: Path, way: str, said: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "initial.py").write_text(TASK.program.replace('layout = "rings"', 'layout = "hex"'))
    target = outside if way == "folder_link" else outside / "initial.py"
    async with working(tmp_path, configured(way, str(target))) as (agent, _):
        with pytest.raises(Unusable, match=said) as fault:
            await agent.implement(TASK, PARENT, EXPERIMENT)
    assert (fault.value.kind, fault.value.tried.program) == ("empty_answer", None)
    assert [path.name for path in outside.iterdir()] == ["initial.py"]


async def test_the_rights_that_an_agent_gives_a_program_are_not_kept(tmp_path: Path) -> None:
    async with working(tmp_path, configured("apply_with_rights"), lambda _: True) as (agent, _):
        made = await agent.implement(TASK, PARENT, EXPERIMENT)
        left = (tmp_path / "agents" / "1" / "initial.py").stat().st_mode
        await agent.implement(TASK, PARENT, Experiment(2, "a better start", 'Set layout to "hex".'))
    assert left & 0o6000
    assert '"hex"' in made.program
    assert not (tmp_path / "agents").exists()


async def test_a_failed_program_is_given_again_in_the_same_folder_with_the_failure(tmp_path: Path) -> None:
    async with working(tmp_path, configured("mends")) as (agent, ledger):
        with pytest.raises(Unusable) as fault:
            await agent.implement(TASK, PARENT, EXPERIMENT)
        again = Experiment(1, EXPERIMENT.idea, EXPERIMENT.description, (fault.value.tried,))
        made = await agent.implement(TASK, PARENT, again)
        seen = (tmp_path / "agents" / "1" / "seen").read_text()
        assert json.loads((tmp_path / "agents" / "1" / "experiment.json").read_text())["try"] == 2
    assert "does not compile: line " in seen
    assert "a note of the first call" in seen
    assert '"hex"' in made.program
    assert ledger.outcomes == ["syntax_error", "ok"]
    assert made.tried is not None
    assert made.tried.number == 2


@pytest.mark.parametrize(
    ("line", "usd", "mistake"),
    [
        ('{"cost_usd": 0.0123}', 0.0123, ""),
        ('thinking\n{"cost_usd": 9}\n{"total_cost_usd": 2}\nbye\n', 2.0, ""),
        ('{"cost_usd": 1}\n{"done": true}', None, ""),
        ("{'cost_usd': 1}", None, ""),
        ("", None, ""),
        ('{"cost_usd": -1}', None, "cost_usd is -1,"),
        ('{"cost_usd": NaN}', None, "cost_usd is nan,"),
        ('{"cost_usd": 1e999}', None, "cost_usd is inf,"),
        ('{"cost_usd": "0.5"}', None, 'cost_usd is "0.5",'),
        ('{"cost_usd": true}', None, "cost_usd is true,"),
        ('{"cost_usd": null}', None, "cost_usd is null,"),
        ('{"cost_usd": 1e300}', None, "cost_usd is 1e+300,"),
        ('{"cost_usd": [' + "1, " * 100 + "1]}", None, "…,"),
        ('{"cost_usd": ' + "[" * 100_000 + "]" * 100_000 + "}", None, ""),
    ],
)
def test_the_last_json_line_names_the_cost(line: str, usd: float | None, mistake: str) -> None:
    found = reported_cost(line)
    assert found.usd == usd
    assert mistake in found.mistake
    assert bool(mistake) == bool(found.mistake)


@pytest.mark.parametrize(
    ("claim", "cost", "kind", "said"),
    [
        ("-1", 0.1, "invalid_cost", "cost_usd is -1, and not a number of USD from 0 to 10000: the call counts with"),
        ("0.5", 0.5, "cost_above_price", "a call cost 0.5 USD, more than implementer.price_per_call (0.1 USD)"),
    ],
)
async def test_a_cost_that_cannot_be_right_is_reported_in_one_sentence(
    tmp_path: Path, claim: str, cost: float, kind: str, said: str
) -> None:
    async with working(tmp_path, configured("apply", claim, implementer__price_per_call=0.1)) as (agent, ledger):
        await agent.implement(TASK, PARENT, EXPERIMENT)
    assert [call.cost_usd for call in ledger.calls] == [cost]
    assert [(name, said in detail) for name, detail in ledger.faults] == [(kind, True)]


async def test_much_output_is_bounded_and_its_end_is_read(tmp_path: Path) -> None:
    async with working(tmp_path, configured("loud", implementer__keep_folders=True)) as (agent, ledger):
        await agent.implement(TASK, PARENT, EXPERIMENT)
    assert [call.cost_usd for call in ledger.calls] == [0.5]
    assert (tmp_path / "agents" / "1" / OUTPUT).stat().st_size < 300_000


async def test_an_exit_code_is_a_failure_of_the_service_and_no_secret_of_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    config = configured("fails", f"rejected {SECRET}", implementer__price_per_call=0.2)
    async with working(tmp_path, config) as (agent, ledger):
        with pytest.raises(Exception, match="No implementer answered"):
            await agent.implement(TASK, PARENT, EXPERIMENT)
        assert "rejected [hidden]" in (tmp_path / "agents" / "1" / OUTPUT).read_text()
    assert set(ledger.outcomes) == {"agent_failed"}
    assert {call.cost_usd for call in ledger.calls} == {0.2}
    assert ledger.faults[0] == ("agent_failed", "command: the agent ended with exit code 7: rejected [hidden]")
    assert SECRET not in str(ledger)


async def test_a_program_with_a_secret_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    async with working(tmp_path, configured("secret", "AGENT_API_KEY")) as (agent, ledger):
        with pytest.raises(InfrastructureFault, match="secret_in_answer"):
            await agent.implement(TASK, PARENT, EXPERIMENT)
    assert SECRET not in str(ledger)
    assert ledger.outcomes == ["secret_in_answer"]


async def test_a_timeout_aborts_its_lease_and_is_not_tried_again_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    config = configured("hangs", str(tmp_path / "fifo"), implementer__timeout_s=0.2, implementer__price_per_call=0.3)
    async with working(tmp_path, config) as (agent, ledger):
        with pytest.raises(InfrastructureFault, match=r"timeout: command: not done within 0\.2 s"):
            await agent.implement(TASK, PARENT, EXPERIMENT)
    assert [(call.outcome, call.cost_usd) for call in ledger.calls] == [("timeout", 0.3)]


async def test_a_cancelled_call_leaves_no_process_and_counts_with_its_price(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    config = configured("hangs", str(fifo), implementer__price_per_call=0.3)
    pids: list[str] = []
    async with working(tmp_path, config) as (agent, ledger), anyio.create_task_group() as tasks:
        tasks.start_soon(agent.implement, TASK, PARENT, EXPERIMENT)
        pids = (await anyio.to_thread.run_sync(fifo.read_text)).split()
        tasks.cancel_scope.cancel()
    assert len(pids) == 2
    assert [pid for pid in pids if psutil.pid_exists(int(pid))] == []
    assert [(call.outcome, call.cost_usd) for call in ledger.calls] == [("cancelled", 0.3)]


async def test_a_process_that_an_agent_left_behind_ends_with_it(tmp_path: Path) -> None:
    async with working(tmp_path, configured("leaves", str(tmp_path / "pid"))) as (agent, _):
        await agent.implement(TASK, PARENT, EXPERIMENT)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.mark.fault("Implementer", "an agent, and the runtime killed")
def test_nothing_of_an_agent_outlives_a_killed_runtime(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = (
        "import sys, anyio, pathlib\nfrom pace_async.implement.agent_process import run_agent\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "anyio.run(run_agent, sys.argv[2:], folder, pathlib.Path('/dev/null'), folder / 'log', 60.0)\n"
    )
    called = [sys.executable, "-c", code, str(tmp_path), *command("hangs", str(fifo))]
    with subprocess.Popen(called) as runtime:
        pids = [int(pid) for pid in fifo.read_text().split()]
        family = [psutil.Process(pid) for pid in pids] + psutil.Process(runtime.pid).children()
        runtime.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(family, 20)
    assert len(family) == 3
    assert alive == []


LEAVES = """
echo $$ > pids
for each in 1 2 3 4; do
    setsid sleep 600 & echo $! >> pids
    env -i sleep 600 & echo $! >> pids
    env -i setsid sleep 600 & echo $! >> pids
    (cd / && exec setsid sleep 600) & echo $! >> pids
    (cd / && exec env -i setsid sleep 600) 9> held & echo $! >> pids
done
exec env -i setsid sh -c 'sleep 600 & echo $! >> pids; kill -$1 $2; echo > done; exec sleep 600' sh "$1" $PPID
"""


@pytest.mark.fault("Implementer", "an agent that kills or stops its guard")
async def test_nothing_is_left_of_an_agent_that_killed_its_guard(tmp_path: Path) -> None:
    with anyio.fail_after(100):
        ended = await run_agent(["sh", "-c", LEAVES, "sh", "KILL"], tmp_path, Path(os.devnull), tmp_path / "log", 90.0)
    assert (ended.code, ended.errors) == (None, "its guard was killed")
    assert _left(tmp_path) == []


@pytest.mark.long
@pytest.mark.fault("Implementer", "an agent that kills or stops its guard")
async def test_nothing_is_left_of_an_agent_that_stopped_its_guard(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "done")
    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            command = ["sh", "-c", LEAVES, "sh", "STOP"]
            tasks.start_soon(run_agent, command, tmp_path, Path(os.devnull), tmp_path / "log", 90.0)
            await anyio.to_thread.run_sync((tmp_path / "done").read_text, abandon_on_cancel=True)
            tasks.cancel_scope.cancel()
    assert _left(tmp_path) == []


def _left(folder: Path) -> list[int]:
    """The processes of LEAVES that live."""
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert len(pids) == 22
    return [pid for pid in pids if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_folders_of_ended_leases_are_removed_and_those_of_open_ones_stay(tmp_path: Path) -> None:
    async with working(tmp_path, configured("apply"), ended=lambda lease: lease < 3) as (agent, _):
        for lease in (1, 2, 3):
            await agent.implement(TASK, PARENT, Experiment(lease, "", EXPERIMENT.description))
    assert [path.name for path in (tmp_path / "agents").iterdir()] == ["3"]
    async with working(tmp_path, configured("apply"), ended=lambda _: True):
        pass
    assert not (tmp_path / "agents").exists()


async def test_a_fresh_try_sees_nothing_of_a_call_that_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "agents" / "1").mkdir(parents=True)
    (tmp_path / "agents" / "1" / "initial.py").write_text("half")
    (tmp_path / "agents" / "1" / "left.txt").write_text("half")
    async with working(tmp_path, configured("apply")) as (agent, _):
        made = await agent.implement(TASK, PARENT, EXPERIMENT)
        assert not (tmp_path / "agents" / "1" / "left.txt").exists()
    assert '"hex"' in made.program


def test_the_program_of_a_process_task_has_its_own_name(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "sums")
    files = files_for(task, Member(0, task.program, 1.0), EXPERIMENT)
    assert files["initial.c"] == task.program
    assert "`// EVOLVE-BLOCK-START`" in files["PROMPT.md"]
    assert "started by `./program`" in files["TASK.md"]
    assert program_left(task.program.replace("= 2", "= 3"), task.program, "c") == task.program.replace("= 2", "= 3")


def test_a_program_of_several_files_is_parted_and_joined(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        (TASK.folder / "task.yaml").read_text().replace("program: initial.py", "program: initial.py\nfiles: [moves.py]")
        if "program:" in (TASK.folder / "task.yaml").read_text()
        else (TASK.folder / "task.yaml").read_text() + "files: [moves.py]\n"
    )
    for path in TASK.folder.iterdir():
        if path.is_file() and path.name != "task.yaml":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "moves.py").write_text("A = 1\n")
    task = load_task(str(tmp_path))
    files = files_for(task, Member(0, task.program, 1.0), EXPERIMENT)
    assert files["moves.py"] == "A = 1\n"
    assert files["initial.py"] == TASK.program
    assert "(initial.py, moves.py)" in files["PROMPT.md"]


def test_values_of_placeholders_are_not_searched_and_hold_no_nul() -> None:
    values = {"prompt": "use {program}\0", "program": "/p", "folder": "/f"}
    words = words_of(["agent", "-p", "{prompt}", "--file={program}", "{other}", "{"], values)
    assert words == ["agent", "-p", "use {program}�", "--file=/p", "{other}", "{"]


def test_a_long_experiment_still_fits_a_command_line() -> None:
    long = Experiment(1, "é" * 100_000, "x" * 100_000)
    assert len(prompt_for(TASK, PARENT, long).encode()) < 128 * 1024


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": []}, "--implementer command runs a program of yours: name it"),
        ({"command": "no-such-agent --yes"}, "there is no 'no-such-agent' on the PATH"),
        ({"command": ["./no/agent"]}, "'./no/agent' is not a program that can be started"),
        ({"command": ["python3", "no_such_agent.py"]}, "no_such_agent.py is not in"),
        ({"command": ["python3", "-c", "pass", "--key", SECRET]}, "holds a secret and would be stored"),
        ({"command": ["python3", "-c", "pass"], "price_per_call": None}, "--budget needs to know what a call"),
    ],
)
def test_a_command_that_cannot_work_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], said: str
) -> None:
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    values = {"implementer.model": "catalog=1,command=3", "implementer.price_per_call": 0.1}
    config = resolve(None, {**values, **{f"implementer.{key}": value for key, value in more.items()}})
    with pytest.raises(UsageError) as refused:
        refuse_unless_runnable(config.implementer, 1.0)
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_command_nothing_is_checked() -> None:
    refuse_unless_runnable(resolve(None, {"implementer.command": ["no-such-agent"]}).implementer, 1.0)


def test_files_that_a_command_names_become_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent.py").touch()
    (tmp_path / "python3").touch()
    monkeypatch.chdir(tmp_path)
    config = resolve(None, {"implementer.command": "python3 agent.py --say 'two words' {prompt}"})
    expected = ("python3", str(tmp_path / "agent.py"), "--say", "two words", "{prompt}")
    assert config.implementer.command == expected
    monkeypatch.chdir("/")
    assert resolve(None, {"implementer.command": list(expected)}).implementer.command == expected
