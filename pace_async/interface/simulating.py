"""Predicts the speed of a run of a given shape, as `pace simulate` does.

Invariant: without a recorded run, a shape that makes no sense is refused before anything heavy is loaded.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, Unpack

from pace_async.errors import UsageError
from pace_async.interface.loops import beside_any_loop
from pace_async.interface.opening import open_run
from pace_async.interface.reading import Run
from pace_async.interface.simulated_shape import BESTS, Shape, nodes_of, refuse_unless_valid
from pace_async.runtime.run_paths import find_run_paths

if TYPE_CHECKING:
    from pace_async.config import EvaluationConfig
    from pace_async.events import RunHeader
    from pace_async.simulate.curves import Curves, Pruning
    from pace_async.simulate.durations import Durations
    from pace_async.simulate.predict import Prediction, Scenario

THREADS, GROUP_SIZE, BOUND, CV, CANDIDATES, EVALUATION_S = 8, 8, 2, 0.6, 2000, 60.0
T = TypeVar("T")
_ONE_AT_A_TIME = Lock()
"""A simulation changes the garbage collector of its process while it runs."""


def simulate_run(like: str | Path | Run | None = None, **shape: Unpack[Shape]) -> "Prediction":
    """Drive the runtime on simulated stages under a virtual clock, and the synchronous loop over the same durations.
    `like` is a run whose settings and durations are taken where `shape` gives none. Returns the keys of
    `pace simulate --json`. An event loop of this thread waits. Raises UsageError."""
    return beside_any_loop(partial(_predicted, like, shape))


async def simulate_run_async(like: str | Path | Run | None = None, **shape: Unpack[Shape]) -> "Prediction":
    """`simulate_run` in a thread, beside the event loop. A cancellation takes effect when the simulation has ended."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(partial(_predicted, like, shape))


def _predicted(like: str | Path | Run | None, shape: Shape) -> "Prediction":
    return predicted(scenario_of(like.name if isinstance(like, Run) else None if like is None else str(like), shape))


def predicted(scenario: "Scenario") -> "Prediction":
    """What the run would do. Only one simulation of a process runs at a time."""
    from pace_async.simulate.predict import predict

    with _ONE_AT_A_TIME:
        return predict(scenario)


def scenario_of(like: str | None, shape: Shape, called: Callable[[str], str] = str) -> "Scenario":
    """The run that is simulated: what `shape` says, else the run `like`, else the defaults. `called` gives the name of
    a key in errors. Raises UsageError."""
    refuse_unless_valid(shape, called)
    if like is not None:
        find_run_paths(like)
    else:
        nodes_of(shape, shape.get("threads") or THREADS, called)
    from pace_async.configure import recorded
    from pace_async.registry.objectives import trains
    from pace_async.simulate.predict import Scenario

    header, durations, curves = _source_of(like, shape, called)
    config = recorded(header.config) if header else None
    threads = shape.get("threads") or (header.threads if header else THREADS)
    nodes = nodes_of(shape, threads, called)
    return Scenario(
        threads=threads,
        group_size=shape.get("group_size") or (header.group_size if header else GROUP_SIZE),
        bound=_or(shape.get("max_staleness"), header.max_staleness if header else BOUND),
        durations=replace(
            durations,
            generation=_or(shape.get("generation"), durations.generation),
            implementing=_or(shape.get("implement_mean"), durations.implementing),
            learning=_or(shape.get("learn"), durations.learning),
            pause=_or(shape.get("pause"), durations.pause),
        ),
        candidates=shape.get("candidates") or CANDIDATES,
        policy=shape.get("policy") or (config.staleness.policy if config else "pace"),
        slots=nodes.slots if nodes is not None else shape.get("slots") or (config.evaluation.slots if config else None),
        seed=shape.get("seed") or 0,
        learns=config is None or trains(config.learner.objective),
        nodes=nodes,
        pruning=_pruning_of(shape, config.evaluation if config else None, curves),
        repeats=_or(shape.get("repeats"), config.evaluation.repeats if config else 0),
        repeats_for=shape.get("repeats_for") or (config.evaluation.repeats_for if config else BESTS),
    )


def _pruning_of(shape: Shape, recorded: "EvaluationConfig | None", curves: "Curves") -> "Pruning | None":
    """The rule that ends evaluations early: what `shape` says, else as in the recorded run, else the defaults."""
    if shape.get("prune") is None:
        return None
    from pace_async.config import EvaluationConfig
    from pace_async.evaluate.pruning import rules_of
    from pace_async.simulate.curves import Pruning

    overrides = {name: value for name, value in shape.items() if name.startswith("prune") and value is not None}
    rules = rules_of((recorded or EvaluationConfig()).model_copy(update=overrides))
    assert rules is not None, "a rule is given"
    return Pruning(rules, curves)


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _source_of(
    like: str | None, shape: Shape, called: Callable[[str], str]
) -> "tuple[RunHeader | None, Durations, Curves]":
    """The run to take after, if one is given, and durations and curves: those of the run, or drawn ones. Raises
    UsageError."""
    from pace_async.simulate.curves import NOISE, STEPS, Curves

    seed, mean, cap = shape.get("seed") or 0, shape.get("eval_mean"), shape.get("eval_cap")
    if like is None:
        from pace_async.simulate.durations import Durations

        mean = EVALUATION_S if mean is None else mean
        drawn = Curves(seed, (), shape.get("curve_steps") or STEPS, _or(shape.get("curve_noise"), NOISE))
        durations = Durations(
            seed=seed,
            evaluation_mean=mean,
            evaluation_cv=_or(shape.get("eval_cv"), CV),
            evaluation_cap=cap,
            generation=0.05 * mean,
            learning=0.03 * mean,
            pause=0.003 * mean,
        )
        return None, durations, drawn
    if mean is not None or cap is not None:
        raise UsageError(
            f"{called('like')} takes the evaluations from the run: leave {called('eval_mean')} and "
            f"{called('eval_cap')} out."
        )
    if any(shape.get(name) is not None for name in ("curve_steps", "curve_noise")):
        raise UsageError(f"{called('like')} takes the curves from the run: leave {called('curve_steps')} out.")
    with open_run(like) as (_, reader):
        from pace_async.population.reading.curves import curves_of
        from pace_async.population.reading.timings import recorded_seconds
        from pace_async.simulate.recorded import recorded_durations, with_whole_curves

        header, seconds = reader.header(), reader.ask(recorded_seconds)
        if shape.get("prune") is None:
            return header, recorded_durations(seconds, seed), Curves()
        return header, *with_whole_curves(seconds, reader.ask(curves_of), header.fitness, seed)
