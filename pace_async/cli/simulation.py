"""pace simulate: predicts the speed of a run of a given shape."""

import signal
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TYPE_CHECKING, cast

import typer

from pace_async.cli.options import known_in
from pace_async.cli.output import JSON_OPTION, print_fields, print_json
from pace_async.interface.simulated_shape import Shape
from pace_async.interface.simulating import CANDIDATES, CV, predicted, scenario_of
from pace_async.registry.staleness_policies import STALENESS_POLICIES

if TYPE_CHECKING:
    from pace_async.simulate.losses import NodesPart
    from pace_async.simulate.predict import Prediction


@dataclass(frozen=True, slots=True)
class SimulateFlags:
    """What `pace simulate` may be given."""

    like: str | None = typer.Option(
        None, "--like", metavar="RUN", help="Take the durations, and settings not given here, from an existing run."
    )
    threads: int | None = typer.Option(None, "--threads", min=1, help="Search threads [default: 8].")
    group_size: int | None = typer.Option(None, "--group-size", min=2, help="Rollouts in a group [default: 8].")
    max_staleness: int | None = typer.Option(
        None, "--max-staleness", min=0, help="Hard bound on training data's age [default: 2]."
    )
    eval_mean: float | None = typer.Option(None, "--eval-mean", help="Mean seconds of an evaluation [default: 60].")
    eval_cv: float = typer.Option(CV, "--eval-cv", help="Their standard deviation over their mean (lognormal).")
    eval_cap: float | None = typer.Option(None, "--eval-cap", help="No evaluation takes longer, in seconds.")
    generation: float | None = typer.Option(
        None, "--generation", help="Seconds in which the advisor decides on one rollout [default: 5 % of the mean]."
    )
    implement_mean: float | None = typer.Option(
        None, "--implement-mean", help="Seconds in which the implementer writes one program [default: 0]."
    )
    learn: float | None = typer.Option(None, "--learn", help="Seconds of a step [default: 3 % of the mean].")
    pause: float | None = typer.Option(None, "--pause", help="Seconds of a push [default: 0.3 % of the mean].")
    candidates: int = typer.Option(CANDIDATES, "--candidates", min=1, help="Candidates simulated.")
    policy: str | None = typer.Option(
        None,
        "--policy",
        help="How data is kept fresh; see `pace run --help` [default: pace].",
        metavar=STALENESS_POLICIES.metavar(),
        callback=known_in(STALENESS_POLICIES),
    )
    seed: int = typer.Option(0, "--seed", min=0, help="Every draw derives from it.")
    slots: int | None = typer.Option(
        None, "--slots", min=1, help="Evaluations that run at once [default: one for each thread]."
    )
    nodes: int | None = typer.Option(None, "--nodes", min=1, help="Machines that evaluate, and that may fail.")
    slots_per_node: int | None = typer.Option(
        None, "--slots-per-node", min=1, help="Evaluations at once on one of them [default: --threads over --nodes]."
    )
    node_mtbf: str | None = typer.Option(
        None, "--node-mtbf", metavar="TIME", help="A node's mean time to its failure, as in 6h [default: never fails]."
    )
    node_repair: str | None = typer.Option(
        None, "--node-repair", metavar="TIME", help="Until a failed node is back or replaced [default: 10m]."
    )
    preempt: float | None = typer.Option(
        None, "--preempt", help="Probability that an evaluation is preempted [default: 0]."
    )
    prune: str | None = typer.Option(
        None, "--prune", metavar="median|asha", help="End evaluations early by this rule [default: none does]."
    )
    prune_warmup: int | None = typer.Option(None, "--prune-warmup", help="See `evaluation.prune_warmup` [default: 0].")
    prune_least: int | None = typer.Option(None, "--prune-least", help="See `evaluation.prune_least` [default: 5].")
    prune_margin: float | None = typer.Option(
        None,
        "--prune-margin",
        help="See `evaluation.prune_margin` [default: 0]; scores are from 0 to 1 without --like.",
    )
    prune_factor: int | None = typer.Option(None, "--prune-factor", help="See `evaluation.prune_factor` [default: 4].")
    curve_steps: int | None = typer.Option(
        None, "--curve-steps", help="Values that an evaluation reports, on a power law [default: 16]."
    )
    curve_noise: float | None = typer.Option(
        None, "--curve-noise", help="Their standard deviation from it, with scores from 0 to 1 [default: 0.02]."
    )
    repeats: int | None = typer.Option(
        None, "--repeats", help="See `evaluation.repeats` [default: 0]. A new best is rarer than in a real search."
    )
    repeats_for: str | None = typer.Option(
        None, "--repeats-for", metavar="bests|parents", help="See `evaluation.repeats_for` [default: bests]."
    )
    as_json: bool = JSON_OPTION


