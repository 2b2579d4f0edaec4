"""Scores programs of a problem of Frontier-CS: 100 times the mean ratio that the problem's checker gives its tests.

A program is started anew for each test, by the command `run` of task.yaml. The checker was compiled when the task was
made. As in Frontier-CS, a test counts 0 if the program has no answer or the checker finds no ratio and refuses it.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

FOLDER = Path(__file__).parent
CHECKER = FOLDER / "checker"
TESTS = FOLDER / "example" / "testdata"
CHECK_S = 20.0


def tests() -> list[Path]:
    """The files of the inputs, in the order of their numbers."""
    return sorted(TESTS.glob("*.in"), key=lambda path: (len(path.stem), path.stem))


def instances(seed: int) -> list[dict[str, str]]:
    """The inputs, the same for every seed."""
    return [{"input": path.read_text(encoding="utf-8")} for path in tests()]


def score(instances: list[dict[str, str]], outputs: list[Any]) -> dict[str, float]:
    """Raises ValueError for an output that no program of the task's command writes."""
    ratios = [ratio_of(path, output) for path, output in zip(tests(), outputs, strict=True)]
    return {"score": 100 * sum(ratios) / len(ratios), "tests_without_a_score": sum(ratio == 0 for ratio in ratios)}


def ratio_of(test: Path, output: Any) -> float:
    """The share of a test's points. An answer may be better than 1 where the problem has no best one."""
    fields = cast("dict[str, Any]", output) if isinstance(output, dict) else {}
    if not isinstance(fields.get("output"), str):
        raise ValueError("an output is not what the command of the task writes")
    if fields.get("why"):
        return 0.0
    answer = next((path for path in (test.with_suffix(".ans"), test.with_suffix(".out")) if path.is_file()), None)
    with tempfile.TemporaryDirectory() as folder:
        written, empty = Path(folder, "out.txt"), Path(folder, "ans.txt")
        written.write_text(fields["output"], encoding="utf-8", errors="replace")
        empty.touch()
        try:
            done = subprocess.run(
                [str(CHECKER), str(test), str(written), str(answer or empty)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 0.0
    message = (done.stdout or done.stderr).decode("utf-8", "replace")
    match = re.search(r"Ratio: (\d+(?:\.\d*)?|\.\d+)", message)
    return float(match[1]) if match else float(done.returncode == 0)
