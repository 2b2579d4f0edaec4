"""What a user may say about an example: its evaluator, its data, where the task goes. And Slurm's limits."""

from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.peers.example import ImportOptions
from pace_async.peers.openevolve import OpenEvolve
from pace_async.peers.shinka import Shinka
from pace_async.peers.slurm import megabytes, seconds
from pace_async.peers.write import drafted, task_yaml
from pace_async.runtime.start.importing import import_example
from tests.support.command_line import Shell
from tests.support.examples import OPENEVOLVE, SHINKA, example

SECOND = "def evaluate(program_path):\n    return {'combined_score': 2.0}\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_a_second_evaluator_is_said_and_can_be_named(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE)
    (folder / "evaluator_phase_2.py").write_text(SECOND, encoding="utf-8")
    found = OpenEvolve().read(folder, ImportOptions())
    assert found.evaluator == "evaluator.py"
    assert "--evaluator names another: evaluator_phase_2.py" in found.taken[0]
    named = OpenEvolve().read(folder, ImportOptions(evaluator="evaluator_phase_2.py"))
    assert named.evaluator == "evaluator_phase_2.py" and "names another" not in named.taken[0]


def test_a_second_evaluator_of_shinka_is_said_and_can_be_named(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", {name: text for name, text in SHINKA.items() if name.endswith(".py")})
    (folder / "evaluate_large.py").write_text((folder / "evaluate.py").read_text(encoding="utf-8"), encoding="utf-8")
    named = Shinka().read(folder, ImportOptions(evaluator="evaluate_large.py"))
    assert named.evaluator == "evaluate_large.py" and "example/evaluate_large.py" in named.fields["evaluate"]
    (folder / "run_evo.py").unlink(missing_ok=True)
    assert "--evaluator names another: evaluate_large.py" in Shinka().read(folder, ImportOptions()).taken[0]


def test_an_evaluator_in_a_folder_is_suggested_and_imports_from_the_examples_folder(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", {name: text for name, text in OPENEVOLVE.items() if name != "evaluator.py"})
    (folder / "src").mkdir()
    (folder / "src" / "evaluator.py").write_text(SECOND, encoding="utf-8")
    with pytest.raises(UsageError, match=r"--evaluator FILE names one in a folder: src/evaluator\.py"):
        OpenEvolve().read(folder, ImportOptions())
    found = OpenEvolve().read(folder, ImportOptions(evaluator="src/evaluator.py"))
    assert "- example\n" in task_yaml(drafted("a", found), (0.0, 1.0), ())


@pytest.mark.parametrize("wanted", ["../outside.py", "absent.py"])
def test_an_evaluator_outside_the_example_is_refused(tmp_path: Path, wanted: str) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE)
    (tmp_path / "outside.py").write_text(SECOND, encoding="utf-8")
    with pytest.raises(UsageError):
        OpenEvolve().read(folder, ImportOptions(evaluator=wanted))


@pytest.mark.parametrize(
    ("value", "on_slurm", "read"),
    [
        ("1-00:00:00", True, 86_400),
        ("2-12", True, 216_000),
        ("1-02:30", True, 95_400),
        ("30", True, 1800),
        (30, True, 1800),
        ("30:00", True, 1800),
        ("01:30:00", True, 5400),
        ("00:20:00", False, 1200),
        ("30", False, 30),
        (90, False, 90),
        (10**400, True, None),
        ("9" * 400, True, None),
        ("0", True, None),
        ("UNLIMITED", True, None),
        ("1-", True, None),
        ("1:2:3:4", True, None),
        (True, True, None),
        (None, True, None),
    ],
)
def test_a_time_is_read_as_slurm_reads_it(value: object, on_slurm: bool, read: float | None) -> None:
    assert seconds(value, on_slurm=on_slurm) == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("16384", 16_384),
        (16_384, 16_384),
        ("16GB", 16_384),
        ("16G", 16_384),
        ("16gib", 16_384),
        ("512M", 512),
        ("2048K", 2),
        ("1T", 1_048_576),
        ("1.5G", 1536),
        ("0", None),
        ("9" * 400, None),
        ("many", None),
        (True, None),
        (None, None),
    ],
)
def test_a_memory_is_read_as_slurm_reads_it(value: object, read: int | None) -> None:
    assert megabytes(value) == read


