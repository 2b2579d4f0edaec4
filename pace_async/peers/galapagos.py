"""Reads a task of Galapagos: a card, a seed program and an evaluator with `evaluate(program_path)`.

The package `open-galapagos` brings them, and is found without being imported. What Galapagos 0.4.0 does is kept: the
time limit comes from the runtime that the card estimates, and stages are those of OpenEvolve with other thresholds.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

from pace_async.errors import NotHere, UsageError
from pace_async.installing import install_line
from pace_async.peers.example import (
    COPY,
    INTERFACES,
    Example,
    ImportOptions,
    command_fields,
    evaluator_line,
    find_program,
    language_of_program,
    mapping_of,
    number_of,
    section,
)
from pace_async.peers.importers import Importer
from pace_async.peers.openevolve import INTERFACE, evaluator_of, stages_of
from pace_async.peers.packages import packages_of

CARD = "card.yaml"
THRESHOLDS = (0.3, 0.6)
ESTIMATED_S = 60.0
COMBINED = "combined_score"
_NORMALISED = re.compile(r"\bbest|normali[sz]ed|optim|record|benchmark|reference|matches|target|\b1\.0", re.IGNORECASE)
_WEIGHT = re.compile(r"(\d?\.\d+)\s*\*")
_USED = {
    *("name", "display_name", "organization", "domain", "family", "summary", "description", "status"),
    *("metric", "metrics", "components", "language", "library", "references", "evaluation", "constraint"),
    *("modality", "seed", "metadata", "assets"),
    "external_resources",
}


class Galapagos(Importer):
    """Tasks of the package, by name, and folders with a card."""

    project = "Galapagos"
    parts: Mapping[str, Path] = {INTERFACES: INTERFACE}

    def names(self) -> Sequence[str]:
        """The tasks of the package that need nothing but Python packages. Raises NotHere."""
        return [folder.name for folder in _folders() if not _status_of(folder)]

    def folder_of(self, name: str) -> Path:
        """A folder with a card, or a task of the package, also where a folder of its name is here: the task that was
        made of it. Raises NotHere, and UsageError with the nearest names."""
        if "/" in name or (Path(name) / CARD).is_file():
            return super().folder_of(name)
        known = {folder.name: folder for folder in _folders()}
        if name not in known:
            near = get_close_matches(name, known, n=3)
            hint = f": did you mean {' or '.join(near)}?" if near else ": pace task import galapagos --list names them."
            raise UsageError(f"Galapagos has no task {name!r}{hint}")
        return known[name]

    def recognises(self, folder: Path) -> bool:
        """Whether there is a card with a metric."""
        return (folder / CARD).is_file() and bool({"metric", "metrics"} & set(mapping_of(folder / CARD)))

    def read(self, folder: Path, options: ImportOptions) -> Example:
        """Raises UsageError for a folder that is no such task."""
        if not (folder / CARD).is_file():
            raise UsageError(f"{folder} is not a task of Galapagos: it has no {CARD}.")
        card = mapping_of(folder / CARD)
        components, own = section(card, "components"), section(card, "evaluation")
        evaluator, functions, more = evaluator_of(
            folder, options.evaluator or _first_file(folder, components, "evaluator")
        )
        seed = options.program or _first_file(folder, components, "initial_program", "seed")
        program = find_program(folder, ("initial_program",), seed)
        stages, steps, stage_lines = stages_of(own, functions, THRESHOLDS)
        metric = _metric_of(card)
        name, references = str(metric.get("metric_name") or metric.get("key") or COMBINED), section(card, "references")
        score = [options.score] if options.score else list(dict.fromkeys((name, COMBINED)))
        target, upper, best_line = _best_of(metric, references)
        language = language_of_program(program, str(card.get("language") or ""))
        constraint = section(card, "constraint")
        gpu = constraint.pop("gpu", None)
        estimated = number_of(constraint.get("est_runtime_s")) or ESTIMATED_S
        command = ["python", "-m", "openevolve.pace_run", f"{COPY}/{evaluator}", "{program}", "{results}", "{stage}"]
        command += ["--functions", ",".join(steps)]
        packages = packages_of(folder, (evaluator, program), _texts(card.get("library")))
        return Example(
            peer=self.project,
            folder=folder,
            evaluator=evaluator,
            source=program,
            language=language,
            background=_background(card, metric),
            timeout_s=int(estimated) * 4 + 30,
            fields={**command_fields(evaluator, command, score, feedback=True), **({"gpus": 1} if gpu else {})},
            direction=_direction_of(metric),
            target=target,
            upper=upper,
            stages=stages,
            packages=packages,
            taken=(
                evaluator_line(evaluator, ", ".join(steps), more),
                f"seed program: {program} ({language})",
                f"score: {score[0]} ({'--score' if options.score else 'metrics'})",
                f"background: description and metrics of {CARD}",
                best_line,
                f"timeout_s: {int(estimated) * 4 + 30} (4 × est_runtime_s + 30, as in Galapagos)",
                *stage_lines,
                *([f"gpus: 1 (constraint.gpu: {str(gpu)[:200]})"] if gpu else []),
            ),
            left=tuple(_unused_parts(card, constraint)),
            about=_about(card, references),
        )


@cache
def _folders() -> tuple[Path, ...]:
    """The folders of the package's tasks. Raises NotHere. The package is not imported."""
    spec = find_spec("galapagos")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        if folders := sorted(card.parent for card in Path(place).glob(f"tasks/*/{CARD}")):
            return tuple(folders)
    raise NotHere(
        f"The tasks of Galapagos come with the package open-galapagos, which is not installed: "
        f"{install_line('galapagos')}."
    )


