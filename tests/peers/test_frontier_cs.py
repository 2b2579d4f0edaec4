"""Problems of Frontier-CS: their limits, their checker, and what a test counts."""

import json
import os
import shutil
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.peers.example import ImportOptions
from pace_async.peers.frontier_cs import FrontierCS
from pace_async.runtime.start.importing import import_example
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.examples import FRONTIER_CS, example

PROBLEMS = Path(os.environ.get("PACE_FRONTIER_CS", "frontier-cs")) / "algorithmic" / "problems"
"""The problems of the real repository."""
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
PROGRAM = '#include <cstdio>\nint main() {{ int most; if (std::scanf("%d", &most) == 1) {{ {body} }} }}\n'


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_a_problem_gives_statement_limits_and_commands(tmp_path: Path) -> None:
    found = FrontierCS().read(example(tmp_path / "a", FRONTIER_CS), ImportOptions())
    assert (found.kind, found.evaluator, found.source, found.seed) == ("process", "chk.cc", "initial.cpp", "")
    assert (found.background, found.upper) == ("Write a whole number, at most the one that you read.", 100.0)
    assert (found.timeout_s, found.memory_mb) == (68.0, 192)
    assert found.fields["build"][0] == "g++" and found.fields["run"][-2:] == ["2", "./program"]


def test_models_are_told_how_a_test_is_run_and_not_of_the_process_around_it(tmp_path: Path) -> None:
    found = FrontierCS().read(example(tmp_path / "a", FRONTIER_CS), ImportOptions())
    spec = load_task("circle_packing").spec.model_copy(update={"kind": found.kind, **found.fields})
    told = spec.of_kind.contract(spec)
    assert told.startswith("The program is built by `g++ -O2 ") and "is started anew for each of 2 tests" in told
    assert told.endswith("Each has 2 s of processor time and 64 MiB")
    assert "JSON" not in told and "import" not in told
    usual = spec.model_copy(update={"protocol": ""})
    assert "reads one JSON value a line" in usual.of_kind.contract(usual)


def test_a_problem_without_a_program_gets_an_empty_one_and_python_needs_no_build(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", FRONTIER_CS, initial__cpp=None, mine__py="print(4)\n")
    assert "int main()" in FrontierCS().read(folder, ImportOptions()).seed
    python = FrontierCS().read(folder, ImportOptions(program="mine.py"))
    assert (python.language, "build" in python.fields, python.fields["run"][-1]) == ("python", False, "mine.py")
    (folder / "mine.rs").write_text("fn main() {}\n")
    with pytest.raises(UsageError, match=r"mine\.rs is in rust: programs .* are in C\+\+ or Python"):
        FrontierCS().read(folder, ImportOptions(program="mine.rs"))


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ("type: interactive\nsubtasks: []\n", "is an interactive problem"),
        ("checker: interactor.cc\nsubtasks: []\n", "is an interactive problem"),
        ("time: soon\nsubtasks: []\n", "time and memory must be limits such as 2s and 256m"),
        ("memory: much\nsubtasks: []\n", "time and memory must be limits such as 2s and 256m"),
        ("type: default\n", "is not a problem of Frontier-CS"),
    ],
)
def test_what_cannot_be_imported_gets_a_sentence(tmp_path: Path, config: str, refused: str) -> None:
    with pytest.raises(UsageError, match=refused):
        FrontierCS().read(example(tmp_path / "a", FRONTIER_CS, config__yaml=config), ImportOptions())


@pytest.mark.long
@needs_gxx
def test_testlib_comes_from_the_users_folder_or_from_where_it_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = '#include "testlib.h"\nint main() { return ACCEPTED; }\n'
    folder = example(tmp_path / "all" / "problems" / "7", FRONTIER_CS, chk__cc=checker)
    monkeypatch.delenv("CPLUS_INCLUDE_PATH", raising=False)

    def made(name: str) -> Path:
        import_example("frontier-cs", str(folder), tmp_path / name, ImportOptions(), try_seed=False)
        return tmp_path / name / "checker"

    with pytest.raises(UsageError, match=r"chk\.cc needs testlib\.h, which is neither in .*CPLUS_INCLUDE_PATH"):
        made("absent")
    assert not (tmp_path / "absent").exists()
    for place in (tmp_path / "elsewhere", tmp_path / "all" / "judge" / "include", folder):
        place.mkdir(parents=True, exist_ok=True)
        (place / "testlib.h").write_text("enum { ACCEPTED = 0 };\n")
        if place.name == "elsewhere":
            monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(place))
        assert made(f"task_{place.name}").is_file()
        (place / "testlib.h").unlink()
        monkeypatch.delenv("CPLUS_INCLUDE_PATH", raising=False)


@needs_gxx
def test_a_checker_that_does_not_compile_is_said_in_one_sentence(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", FRONTIER_CS, chk__cc="int main() { return nowhere; }\n")
    with pytest.raises(UsageError, match=r"chk\.cc does not compile: .*nowhere"):
        import_example("frontier-cs", str(folder), tmp_path / "mine", ImportOptions(), try_seed=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@needs_gxx
@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "score"),
    [
        ('std::printf("%d", most);', 100.0),
        ('std::printf("%d", most + 1);', 0.0),
        ('if (most == 4) return 3; std::printf("8");', 50.0),
        ('if (most == 4) for (volatile int x = 0;; x = 1); std::printf("8");', 50.0),
        ("char *none = nullptr; *none = 1;", 0.0),
    ],
)
def test_a_test_counts_what_its_checker_says_and_nothing_for_a_program_that_fails(
    shell: Shell, body: str, score: float
) -> None:
    config = FRONTIER_CS["config.yaml"].replace("2s", "500ms")
    example(shell.folder / "theirs", FRONTIER_CS, config__yaml=config)
    assert shell.pace("task", "import", "frontier-cs", "theirs", "--to", "mine", "--no-try").code == 0
    (shell.folder / "program.cpp").write_text(PROGRAM.format(body=body))
    scored = json.loads(shell.pace("eval", "./mine", "program.cpp", "--json").out)
    assert (scored["outcome"], scored["score"]) == ("ok", score)


@needs_gxx
@pytest.mark.long
def test_a_program_in_python_is_scored_too(shell: Shell) -> None:
    example(shell.folder / "theirs", FRONTIER_CS, mine__py="print(input())\n")
    said = shell.pace("task", "import", "frontier-cs", "theirs", "--to", "mine", "--program", "mine.py")
    assert "bounds: 100 to" in said.out, said.err


@needs_gxx
@pytest.mark.long
def test_a_real_problem_is_imported_with_its_tests_and_its_checker(tmp_path: Path) -> None:
    if not (PROBLEMS / "0").is_dir():
        pytest.skip("the problems of Frontier-CS are not here (PACE_FRONTIER_CS)")
    import_example("frontier-cs", str(PROBLEMS / "0"), tmp_path / "packing", ImportOptions(), try_seed=False)
    task = load_task(str(tmp_path / "packing"))
    assert len(list((task.folder / "example" / "testdata").glob("*.in"))) == 70
    assert os.access(task.folder / "checker", os.X_OK)