def test_limits_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    job = 'job_config:\n  _target_: shinka.launch.SlurmCondaJobConfig\n  time: UNLIMITED\n  mem: "16GB"\n'
    folder = example(tmp_path / "a", {"evaluate.py": SHINKA["evaluate.py"], "initial.py": "X = 1\n", "task.yaml": job})
    found = Shinka().read(folder, ImportOptions())
    assert found.memory_mb == 16_384
    assert [line for line in found.left if line.startswith("job_config.time")] == [
        "job_config.time ('UNLIMITED' is no limit that can be read: set timeout_s in task.yaml)"
    ]


@pytest.mark.parametrize("target", [None, "inner", "a/../inner", "deeper/inner"])
def test_a_target_inside_the_example_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str | None
) -> None:
    folder = example(tmp_path / "theirs", OPENEVOLVE)
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match="inside the example, which stays as it is"):
        import_example("openevolve", ".", None if target is None else Path(target), ImportOptions(), try_seed=False)
    assert sorted(path.name for path in folder.iterdir()) == sorted(OPENEVOLVE)


def test_data_that_is_not_copied_can_be_taken_along(tmp_path: Path) -> None:
    reads = SECOND.replace("return", "open('bench.db'); open('results/reference.txt'); return")
    folder = example(tmp_path / "a", {**OPENEVOLVE, "evaluator.py": reads})
    (folder / "results").mkdir()
    for name in ("bench.db", "other.db", "results/reference.txt", "results/more.db"):
        (folder / name).write_text("7", encoding="utf-8")
    found = OpenEvolve().read(folder, ImportOptions())
    without = drafted("a", found)
    assert set(without.skipped) == {"bench.db", "other.db", "results"}
    assert set(without.named) == {"bench.db", "results"}
    one = drafted("a", found, ("bench.db", "results/reference.txt"))
    assert {"bench.db", "results/reference.txt"} <= set(one.files) and "results/more.db" not in one.files
    assert set(one.skipped) == {"other.db", "results"}
    everything = drafted("a", found, ("bench.db", "results"))
    assert "results/more.db" in everything.files and everything.skipped == ("other.db",)


@pytest.mark.parametrize("wanted", ["absent.db", "../outside.db", "results"])
def test_what_leads_out_of_the_example_is_not_included(tmp_path: Path, wanted: str) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE)
    (tmp_path / "outside.db").write_text("7", encoding="utf-8")
    (folder / "results").mkdir()
    (folder / "results" / "link.db").symlink_to(tmp_path / "outside.db")
    with pytest.raises(UsageError):
        drafted("a", OpenEvolve().read(folder, ImportOptions()), (wanted,))


def test_settings_with_a_key_are_not_included(tmp_path: Path) -> None:
    settings = "llm: {api_key: secret}\nevaluator: {timeout: 3}\n"
    folder = example(tmp_path / "a", {**OPENEVOLVE, "config.yaml": settings})
    with pytest.raises(UsageError, match="holds an API key"):
        drafted("a", OpenEvolve().read(folder, ImportOptions()), ("config.yaml",))


def test_a_score_of_0_where_files_were_left_out_is_said(shell: Shell) -> None:
    nothing = SECOND.replace("2.0", "0.0")
    folder = example(shell.folder / "theirs", {**OPENEVOLVE, "evaluator.py": nothing})
    (folder / "some.db").write_text("7", encoding="utf-8")
    said = shell.pace("task", "import", "openevolve", "theirs", "--to", "mine")
    assert "it has the score 0, perhaps because files were left out: --include some.db takes them along" in said.out
    said = shell.pace("task", "import", "openevolve", "theirs", "--to", "again", "--include", "some.db")
    assert said.code == 0 and "left out" not in said.out
    assert (shell.folder / "again" / "example" / "some.db").is_file()
