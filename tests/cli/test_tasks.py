"""pace task init and check: a new task works, and what is wrong with one is named."""

import json

import pytest

from pace_async.runtime.start import task_check
from pace_async.task import CHECKOUT
from tests.support.command_line import Shell
from tests.support.command_tasks import make_command_task
from tests.support.process_tasks import make_process_task, needs_gcc
from tests.support.task_folders import CATALOGUE, PROGRAM, SUM, TASK, write


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless programs are waited for one second, and still have to be stopped."""
    monkeypatch.setattr(task_check, "HANG_S", 1.0)


def failed(shell: Shell) -> dict[str, str]:
    """What `pace task check mine` fails: name and what it says. Its exit code must agree."""
    said = shell.pace("task", "check", "./mine", "--json")
    found = json.loads(said.out)
    wrong = {check["check"]: f"{check['found']} | {check['remedy']}" for check in found["checks"] if not check["ok"]}
    assert said.code == (2 if wrong else 0)
    assert found["sound"] == (not wrong)
    assert all(check["remedy"] for check in found["checks"] if not check["ok"])
    return wrong


def test_a_new_task_passes_every_check_and_can_be_run(shell: Shell) -> None:
    assert shell.pace("task", "init", "tours").code == 0
    assert sorted(path.name for path in (shell.folder / "tours").iterdir()) == [
        "README.md",
        "catalogue.yaml",
        "evaluator.py",
        "initial.py",
        "task.yaml",
    ]
    said = shell.pace("task", "check", "tours")
    assert said.code == 0, said.out
    assert "FAIL" not in said.out
    assert "sound: 17 checks passed" in said.out
    assert shell.pace("run", "./tours", "--candidates", "16", "--dry-run").code == 0
    assert shell.files() == ["tours"]


def test_a_new_task_never_writes_over_anything(shell: Shell) -> None:
    (shell.folder / "tours").mkdir()
    (shell.folder / "tours" / "notes").write_text("mine")
    said = shell.pace("task", "init", "tours")
    assert (said.code, "is there already" in said.err) == (2, True)
    assert shell.pace("task", "init", "Tours!").code == 2
    assert shell.files() == ["tours"]
    assert [path.name for path in (shell.folder / "tours").iterdir()] == ["notes"]
    assert shell.pace("task", "init", "tours", "--folder", "tasks/tours").code == 0
    assert "pace task check tasks/tours" in (shell.folder / "tasks/tours/README.md").read_text()


def test_a_task_is_made_with_an_evaluator_of_its_own(shell: Shell) -> None:
    assert shell.pace("task", "init", "tours", "--kind", "command").code == 0
    names = {path.name for path in (shell.folder / "tours").iterdir()}
    assert names == {"README.md", "catalogue.yaml", "evaluate.py", "initial.py", "task.yaml"}
    said = shell.pace("task", "check", "tours")
    assert said.code == 0, said.out
    assert "trust is shared: the evaluator runs in the sandbox of its programs" in said.out
    assert "FAIL" not in said.out
    refused = shell.pace("task", "init", "more", "--kind", "command", "--language", "c++")
    assert (refused.code, "no example of a task of kind 'command' in C++" in refused.err) == (2, True)


def test_a_program_that_its_own_evaluator_refuses_is_shown_with_the_evaluators_words(shell: Shell) -> None:
    make_command_task(shell.folder / "mine", "echo 'line 7: no such colour' >&2; exit 4", more={"feedback": True})
    said = shell.pace("eval", "./mine", "mine/initial.sh")
    assert (said.code, "line 7: no such colour" in said.out.partition("feedback, which")[2]) == (0, True)
    found = json.loads(shell.pace("eval", "./mine", "mine/initial.sh", "--json").out)
    assert "line 7: no such colour" in found["feedback"]
    make_command_task(shell.folder / "mine", "echo 'line 7: no such colour' >&2; exit 4")
    assert "feedback" not in shell.pace("eval", "./mine", "mine/initial.sh").out


def test_a_task_is_made_in_another_language(shell: Shell) -> None:
    assert shell.pace("task", "init", "tours", "--language", "C++").code == 0
    names = {path.name for path in (shell.folder / "tours").iterdir()}
    assert names == {"README.md", "catalogue.yaml", "evaluator.py", "initial.cpp", "task.yaml"}
    assert "pace eval ./tours ./tours/initial.cpp" in (shell.folder / "tours" / "README.md").read_text()
    refused = shell.pace("task", "init", "more", "--language", "cobol")
    assert (refused.code, "--language takes python, c++, rust, go, fortran, r, julia" in refused.err) == (2, True)
    assert not (shell.folder / "more").exists()


@needs_gcc
def test_a_sound_task_of_compiled_programs_passes(shell: Shell) -> None:
    make_process_task(shell.folder / "mine", more="timeout_s: 30")
    assert failed(shell) == {}


def test_a_task_whose_compiler_is_missing_says_what_to_install(shell: Shell) -> None:
    make_process_task(shell.folder / "mine", build=["no-compiler", "initial.c"])
    assert "with no-compiler, which is not on this machine" in failed(shell)["commands are installed"]


def test_tasks_are_listed_by_group(shell: Shell) -> None:
    (shell.folder / "tasks").mkdir()
    write(shell.folder / "tasks" / "mine", task__yaml="group: packing\n" + TASK)
    write(shell.folder / "tasks" / "other", task__yaml=TASK)
    listed = {row["task"]: row["group"] for row in json.loads(shell.pace("task", "list", "--json").out)}
    assert (listed["mine"], listed["other"], listed["eplb"]) == ("packing", None, "systems")
    packing = json.loads(shell.pace("task", "list", "--group", "packing", "--json").out)
    assert {row["task"] for row in packing} == {name for name, group in listed.items() if group == "packing"}


def test_an_unknown_group_is_refused_with_the_nearest_known_one(shell: Shell) -> None:
    said = shell.pace("task", "list", "--group", "pakcing")
    assert (said.code, "did you mean packing?" in said.err) == (2, True)
    write(shell.folder / "mine", task__yaml="group: sistems\n" + TASK)
    assert "group: unknown group of tasks 'sistems' (did you mean systems?)" in failed(shell)["loads"]


def test_a_sound_task_passes(shell: Shell) -> None:
    write(shell.folder / "mine")
    assert failed(shell) == {}


def test_scores_of_first_outputs_are_checked(shell: Shell) -> None:
    write(shell.folder / "mine", evaluator__py=f"{SUM}\nso_far = score\n")
    said = shell.pace("task", "check", "./mine")
    assert (said.code, "pass  first outputs have a score: 1 value, 1 after 1 output" in said.out) == (0, True)


@pytest.mark.long
def test_a_task_whose_files_are_not_there_is_checked_with_its_offline_settings(shell: Shell) -> None:
    settings = "settings: {data: real}\noffline_settings: {data: drawn}\n"
    needs = "def instances(seed, settings):\n    if settings['data'] == 'real': raise FileNotFoundError('get it')\n"
    evaluator = SUM.replace("def instances(seed):\n", needs)
    write(shell.folder / "mine", task__yaml=TASK + settings, evaluator__py=evaluator)
    assert failed(shell) == {}
    assert "with data=drawn" in shell.pace("task", "check", "./mine").out
    said = shell.pace("task", "check", "./mine", "--set", "data=real")
    assert (said.code, "FAIL  evaluator loads: get it." in said.out) == (2, True)
    said = shell.pace("task", "check", "./mine", "--set", "date=real")
    assert (said.code, "did you mean 'data'?" in said.err) == (2, True)


@pytest.mark.fault("Sandbox", "a score that varies", only="scores repeat")
@pytest.mark.parametrize(
    ("files", "check", "says"),
    [
        ({"task__yaml": TASK + "tymeout: 3\n"}, "loads", "tymeout"),
        ({"evaluator__py": "import nosuchmodule\n"}, "evaluator loads", "nosuchmodule"),
        ({"initial__py": PROGRAM.replace("return", "return 1 / 0 *")}, "seed program scores", "ZeroDivisionError"),
        ({"initial__py": PROGRAM.replace("def f", "def g")}, "seed program scores", "in task.yaml (`entry`)"),
        (
            {"initial__py": PROGRAM.replace("return x", "import os\n    return int.from_bytes(os.urandom(3), 'big')")},
            "scores repeat",
            "deterministic: false",
        ),
        (
            {"evaluator__py": SUM.replace("def instances(seed):\n", "def instances(seed):\n    seed.to_bytes(8)\n")},
            "fresh instances can be made",
            "OverflowError",
        ),
        ({"task__yaml": TASK.replace("upper: 100", "upper: 2")}, "bounds fit the seed program", "nothing is left"),
        pytest.param(
            *({"task__yaml": TASK.replace("upper: 100", "upper: 4")}, "bounds fit the seed program", "hardly differ"),
            marks=pytest.mark.long,
        ),
        ({"evaluator__py": SUM.replace("type(output) is not int", "False")}, "True gets no score", "scored 2"),
        ({"evaluator__py": f"{SUM}\npractice = instances\n"}, "practice is apart", "instance 1 is a scored one too"),
        ({"evaluator__py": f"{SUM}\ndef practice(seed): return []\n"}, "practice is apart", "gives no instances"),
        pytest.param(
            *(
                {"evaluator__py": f"{SUM}\ndef practice(seed): return [{{'y': 5}}]\n"},
                "practice is apart",
                "KeyError: 'x'",
            ),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *({"catalogue__yaml": CATALOGUE.replace("name: x", "name: y")}, "catalogue applies", "y to 1"),
            marks=pytest.mark.long,
        ),
        ({"catalogue__yaml": "mechanisms: []\n"}, "catalogue applies", "mechanisms"),
        (
            {"evaluator__py": f"{SUM}\ndef so_far(instances, outputs): return 1 / 0\n"},
            "first outputs have a score",
            "let so_far in evaluator.py",
        ),
    ],
)
def test_a_mistake_in_a_task_is_named_with_a_remedy(shell: Shell, files: dict[str, str], check: str, says: str) -> None:
    write(shell.folder / "mine", **files)
    assert says in failed(shell)[check]


@pytest.mark.long
def test_programs_practise_in_a_run_and_their_practice_is_shown(shell: Shell) -> None:
    says = PROGRAM.replace("    return", "    print('got', instance['x'])\n    return")
    write(
        shell.folder / "mine", evaluator__py=f"{SUM}\ndef practice(seed):\n    return [{{'x': 5}}]\n", initial__py=says
    )
    checked = shell.pace("task", "check", "./mine").out
    assert (
        "pass  practice is apart: 1 instance, " in checked and " s of 2.5 s, score 5, 23 characters printed" in checked
    )
    more = ("--set", "evaluation.practice=output")
    run = shell.pace(
        "run", "./mine", "--advisor", "bandit", "--candidates", "2", "--display", "none", "--run-dir", "run", *more
    )
    assert run.code == 0, run.err
    shown = json.loads(shell.pace("show", "run", "1", "--json").out)["practice"]
    assert (shown["outcome"], shown["printed"]) == ("ok", "[standard output]\ngot 5")
    said = shell.pace("show", "run", "1").out
    assert "which counts for nothing" in said and "printed in practice\n" in said and "got 5" in said
    refused = shell.pace("run", "columnar", "--advisor", "bandit", "--display", "none", *more)
    assert (refused.code, "defines no practice(seed)" in refused.err) == (2, True)


def test_a_task_that_a_known_cheat_beats_is_refused_with_the_cheats_name(shell: Shell) -> None:
    write(shell.folder / "mine")
    cheats = shell.folder / "mine" / "cheats"
    cheats.mkdir()
    (cheats / "a_large_number.py").write_text("def f(instance):\n    return 10**6\n")
    (cheats / "nothing.py").write_text("def f(instance):\n    return 0\n")
    (cheats / "a_word.py").write_text("def f(instance):\n    return 'best'\n")
    wrong = failed(shell)
    assert list(wrong) == ["cheat a_large_number gains nothing"]
    assert "scored 2e+06, the seed program 3" in wrong["cheat a_large_number gains nothing"]
    assert "raise ValueError" in wrong["cheat a_large_number gains nothing"]


BUNDLED = sorted(CHECKOUT.glob("tasks/*/cheats/*.py"))


NO_CHEATS = {"multi_evolve", "txn_scheduling"}
"""Bundled tasks of which no particular weakness is known."""


def test_every_bundled_task_with_known_cheats_contains_them() -> None:
    tasks = {file.parent.name for file in CHECKOUT.glob("tasks/*/task.yaml")}
    assert tasks - {file.parts[-3] for file in BUNDLED} == NO_CHEATS


BROKEN = """
def instances(seed):
    return [{"x": 1}, {"x": 2}]

