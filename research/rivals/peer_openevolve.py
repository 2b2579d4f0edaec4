"""One run of OpenEvolve on sleeping evaluations, started by `bench_overhead.py` with a Python that has it installed.

    PYTHON research/rivals/peer_openevolve.py FOLDER URL ITERATIONS WORKERS SEED  durations in seconds, as JSON on stdin

It uses its own defaults, except for the number of workers, whole programs instead of edits, and no log. The n-th
evaluation that begins sleeps for the n-th duration. Prints one line of JSON: `seconds` from the earliest possible first
question to the last score, `processor` seconds of all its processes, their start included, and the number of evaluated
`candidates`.
"""

import importlib
import json
import logging
import resource
import sys
from pathlib import Path
from typing import Any

EVALUATOR = """
import fcntl, json, time
from pathlib import Path

FOLDER = Path({folder!r})
DURATIONS = json.loads((FOLDER / "durations.json").read_text())


def evaluate(program_path):
    began = time.time()
    with open(FOLDER / "taken", "a+") as taken:
        fcntl.flock(taken, fcntl.LOCK_EX)
        number = taken.tell()
        taken.write("x")
    if number:  # the first is the initial program
        time.sleep(DURATIONS[number - 1])
        with open(FOLDER / "times", "a") as times:
            times.write(json.dumps([began, time.time()]) + "\\n")
    return {{"combined_score": 0.5}}
"""
ANSWER_S = 1.0


def main() -> None:
    """Run once."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    iterations, workers, seed = (int(text) for text in sys.argv[3:6])
    (folder / "durations.json").write_text(sys.stdin.read())
    (folder / "evaluator.py").write_text(EVALUATOR.format(folder=str(folder)))
    peer: Any = importlib.import_module("openevolve")
    settings: Any = importlib.import_module("openevolve.config")
    config = settings.Config.from_dict(
        {
            "max_iterations": iterations,
            "random_seed": seed,
            "log_level": "ERROR",
            "diff_based_evolution": False,
            "max_code_length": 1_000_000,
            "evaluator": {"parallel_evaluations": workers},
        }
    )
    config.llm.models = [
        settings.LLMModelConfig(api_base=url, api_key="any key will do", name="local", timeout=60, retries=0)
    ]
    logging.disable(logging.CRITICAL)
    program = (folder / "initial.py").read_text()
    peer.run_evolution(
        program, str(folder / "evaluator.py"), config, iterations=iterations, output_dir=str(folder / "out")
    )
    times = [json.loads(line) for line in (folder / "times").read_text().splitlines()]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(
        json.dumps(
            {
                "seconds": max(end for _, end in times) - min(began for began, _ in times) + ANSWER_S,
                "processor": sum(each.ru_utime + each.ru_stime for each in used),
                "candidates": len(times),
            }
        )
    )


if __name__ == "__main__":
    main()
