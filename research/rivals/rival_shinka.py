"""One run of ShinkaEvolve, started by `bench_rivals.py` with a Python that has it installed.

    PYTHON research/rivals/rival_shinka.py FOLDER URL GENERATIONS WORKERS SEED

FOLDER holds `initial.py`. URL serves the model at /v1 and scores programs at /evaluate. It uses its own defaults with
three exceptions: the local model instead of its list of models, no embedding model and no summaries (there is only one
local model), and as many proposals and evaluations at once as workers. It caps these at about the number of cores, so
it is told that there are many.
"""

import importlib
import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

EVALUATE = """
import argparse
import json
from pathlib import Path
from urllib.request import Request, urlopen

parser = argparse.ArgumentParser()
parser.add_argument("--program_path", type=Path)
parser.add_argument("--results_dir", type=Path)
chosen = parser.parse_args()
asked = Request({url!r} + "/evaluate", chosen.program_path.read_bytes(), {{"content-type": "text/plain"}})
with urlopen(asked) as answered:
    score = json.load(answered)["score"]
chosen.results_dir.mkdir(parents=True, exist_ok=True)
metrics = {{"combined_score": score or 0.0, "public": {{}}, "private": {{}}}}
(chosen.results_dir / "metrics.json").write_text(json.dumps(metrics))
failed = {{"correct": score is not None, "error": "" if score is not None else "no score"}}
(chosen.results_dir / "correct.json").write_text(json.dumps(failed))
"""


def main() -> None:
    """Run once."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    generations, workers, seed = (int(text) for text in sys.argv[3:6])
    (folder / "evaluate.py").write_text(EVALUATE.format(url=url))
    os.cpu_count = lambda: 64
    numpy: Any = importlib.import_module("numpy")
    random.seed(seed)
    numpy.random.seed(seed)
    core: Any = importlib.import_module("shinka.core")
    database: Any = importlib.import_module("shinka.database")
    launch: Any = importlib.import_module("shinka.launch")
    logging.disable(logging.CRITICAL)
    runner = core.ShinkaEvolveRunner(
        evo_config=core.EvolutionConfig(
            num_generations=generations + 1,  # the initial program is one of them
            llm_models=[f"local/local@{url}/v1"],
            embedding_model=None,
            meta_rec_interval=None,
            init_program_path=str(folder / "initial.py"),
            results_dir=str(folder / "out"),
        ),
        job_config=launch.LocalJobConfig(
            eval_program_path=str(folder / "evaluate.py"), python_executable=sys.executable
        ),
        db_config=database.DatabaseConfig(),
        max_evaluation_jobs=workers,
        max_proposal_jobs=workers,
        verbose=False,
    )
    runner.run()


if __name__ == "__main__":
    main()
