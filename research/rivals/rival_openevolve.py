"""One run of OpenEvolve, started by `bench_rivals.py` with a Python that has it installed.

    PYTHON research/rivals/rival_openevolve.py FOLDER URL ITERATIONS WORKERS SEED

FOLDER holds `initial.py`. URL serves the model at /v1 and scores programs at /evaluate. It uses its own defaults,
except for the arguments here and the accepted length of a program.
"""

import importlib
import logging
import sys
from pathlib import Path
from typing import Any

EVALUATOR = """
import json
from urllib.request import Request, urlopen


def evaluate(program_path):
    with open(program_path, "rb") as stream:
        asked = Request({url!r} + "/evaluate", stream.read(), {{"content-type": "text/plain"}})
    with urlopen(asked) as answered:
        return {{"combined_score": json.load(answered)["score"] or 0.0}}
"""


def main() -> None:
    """Run once."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    iterations, workers, seed = (int(text) for text in sys.argv[3:6])
    (folder / "evaluator.py").write_text(EVALUATOR.format(url=url))
    peer: Any = importlib.import_module("openevolve")
    settings: Any = importlib.import_module("openevolve.config")
    config = settings.Config.from_dict(
        {
            "max_iterations": iterations,
            "random_seed": seed,
            "log_level": "ERROR",
            "max_code_length": 1_000_000,
            "database": {"random_seed": seed},
            "evaluator": {"parallel_evaluations": workers},
        }
    )
    config.llm.models = [
        settings.LLMModelConfig(api_base=f"{url}/v1", api_key="any key will do", name="local", timeout=60, retries=0)
    ]
    logging.disable(logging.CRITICAL)
    peer.run_evolution(
        (folder / "initial.py").read_text(),
        str(folder / "evaluator.py"),
        config,
        iterations=iterations,
        output_dir=str(folder / "out"),
    )


if __name__ == "__main__":
    main()
