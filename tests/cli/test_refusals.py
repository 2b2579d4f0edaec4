"""A mistake is reported before anything heavy is loaded, in one sentence, and nothing is written."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pace_async.cli.main import main
from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.providers.keys import KEYS, refuse_without_keys
from tests.support.command_line import Shell
from tests.support.examples import OPENEVOLVE, example
from tests.support.finished_runs import make_run

HEAVY = ("torch", "transformers", "litellm", "sqlalchemy", "httpx", "rich")
REFUSALS = {
    "show nosuch 3": "There is no run 'nosuch'",
    "show 3": "There is no run under ./runs yet",
    "status nosuch": "There is no run 'nosuch'",
    "best nosuch": "There is no run 'nosuch'",
    "diff nosuch 1 2": "There is no run 'nosuch'",
    "export nosuch": "There is no run 'nosuch'",
    "report nosuch": "There is no run 'nosuch'",
    "resume nosuch": "There is no run 'nosuch'",
    "simulate --like nosuch": "There is no run 'nosuch'",
    "simulate --nodes 4 --node-mtbf often": "--node-mtbf must be a time of at least one second",
    "simulate --nodes 4 --preempt 2": "--preempt must be a probability from 0 to below 1, not 2.",
    "simulate --nodes 2 --slots-per-node 3": "are 6 slots for --threads 8",
    "db sql nosuch select": "There is no run 'nosuch'",
    "db shell nosuch": "There is no run 'nosuch'",
    "db check nosuch": "There is no run 'nosuch'",
    "db backup nosuch file": "There is no run 'nosuch'",
    "db copy nosuch file": "There is no run 'nosuch'",
    "db upgrade nosuch": "There is no run 'nosuch'",
    "run nosuch": "There is no task 'nosuch'",
    "run ./empty": "./empty is a folder without task.yaml",
    "eval ./empty x.py": "./empty is a folder without task.yaml",
    "eval circle_packing missing.py": "Cannot read missing.py",
    "run --async --sync": "--async and --sync exclude each other",
    "run --sandbox --unsafe-no-sandbox": "--unsafe-no-sandbox and --sandbox exclude each other",
    "run --set learner.kk=2": "Unknown setting 'learner.kk'",
    "run --advisor nowhere": "--advisor nowhere is not a model directory",
    "run --implementer openai/gpt-5": "missing key; set OPENAI_API_KEY in the environment",
    "run --implementer claude-sonnet-4": "missing key; set ANTHROPIC_API_KEY in the environment",
    "run --implementer groq/llama,mistral/large": "GROQ_API_KEY is empty in the environment",
    "run --candidates many": "Invalid value for '--candidates'",
    "run --nosuch": "No such option: --nosuch",
    "nosuch": "No such command 'nosuch'",
}
ALL = f"""
import contextlib, io, json, os, sys
sys.argv = ["pace"]
from pace_async.cli.main import main
found = {{}}
for line in {list(REFUSALS)!r}:
    sys.argv[1:] = line.split()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code
    found[line] = [code, said.getvalue(), [name for name in {HEAVY!r} if name in sys.modules], os.listdir()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """Each of them, typed one after the other in one fresh interpreter without any key."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "empty").mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GROQ_API_KEY": " "}
    done = subprocess.run(
        [sys.executable, "-c", ALL],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.fault("Configuration and terminal", "a mistake is told before anything heavy is loaded")
@pytest.mark.parametrize("line", REFUSALS)
def test_a_mistake_is_refused_before_anything_heavy_is_loaded(line: str, refused: dict[str, list[object]]) -> None:
    code, said, loaded, files = refused[line]
    assert REFUSALS[line] in str(said)
    assert (code, str(said).count("\n"), loaded, files) == (2, 1, [], ["empty"])
    assert str(said).startswith("pace: ")


def test_every_command_takes_h(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    for command in ((), ("run",), ("db",), ("db", "sql"), ("task", "check"), ("config", "show")):
        said = shell.pace(*command, "-h")
        assert said.code == 0
        assert "Usage: " in said.out


@pytest.mark.parametrize("given", ["openai/x", "anthropic/x", "gemini/x", "gpt-4o", "claude-sonnet-4-20250514"])
def test_an_existing_key_is_not_reported_as_missing(given: str) -> None:
    every = {name: "any" for names in KEYS.values() for name in names}
    refuse_without_keys([given], None, every)
    refuse_without_keys(["ollama/x", "hosted_vllm/x", "bedrock/x"], None, {})
    refuse_without_keys([given], "http://127.0.0.1:1", {})


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    (tmp_path / "runs").mkdir()
    make_run(tmp_path / "runs" / "circle_packing-1")
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.mark.fault("Configuration and terminal", "hostile text cannot steer the terminal")
@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (("run", "--config", "no\x1b[2J\x9b31m\u202e.yaml"), ""),
        (("run", "--config", "made.yaml"), 'advisor:\n  model: "m\\e]0;owned\\a"\n'),
        (("config", "show", "--config", "made.yaml"), '"a\\e[2J": 3\n'),
        (("run", "evil\x1b[2J"), ""),
        (("task", "check", "evil"), ""),
        (("eval", "evil", "x.py"), ""),
        (("status", "gone\x1b[31m"), ""),
        (("--no\x1b[31m",), ""),
    ],
    ids=lambda given: "",
)
def test_a_refusal_quotes_names_and_files_without_their_escapes(
    shell: Shell, command: tuple[str, ...], settings: str
) -> None:
    (shell.folder / "made.yaml").write_text(settings)
    (shell.folder / "evil").mkdir()
    (shell.folder / "evil" / "task.yaml").write_text('name: "a\\e[2J"\n"n\\e[31mme": "\\u202e\\u009b31m"\n')
    said = shell.pace(*command)
    assert said.code and said.err + said.out
    assert [sign for sign in said.err + said.out if not (sign.isprintable() or sign == "\n")] == []


@pytest.mark.fault("Being started and stopped", "no folder for temporary files")
@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        ("run", "--candidates", "2", "--display", "none"),
        ("eval", "circle_packing", "made.py"),
        ("task", "check", "circle_packing"),
        ("task", "import", "openevolve", "theirs", "--to", "mine"),
        ("resume", "circle_packing-1", "--candidates", "99", "--display", "none"),
    ],
    ids=" ".join,
)
def test_without_a_folder_for_temporary_files_commands_say_so(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (shell.folder / "made.py").write_text("x = 1\n")
    example(shell.folder / "theirs", OPENEVOLVE)
    with monkeypatch.context() as full:  # every folder that Python tries, the present one too
        full.setattr(tempfile, "tempdir", None)
        full.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(shell.folder / "absent")])
        said = shell.pace(*command)
    assert "Traceback" not in said.err
    assert "set TMPDIR to" in said.out + said.err
    without_a_score = command[:2] == (
        "task",
        "import",
    )  # the task is made, and what its first evaluation lacked is said
    assert said.code == (0 if without_a_score else 1 if command == ("doctor",) else 2)


@pytest.mark.fault("Configuration and terminal", "a number that no candidate has")
@pytest.mark.parametrize("number", ["41", "9" * 20, "9" * 5000])
@pytest.mark.parametrize("command", [("show",), ("show", "--prompts"), ("diff",)], ids=" ".join)
def test_a_number_beyond_every_integer_is_one_sentence(shell: Shell, command: tuple[str, ...], number: str) -> None:
    said = shell.pace(*command, "circle_packing-1", number)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith("pace: The run has no candidate")


def test_show_knows_the_latest_run_the_best_and_a_tasks_latest_run(shell: Shell) -> None:
    best = json.loads(shell.pace("best", "--json").out)["candidate"]
    spoken = [
        ("show",),
        ("show", "best"),
        ("show", str(best)),
        ("show", "circle_packing-1", "best"),
        ("show", "circle_packing", "best"),
    ]
    assert {json.loads(shell.pace(*words, "--json").out)["candidate"] for words in spoken} == {best}
    assert json.loads(shell.pace("show", "seed", "--json").out)["candidate"] == 0
    assert "rollouts" in shell.pace("show", "--islands").out
    assert json.loads(shell.pace("diff", "seed", "best", "--json").out)["b"]["candidate"] == best
    assert json.loads(shell.pace("diff", "0", "--json").out)["b"]["candidate"] == best
    assert "There is no run '1'" in shell.pace("diff", "1", "2", "3").err


def test_a_task_means_its_latest_run(shell: Shell) -> None:
    runs = shell.folder / "runs"
    make_run(runs / "circle_packing-2")
    make_run(runs / "mine")
    (runs / "mine" / "config.yaml").write_text("seed: 1\ntask: ./here/tours\n")
    for when, name in enumerate(("circle_packing-1", "circle_packing-2", "mine")):
        os.utime(runs / name / "population.db", (1e9 + when, 1e9 + when))
    assert json.loads(shell.pace("best", "circle_packing", "--json").out)["path"] == "runs/circle_packing-2/best.py"
    os.utime(runs / "circle_packing-1" / "population.db", (2e9, 2e9))
    assert json.loads(shell.pace("best", "circle_packing", "--json").out)["path"] == "runs/circle_packing-1/best.py"
    assert json.loads(shell.pace("best", "tours", "--json").out)["path"] == "runs/mine/best.py"
    assert "There is no run 'eplb'" in shell.pace("best", "eplb").err


def test_a_service_that_does_not_start_ends_the_command_as_one_that_stays_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise InfrastructureFault("engine_start", "not up after 300 s")

    monkeypatch.setattr("pace_async.cli.main.app", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, GaveUp.exit_code) == (6, 6)
    assert capsys.readouterr().err == "pace: engine_start: not up after 300 s\n"
