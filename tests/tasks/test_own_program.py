"""A task made of a program and the command that scores it: which files it takes along, and what it guesses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.errors import UsageError
from pace_async.evaluate.metrics import EvaluatorOutput, read
from pace_async.task.own_program import about_program, guessed_bounds, guessed_timeout, own_program, task_yaml
from pace_async.task.spec import Bounds, TaskSpec

COMMAND = "python score.py {program}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("prog.py", "score.py", "helper.py", "bench/data.csv", "bench/.hidden", "lib/run.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    return tmp_path


def spec_of(folder: Path) -> TaskSpec:
    own = own_program(Path("prog.py"), COMMAND, (), folder)
    bounds = Bounds(lower=0, upper=1)
    return TaskSpec.model_validate(
        task_yaml(own, "maximize", "About.", bounds=bounds, timeout_s=5.0, memory_mb=64, deterministic=True)
    )


def test_what_the_command_names_and_the_modules_beside_it_are_taken_along(folder: Path) -> None:
    own = own_program(Path("prog.py"), COMMAND, (), folder)
    assert sorted(own.sources()) == ["helper.py", "score.py"]
    own = own_program(Path("prog.py"), "bash lib/run.sh {program} bench", (), folder)
    assert sorted(own.sources()) == ["bench/data.csv", "helper.py", "lib/run.sh", "score.py"]
    own = own_program(Path("prog.py"), COMMAND, (Path("bench"),), folder)
    assert "bench/data.csv" in own.sources()


@pytest.mark.parametrize(
    ("program", "evaluate", "include", "why"),
    [
        ("none.py", COMMAND, (), "There is no program 'none.py'"),
        ("prog.py", "python score.py", (), "write {program} there"),
        ("prog.py", "python 'score.py {program}", (), "is no command"),
        ("prog.py", COMMAND, ("nowhere",), "no file or folder 'nowhere'"),
        ("prog.py", COMMAND, ("../other",), "is outside"),
    ],
)
def test_a_mistake_is_one_sentence(
    folder: Path, program: str, evaluate: str, include: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UsageError) as refused:
        own_program(Path(program), evaluate, [Path(one) for one in include], folder).sources()
    assert why in str(refused.value)


def test_a_name_and_a_language_follow_from_the_file(folder: Path) -> None:
    for file, name, language in (
        ("My-Prog_2.py", "my_prog_2", "python"),
        ("3sum.cpp", "program_3sum", "c++"),
        ("run.sh", "run", "shell"),
        ("solve.zig", "solve", "zig"),
    ):
        (folder / file).write_text("")
        own = own_program(Path(file), COMMAND, (), folder)
        assert (own.name, own.language) == (name, language)


def test_the_task_that_is_made_is_a_task(folder: Path) -> None:
    spec = spec_of(folder)
    assert spec.kind == "command"
    assert spec.evaluate == ("python", "score.py", "{program}")
    assert "higher is better" in spec.background


def test_a_docstring_and_a_short_scorer_say_what_it_is_about(folder: Path) -> None:
    own = own_program(Path("prog.py"), COMMAND, (), folder)
    said = about_program(own, '"""Pack the\nboxes.\n\nMore."""\n', {"score.py": "print(1)\n", "long.py": "x" * 7000})
    assert said.startswith("Pack the boxes.")
    assert "It is scored by score.py:\n\nprint(1)" in said
    assert "long.py" not in said
    assert about_program(own, "def (", {}) == "Improve prog.py."


@given(st.floats(-1e100, 1e100), st.sampled_from(["maximize", "minimize"]))
def test_the_seed_programs_score_lies_between_guessed_bounds(score: float, direction: str) -> None:
    bounds = guessed_bounds(score, direction)  # type: ignore[arg-type]
    assert bounds.lower < bounds.upper
    assert bounds.lower <= score <= bounds.upper


@pytest.mark.parametrize(
    ("printed", "metrics"),
    [
        ('{"length": 3, "note": "x"}\n{"length": 4, "vehicles": 2}\nlog\nscore 12.5\n', {"length": 4, "vehicles": 2}),
        ('{"score": 3, "n": 1}\n5\n', {"n": 1}),
        ("1\n5\n", {}),
    ],
)
def test_the_object_before_the_last_number_holds_the_other_metrics(
    folder: Path, printed: str, metrics: dict[str, float]
) -> None:
    found = read(spec_of(folder), EvaluatorOutput({}, printed.encode()))
    assert found.metrics == {**metrics, "score": found.score}
    assert found.score == float(printed.split()[-1])


def test_the_named_entry_of_the_object_is_the_score_where_a_number_follows(folder: Path) -> None:
    spec = spec_of(folder).model_copy(update={"score": ("length",)})
    assert read(spec, EvaluatorOutput({}, b'{"length": 4}\nDone in 3 s\n')).score == 4.0


def test_a_guessed_limit_is_ten_times_what_the_seed_program_takes_and_at_least_ten_seconds() -> None:
    assert guessed_timeout(0.1) == 10.0
    assert guessed_timeout(12.34) == 124.0


@pytest.mark.parametrize(
    ("printed", "score"),
    [
        ("score: 12.5\n", 12.5),
        ("step3 of v1.2.3\n-3e-4\n\nDone.\n", -3e-4),
        ("total 1,234.5 bytes\n", 1234.5),
        ('7\n{"score": 2, "n": 3}\n', 2.0),
        ('{"combined_score": 4}\nwarnings follow\n', 4.0),
        ('{"half": \n5\n', 5.0),
        ("no number at all\n", None),
        ("nan\n", None),
        ("", None),
    ],
)
def test_the_last_number_or_json_object_that_is_printed_is_the_score(
    folder: Path, printed: str, score: float | None
) -> None:
    found = read(spec_of(folder), EvaluatorOutput({}, printed.encode()))
    assert found.score == score
    assert (found.wrong == "") == (score is not None)
