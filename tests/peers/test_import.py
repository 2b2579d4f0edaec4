"""`pace task import`: examples become tasks that score as the example does, with nothing of the example changed."""

import json
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from pace_async.peers.example import ImportOptions
from pace_async.peers.openevolve import OpenEvolve
from pace_async.programs.fileset import Program
from pace_async.runtime.start import importing
from pace_async.runtime.start.importing import SeedTrial, guessed_bounds, thresholds
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.examples import OPENEVOLVE, PEERS, REPOSITORY, SHINKA, digests, example

REAL = {
    "openevolve/function_minimization": "",
    "openevolve/r_robust_regression": "Rscript",
    "shinka/go_collatz_steps": "go",
    "shinka/circle_packing": "",
}
"""The real examples, with the command that they need."""


def checks(shell: Shell, task: str) -> dict[str, str]:
    """What each check of a task found."""
    said = json.loads(shell.pace("task", "check", task, "--json").out)
    return {one["check"]: one["found"] for one in said["checks"]}


def test_an_openevolve_example_runs_unchanged_without_openevolve(shell: Shell) -> None:
    folder = example(shell.folder / "theirs", OPENEVOLVE)
    before = digests(folder)
    said = shell.pace("task", "import", "openevolve", "theirs", "--to", "mine")
    assert said.code == 0, said.err
    assert "bounds: 0.4 to 1.2" in said.out
    assert "not taken over: database.num_islands (use --threads N: each search thread is an island)" in said.out
    assert said.out.rstrip().endswith("pace run ./mine --implementer MODEL --candidates 16")
    assert digests(folder) == before == digests(shell.folder / "mine" / "example")
    found = checks(shell, "./mine")
    assert found["seed program scores"].startswith("0.4 in")
    assert found["modules are installed"].endswith("no-such-package-here of its requirements.txt is missing")
    (shell.folder / "better.py").write_text("# EVOLVE-BLOCK-START\ndef answer():\n    return 9\n# EVOLVE-BLOCK-END\n")
    scored = json.loads(shell.pace("eval", "./mine", "better.py", "--json").out)
    assert (scored["outcome"], scored["score"], scored["metrics"]["value"]) == ("ok", 0.9, 9.0)
    (shell.folder / "worse.py").write_text("# EVOLVE-BLOCK-START\ndef answer():\n    return 'x'\n# EVOLVE-BLOCK-END\n")
    assert json.loads(shell.pace("eval", "./mine", "worse.py", "--json").out)["outcome"] == "below_threshold"


