"""Runs a Shinka example's evaluator on one program, as ShinkaEvolve does, and adds what pace shows of it.

    python -m shinka.pace_run EVALUATOR PROGRAM RESULTS [--in-repository REPOSITORY FILE] [further arguments]

The evaluator is started as a script with --program_path, --results_dir and the further arguments, in its own folder. An
evaluator that takes no such arguments is imported, and its function `main` is called with both. With --in-repository it
gets --repo_path instead: a copy of the program if that is a folder, else of the folder REPOSITORY beside it, in which
the program stands as FILE. It writes metrics.json and correct.json to RESULTS. As in ShinkaEvolve its exit code does
not matter if both are there. `feedback.txt` gets the public metrics.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

LONGEST = 100_000
_SCRIPT = ("--program_path", "--results_dir")
_PLACE = "--in-repository"


def main(evaluator: str, program: str, results: str, *further: str) -> int:
    """The exit code: that of the evaluator if it left no metrics, else 0."""
    script, folder = Path(evaluator).resolve(), Path(results).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    place = str(Path(program).resolve())
    os.chdir(script.parent)
    text = script.read_text(encoding="utf-8", errors="replace")
    if further[:1] == (_PLACE,):
        with tempfile.TemporaryDirectory() as copy:
            repository = _repository(Path(further[1]), further[2], place, Path(copy) / "repository")
            code = _started(script, "--repo_path", str(repository), folder, further[3:])
    elif all(word in text for word in _SCRIPT):
        code = _started(script, "--program_path", place, folder, further)
    else:
        code = _called(script, place, str(folder))
    metrics = folder / "metrics.json"
    if not metrics.is_file() or not (folder / "correct.json").is_file():
        return code or 1
    _show(metrics, folder / "feedback.txt")
    return 0


def _repository(source: Path, file: str, program: str, target: Path) -> Path:
    """A copy of the repository with the program in the file's place, or of the program if it is a folder."""
    is_folder = Path(program).is_dir()
    shutil.copytree(program if is_folder else source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    if not is_folder:
        shutil.copyfile(program, target / file)
    return target


def _started(script: Path, option: str, place: str, results: Path, further: Sequence[str]) -> int:
    words = [sys.executable, script.name, option, place, "--results_dir", str(results), *further]
    return subprocess.run(words, check=False).returncode


def _called(script: Path, program: str, results: str) -> int:
    sys.path.insert(0, str(script.parent))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module  # for what it pickles
    spec.loader.exec_module(module)
    cast("Any", module).main(program, results)
    return 0


def _show(metrics: Path, feedback: Path) -> None:
    """Write the public metrics as text, and keep metrics.json short."""
    try:
        value: Any = json.loads(metrics.read_text(encoding="utf-8"))
    except ValueError:
        return
    if not isinstance(value, dict):
        return
    document = cast("dict[str, Any]", value)
    public: Any = document.get("public")
    if isinstance(public, dict) and public and not feedback.exists():
        lines = [f"{name}: {metric}" for name, metric in cast("dict[str, Any]", public).items()]
        feedback.write_text("\n".join(lines)[:LONGEST], encoding="utf-8", errors="replace")
    if metrics.stat().st_size > LONGEST:
        short = {name: metric for name, metric in document.items() if len(json.dumps(metric)) < LONGEST // 10}
        metrics.write_text(json.dumps(short), encoding="utf-8")


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # whatever threads the program left
