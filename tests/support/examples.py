"""Small examples with the structure of OpenEvolve's and ShinkaEvolve's, and the real ones where they are."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

PEERS = Path(os.environ.get("PACE_PEERS", Path(__file__).parents[3] / "shared" / "peers"))
"""The folder with examples of both projects."""

OPENEVOLVE = {
    "evaluator.py": """\
        import importlib.util
        from openevolve.evaluation_result import EvaluationResult
        from tables import SCALE

        def answer(path):
            spec = importlib.util.spec_from_file_location("program", path)
            program = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(program)
            return program.answer()

        def evaluate(program_path):
            value = answer(program_path)
            return EvaluationResult({"combined_score": value / SCALE, "value": value}, {"hint": f"it answered {value}"})

        def evaluate_stage1(program_path):
            return {"combined_score": 1.0 if isinstance(answer(program_path), int) else 0.0}

        def evaluate_stage2(program_path):
            return evaluate(program_path)
        """,
    "tables.py": "SCALE = 10\n",
    "initial_program.py": "# EVOLVE-BLOCK-START\ndef answer():\n    return 4\n# EVOLVE-BLOCK-END\n",
    "config.yaml": """\
        max_iterations: 10
        llm: {primary_model: some-model, temperature: 0.7}
        prompt: {system_message: Make the answer large.}
        database: {num_islands: 3}
        evaluator: {timeout: 20, cascade_thresholds: [0.5]}
        max_code_length: 200
        """,
    "requirements.txt": "numpy>=1.0\nno-such-package-here\n",
}

SHINKA = {
    "evaluate.py": """\
        import argparse
        from shinka.core import run_shinka_eval

        def check(result):
            return (True, None) if result < 100 else (False, "larger than 99")

        def total(results):
            return {"combined_score": float(sum(results)), "public": {"runs": len(results)}, "private": {"secret": 7},
                    "text_feedback": "make it larger"}

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--program_path", default="initial.py")
            parser.add_argument("--results_dir", default="results")
            parser.add_argument("--times", type=int, default=1)
            asked = parser.parse_args()
            run_shinka_eval(asked.program_path, asked.results_dir, "run_it", 2,
                            get_experiment_kwargs=lambda number: {"number": number * asked.times},
                            validate_fn=check, aggregate_metrics_fn=total)
        """,
    "initial.py": """\
        # EVOLVE-BLOCK-START
        BASE = 5
        # EVOLVE-BLOCK-END

        def run_it(number):
            return BASE + number
        """,
    "run_evo.py": '''\
        import yaml
        from shinka.core import EvolutionConfig, ShinkaEvolveRunner
        from shinka.database import DatabaseConfig
        from shinka.launch import LocalJobConfig
        raise SystemExit("never run")

        TEXT = """
        You make numbers large.
        """ + "Twice."

        job_config = LocalJobConfig(eval_program_path="evaluate.py", time="00:01:30", extra_cmd_args={"times": 3})
        db_config = DatabaseConfig(num_islands=2)

        def main(path="small.yaml"):
            config = yaml.safe_load(open(path))
            config["evo_config"]["task_sys_msg"] = TEXT.strip()
            ShinkaEvolveRunner(evo_config=EvolutionConfig(**config["evo_config"]), max_evaluation_jobs=2)
        ''',
    "small.yaml": """\
        max_evaluation_jobs: 2
        evo_config: {language: python, init_program_path: initial.py, num_generations: 20, llm_models: [some-model]}
        db_config: {num_islands: 2, archive_size: 40}
        """,
}

REPOSITORY = {
    "evaluate.py": """\
        import argparse, importlib.util, json, pathlib

        parser = argparse.ArgumentParser()
        parser.add_argument("--repo_path", required=True)
        parser.add_argument("--results_dir", required=True)
        asked = parser.parse_args()
        repository, results = pathlib.Path(asked.repo_path), pathlib.Path(asked.results_dir)
        spec = importlib.util.spec_from_file_location("program", repository / "src" / "answers.py")
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        score = program.answer() + float((repository / "bonus.txt").read_text())
        (results / "metrics.json").write_text(json.dumps({"combined_score": score}))
        (results / "correct.json").write_text(json.dumps({"correct": True}))
        """,
    "shinka.yaml": """\
        evo: {seed_repo_path: seed, mutable_paths: [src, notes.md], ignore_paths: ["test_*.py"], task_sys_msg: Grow.}
        db: {num_islands: 3}
        job: {eval_program_path: evaluate.py}
        """,
    "seed/src/answers.py": "def answer():\n    return 4\n",
    "seed/src/test_answers.py": "from answers import answer\n",
    "seed/bonus.txt": "1\n",
    "seed/notes.md": "No program.\n",
}
"""A Shinka example whose candidates are folders."""


def digests(folder: Path) -> dict[str, str]:
    """Every file of a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def example(folder: Path, files: Mapping[str, str], **changed: str | None) -> Path:
    """Write an example. `changed` are other texts by name, with __ for the dot, None to leave a file out."""
    folder.mkdir(parents=True)
    others = {name.replace("__", "."): text for name, text in changed.items()}
    for name, text in {**files, **others}.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(dedent(text), encoding="utf-8")
    return folder