def simulate(flags: SimulateFlags) -> None:
    """Drive the runtime on simulated stages under a virtual clock, and the synchronous loop over the same durations.

    Example: pace simulate --threads 12 --group-size 8 --max-staleness 2 --eval-mean 600 --eval-cv 0.6

    Example: pace simulate --threads 8 --candidates 400 --prune median --prune-warmup 4

    Example: pace simulate --nodes 8 --slots-per-node 4 --threads 32 --node-mtbf 6h --preempt 0.05 --eval-mean 1800
    """
    settings = asdict(flags)
    shape = cast("Shape", {name: settings[name] for name in Shape.__annotations__})
    scenario = scenario_of(flags.like, shape, _flag)
    from pace_async.observe import formatting

    # Both cancel it, as Ctrl-C does, so that nothing is cut off wherever it is and its folder in memory is removed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _like_ctrl_c)
    prediction = predicted(scenario)
    if flags.as_json:
        print_json(prediction)
        return
    print_fields(_in_words(prediction, formatting.bound_in_words(scenario.policy, scenario.bound)))


def _like_ctrl_c(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _in_words(prediction: "Prediction", bound: str) -> dict[str, object]:
    ages = {int(age): amount for age, amount in prediction["staleness"].items()}
    total = sum(ages.values())
    shares = ", ".join(f"{age}: {100 * amount / total:.0f} %" for age, amount in ages.items()) or "nothing trained"
    terms = ", ".join(f"{name} {_rate(value)}" for name, value in prediction["terms"].items())
    thrown = f" ({prediction['trained_speedup']:.2f} without discarded rollouts)" if prediction["expired"] else ""
    return {
        "speed-up over sync": f"{prediction['speedup']:.2f}{thrown}",
        "slot utilisation": f"{100 * prediction['slot_utilisation']:.0f} % of the threads' time",
        "staleness": f"{shares} (updates; {bound})",
        "expired": f"{prediction['expired']} of {prediction['candidates']} finished rollouts",
        "candidates an hour": "; sync ".join(
            _rate(prediction[key]) for key in ("candidates_per_hour", "sync_candidates_per_hour")
        ),
        "roofline": f"{_rate(prediction['roofline'])} an hour, bound by {prediction['binding']} ({terms})",
        "advice": prediction["advice"],
        **({"repeats": _repeats_in_words(prediction)} if prediction["repeats"] else {}),
        **(_saved_in_words(prediction, saved) if (saved := prediction["evaluation_saved"]) is not None else {}),
        **(_nodes_in_words(prediction["nodes"]) if prediction["nodes"] is not None else {}),
    }


def _saved_in_words(prediction: "Prediction", saved: float) -> dict[str, object]:
    stopped = f"{prediction['pruned']:,} of {prediction['candidates']:,} stopped"
    return {"early ends": f"save {100 * saved:.1f} % of the evaluations' seconds; {stopped}"}


def _repeats_in_words(prediction: "Prediction") -> str:
    share = prediction["repeats"] / (prediction["repeats"] + prediction["candidates"])
    return f"{prediction['repeats']:,} further evaluations of programs, {100 * share:.0f} % of all"


def _nodes_in_words(nodes: "NodesPart") -> dict[str, object]:
    """The part of the printed result about nodes."""
    lost = f"{nodes['lost_to_node_deaths']:,} by {nodes['node_deaths']:,} node failures"
    return {
        "nodes": f"{nodes['nodes']:,} with {nodes['slots']:,} slots, away {100 * nodes['away']:.1f} % of the time",
        "lost attempts": f"{lost}, {nodes['lost_to_preemption']:,} preempted, of {nodes['attempts']:,}",
        "waste": f"{100 * nodes['waste']:.1f} % of the used slot seconds ({nodes['lost_slot_seconds']:,.0f} s)",
        "wait for a slot": f"{nodes['queue_seconds']:,.1f} s in the mean",
        "aborted": f"{nodes['aborted']:,} rollouts",
    }


def _rate(value: float) -> str:
    """A rate with more digits for slow runs, where a candidate takes hours."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"
