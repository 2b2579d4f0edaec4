"""pace plan: whether a run fits on its cards, before anybody pays for a card."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typing_extensions import TypedDict

from pace_async.cli.options import CONFIG_OPTION, overrides_of
from pace_async.cli.output import JSON_OPTION, print_json, tell

if TYPE_CHECKING:
    from pace_async.config import Config
    from pace_async.plan.places import Place
    from pace_async.plan.planned import Plan

DOES_NOT_FIT = 1
"""The exit code."""


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """What `pace plan` may be given."""

    config: list[Path] | None = typer.Argument(
        None, help="YAML files of settings. Later files override earlier ones.", metavar="[CONFIG]…"
    )
    files: list[Path] | None = CONFIG_OPTION
    cards: list[float] | None = typer.Option(
        None,
        "--card",
        min=0.1,
        help="Plan for a card of so many GiB, such as 79.2 or 139.8, instead of those here. Once for each card.",
        metavar="GIB",
    )
    sets: list[str] | None = typer.Option(None, "--set", help="Any setting, such as learner.k=2.", metavar="KEY=VALUE")
    as_json: bool = JSON_OPTION


def plan(flags: PlanFlags) -> None:
    """Say what a run needs of cards, host memory and disk, and whether it fits.

    The training step is counted tensor by tensor at the longest call that the limits allow, from the advisor's
    config.json alone: no weights and no card are needed. A count takes 5 to 15 seconds of processor time. Lines with
    `~` are assumed, not counted. If the run does not fit, the exit code is 1, and settings with which it does are
    named. Without a card here, and without --card, it is planned for the smallest usual cards that hold it.

    Example: pace plan run.yaml --card 79.2
    """
    from pace_async.configure import resolve
    from pace_async.errors import UsageError
    from pace_async.gpus import visible_gpus
    from pace_async.plan.places import CardMemory
    from pace_async.registry.trainers import TRAINERS
    from pace_async.runtime.children.advisor_choice import with_advisor
    from pace_async.runtime.run_paths import new_run_paths
    from pace_async.runtime.start.asked import bill_of
    from pace_async.runtime.start.planning import plan_for, plan_here
    from pace_async.runtime.start.refusals import limits_of
    from pace_async.runtime.start.usual_cards import without_cards
    from pace_async.task import load_task

    resolved = resolve([*(flags.config or []), *(flags.files or [])], overrides_of(flags.sets))
    task = limits_of(resolved, load_task(resolved.task))
    resolved = with_advisor(resolved, task)
    if TRAINERS[resolved.learner.trainer].elsewhere:
        if flags.as_json or flags.cards:
            raise UsageError(
                "The weights are with a service: no card is planned, and `pace run --dry-run` says the cost."
            )
        tell(f"The weights are with a service, so nothing of this machine is planned. {bill_of(resolved, task)}.")
        return
    folder, elsewhere = new_run_paths(task.name, None).folder, ""
    if flags.cards:
        run_plan = plan_for(
            resolved, [CardMemory(str(number), size * 2**30) for number, size in enumerate(flags.cards)]
        )
    elif visible_gpus():
        run_plan = plan_here(resolved, folder)
    else:
        without = without_cards(resolved, folder)
        run_plan, elsewhere = without.plan, without.in_words() if without.number else ""
    if flags.as_json:
        print_json(as_fields(resolved, run_plan, elsewhere))
    else:
        if elsewhere:
            tell(f"No card can be seen here, and this processor does not hold the run. It needs {elsewhere}.")
        tell("\n".join(lines_of(resolved, run_plan)))
    raise typer.Exit(DOES_NOT_FIT if run_plan.faults else 0)


def lines_of(config: "Config", plan: "Plan") -> Iterator[str]:
    """The plan as a person reads it. Sizes are in GiB."""
    shape, step, needs = plan.shape, plan.step, plan.needs
    kind = "nothing is trained"
    if step.trained:
        kind = f"{step.trained / 1e6:,.0f} million trained"
        kind += f", LoRA of rank {shape.lora_rank}" if shape.lora_rank is not None else ""
    yield f"{config.advisor.model}: {step.parameters / 1e6:,.0f} million weights, {kind}"
    calls = f"{config.search.threads} at once"
    yield f"longest call {shape.tokens:,} tokens, of which {shape.answers:,} are the answer; {calls}"
    if shape.rows:
        recomputed = ", recomputing activations" if shape.gradient_checkpointing else ""
        yield f"largest pass {shape.rows} x {shape.tokens:,} tokens in {shape.precision}{recomputed}"
    for place in plan.places:
        yield from _place_lines(place)
    if plan.evaluation_cards:
        cards, slots = plan.evaluation_cards, config.evaluation.slots
        demand = f"{cards} more card{'s' * (cards > 1)} for {slots} evaluation{'s' * (slots > 1)} at once"
        yield f"{demand}; what they take there is not counted"
    each = f", on each of the engine's {config.advisor.ranks} cards" if config.advisor.ranks > 1 else ""
    sizes = f"{_gib(needs.cache_one)} GiB for one longest call, {_gib(needs.cache_all)} for all at once"
    yield f"keys and values: {sizes}{each}"
    if needs.push_s:
        yield f"push by file: about {needs.push_s:,.0f} s to write, digest and read a version, as measured on a CPU"
    yield plan.refusal or _verdict(plan)


def _verdict(plan: "Plan") -> str:
    unknown = [place.name for place in plan.places if place.fits is None]
    if not unknown:
        return "It fits."
    known = "The cards hold it. " if any(place.fits for place in plan.places) else ""
    return f"{known}Not known here: {' and '.join(unknown)}."


def _place_lines(place: "Place") -> Iterator[str]:
    has = "" if place.total is None else f" of {_gib(place.total - place.used)} GiB"
    yield f"{place.name}{has}"
    for part in place.parts:
        yield f"  {part.owner:<8}{'~' if part.assumed else ' '} {part.what:<42} {_gib(part.size):>8}"
    left = "" if place.total is None else f", {_gib(place.total - place.used - place.needed)} to spare"
    yield f"  {'sum':<52} {_gib(place.needed):>8}{left}"


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f}"


class PlannedPart(TypedDict):
    """What one owner needs. `assumed`: a figure of experience, not counted."""

    owner: str
    what: str
    size: float
    assumed: bool


class PlannedPlace(TypedDict):
    """A card, host memory or the disk. None: not known."""

    name: str
    total_bytes: float | None
    used_bytes: float
    needed_bytes: float
    fits: bool | None
    parts: list[PlannedPart]


class PlanFields(TypedDict):
    """The plan for programs. `remedy` are settings with which the run fits. A call and an answer are in tokens.
    `evaluation_cards` are those that evaluations must have of their own. `elsewhere` are the cards that the run needs
    and that it is planned for, where this machine has none and does not hold it, as a clause."""

    advisor: str
    elsewhere: str | None
    fits: bool
    faults: list[str]
    remedy: dict[str, Any] | None
    parameters: int
    trained: int
    longest_call: int
    longest_answer: int
    rows: int
    evaluation_cards: int
    push_s: float
    cache_bytes: float
    cache_one_bytes: float
    cache_all_bytes: float
    places: list[PlannedPlace]


def as_fields(config: "Config", plan: "Plan", elsewhere: str = "") -> PlanFields:
    """The plan for programs. Sizes are in bytes."""
    return {
        "advisor": config.advisor.model,
        "elsewhere": elsewhere or None,
        "fits": not plan.faults,
        "faults": list(plan.faults),
        "remedy": None if plan.remedy is None else dict(plan.remedy),
        "parameters": plan.step.parameters,
        "trained": plan.step.trained,
        "longest_call": plan.shape.tokens,
        "longest_answer": plan.shape.answers,
        "rows": plan.shape.rows,
        "evaluation_cards": plan.evaluation_cards,
        "push_s": plan.needs.push_s,
        "cache_bytes": plan.needs.cache,
        "cache_one_bytes": plan.needs.cache_one,
        "cache_all_bytes": plan.needs.cache_all,
        "places": [
            {
                "name": place.name,
                "total_bytes": place.total,
                "used_bytes": place.used,
                "needed_bytes": place.needed,
                "fits": place.fits,
                "parts": [
                    {"owner": part.owner, "what": part.what, "size": part.size, "assumed": part.assumed}
                    for part in place.parts
                ],
            }
            for place in plan.places
        ],
    }
