"""Reads a problem of Frontier-CS's algorithmic track: a statement, tests, limits and a checker in C++.

A problem becomes a `process` task. Its checker is compiled once, when the task is made, and runs in the scorer, outside
the sandbox: it is trusted like any evaluator. Interactive problems have no checker and are refused.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.peers.example import COPY, Example, ImportOptions, inside, language_of_program, mapping_of, text_of
from pace_async.peers.importers import Importer
from pace_async.peers.slurm import megabytes

OWN = Path(__file__).parent / "frontier_cs_path"
CONFIG, STATEMENT, TESTS, CHECKER = "config.yaml", "statement.txt", "testdata", "checker"
CHECKERS = ("chk.cc", "chk.cpp", "checker.cc", "checker.cpp", "check.cc", "check.cpp")
TESTLIB = "testlib.h"
JUDGE = "judge/include"
"""Where Frontier-CS has testlib.h, in the folder that also holds its problems."""
START_S = 60.0
"""Of an evaluation, beside twice the time of all its tests: a machine that other work uses starts programs late."""
COMPILE_S = 300.0
MORE_MB = 128
"""For what starts the program, beside the program's own limit."""
OUTPUT_MB = 64.0
EMPTY = """\
#include <bits/stdc++.h>

// EVOLVE-BLOCK-START
int main() {
    return 0;
}
// EVOLVE-BLOCK-END
"""
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(ms|s)?")


class FrontierCS(Importer):
    """Folders of problems."""

    project = "Frontier-CS"
    parts: Mapping[str, Path] = {"evaluator.py": OWN / "evaluator.py"}

    def recognises(self, folder: Path) -> bool:
        """Whether there are a statement, tests and limits."""
        has_files = (folder / STATEMENT).is_file() and (folder / TESTS).is_dir() and (folder / CONFIG).is_file()
        return has_files and "subtasks" in mapping_of(folder / CONFIG)

    def read(self, folder: Path, options: ImportOptions) -> Example:
        """Raises UsageError for a folder that is no such problem, and for an interactive one."""
        if not self.recognises(folder):
            raise UsageError(
                f"{folder} is not a problem of Frontier-CS: looked for {STATEMENT}, {TESTS} and {CONFIG} with subtasks."
            )
        config = mapping_of(folder / CONFIG)
        checker = _checker(folder, config, options.evaluator)
        tests, total = sorted((folder / TESTS).glob("*.in")), sum(_counts(config))
        if not tests:
            raise UsageError(f"{folder / TESTS} has no test, as in 1.in.")
        limit, memory = _limits(folder, config)
        program = inside(folder, options.program, "The seed program") if options.program else _initial(folder)
        language = language_of_program(program, "")
        build, start = _commands(Path(program).name, language)
        starter = text_of(OWN / "run_tests.py")
        return Example(
            peer=self.project,
            folder=folder,
            evaluator=checker,
            source=program,
            seed="" if (folder / program).is_file() else EMPTY,
            language=language,
            background=text_of(folder / STATEMENT).strip(),
            timeout_s=START_S + 2 * limit * len(tests),
            memory_mb=memory + MORE_MB,
            kind="process",
            fields={
                **({"build": build} if build else {}),
                "run": ["python3", "-c", starter, f"{limit:g}", *start],
                "protocol": (
                    f"is started anew for each of {len(tests)} tests: it reads one from standard input and writes its "
                    f"answer to standard output. Each has {limit:g} s of processor time and {memory} MiB."
                ),
                "output_mb": OUTPUT_MB,
            },
            upper=100.0,
            taken=(
                f"checker: {checker}, compiled once. It runs outside the sandbox: import problems that you trust",
                f"tests: {len(tests)}{f' of the {total} that {CONFIG} names' if total != len(tests) else ''}",
                "seed program: "
                + (
                    f"{program} ({language})"
                    if (folder / program).is_file()
                    else "an empty one: --program names another"
                ),
                f"background: {STATEMENT}",
                f"limits: {limit:g} s and {memory} MiB for each test",
            ),
            about=f"# Problem {folder.resolve().name} of Frontier-CS\n\nFrontier-CS is under the MIT licence.\n",
        )

    def complete(self, task: Path, example: Example) -> None:
        """Compile the checker. Raises UsageError, in one sentence, where testlib.h or the compiler is missing."""
        source = task / COPY / example.evaluator
        command = ["g++", "-O2", "-std=gnu++17", "-o", str(task / CHECKER), str(source)]
        if TESTLIB in text_of(source):
            command += ["-I", str(_testlib(example))]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILE_S, check=False
            )
        except FileNotFoundError:
            raise UsageError(f"{example.evaluator} is C++, and there is no g++ here: install it.") from None
        except subprocess.TimeoutExpired:
            raise UsageError(f"Compiling {example.evaluator} took more than {COMPILE_S:g} s.") from None
        if done.returncode:
            error = next((line for line in done.stderr.splitlines() if "error" in line), "no error was printed")
            raise UsageError(f"{example.evaluator} does not compile: {error.strip()[:300]}")


