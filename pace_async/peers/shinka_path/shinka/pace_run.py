"""Runs a Shinka example's evaluator on one program, as ShinkaEvolve does, and adds what pace shows of it.

    python -m shinka.pace_run EVALUATOR PROGRAM RESULTS [further arguments of the evaluator]

The evaluator is started as a script with --program_path and --results_dir, in its own folder. An evaluator that takes
no such arguments is imported, and its function `main` is called with both. It writes metrics.json and correct.json to
RESULTS. As in ShinkaEvolve its exit code does not matter if both are there. `feedback.txt` gets the public metrics.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

LONGEST = 100_000
_SCRIPT = ("--program_path", "--results_dir")


def main(evaluator: str, program: str, results: str, *further: str) -> int:
    """The exit code: that of the evaluator if it left no metrics, else 0."""
    script, folder = Path(evaluator).resolve(), Path(results).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    place = str(Path(program).resolve())
    os.chdir(script.parent)
    text = script.read_text(encoding="utf-8", errors="replace")
    if all(word in text for word in _SCRIPT):
        code = subprocess.run(
            [sys.executable, script.name, "--program_path", place, "--results_dir", str(folder), *further], check=False
        ).returncode
    else:
        code = _called(script, place, str(folder))
    metrics = folder / "metrics.json"
    if not metrics.is_file() or not (folder / "correct.json").is_file():
        return code or 1
    _show(metrics, folder / "feedback.txt")
    return 0


def _called(script: Path, program: str, results: str) -> int:
    sys.path.insert(0, str(script.parent))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script.name} is no Python file")
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
    found = cast("dict[str, Any]", value)
    public: Any = found.get("public")
    if isinstance(public, dict) and public and not feedback.exists():
        lines = [f"{name}: {one}" for name, one in cast("dict[str, Any]", public).items()]
        feedback.write_text("\n".join(lines)[:LONGEST], encoding="utf-8", errors="replace")
    if metrics.stat().st_size > LONGEST:
        short = {name: one for name, one in found.items() if len(json.dumps(one)) < LONGEST // 10}
        metrics.write_text(json.dumps(short), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