def _status_of(folder: Path) -> str:
    """The card's status: `external` for a task that needs what no Python package brings. Read without the whole YAML,
    of hundreds of cards."""
    text = (folder / CARD).read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^status:\s*[\"']?(\w+)", text, re.MULTILINE)
    return match[1] if match and match[1] != "stable" else ""


def _first_file(folder: Path, components: Mapping[str, Any], *names: str) -> str:
    """The first of these components that is a file of the task, or nothing."""
    paths = (str(components.get(name) or "") for name in names)
    return next((name for name in paths if name and "\n" not in name and (folder / name).is_file()), "")


def _metric_of(card: Mapping[str, Any]) -> dict[str, Any]:
    """The metric that is the score: combined_score, or else the first."""
    entries = card.get("metrics") or [card.get("metric")]
    metrics = [
        section({"metric": metric}, "metric")
        for metric in cast("list[Any]", entries if isinstance(entries, list) else [])
    ]
    combined = (metric for metric in metrics if COMBINED in (metric.get("metric_name"), metric.get("key")))
    return next(combined, metrics[0] if metrics else {})


def _direction_of(metric: Mapping[str, Any]) -> Literal["maximize", "minimize"]:
    direction = str(metric.get("metric_direction") or metric.get("direction") or "")
    return "minimize" if direction == "minimize" else "maximize"


def _best_of(metric: Mapping[str, Any], references: Mapping[str, Any]) -> tuple[float | None, float | None, str]:
    """(target, best score that can be, what to say). A card names the best known value of its problem, and scores of
    most tasks are ratios to that, so that it is the score 1."""
    text = f"{metric.get('metric_description', '')} {metric.get('metric_computation', '')}"
    best = references.get("best_known")
    weights = [float(number) for number in _WEIGHT.findall(str(metric.get("metric_description", "")))]
    if weights and abs(sum(weights) - 1) < 1e-9:
        return None, 1.0, "upper bound: 1, the sum of the weights of its metrics"
    if best is None:
        return None, None, "target: none, because the card names no best known value"
    if best == 1 or _NORMALISED.search(text) or str(best) in text:
        return 1.0, None, f"target: 1, the score of the best known value, {best}"
    return None, None, f"target: none, because the best known value, {best}, is none of the score"


def _background(card: Mapping[str, Any], metric: Mapping[str, Any]) -> str:
    """The description, and how the score is computed."""
    text = str(card.get("description") or card.get("summary") or card.get("display_name") or "").strip()
    parts = (str(metric.get(key) or "").strip() for key in ("metric_description", "metric_computation"))
    scored = " Computed as: ".join(part for part in parts if part)
    return f"{text}\n\nThe score: {scored}" if scored else text


def _texts(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else [value] if isinstance(value, str) else []
    return tuple(str(item) for item in items)


def _unused_parts(card: Mapping[str, Any], constraint: Mapping[str, Any]) -> list[str]:
    """A line for each part of the card without a counterpart."""
    lines = [name for name in card if name not in _USED]
    for entry in cast(
        "list[Any]", card["external_resources"] if isinstance(card.get("external_resources"), list) else []
    ):
        resource = section({"resource": entry}, "resource")
        place = f"{COPY}/{resource.get('path') or resource.get('name')}"
        lines.append(f"external_resources: {str(resource.get('uri'))[:200]} (get it, and put it at {place[:200]})")
    if status := card.get("status"):
        lines.append(f"status: {status} (the task may need more than Python packages)")
    for name, value in constraint.items():
        if name != "est_runtime_s":
            lines.append(f"constraint.{name}: {str(value)[:200]}")
    return lines


def _about(card: Mapping[str, Any], references: Mapping[str, Any]) -> str:
    """The README: what the card says of the task's source."""
    rows = [f"- {name}: {value}" for name, value in references.items()]
    head = f"# {card.get('display_name') or card.get('name') or 'A task of Galapagos'}\n\n"
    origin = f"A task of Galapagos (open-galapagos, Apache-2.0), group {card.get('organization') or 'unknown'}.\n"
    return "\n".join([f"{head}{origin}", *rows, ""])
