"""A run's state for tests of what models are told: short to write."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pace_async.config import Config, PromptsConfig
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.context.value import Surroundings
from pace_async.events import Advised, Evaluated, IdeaNote, LeaseOpened
from pace_async.fitness import fitness_of
from pace_async.programs.compiled import digest_as_it_is
from pace_async.search.state import Member, rules_of
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState, Terms
from pace_async.task import load_task

TASK = load_task("circle_packing")
PROGRAM = TASK.program
METRICS = {"spread": 0.123456, "hidden": 7.0}


def evaluated(
    lease: int,
    island: int,
    parent: int | None,
    program: str,
    score: float | None,
    detail: str = "",
    metrics: Mapping[str, float] = METRICS,
) -> Evaluated:
    outcome = "ok" if score is not None else "candidate_error"
    return Evaluated(
        *(
            lease,
            island,
            parent,
            program,
            digest_as_it_is(program),
            outcome,
            detail,
            score,
            1.0,
            dict(metrics),
            0.25,
            False,
            None,
            float(lease),
        ),
    )


def begun(memory: str = "run", bound: int = 2) -> RunState:
    config = Config.model_validate({"advisor": {"model": "api:m"}, "search": {"memory": memory}})
    rules = rules_of(config.search, fitness_of("maximize", 0.0, 2.636))
    state = RunState(Terms(8, bound, rules, trains=False))
    return apply(state, evaluated(0, 0, None, PROGRAM, 1.0))


def rollout(
    state: RunState,
    lease: int,
    island: int = 1,
    parent: int = 0,
    score: float | None = None,
    experiment: str = "",
    text: str = "",
    program: str = "",
    ends: bool = True,
    other: str = "",
    covers: tuple[int, ...] = (),
    idea: int | None = None,
    metrics: Mapping[str, float] = METRICS,
) -> RunState:
    number = 3 * (lease - 1) + 1
    note = IdeaNote(number, text or f"(refine) idea of lease {lease}", False)
    untried = IdeaNote(number + 1, other or f"(explore) other idea of lease {lease}", False)
    apply(state, LeaseOpened(lease, island, 2, 0, 0.0, None))
    experiment, chosen = experiment or f"experiment {lease}", number if idea is None else idea
    apply(state, Advised(lease, island, parent, (), (note, untried), chosen, experiment, 0.0, covers))
    if ends:
        made = program or PROGRAM.replace("import", f"# changed by {lease}\nimport", 1)
        apply(state, evaluated(lease, island, parent, made, score, "ZeroDivisionError: it failed", metrics))
    return state


def told(state: RunState, name: str = "one", island: int = 1, parent: Member | None = None, **changed: object) -> str:
    """The text of a question. `changed`: fields of its Prompts."""
    prompts = replace(Prompts(TASK, Templates.of(PromptsConfig()), Surroundings(2, ("numpy 2.3",))), **changed)  # type: ignore[arg-type]
    questions = prompts.questions(state, state.islands[island], parent or state.islands[island].members[0])
    extra: dict[str, dict[str, Any]] = {"select": {"proposed": ()}, "assess": {"near": ()}}
    return questions.render(name, prompts.budget, **extra.get(name, {})).text
