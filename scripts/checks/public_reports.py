"""What public reports of others find here: python scripts/checks/public_reports.py [--write] [NAME ...]

Small inputs made from public reports lie in ../shared/cases, or where PACE_CASES says. Each is run in a folder of its
own and judged by a right value, not by eye. One that needs a chat server or a model is judged by the tests that were
made of it. `--write` makes docs/results/public_reports.md of the results. Exit code 1 if a case is wrong. A case whose
folder is absent is skipped and counted.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CASES = Path(os.environ.get("PACE_CASES", ROOT.parent / "shared" / "cases"))
PAGE = ROOT / "docs" / "results" / "public_reports.md"
PATIENCE_S, TESTED_S = 300, 900
RIGHT, WRONG, ABSENT, UNJUDGED = "right", "not yet", "no such folder here", "not judged by the script"


@dataclass(frozen=True, slots=True)
class Said:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its JSON, or an empty mapping."""
        try:
            return json.loads(self.out)
        except ValueError:
            return {}


Pace = Callable[..., Said]
Judge = Callable[[Path, Pace], bool]


@dataclass(frozen=True, slots=True)
class Case:
    """`source` is a public report of this kind, as repository#number, or nothing where none was found. `judge` says
    whether the result is right, given a copy of the case's folder. `tests` are those of the project that hold the right
    value, where there is no judge."""

    folder: str
    situation: str
    source: str = ""
    judge: Judge | None = None
    tests: str = ""


def _pace(place: Path) -> Pace:
    def pace(*words: str, inside: str = ".") -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "pace_async", *words],
            cwd=place / inside,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return pace


def _imported(pace: Pace, peer: str, folder: str, *more: str) -> list[str]:
    """The lines of an import to ./made."""
    found = pace("task", "import", peer, folder, "--to", "made", "--json", *more).document
    return [*found.get("taken_over", []), *found.get("not_taken_over", [])]


def _scored(pace: Pace, task: str, program: str, *more: str) -> Any:
    return pace("eval", task, program, "--json", *more).document


def _bom(place: Path, pace: Pace) -> bool:
    _imported(pace, "openevolve", "bom2")
    said = pace("run", "./made", "--implementer", "openai/none", "--dry-run")
    return _scored(pace, "./made", "made/initial_program.py").get("outcome") == "ok" and said.code == 0


def _check_ends(place: Path, pace: Pace) -> bool:
    said = pace("task", "check", "./fitsyn")
    return said.code == 2 and "Traceback" not in said.err and "SyntaxError" in said.out


def _large_artifacts(place: Path, pace: Pace) -> bool:
    _imported(pace, "openevolve", "bigart")
    found = _scored(pace, "./made", "made/initial_program.py")
    return found.get("score") is not None and bool(found.get("feedback"))


def _second_evaluator(place: Path, pace: Pace) -> bool:
    lines = _imported(pace, "openevolve", "twoeval", "--config", "config_phase_2.yaml", "--no-try")
    shutil.rmtree(place / "made", ignore_errors=True)
    nested = ("--evaluator", "src/evaluator.py", "--program", "prog/seed.py")
    return "--evaluator names another: evaluator_phase_2.py" in lines[0] and any(
        line.startswith("bounds: -4 to 4") for line in _imported(pace, "openevolve", "pkg", *nested)
    )


def _slurm(place: Path, pace: Pace) -> bool:
    first = _imported(pace, "shinka", "slurm", "--no-try")
    shutil.rmtree(place / "made", ignore_errors=True)
    second = _imported(pace, "shinka", "slurm2", "--no-try")
    return all(
        {f"timeout_s: {seconds} (time)", "memory_mb: 16384 (mem)"} <= set(lines)
        for lines, seconds in ((first, 86_400), (second, 1800))
    )


def _elsewhere(place: Path, pace: Pace) -> bool:
    pace("task", "init", "mine", "--kind", "function")
    spec = place / "mine" / "task.yaml"
    (place / "mine" / "initial.py").rename(place / "mine" / "initial.py3")
    spec.write_text(f"{spec.read_text(encoding='utf-8').rstrip()}\nprogram: initial.py3\n", encoding="utf-8")
    settings = ("--objective", "none", "--threads", "1", "--display", "none")
    pace("run", "./mine", "--run-dir", "run", "--candidates", "2", *settings)
    (place / "elsewhere").mkdir()
    best = pace("best", "../run", "--json", inside="elsewhere").document
    resumed = pace("resume", "../run", "--candidates", "3", "--display", "none", inside="elsewhere")
    return str(best.get("path", "")).endswith("best.py3") and resumed.code == 0


def _chatty(place: Path, pace: Pace) -> bool:
    lines = _imported(pace, "openevolve", "chatty")
    return bool(lines) and _scored(pace, "./made", "made/initial_program.py").get("outcome") == "ok"