GALAPAGOS = {
    "card.yaml": """\
        name: sums
        display_name: "Sums"
        organization: Ours
        summary: Make a number large.
        description: |
          Return a large whole number, at most 8.
        metrics:
          - {metric_name: value, metric_direction: maximize}
          - metric_name: combined_score
            metric_direction: maximize
            metric_description: The number divided by the best known one.
            metric_computation: value / 8
        components: {initial_program: initial_program.py, evaluator: evaluator.py}
        language: python
        library: [numpy]
        constraint: {est_runtime_s: 5, network: none}
        references: {source: "https://example.org/sums", best_known: 8, found_by: Ada}
        """,
    "evaluator.py": """\
        import importlib.util

        def evaluate(program_path):
            spec = importlib.util.spec_from_file_location("program", program_path)
            program = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(program)
            value = program.answer()
            return {"combined_score": value / 8, "value": value, "artifacts": {"hint": f"it answered {value}"}}
        """,
    "initial_program.py": "# EVOLVE-BLOCK-START\ndef answer():\n    return 2\n# EVOLVE-BLOCK-END\n",
}

FRONTIER_CS = {
    "config.yaml": "type: default\nchecker: chk.cc\ntime: 2s\nmemory: 64m\nsubtasks:\n- {score: 100, n_cases: 2}\n",
    "statement.txt": "Write a whole number, at most the one that you read.\n",
    "testdata/1.in": "4\n",
    "testdata/1.ans": "4\n",
    "testdata/2.in": "8\n",
    "testdata/2.ans": "8\n",
    "chk.cc": """\
        #include <cstdio>
        int main(int, char **files) {
            double most = 0, given = 0, best = 1;
            if (std::fscanf(std::fopen(files[1], "r"), "%lf", &most) != 1) return 3;
            if (std::fscanf(std::fopen(files[3], "r"), "%lf", &best) != 1) return 3;
            if (std::fscanf(std::fopen(files[2], "r"), "%lf", &given) != 1 || given > most) return 1;
            std::fprintf(stderr, "points Ratio: %.6f (of %g)", given / best, best);
            return 7;
        }
        """,
    "initial.cpp": """\
        #include <cstdio>
        // EVOLVE-BLOCK-START
        int answer(int) { return 4; }
        // EVOLVE-BLOCK-END
        int main() {
            int most;
            if (std::scanf("%d", &most) == 1) std::printf("%d\\n", answer(most));
        }
        """,
}
"""A problem whose program scores 75: all of one test, half of the other."""

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "openevolve": OPENEVOLVE,
    "shinka": SHINKA,
    "galapagos": GALAPAGOS,
    "frontier-cs": FRONTIER_CS,
}
"""One example for each importer, by its name in the table."""
TOOLS: Mapping[str, str] = {"frontier-cs": "g++"}
"""Commands that an importer's example needs."""
