"""Reads an OpenEvolve example: an evaluator with `evaluate(program_path)`, a seed program and config.yaml.

What OpenEvolve 0.4.0 does is kept: a cascade is on unless the config turns it off, each stage has a threshold, and the
last stage that is reached gives the score. `evaluate` is not called where there are stages.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.peers.example import (
    COPY,
    INTERFACES,
    Example,
    ImportOptions,
    another,
    command_fields,
    evaluator_line,
    find_program,
    inside,
    language_of_program,
    mapping_of,
    names_of,
    nested,
    number_of,
    of_the_readme,
    section,
    settings_files,
    text_of,
    tree_of,
    wanted_config,
)
from pace_async.peers.importers import Importer

INTERFACE = Path(__file__).parent / "openevolve_path"
TIMEOUT_S = 300.0
THRESHOLDS = (0.5, 0.75, 0.9)
LONGEST_CODE = 10_000
EVALUATORS = ("evaluator.py", "evaluate.py", "evaluation.py")
PROGRAMS = ("initial_program", "initial", "initial_prompt", "program", "seed_program")
SECTIONS = frozenset({"llm", "prompt", "database", "evaluator", "max_iterations", "diff_based_evolution"})
_HINTS = {
    "max_iterations": "use --candidates N",
    "random_seed": "use --seed N",
    "checkpoint_interval": "every candidate is committed",
    "log_level": "use --display",
    "early_stopping_patience": "use --target, --candidates or --minutes",
    "diff_based_evolution": "pace's implementer chooses its edits",
    "llm": "use --implementer MODEL and --set implementer.…",
    "prompt": "pace writes its own prompts",
    "database.num_islands": "use --threads N: each search thread is an island",
    "database.migration_interval": "use --set search.migration=P",
    "database.migration_rate": "use --set search.migration=P",
    "database.feature_dimensions": "pace keeps no feature map",
    "database": "pace has rules of its own: --set search.…",
    "evaluator.parallel_evaluations": "use --set evaluation.slots=N",
    "evaluator.max_retries": "use --set evaluation.retries=N",
    "evaluator.use_llm_feedback": "no model scores programs",
    "evaluator.llm_feedback_weight": "no model scores programs",
}


class OpenEvolve(Importer):
    """Folders with an evaluator that has a function `evaluate`."""

    project = "OpenEvolve"
    parts: Mapping[str, Path] = {INTERFACES: INTERFACE}

    def recognises(self, folder: Path) -> bool:
        """Whether an evaluator there has the function."""
        return bool(_evaluators(folder))

    def read(self, folder: Path, options: ImportOptions) -> Example:
        """Raises UsageError for a folder that is no such example."""
        evaluator, functions, more = evaluator_of(folder, options.evaluator)
        config_file, others = _config_file(folder, options.config)
        config = mapping_of(folder / config_file) if config_file else {}
        suffix = str(config.get("file_suffix") or "")
        program = find_program(folder, PROGRAMS, options.program, suffix)
        own, prompt = section(config, "evaluator"), section(config, "prompt")
        timeout = number_of(own.get("timeout"))
        limit = "evaluator.timeout" if timeout else "their default"
        stages, steps, stage_lines = stages_of(own, functions, THRESHOLDS)
        longest = number_of(config.get("max_code_length")) or LONGEST_CODE
        given_features = section(config, "database").get("feature_dimensions")
        features = tuple(map(str, cast("list[Any]", given_features))) if isinstance(given_features, list) else ()
        background, source = _background(folder, config_file, config, prompt)
        language = language_of_program(program, str(config.get("language") or ""))
        feedback = prompt.get("include_artifacts") is not False
        command = ["python", "-m", "openevolve.pace_run", f"{COPY}/{evaluator}", "{program}", "{results}", "{stage}"]
        command += ["--functions", ",".join(steps), "--most", str(int(longest))]
        command += ["--features", ",".join(features)] if features else []
        arguments = {name: value for name, value in section(own, "evaluator_args").items() if steps == ("evaluate",)}
        command += ["--arguments", _json(arguments)] if arguments else []
        combined = "combined_score" in text_of(folder / evaluator)
        score = (options.score,) if options.score else ("combined_score", "mean_of_metrics")
        origin = "max_code_length" if "max_code_length" in config else "their default"
        taken = [
            evaluator_line(evaluator, ", ".join(steps), more),
            f"seed program: {program} ({language})",
            _score_line(options.score, combined, features),
            f"background: {source}",
            f"timeout_s: {timeout or TIMEOUT_S:g} ({limit}, for each stage)",
            f"longest program: {int(longest)} characters ({origin})",
            *stage_lines,
            *([f"arguments of evaluate: {', '.join(arguments)} (evaluator.evaluator_args)"] if arguments else []),
            f"feedback: artifacts are {'shown to' if feedback else 'kept from'} the implementer",
            *([f"config: {config_file} ({another('--config', others)})"] if others else []),
        ]
        memory = number_of(own.get("memory_limit_mb"))
        return Example(
            peer=self.project,
            folder=folder,
            evaluator=evaluator,
            source=program,
            language=language,
            background=background,
            longest_program=int(longest),
            requirements=(f"The whole program has at most {int(longest)} characters.",),
            timeout_s=timeout or TIMEOUT_S,
            memory_mb=int(memory) if memory else None,
            fields=command_fields(evaluator, command, score, feedback=feedback),
            stages=stages,
            taken=tuple(taken),
            left=_unused_settings(config),
            secret=frozenset({config_file}) if _holds_key(config) else frozenset(),
        )


def evaluator_of(folder: Path, evaluator: str) -> tuple[str, set[str], list[str]]:
    """(file relative to the example, its functions, others that it could be)."""
    if evaluator:
        name = inside(folder, evaluator, "The evaluator")
        names = names_of(tree_of(folder / name))
        if "evaluate" not in names:
            raise UsageError(f"{folder / name} has no function evaluate(program_path).")
        return name, names, []
    evaluators = _evaluators(folder)
    if evaluators:
        first = next(iter(evaluators))
        return first, evaluators[first], [name for name in evaluators if name != first]
    raise UsageError(
        f"{folder} is not an OpenEvolve example: looked for {' or '.join(EVALUATORS)} with a function "
        f"evaluate(program_path).{nested(folder, EVALUATORS)}"
    )


def _evaluators(folder: Path) -> dict[str, set[str]]:
    """The files that have a function `evaluate`, the likeliest first, with their functions. Raises UsageError if the
    first cannot be read."""
    others = sorted(path.name for path in folder.glob("*.py") if "eval" in path.name.lower())
    evaluators: dict[str, set[str]] = {}
    for name in dict.fromkeys((*EVALUATORS, *others)):
        if (folder / name).is_file():
            try:
                names = names_of(tree_of(folder / name))
            except UsageError:
                if not evaluators:
                    raise
                continue  # another evaluator is there
            if "evaluate" in names:
                evaluators[name] = names
    return evaluators


def _config_file(folder: Path, choice: str) -> tuple[str, list[str]]:
    """(file name or nothing, others that it could be)."""
    if choice:
        return wanted_config(folder, choice), []
    for name in ("config.yaml", "config.yml"):
        if (folder / name).is_file():
            return name, []
    files = settings_files(folder, SECTIONS)
    return (files[0], files[1:]) if files else ("", [])


def stages_of(
    own: Mapping[str, Any], functions: set[str], usual: Sequence[float]
) -> tuple[tuple[tuple[str, float], ...], tuple[str, ...], list[str]]:
    """(cheap stages with their thresholds, functions in their order, what to say). `own` are the evaluator's settings,
    and `usual` the thresholds where these name none."""
    steps: list[str] = []
    for number in (1, 2, 3):
        if f"evaluate_stage{number}" not in functions:
            break
        steps.append(f"evaluate_stage{number}")
    if not steps or own.get("cascade_evaluation") is False:
        return (), ("evaluate",), []
    thresholds = own.get("cascade_thresholds")
    values = _thresholds(cast("list[Any]", thresholds)) if isinstance(thresholds, list) else list(usual)
    steps = steps[: len(values) + 1]
    stages = tuple((f"stage{number + 1}", values[number]) for number in range(len(steps) - 1))
    lines = [f"cascade: {name}, threshold {value:g}" for name, value in stages]
    if not stages:
        lines = ["cascade: none, because evaluate_stage1 is the only stage; it gives the score, as in OpenEvolve"]
    return stages, tuple(steps), lines


def _json(arguments: dict[str, Any]) -> str:
    """Raises UsageError for what is no JSON, such as a date."""
    try:
        return json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"evaluator.evaluator_args cannot be passed on: {error}.") from None


def _thresholds(values: list[Any]) -> list[float]:
    """Raises UsageError for one that is no finite number, or a text of one."""
    thresholds: list[float] = []
    for value in values:
        try:
            thresholds.append(float(value) if isinstance(value, int | float | str) else math.nan)
        except ValueError:
            thresholds.append(math.nan)
        if not math.isfinite(thresholds[-1]):
            raise UsageError(f"evaluator.cascade_thresholds holds {str(value)[:40]!r}, which is not a number.")
    return thresholds


def _background(
    folder: Path, config_file: str, config: Mapping[str, Any], prompt: Mapping[str, Any]
) -> tuple[str, str]:
    """(text, where it is from). A system message may name a template, a text file of the folder of templates."""
    message = str(prompt.get("system_message") or "").strip()
    templates = (folder / config_file).parent / str(prompt["template_dir"]) if prompt.get("template_dir") else None
    if templates is not None and len(message) < 100:
        file = templates / f"{message or 'system_message'}.txt"
        if file.is_file() and file.resolve().is_relative_to(folder.resolve()):
            return text_of(file).strip(), f"{file.name} of prompt.template_dir"
    if message and message != "system_message":
        return message, "prompt.system_message"
    message = str(section(config, "llm").get("system_message") or "").strip()
    if message and message != "system_message":
        return message, "llm.system_message"
    file = next((path for path in sorted(folder.glob("*system*.txt")) if path.is_file()), None)
    if file is not None:
        return text_of(file).strip(), file.name
    return of_the_readme(folder, "system message")


def _score_line(metric: str, combined: bool, features: tuple[str, ...]) -> str:
    if metric:
        return f"score: {metric} (--score)"
    mean = "the mean of the metrics that are finite numbers"
    without = f", without the feature dimensions {', '.join(features)}" if features else ""
    if combined:
        return f"score: combined_score, and where it is missing {mean}{without}"
    return f"score: {mean}{without}, as in OpenEvolve, because the evaluator names no combined_score"


def _unused_settings(config: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for each setting without a counterpart."""
    used = {
        *("language", "file_suffix", "max_code_length", "evaluator.timeout", "evaluator.cascade_evaluation"),
        *(
            "evaluator.cascade_thresholds",
            "evaluator.memory_limit_mb",
            "evaluator.evaluator_args",
            "prompt.system_message",
            "prompt.template_dir",
        ),
        *("prompt.include_artifacts", "llm.system_message"),
    }
    lines: list[str] = []
    for name, value in config.items():
        keys = [f"{name}.{key}" for key in section(config, name)] if isinstance(value, dict) else [name]
        for key in keys:
            if key not in used:
                hint = _HINTS.get(key) or _HINTS.get(key.split(".")[0], "")
                lines.append(f"{key}{f' ({hint})' if hint else ''}")
    return tuple(lines)


def _holds_key(config: Mapping[str, Any]) -> bool:
    """Whether a secret may stand in the file itself, and not only the name of a variable."""
    for name, value in config.items():
        if isinstance(value, dict) and _holds_key(cast("dict[str, Any]", value)):
            return True
        if isinstance(value, list) and any(
            isinstance(item, dict) and _holds_key(cast("dict[str, Any]", item)) for item in cast("list[Any]", value)
        ):
            return True
        if "api_key" in str(name) and isinstance(value, str) and value and not value.startswith("${"):
            return True
    return False