def _number(place: Path, pace: Pace) -> bool:
    found = _scored(pace, "./setfloat", "setfloat/initial.py")
    finer = _scored(pace, "./setfloat", "setfloat/initial.py", "--set", "tolerance=1e+4")
    return (found.get("outcome"), found.get("score"), finer.get("score")) == ("ok", -5.0, -3.0)


def _twice(place: Path, pace: Pace) -> bool:
    said = pace("task", "check", "./dup")
    return said.code == 2 and "stands twice" in said.out + said.err


def _numpy(place: Path, pace: Pace) -> bool:
    return _scored(pace, "./sc", "sc/initial.py").get("score") == 0.5


def _into_itself(place: Path, pace: Pace) -> bool:
    said = pace("task", "import", "openevolve", ".", inside="bom")
    return said.code == 2 and "inside the example" in said.err and not (place / "bom" / "bom").exists()


def _tuple_keys(place: Path, pace: Pace) -> bool:
    _imported(pace, "openevolve", "tuplekeys")
    return _scored(pace, "./made", "made/initial_program.py").get("outcome") == "ok"


def _data(place: Path, pace: Pace) -> bool:
    without = _imported(pace, "openevolve", "datadb")
    shutil.rmtree(place / "made", ignore_errors=True)
    along = _imported(pace, "openevolve", "datadb", "--include", "bench.db", "--include", "results")
    return any("it has the score 0" in line for line in without) and any("bounds: -4 to 4" in line for line in along)


LITELLM, TRANSFORMERS = "BerriAI/litellm#9001", "huggingface/transformers#29988"
TABLE = (
    Case(
        "search/01_thinking_cannot_be_used",
        "the check before a run asks with less room than thinking needs",
        LITELLM,
        tests="tests/implement/test_form_of_calls.py -k room_to_think",
    ),
    Case(
        "search/03_half_a_sign_in_a_text_program",
        "an answer holds half an emoji",
        tests="tests/package/test_outside.py -k half_a_sign",
    ),
    Case("search/06_bom_seed", "a seed program begins with a byte order mark", judge=_bom),
    Case("search/07_check_ends_with_a_traceback", "a seed program with a slip is checked", judge=_check_ends),
    Case("search/09_large_artifacts", "an evaluator returns artifacts of 210 kB", judge=_large_artifacts),
    Case("search/11_second_evaluator", "an example has two evaluators, or one in a folder", judge=_second_evaluator),
    Case("search/12_slurm_limits", "times and memory in Slurm's forms", judge=_slurm),
    Case("search/14_from_another_directory", "a run is read and resumed from another directory", judge=_elsewhere),
    Case(
        "search/15_system_message_refused",
        "a server refuses the system message",
        "vllm-project/vllm#2964",
        tests="tests/implement/test_form_of_calls.py -k system_message",
    ),
    Case("search/16_chatty_evaluator", "an evaluator prints 7 MB", judge=_chatty),
    Case("search/17_number_that_is_a_text", "1e-3 in a YAML file", "yaml/pyyaml#173", _number),
    Case("search/18_key_twice_in_task_yaml", "a key stands twice in a YAML file", "yaml/pyyaml#165", _twice),
    Case("search/19_numpy_score", "a score is a number of NumPy", "numpy/numpy#18994", _numpy),
    Case("search/20_import_into_itself", "an example is imported into its own folder", judge=_into_itself),
    Case("search/21_artifacts_cost_the_score", "artifacts that JSON cannot hold", judge=_tuple_keys),
    Case("search/22_data_left_behind", "an evaluator reads a database", judge=_data),
    Case(
        "learning/add_eos",
        "a tokenizer ends each prompt with the end token",
        tests="tests/advise/test_end_of_prompts.py",
    ),
    Case(
        "learning/answer_room",
        "max_tokens for which no context has room",
        tests="tests/implement/test_form_of_calls.py -k no_context_has_room",
    ),
    Case("learning/ascii_locale", "commands in a locale of ASCII"),
    Case(
        "learning/attention_dropout",
        "the model's settings ask for attention dropout",
        tests="tests/learn/test_steady.py -k without_dropout",
    ),
    Case(
        "learning/bad_generation_config",
        "a generation_config.json that cannot be saved",
        TRANSFORMERS,
        tests="tests/learn/test_model_folders.py -k generation_config",
    ),
    Case(
        "learning/consolidated_file",
        "consolidated.safetensors beside an index",
        tests="tests/learn/test_model_folders.py -k consolidated",
    ),
    Case(
        "learning/content_list",
        "an answer's content is a list of parts",
        tests="tests/implement/test_what_came_back.py -k in_parts",
    ),
    Case(
        "learning/dropped_options",
        "options that a model does not take",
        tests="tests/implement/test_form_of_calls.py -k does_not_take_is_refused",
    ),
    Case(
        "learning/dynamic_rope",
        "rotary scaling that depends on the longest row",
        tests="tests/learn/test_row_positions.py",
    ),
    Case(
        "learning/finish_error",
        "a provider calls an answer broken with HTTP 200",
        tests="tests/implement/test_what_came_back.py -k 'broken or half_an_answer'",
    ),
    Case(
        "learning/gateway_504",
        "a gateway's 504 after the request was sent",
        tests="tests/implement/test_one_request.py -k gateway",
    ),
    Case(
        "learning/hidden_replay",
        "a reset connection is posted again by the library",
        tests="tests/implement/test_one_request.py -k breaks_after",
    ),
    Case("learning/moe_aux_loss", "a mixture's auxiliary loss is added", tests="tests/learn/test_steady.py -k mixture"),
    Case("learning/moe_names", "versions of fused experts"),
    Case(
        "learning/odd_answers",
        "answers of odd forms",
        tests="tests/implement/test_what_came_back.py -k 'strange_numbers or without_a_choice or holds_an_error'",
    ),
    Case(
        "learning/ollama_lookup",
        "the price of an ollama model is looked up",
        tests="tests/implement/test_one_request.py -k nobody_but_the_provider",
    ),
    Case(
        "learning/other_formats",
        "weights of other libraries in a model's folder",
        tests="tests/learn/test_model_folders.py -k no_other_librarys",
    ),
    Case(
        "learning/preflight_thinking",
        "the check before a run refuses a thinking model",
        LITELLM,
        tests="tests/implement/test_form_of_calls.py -k room_to_think",
    ),
    Case(
        "learning/reasoning_outside",
        "reasoning tokens beside completion_tokens",
        tests="tests/implement/test_what_came_back.py -k 'beyond_the_prompt or reasoning_beside'",
    ),
    Case("learning/tied_head", "tied settings with a head of its own"),
    Case("learning/wal_growth", "readers that overlap without a gap"),
    Case(
        "learning/zero_price", "models that are listed at 0 USD", tests="tests/implement/test_form_of_calls.py -k price"
    ),
)


