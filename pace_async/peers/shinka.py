"""Reads a ShinkaEvolve example: evaluate.py, a seed program, and run_evo.py or a YAML file with its settings.

run_evo.py is read by its syntax tree and never run. Where both say something, run_evo.py counts, because it is what
ShinkaEvolve's user starts.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pace_async.errors import UsageError
from pace_async.peers.constants import Constants, constants_of
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
    of_the_readme,
    section,
    settings_files,
    text_of,
    tree_of,
    wanted_config,
)
from pace_async.peers.importers import Importer
from pace_async.peers.repository import SETTINGS, place_of
from pace_async.peers.slurm import megabytes, seconds

INTERFACE = Path(__file__).parent / "shinka_path"
TIMEOUT_S = 600.0
EVALUATORS = ("evaluate.py", "evaluator.py", "eval.py")
_JOBS = ("LocalJobConfig", "SlurmCondaJobConfig", "SlurmEnvJobConfig", "SlurmDockerJobConfig", "JobConfig")
_RUNNERS = ("ShinkaEvolveRunner", "EvolutionRunner", "AsyncEvolutionRunner")
_USED = (
    *("task_sys_msg", "language", "init_program_path", "use_text_feedback", "eval_program_path", "time", "mem"),
    *SETTINGS,
)
_HINTS = {
    "num_generations": "use --candidates N",
    "max_api_costs": "use --budget USD",
    "num_islands": "use --threads N: each search thread is an island",
    "migration_interval": "use --set search.migration=P",
    "migration_rate": "use --set search.migration=P",
    "max_evaluation_jobs": "use --set evaluation.slots=N",
    "max_parallel_jobs": "use --set evaluation.slots=N",
    "max_proposal_jobs": "use --threads N",
    "llm_models": "use --implementer MODEL",
    "llm_kwargs": "use --set implementer.…",
    "results_dir": "use --run-dir DIR",
    "db_path": "use --run-dir DIR",
    "job_type": "evaluations run here, in a sandbox",
    "conda_env": "pace's own Python runs the evaluator",
    "activate_script": "pace's own Python runs the evaluator",
    "evaluate_function": "its further arguments have their defaults",
    "evolve_prompts": "pace writes its own prompts",
    "cpus": "set cpus in task.yaml",
    "gpus": "set gpus in task.yaml",
}
_GROUPS = ("evo_config", "db_config", "job_config", "evo", "db", "job", "distributed_job_config")
REPOSITORY_WAY = "--repo_path, --results_dir"


class Shinka(Importer):
    """Folders with an evaluator that is a script, or has a function `main`."""

    project = "ShinkaEvolve"
    parts: Mapping[str, Path] = {INTERFACES: INTERFACE}

    def recognises(self, folder: Path) -> bool:
        """Whether there is a script that starts a search, or an evaluator that can be called."""
        return bool(_run_file(folder)) or any(
            (folder / name).is_file() and _is_called(folder / name) for name in EVALUATORS
        )

    def read(self, folder: Path, options: ImportOptions) -> Example:
        """Raises UsageError for a folder that is no such example."""
        run_file = _run_file(folder)
        constants = constants_of(folder / run_file) if run_file else Constants()
        config_file, others = _config_file(folder, options.config, constants)
        config = mapping_of(folder / config_file) if config_file else {}
        evo, job = _settings(config, constants)
        evaluator, more = _evaluator(folder, job, options.evaluator)
        place = place_of(folder, evo, options.program)
        seed = place.source if place is not None else _seed(folder, evo, options.program)
        way = _way(folder / evaluator)
        if (way == REPOSITORY_WAY) != (place is not None):
            raise UsageError(
                f"{folder / evaluator} is called with {way}, and the example's settings "
                f"{'name no repository (seed_repo_path)' if place is None else 'name a repository (seed_repo_path)'}."
            )
        several: Mapping[str, list[str]] = place.fields if place is not None else {}
        language = language_of_program(place.file if place is not None else seed, str(evo.get("language") or ""))
        on_slurm = _on_slurm(config, constants, evo)
        timeout, memory = seconds(job.get("time"), on_slurm=on_slurm), megabytes(job.get("mem"))
        background, source = _background(folder, evo, constants)
        extra = section(job, "extra_cmd_args")
        example = "/".join(["{program}", *(".." for _ in Path(seed).parts)]) if several else COPY
        command = ["python", "-m", "shinka.pace_run", f"{example}/{evaluator}", "{program}", "{results}"]
        command += ["--in-repository", place.repository, place.file] if place is not None else []
        words = len(command)
        command += [word for name, value in extra.items() for word in (f"--{name}", str(value))]
        feedback = evo.get("use_text_feedback") is not False
        taken = [
            evaluator_line(evaluator, way, more),
            f"seed program: {seed} ({language})",
            *([f"{name}: {', '.join(globs)}" for name, globs in several.items()]),
            f"score: {options.score or 'combined_score'} of metrics.json, where correct.json says that it is correct",
            f"background: {source}",
            f"timeout_s: {timeout or TIMEOUT_S:g} ({'time' if timeout else 'they set none'})",
            f"feedback: public metrics and text_feedback are {'shown to' if feedback else 'kept from'} the implementer",
            *([f"memory_mb: {memory} (mem)"] if memory else []),
            *([f"further arguments: {' '.join(command[words:])} (extra_cmd_args)"] if extra else []),
            *([f"settings: {' and '.join(name for name in (run_file, config_file) if name)}"] if run_file else []),
            *([f"config: {config_file} ({another('--config', others)})"] if others else []),
        ]
        return Example(
            peer=self.project,
            folder=folder,
            evaluator=evaluator,
            source=seed,
            language=language,
            background=background,
            timeout_s=timeout or TIMEOUT_S,
            memory_mb=memory,
            fields={
                **several,
                **command_fields(
                    evaluator,
                    command,
                    [options.score or "combined_score"],
                    feedback=feedback,
                    valid="correct.json:correct",
                ),
            },
            taken=tuple(taken),
            left=(*_unused_settings(config, constants, evo, job), *_unread(job, timeout, memory)),
        )


def _seed(folder: Path, evo: Mapping[str, Any], choice: str) -> str:
    """The seed program's file: the wanted one, the one that the settings name, or one of a usual name."""
    program = str(evo.get("init_program_path") or "")
    paths = [
        path
        for path in (program, Path(program).name)
        if path and not Path(path).is_absolute() and (folder / path).is_file()
    ]
    return find_program(folder, ("initial", "main", "init"), choice or (paths[0] if paths else ""))