def score(instances, outputs):
    print("weights are", [3, 4])
    return {"score": sum(WEIGHTS)}
"""
SLOPPY = BROKEN.replace("sum(WEIGHTS)", "outputs[0]['radii']")
STRAY = BROKEN.replace('return {"score": sum(WEIGHTS)}', "return 3.0")
LATE = BROKEN.replace("    return [{", "    print('weights are', [3, 4])\n    return [seed['x'], {")


@pytest.mark.long
@pytest.mark.fault("Configuration and terminal", "an evaluator's own error is called that, with file and line")
@pytest.mark.parametrize(
    ("evaluator", "where"),
    [
        (BROKEN, "evaluator.py, line 7: NameError"),
        (SLOPPY, "evaluator.py, line 7: TypeError"),
        (LATE, "evaluator.py, line 4: TypeError"),
        (LATE.replace("seed['x']", "open('no/data')"), "evaluator.py, line 4: FileNotFoundError"),
        (BROKEN.replace("    return [", "    return return ["), "evaluator.py, line 3: SyntaxError"),
        (STRAY, "returned no mapping"),
    ],
    ids=["fault", "outputs", "instances", "file", "syntax", "no mapping"],
)
def test_an_error_of_the_evaluator_is_not_blamed_on_the_seed_program(shell: Shell, evaluator: str, where: str) -> None:
    write(shell.folder / "mine", evaluator__py=evaluator)
    checked = shell.pace("task", "check", "./mine")
    run = shell.pace("run", "./mine", "--candidates", "4", "--display", "none", "--set", "evaluation.retries=0")
    evaluated = shell.pace("eval", "./mine", "mine/initial.py", "--debug")
    assert (checked.code, run.code) == (2, 5 if "    return [{" in evaluator else 2)
    for said in (checked.out, run.err, evaluated.out + evaluated.err):
        assert where in said
        assert "initial.py; fix it" not in said
        assert "fix initial.py" not in said
        assert "Traceback (most recent call last)" in said or "no mapping" in where or "return return" in evaluator
        assert "importlib" not in said
        assert said.count("SyntaxError") == ("return return" in evaluator)
        assert "weights are [3, 4]" in said or "return return" in evaluator
    assert "fix evaluator.py" in checked.out
    assert shell.files() == ["mine"]


def test_the_evaluators_output_is_shown_on_request(shell: Shell) -> None:
    noisy = SUM.replace("    return {", "    print('\\x1b[31mred')\n    return {")
    write(shell.folder / "mine", evaluator__py=noisy)
    assert "red" not in shell.pace("eval", "./mine", "mine/initial.py").out
    said = shell.pace("eval", "./mine", "mine/initial.py", "--debug").out
    assert "[31mred" in said
    assert "\x1b" not in said
    found = json.loads(shell.pace("eval", "./mine", "mine/initial.py", "--debug", "--json").out)
    assert (found["outcome"], found["evaluator_error"]) == ("ok", None)
    assert "[31mred" in found["evaluator_log"]


def test_an_evaluator_that_accepts_anything_fails(shell: Shell) -> None:
    write(
        shell.folder / "mine", evaluator__py=SUM.split("def score")[0] + "def score(i, o):\n    return {'score': 3.0}\n"
    )
    wrong = failed(shell)
    assert {"None gets no score", "an empty list gets no score", "a word gets no score"} <= set(wrong)
    assert "raise ValueError" in wrong["None gets no score"]