def test_a_shinka_example_runs_unchanged_without_shinka(shell: Shell) -> None:
    folder = example(shell.folder / "theirs", SHINKA)
    before = digests(folder)
    said = shell.pace("task", "import", "shinka", "theirs", "--to", "mine", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["task"] == "mine"
    assert digests(folder) == before == digests(shell.folder / "mine" / "example")
    assert checks(shell, "./mine")["seed program scores"].startswith("13 in")
    (shell.folder / "large.py").write_text(
        "# EVOLVE-BLOCK-START\nBASE = 500\n# EVOLVE-BLOCK-END\n\ndef run_it(number):\n    return BASE + number\n"
    )
    scored = json.loads(shell.pace("eval", "./mine", "large.py", "--json").out)
    assert (scored["outcome"], scored["score"]) == ("invalid_score", None)
    assert "larger than 99" in scored["detail"]


def doubled(name: str, times: int, text: str) -> str:
    """Lines of Python or YAML that double a value again and again."""
    return "".join(text.format(one=f"{name}{number}", before=f"{name}{number - 1}") for number in range(1, times + 1))


BOMBS: dict[str, tuple[str, dict[str, str | None], str]] = {
    "texts added to themselves": (
        "shinka",
        {"run_evo__py": "a0 = 'x' * 1 + 'y'\n" + doubled("a", 45, "{one} = {before} + {before}\n")},
        "",
    ),
    "powers of powers": ("shinka", {"run_evo__py": "p0 = 9\n" + doubled("p", 60, "{one} = {before} * {before}\n")}, ""),
    "lists of lists in a text": (
        "shinka",
        {
            "run_evo__py": "b0 = [1, 2]\n"
            + doubled("b", 45, "{one} = [{before}, {before}]\n")
            + "task_sys_msg = f'{b45}'\n"
        },
        "",
    ),
    "a sum of ten thousand": ("shinka", {"run_evo__py": f"task_sys_msg = {' + '.join(['1'] * 10_000)}\n"}, "."),
    "aliases of aliases": (
        "openevolve",
        {"config__yaml": "a0: &a0 [1, 2]\n" + doubled("a", 45, "{one}: &{one} [*{before}, *{before}]\n")},
        "Its aliases make more than 1,000,000 values",
    ),
    "an alias within itself": ("openevolve", {"config__yaml": "llm: &a [*a]\n"}, "one that holds itself"),
    "merged keys": (
        "openevolve",
        {"config__yaml": "a0: &a0 {k: 1}\n" + doubled("a", 24, "{one}: &{one} {{<<: [*{before}, *{before}]}}\n")},
        "Its aliases make more than 1,000,000 values",
    ),
    "a threshold that is text": (
        "openevolve",
        {
            "config__yaml": "evaluator: {cascade_thresholds: [high]}\n",
            "evaluator__py": "".join(f"def evaluate{name}(path): ...\n" for name in ("", "_stage1", "_stage2")),
        },
        "cascade_thresholds holds 'high', which is not a number",
    ),
    "a date that is none": ("openevolve", {"config__yaml": "a: 2020-13-45\n"}, "is not YAML that can be read"),
    "a tag without a value": ("openevolve", {"config__yaml": "a: !!int ''\n"}, "is not YAML that can be read"),
    "a number beyond every size": (
        "openevolve",
        {"config__yaml": f"a: {'9' * 5000}\n"},
        "is not YAML that can be read",
    ),
    "an infinite length": ("openevolve", {"config__yaml": "max_code_length: .inf\n"}, ""),
    "nested a hundred thousand deep": ("openevolve", {"config__yaml": "a: " + "[" * 100_000 + "\n"}, "read"),
    "a name too long for a file": ("shinka", {"run_evo__py": f"init_program_path = {'x' * 5000!r}\n"}, "."),
    "settings of many megabytes": ("openevolve", {"config__yaml": "# " + "x" * (5 << 20)}, "is longer than 4 MiB"),
    "a line of spaces": ("shinka", {"initial__py": " " * 2_000_000 + "!\nx = 1\n"}, "."),
}
"""Whose example, its changed files, and what the refusal says: nothing if it is imported, a full stop if either is
right."""


@pytest.mark.long
@pytest.mark.fault("Mended and imported", "an import of an example made to take for ever, or all memory")
@pytest.mark.parametrize("bomb", BOMBS)
def test_an_example_made_to_take_all_time_or_memory_is_a_sentence(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    peer, files, refused = BOMBS[bomb]
    monkeypatch.setattr(importing, "READ_S", 2.0)
    example(shell.folder / "theirs", OPENEVOLVE if peer == "openevolve" else SHINKA, **files)
    said = shell.pace("task", "import", peer, "theirs", "--to", "mine", "--no-try")
    if not refused:
        assert (said.code, said.err) == (0, "")
    else:
        assert refused in said.err + said.out and "Traceback" not in said.err
        assert said.code == 0 or (said.code == 2 and said.err.count("\n") == 1 and not (shell.folder / "mine").exists())


def test_a_threshold_that_the_seed_program_misses_is_lowered_and_said() -> None:
    tried = SeedTrial(1.0, "ok", {"stage1": [1.2, 1.4, 1.3], "stage2": [2.0]})
    kept, told = thresholds((("stage1", 1.3), ("stage2", 2.0), ("stage3", 3.0)), tried)
    assert kept == (("stage1", 0.9988), ("stage2", 2.0), ("stage3", 3.0))
    assert len(told) == 1
    assert "stage1 has the threshold 0.9988 instead of 1.3" in told[0]


@pytest.mark.parametrize(
    ("score", "bounds"),
    [(0.0, (0.0, 1.0)), (0.4, (0.4, 1.2)), (99.0, (99.0, 297.0)), (-5.0, (-5.0, 5.0)), (None, (0.0, 1.0))],
)
def test_bounds_leave_room_above_the_seed_program(
    tmp_path: Path, score: float | None, bounds: tuple[float, float]
) -> None:
    read = OpenEvolve().read(example(tmp_path / "a", OPENEVOLVE), ImportOptions())
    assert guessed_bounds(SeedTrial(score, "timeout", {}), read)[0] == bounds


def test_a_target_that_is_there_is_refused_and_nothing_is_written(shell: Shell) -> None:
    example(shell.folder / "theirs", OPENEVOLVE)
    said = shell.pace("task", "import", "openevolve", "theirs")
    assert (said.code, said.err.strip()) == (
        *(2, "pace: theirs is the example itself, which stays as it is: name a new folder, --to theirs_task."),
    )
    assert shell.pace("task", "import", "openevolve", "nowhere", "--to", "x").code == 2
    (shell.folder / "there").mkdir()
    there = shell.pace("task", "import", "openevolve", "theirs", "--to", "there")
    assert (there.code, there.err.strip()) == (
        *(2, "pace: there is there already: name another folder with --to, or remove it."),
    )
    unknown = shell.pace("task", "import", "other", "theirs", "--to", "x")
    assert (
        unknown.code == 2 and "unknown project 'other'" in unknown.err and "there is openevolve, shinka" in unknown.err
    )
    assert shell.files() == ["theirs", "there"]


@pytest.mark.parametrize("name", ["README.md", "texts/system.txt", "initial_program.py", "data"])
def test_a_link_out_of_an_example_is_refused_before_anything_is_read(shell: Shell, name: str) -> None:
    (shell.folder / "private").mkdir()
    (shell.folder / "private" / "key").write_text("secret-of-mine\n")
    folder = example(shell.folder / "theirs", OPENEVOLVE)
    (folder / "inside.py").symlink_to("tables.py")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(shell.folder / "private" / ("" if name == "data" else "key"))
    said = shell.pace("task", "import", "openevolve", "theirs", "--to", "mine")
    sentence = f"pace: theirs/{name} is a link that leads out of the example: put a copy in its place, or remove it."
    assert (said.code, said.err.strip()) == (2, sentence)
    assert shell.files() == ["private", "theirs"]


def test_modules_that_are_missing_here_are_named(shell: Shell) -> None:
    evaluator = """\
        import nowhere_at_all.part
        from tables import SCALE
        from openevolve.llm import LLMEnsemble
        from urllib.request import urlopen
        try:
            import optional_thing
        except ImportError:
            optional_thing = None
        def evaluate(path):
            return {"combined_score": 1.0}
        """
    tables = "import hidden_below\nSCALE = 1\n"
    example(shell.folder / "theirs", OPENEVOLVE, evaluator__py=evaluator, tables__py=tables)
    assert shell.pace("task", "import", "openevolve", "theirs", "--to", "mine", "--no-try").code == 0
    found = checks(shell, "./mine")["modules are installed"]
    assert found == "the evaluator imports nowhere_at_all, openevolve.llm, hidden_below, not installed here"


def test_an_error_that_the_evaluator_catches_is_said_and_so_is_what_needs_a_network(shell: Shell) -> None:
    evaluator = """\
        import urllib.request
        def evaluate(path):
            try:
                return {"combined_score": __import__("nowhere_at_all").score}
            except Exception as error:
                return {"combined_score": 0.0, "error": str(error)}
        """
    example(shell.folder / "theirs", OPENEVOLVE, evaluator__py=evaluator)
    said = shell.pace("task", "import", "openevolve", "theirs", "--to", "mine")
    reported = "reports error: No module named 'nowhere_at_all'"
    assert f"seed program: its evaluator scores it 0 and {reported}" in said.out
    found = checks(shell, "./mine")
    assert found["seed program scores"].endswith(f"; the evaluator {reported}")
    assert found["modules are installed"].endswith("urllib.request may need a network, and the sandbox has none")
    silent = evaluator.replace(', "error": str(error)', "")
    (shell.folder / "mine" / "example" / "evaluator.py").write_text(dedent(silent))
    assert "many evaluators score a failure 0" in checks(shell, "./mine")["seed program scores"]


def test_a_repository_is_scored_with_the_program_in_its_place(shell: Shell) -> None:
    folder = example(shell.folder / "theirs", REPOSITORY)
    before = digests(folder)
    assert shell.pace("task", "import", "shinka", "theirs", "--to", "mine").code == 0
    assert digests(folder) == before
    assert checks(shell, "./mine")["seed program scores"].startswith("5 in")
    (shell.folder / "better.py").write_text("def answer():\n    return 7\n")
    scored = json.loads(shell.pace("eval", "./mine", "better.py", "--json").out)
    assert (scored["outcome"], scored["score"]) == ("ok", 8.0)


def test_a_repository_of_which_several_files_may_change_is_a_program_of_several_files(shell: Shell) -> None:
    settings = "evo: {seed_repo_path: seed, immutable_paths: [bonus.txt], ignore_paths: ['test_*.py']}\n"
    folder = example(shell.folder / "theirs", REPOSITORY, shinka__yaml=settings)
    (folder / "seed" / "src" / "more.py").write_text("x = 1\n")
    before = digests(folder)
    said = shell.pace("task", "import", "shinka", "theirs", "--to", "mine")
    assert said.code == 0, said.err
    assert digests(folder) == before
    assert checks(shell, "./mine")["seed program scores"].startswith("5 in")
    task = load_task(str(shell.folder / "mine"))
    assert list(Program.of(task.program).files) == ["bonus.txt", "notes.md", "src/answers.py", "src/more.py"]
    assert [
        path for path in ("bonus.txt", "src/new.py", "src/test_x.py", "notes.md") if task.spec.may_change(path)
    ] == [*("src/new.py", "notes.md")]
    shutil.copytree(folder / "seed", shell.folder / "better")
    (shell.folder / "better" / "src" / "answers.py").write_text("def answer():\n    return 7\n")
    scored = json.loads(shell.pace("eval", "./mine", "better", "--json").out)
    assert (scored["outcome"], scored["score"]) == ("ok", 8.0)


@pytest.mark.long
@pytest.mark.parametrize("name", REAL)
def test_a_real_example_is_a_sound_task(shell: Shell, name: str) -> None:
    if not (PEERS / name).is_dir():
        pytest.skip("the examples of both projects are not here (PACE_PEERS)")
    if REAL[name] and shutil.which(REAL[name]) is None:
        pytest.skip(f"there is no {REAL[name]}")
    before = digests(PEERS / name)
    said = shell.pace("task", "import", name.split("/")[0], str(PEERS / name), "--to", "mine")
    assert said.code == 0, said.err
    assert digests(PEERS / name) == before
    found = json.loads(shell.pace("task", "check", "./mine", "--json").out)["checks"]
    wrong = [one["check"] for one in found if not one["ok"]]
    assert "seed program scores" in [one["check"] for one in found]
    # A stage of function_minimization scores its seed program at random, so it may miss a threshold from one try.
    assert [name for name in wrong if not name.startswith("stage ")] == []