def _background(folder: Path, evo: Mapping[str, Any], constants: Constants) -> tuple[str, str]:
    """(text, where it is from)."""
    text = str(evo.get("task_sys_msg") or "").strip()
    if text:
        return text, "task_sys_msg"
    partial = next((message for name, message in constants.partial.items() if "sys_msg" in name.lower()), "")
    if partial:
        return partial.strip(), "task_sys_msg, where only a run knows what stands in braces: complete it in task.yaml"
    file = next((path for path in sorted(folder.glob("*prompt*.txt")) if path.is_file()), None)
    return (text_of(file).strip(), file.name) if file is not None else of_the_readme(folder, "task_sys_msg")


def _run_file(folder: Path) -> str:
    """The file that starts a search, or nothing."""
    others = sorted(path.name for path in folder.glob("run*.py"))
    for name in dict.fromkeys(("run_evo.py", *others)):
        if (folder / name).is_file() and "EvolutionConfig" in text_of(folder / name):
            return name
    return ""


def _config_file(folder: Path, choice: str, constants: Constants) -> tuple[str, list[str]]:
    if choice:
        return wanted_config(folder, choice), []
    paths = [str(value) for name, value in constants.options.items() if "config" in name and isinstance(value, str)]
    for name in (Path(path).name for path in paths):
        if (folder / name).is_file() and Path(name).suffix in (".yaml", ".yml"):
            return name, []
    files = settings_files(folder, _GROUPS)
    small = [name for name in files if "small" in name]
    first = (small or files)[:1]
    return (first[0], [name for name in files if name != first[0]]) if first else ("", [])


def _settings(config: Mapping[str, Any], constants: Constants) -> tuple[dict[str, Any], dict[str, Any]]:
    """(those of the evolution, those of a job)."""
    evo = {**section(config, "evo_config", "evo"), **constants.call("EvolutionConfig")}
    job = {**section(config, "job_config", "job", "distributed_job_config"), **constants.call(*_JOBS)}
    for name, value in constants.entries.items():
        if name in _USED:
            (job if name in ("eval_program_path", "time", "mem") else evo).setdefault(name, value)
            if name == "task_sys_msg":
                evo[name] = value
    if not evo.get("task_sys_msg"):
        texts = [
            value for name, value in constants.names.items() if "sys_msg" in name.lower() and isinstance(value, str)
        ]
        evo["task_sys_msg"] = texts[0] if texts else ""
    return evo, job


