"""The two questions of a candidate in the middle of a run, for tests and `scripts/benchmarks/prompt_tokens.py`.

On eplb the specifications are those of a strong model (tests/data/one_call) and others in its manner. On another task
the settings of its catalogue are changed one after the other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle

from pace_async.config import Config, PromptsConfig
from pace_async.context.briefing import briefing_of
from pace_async.context.questions import Prompts, RenderedQuestion
from pace_async.context.templates import Templates
from pace_async.context.value import Surroundings
from pace_async.implement.base import Experiment
from pace_async.implement.catalogue import load_catalogue
from pace_async.implement.prompts import question_for
from pace_async.programs.folding import parts
from pace_async.programs.text import START_MARK
from pace_async.search.state import rules_of
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState, Terms
from pace_async.task import Task, load_task, split_block
from tests.support.contexts import evaluated, rollout

AROUND = Surroundings(
    2, ("numpy 2.3", "scipy 1.17", "pandas 3.1", "networkx 3.6", "sympy 1.14", "torch 2.13", "pyarrow 26.0")
)
ISLANDS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """One candidate: its parent, the idea and the specification, settings and texts that it changes, and its score."""

    parent: int
    idea: str
    specification: str
    settings: Mapping[str, object]
    score: float | None = None
    texts: tuple[tuple[str, str], ...] = ()
    under_way: bool = False


ARRAYS = {"counter": "array", "placer": "array", "refiner": "array"}
EPLB = (
    Step(
        0,
        "(refine) Place slots in falling order of weight, which is the longest-processing-time rule, and use the array "
        "versions of counter, placer and refiner so that all rows are handled at once.",
        '1. Set order to "falling".\n2. Set counter to "array", placer to "array" and refiner to "array".\n'
        "3. Leave domains, gather, recent and shrink as they are, so that the effect can be read.\n"
        '4. Keep rounds at 16 and partner at "coldest".',
        {"order": "falling", **ARRAYS},
        0.76566,
    ),
    Step(
        0,
        "(refine) Place over one domain, so that every expert may go to every GPU.",
        '- Set domains to 1.\n- Set order to "falling" so that the greedy placer works on the larger rows.\n- Set '
        'counter, placer and refiner to "array" because rows are twice as long and plain Python would take longer.',
        {"domains": 1, "order": "falling", **ARRAYS},
        0.80661,
    ),
    Step(
        1,
        "(combine) Take the single domain that candidate 2 tries and add more refinement rounds with every partner, "
        "which the array refiner can afford.",
        '1. Set domains to 1, as candidate 2 does.\n2. Set rounds to 48 and partner to "every".\n3. Keep refiner, '
        'placer and counter at "array" and order at "falling".',
        {"domains": 1, "rounds": 48, "partner": "every"},
        0.4966,
    ),
    Step(
        2,
        '(combine) Take all settings of candidate 2 and give replicas by the rule "hottest".',
        '1. Take the evolve block of candidate 2.\n2. Set copies to "hottest".\n3. Change nothing else.',
        {"copies": "hottest"},
        0.81323,
    ),
    Step(
        2,
        "(explore) Cut the refinement rounds, because with falling order the greedy placement is already nearly "
        "balanced and each round costs time that the score counts.",
        "- Set rounds to 4.\n- Leave everything else of candidate 2 as it is.",
        {"rounds": 4},
        0.8057,
    ),
    Step(
        4,
        "(refine) Forecast with a running average, recent = 0.5, because one window is noisy.",
        "1. Take the evolve block of candidate 4.\n2. Set recent to 0.5.\n3. Change nothing else.",
        {"recent": 0.5},
        0.83302,
    ),
    Step(
        4,
        '(explore) Replace the greedy placement by "snake" on falling weights, which needs no loop over slots.',
        '1. Set spread to "snake".\n2. Keep order at "falling" and rounds at 16, so that refinement repairs what the '
        "deal leaves.\n3. Leave the rest of candidate 4 as it is.",
        {"spread": "snake"},
        0.84871,
    ),
    Step(
        6,
        "(refine) Let refine_array end as soon as no row improves, so that no round is spent on nothing.",
        "1. In `refine_array`, after `better` is known, leave the loop over `rounds` if `better.size == 0`.\n"
        "2. Raise `rounds` to 64: rows that still improve go on.\n3. Change nothing else.",
        {"rounds": 64},
        0.83109,
        (
            (
                "        mine, yours, i, j = hot[better]",
                "        if not better.size:\n            break\n        mine, yours, i, j = hot[better]",
            ),
        ),
    ),
    Step(
        7,
        "(combine) The running average of candidate 6 on the snake deal of candidate 7.",
        '1. Set `recent` to 0.4 as the forecast of candidate 6 does with 0.5.\n2. Keep `spread` at "snake".',
        {"recent": 0.4},
        0.87122,
    ),
    Step(
        6,
        "(explore) Refine with the two coldest partners at once.",
        "1. In `refine_array`, let `cold` be the two GPUs with the least `carried` (`np.argpartition`).\n"
        "2. Keep the search over pairs of slots as it is, now over both partners.",
        {},
        None,
        (("carried.argmin(axis=1)[:, None]", "np.argpartition(carried, 2)[:2]"),),
    ),
    Step(
        9,
        "(refine) Fewer rounds on the snake deal: it is nearly balanced.",
        "1. Set `rounds` to 6.\n2. Leave the rest of candidate 9 as it is.",
        {"rounds": 6},
        0.87391,
    ),
    Step(
        9,
        "(refine) Predict the trend of each expert's load, not only its average.",
        "1. In `forecast`, keep the last two averages in `memory`.\n2. Add half of their difference to the forecast, "
        "and keep it above 0.\n3. Leave `recent` at 0.4.",
        {},
        0.86455,
        (
            (
                '    memory["load"] = recent * load + (1 - recent) * before\n',
                '    memory["load"] = recent * load + (1 - recent) * before\n'
                '    trend = 0.5 * (memory["load"] - before)\n',
            ),
            ('1 - shrink) * memory["load"] +', '1 - shrink) * np.maximum(memory["load"] + trend, 0) +'),
        ),
    ),
    Step(
        11,
        "(explore) Sort the snake deal again after one round of refinement.",
        "1. In `placement`, deal the slots once more by what their GPU carries after the first deal.\n"
        "2. Leave `refine_array` as it is.",
        {},
        under_way=True,
    ),
    Step(
        9,
        "(refine) Shrink the forecast towards the layer's mean by 0.1.",
        "1. Set `shrink` to 0.1.\n2. Leave the rest of candidate 9 as it is.",
        {"shrink": 0.1},
        under_way=True,
    ),
)
"""Candidates 1 to 14."""

UNTRIED = (
    "(explore) Replace the greedy placement by a snake deal over falling weights and spend the time saved on more "
    "refinement rounds with every partner.",
    "(refine) Forecast with a running average, recent = 0.5, because one window is noisy.",
    "(refine) Shrink the forecast towards the layer's mean by 0.1, because extreme loads regress in the next window.",
    "(explore) Give replicas by the hottest expert's share instead of its square.",
    "(refine) Count replicas once for all layers with one heap, because the loop over extra slots is the slowest part.",
    "(combine) Keep the last window's placement where the forecast has hardly changed, and place only the rest anew.",
    "(refine) Start the refinement from the GPU pair whose loads differ most, over all rows at once.",
    "(explore) Solve each layer's placement as a small transport problem by Sinkhorn iterations, then round it.",
    "(refine) Weight the windows by age with two time constants, a short one for bursts and a long one for drift.",
    "(combine) Deal by snake within pairs of domains, which keeps rows short and still mixes their experts.",
    "(refine) Take replicas from experts whose load per replica is below the mean of the layer.",
    "(explore) Learn the correlation of neighbouring experts and smooth the forecast along it.",
    "(refine) Precompute the snake order once and keep it in memory between windows.",
    "(explore) Place layers with equal forecasts together in one array call.",
)
"""A second idea of each of these candidates, which nobody has tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the advisor chose for the candidate after those."""

    idea: str
    reasoning: str
    specification: str


CHOICES = {
    "settings": Choice(
        "(combine) The running average of candidate 9 with fewer rounds.",
        "Both were tried alone, and both gained.",
        "1. Set `recent` to 0.4, as candidate 9 does.\n2. Set `rounds` to 8.\n3. Keep all other settings of the parent."
        "\nNeeds: none",
    ),
    "one function": Choice(
        "(refine) Weight the windows by two time constants, a short one for bursts and a long one for drift.",
        "The forecast limits the balance now, and it takes hardly any time.",
        "1. In `forecast`, keep two running averages in `memory`, with `recent` 0.7 and 0.2.\n2. Forecast their mean; "
        "in the first window both are the load.\n3. Keep `shrink` as it is, and add 1e-9 at the end as before.\n"
        "4. Set `recent` to 0.4, as candidate 9 does, where the average of the parent is still used.\nNeeds: forecast",
    ),
    "longest function": Choice(
        "(refine) Choose the swap of refine_array by the worse of both GPUs after it, over three partners.",
        "The refinement looks at one partner only, and most rounds change nothing.",
        "1. In `refine_array`, take as `cold` the three GPUs with the least `carried` instead of one "
        "(`np.argpartition` on each row, shape (rows, 3)).\n2. The search over pairs then covers all three: `which` "
        "tells the partner.\n3. End the loop over `rounds` when `better` is empty.\n4. Set `recent` to 0.4, as "
        "candidate 9 does, and keep all other settings of the parent.\nNeeds: refine_array",
    ),
}
"""On eplb, by what its author has to read."""


def changed(program: str, step: Step) -> str:
    """The program with what the step changes."""
    for name, value in step.settings.items():
        line = f"{name} = " + (f'"{value}"' if isinstance(value, str) else str(value))
        program, times = re.subn(rf"^{name} = .*$", line, program, count=1, flags=re.MULTILINE)
        program = program if times else program.replace(f"{START_MARK}\n", f"{START_MARK}\n{line}\n", 1)
    for before, after in step.texts:
        program = program.replace(before, after, 1)
    return program


def steps_of(task: Task) -> Sequence[Step]:
    """The candidates of a search on the task."""
    return EPLB if task.spec.name == "eplb" else tuple(_by_catalogue(task))


def _by_catalogue(task: Task) -> Iterator[Step]:
    settings = [(name, option) for name, options in _settings(task) for option in options[1:3]]
    low, high = task.spec.bounds.lower, task.spec.bounds.upper
    for place, (name, option) in zip(range(14), cycle(settings), strict=False):
        yield Step(
            max(0, place - 2),
            f"(refine) The setting {name} limits the others, and {option!r} is the next value to be tried for it.",
            f"1. Set `{name}` to {option!r}.\n2. Leave all else of the parent as it is, so that the effect is seen.",
            {name: option},
            None if place % 6 == 5 else low + (high - low) * place / 16,
            under_way=place > 11,
        )


def mid_run(task: Task) -> RunState:
    """The state after these candidates, on four islands."""
    config = Config.model_validate({"advisor": {"model": "api:m"}})
    rules = rules_of(config.search, task.spec.fitness)
    seed, names = task.program, tuple(task.spec.shown_metrics)
    state = RunState(Terms(8, 2, rules, trains=False))
    low = task.spec.bounds.lower
    apply(state, evaluated(0, 0, None, seed, low, metrics=metrics_around(names, low, 0)))
    programs = {0: seed}
    for lease, step in enumerate(steps_of(task), start=1):
        programs[lease] = changed(programs[step.parent], step)
        rollout(
            state,
            lease,
            island=1 + lease % ISLANDS,
            parent=step.parent,
            score=step.score,
            experiment=step.specification,
            text=step.idea,
            program=programs[lease],
            ends=not step.under_way,
            other=UNTRIED[lease - 1],
            metrics=metrics_around(names, step.score or 0.0, lease),
        )
    return state


def metrics_around(names: Sequence[str], score: float, lease: int) -> Mapping[str, float]:
    """Made-up metrics of these names around the score, each with other digits."""
    return {name: score * (1 + 0.037 * (place + 1) * (-1) ** (place + lease)) for place, name in enumerate(names)}


def prompts_for(task: Task, **settings: object) -> Prompts:
    """What the questions are made of."""
    config = PromptsConfig.model_validate(settings)
    answers = {"propose": 4096, "implement": 8192}
    return Prompts(task, Templates.of(config, task.folder), AROUND, config.tokens, answer_tokens=answers)


@cache
def questions(name: str, candidate: int) -> dict[str, RenderedQuestion]:
    """The advisor's question on the program of a candidate, and the implementer's for each choice, by what it needs."""
    task = load_task(name)
    state, prompts = mid_run(task), prompts_for(task)
    island, parent = next(
        (island, member)
        for island in state.islands.values()
        for member in island.members
        if member.candidate == candidate
    )
    asked = {"advisor": prompts.questions(state, island, parent).one(prompts.budget)}
    for needs, choice in choices_of(task).items():
        briefing = briefing_of(prompts, state, island, parent, choice.specification, choice.reasoning)
        experiment = Experiment(99, choice.idea, choice.specification, briefing=briefing)
        asked[needs] = question_for(task, parent, experiment, briefing)
    return asked


def choices_of(task: Task) -> Mapping[str, Choice]:
    """Specifications for the candidate after those, by what its author has to read."""
    if task.spec.name == "eplb":
        return CHOICES
    lines = task.program.splitlines(keepends=True)
    longest = max(parts(lines), key=lambda part: len(part.text(lines))).name
    setting = _settings(task)[0][0]
    needs = {"settings": "none", "one function": task.spec.entry, "longest function": longest}
    return {
        name: Choice(
            f"(refine) Make {setting} depend on the instance, because no single value suits all of them.",
            "It is fixed, and the results differ most where it was changed.",
            f"1. Compute `{setting}` from the instance at the beginning of `{task.spec.entry}`.\n2. Keep its value "
            f"where the instance says nothing.\n3. Change nothing else.\nNeeds: {what}",
        )
        for name, what in needs.items()
    }


def _settings(task: Task) -> Sequence[tuple[str, Sequence[object]]]:
    """Settings and their values: those of the catalogue, or else the numbers at the margin of the program's block."""
    if task.catalogue_path is not None:
        return [(each.name, each.options) for each in load_catalogue(task.catalogue_path).mechanisms]
    constants = re.findall(r"^([A-Z]+) = ([\d.]+)", split_block(task.program)[1], re.MULTILINE)
    return [(name, (value, float(value) / 2, float(value) / 4)) for name, value in constants]