def _testlib(example: Example) -> Path:
    """The folder of testlib.h. Raises UsageError if it is nowhere."""
    folder = example.folder.resolve()
    entries = (
        entry for name in ("CPLUS_INCLUDE_PATH", "CPATH") for entry in os.environ.get(name, "").split(os.pathsep)
    )
    places = [folder, *(parent / JUDGE for parent in folder.parents), *(Path(entry) for entry in entries if entry)]
    for place in places:
        if (place / TESTLIB).is_file():
            return place
    raise UsageError(
        f"{example.evaluator} needs {TESTLIB}, which is neither in {example.folder} nor in {JUDGE} of a folder above: "
        "put it beside the checker, or name its folder in the variable CPLUS_INCLUDE_PATH."
    )


def _checker(folder: Path, config: Mapping[str, Any], choice: str) -> str:
    """The checker's file. Raises UsageError for an interactive problem, and where there is none."""
    if choice:
        return inside(folder, choice, "The checker")
    checker = str(config.get("checker") or "")
    if config.get("type") == "interactive" or checker.startswith("interactor"):
        raise UsageError(f"{folder} is an interactive problem: only those with a checker can be imported.")
    for name in dict.fromkeys((checker, *CHECKERS)):
        if name and (folder / name).is_file():
            return inside(folder, name, "The checker")
    raise UsageError(f"{folder} has no checker: looked for {' and '.join(CHECKERS)}. --evaluator names another.")


def _initial(folder: Path) -> str:
    """A seed program beside the statement, or the name of one that is ours."""
    return next((path.name for path in sorted(folder.glob("initial.*")) if path.is_file()), "initial.cpp")


def _commands(program: str, language: str) -> tuple[list[str], list[str]]:
    """(what builds a program, what starts it). Raises UsageError for another language than C++ and Python."""
    if language == "c++":
        return ["g++", "-O2", "-std=gnu++17", "-o", "program", program], ["./program"]
    if language == "python":
        return [], ["python3", program]
    raise UsageError(f"{program} is in {language}: programs for Frontier-CS are in C++ or Python here.")


def _limits(folder: Path, config: Mapping[str, Any]) -> tuple[float, int]:
    """(seconds, MiB) of each test, those of the whole problem. Raises UsageError."""
    duration, amount = str(config.get("time_limit") or config.get("time") or "1s"), config.get("memory_limit")
    match = _TIME.fullmatch(duration.strip())
    memory = megabytes(amount or config.get("memory") or "256m")
    if match is None or memory is None or not float(match[1]):
        raise UsageError(f"{folder / CONFIG}: time and memory must be limits such as 2s and 256m.")
    return float(match[1]) / (1000 if match[2] == "ms" else 1), memory


def _counts(config: Mapping[str, Any]) -> Iterator[int]:
    """The tests of each subtask."""
    subtasks = config.get("subtasks")
    for subtask in cast("list[Any]", subtasks if isinstance(subtasks, list) else []):
        fields = cast("dict[str, Any]", subtask) if isinstance(subtask, dict) else {}
        cases = fields.get("cases")
        count = fields.get("n_cases", len(cast("list[Any]", cases)) if isinstance(cases, list) else 0)
        yield count if isinstance(count, int) else 0