def _evaluator(folder: Path, job: Mapping[str, Any], choice: str) -> tuple[str, list[str]]:
    """(file relative to the example, others that it could be). Where the settings name one there are no others."""
    if choice:
        name = inside(folder, choice, "The evaluator")
        _way(folder / name)
        return name, []
    file = Path(str(job.get("eval_program_path") or "")).name
    if file and (folder / file).is_file():
        _way(folder / file)
        return file, []
    more = sorted(path.name for path in folder.glob("*eval*.py"))
    evaluators = [name for name in dict.fromkeys((*EVALUATORS, *more)) if (folder / name).is_file()]
    if evaluators and evaluators[0] in EVALUATORS:
        _way(folder / evaluators[0])
        return evaluators[0], [name for name in evaluators[1:] if _is_called(folder / name)]
    raise UsageError(
        f"{folder} is not a ShinkaEvolve example: looked for {' or '.join(EVALUATORS)}, which is called with "
        f"--program_path and --results_dir.{nested(folder, EVALUATORS)}"
    )


def _is_called(path: Path) -> bool:
    try:
        _way(path)
    except UsageError:
        return False
    return True


def _way(path: Path) -> str:
    """How the evaluator is called. Raises UsageError for one that cannot be."""
    tree = tree_of(path)
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for way in ("--program_path, --results_dir", REPOSITORY_WAY):
        if set(way.split(", ")) <= texts:
            return way
    names = names_of(tree)
    if "main" in names:
        return "its function main"
    raise UsageError(
        f"{path} takes no --program_path and --results_dir, and has no function main: it cannot be called."
    )


def _on_slurm(config: Mapping[str, Any], constants: Constants, evo: Mapping[str, Any]) -> bool:
    """Whether the example's evaluations are jobs of Slurm, which reads a number as minutes."""
    target = section(config, "job_config", "job", "distributed_job_config").get("_target_")
    slurm = any(constants.call(name) for name in _JOBS if name.startswith("Slurm"))
    return slurm or any("slurm" in str(setting).lower() for setting in (evo.get("job_type"), target))


def _unread(job: Mapping[str, Any], timeout: float | None, memory: int | None) -> Iterator[str]:
    """A line for each limit that is no number of seconds or MiB."""
    for name, read, field in (("time", timeout, "timeout_s"), ("mem", memory, "memory_mb")):
        if job.get(name) is not None and read is None:
            yield f"job_config.{name} ({str(job[name])[:40]!r} is no limit that can be read: set {field} in task.yaml)"


def _unused_settings(
    config: Mapping[str, Any], constants: Constants, evo: Mapping[str, Any], job: Mapping[str, Any]
) -> tuple[str, ...]:
    """A line for each setting without a counterpart."""
    database = {**section(config, "db_config", "db"), **constants.call("DatabaseConfig")}
    runner = {**{key: entry for key, entry in config.items() if key not in _GROUPS}, **constants.call(*_RUNNERS)}
    lines: list[str] = []
    groups: tuple[tuple[str, Mapping[str, Any]], ...] = (
        *(("evo_config", evo), ("job_config", job), ("db_config", database), ("runner", runner)),
    )
    for group, settings in groups:
        for name, value in settings.items():
            if name in _USED or name in ("_target_", "extra_cmd_args", *_GROUPS, "verbose", "debug") or value is None:
                continue
            hint = _HINTS.get(name) or ("pace has rules of its own: --set search.…" if group == "db_config" else "")
            hint = hint or ("use --implementer MODEL" if "llm" in name else "")
            lines.append(f"{group}.{name}{f' ({hint})' if hint else ''}")
    unknown = [entry.split(".")[1] for entry in constants.unknown if entry.split(".")[0] in ("EvolutionConfig", *_JOBS)]
    useful = [name for name in _USED if name in unknown and name not in evo and name not in job]
    lines += [f"{name} (only a run of the example knows it: set it in task.yaml)" for name in useful]
    return tuple(lines)