def result_of(case: Case, cases: Path = CASES) -> str:
    """One of the four results. A judge that finds no file or line has no right value."""
    if not (cases / case.folder).is_dir():
        return ABSENT
    if case.judge is None:
        return _tested(case.tests) if case.tests else UNJUDGED
    with tempfile.TemporaryDirectory(prefix="pace-case-") as made:
        place = Path(made) / "case"
        shutil.copytree(cases / case.folder, place)
        for path in (place, *place.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
        try:
            return RIGHT if case.judge(place, _pace(place)) else WRONG
        except (OSError, LookupError, AttributeError, subprocess.TimeoutExpired):
            return WRONG


def _tested(tests: str) -> str:
    """Whether the tests pass, and there are some."""
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *shlex.split(tests)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=TESTED_S)
    return RIGHT if done.returncode == 0 else WRONG


def page(results: dict[Case, str]) -> str:
    """The page of the table."""
    counts = Counter(results.values())
    lines = [
        "# What public reports of others find here",
        "",
        "Reports of people who do this job elsewhere became small inputs, which were tried here. A source is a public "
        "report of the same kind (repository#number). Where none was found, none is named. A case is judged by a right "
        "value: by the commands of its folder, or, if it needs a server or a model, by the tests that were made "
        "of it. Cases that are not judged were right before, or have no right value.",
        "",
        f"Made by `python scripts/checks/public_reports.py --write`: "
        f"{', '.join(f'{number} {name}' for name, number in sorted(counts.items()))}.",
        "",
        "| case | source | situation | judged by | result now |",
        "|---|---|---|---|---|",
        *(
            f"| {case.folder} | {case.source or '–'} | {case.situation} | {_judge_of(case)} | {result} |"
            for case, result in results.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _judge_of(case: Case) -> str:
    return f"`{case.tests}`" if case.tests else "–" if case.judge is None else "its commands"


def main(arguments: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Try the cases that were made of public reports.")
    parser.add_argument("names", nargs="*", help="only cases whose folder contains one of these")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args(arguments)
    results: dict[Case, str] = {}
    for case in TABLE:
        if not chosen.names or any(name in case.folder for name in chosen.names):
            results[case] = result_of(case)
            print(f"{results[case]:24}  {case.folder}", flush=True)
    counts = Counter(results.values())
    print(", ".join(f"{number} {name}" for name, number in sorted(counts.items())))
    if chosen.write and not chosen.names:
        if counts[ABSENT]:
            print(f"not written: {counts[ABSENT]} folders are absent in {CASES}")
        else:
            PAGE.write_text(page(results), encoding="utf-8")
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
