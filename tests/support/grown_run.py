"""Both questions of each candidate of a run that a strong model answered by hand, as they are asked today.

The programs, ideas and specifications are those of the run (tests/data/by_hand), four candidates at a time, so parents
grow as they did. Metrics are made up around the scores. Repairs are not asked again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pace_async.advise.one_answer import OneAnswer, parse_one
from pace_async.config import Config
from pace_async.context.briefing import briefing_of
from pace_async.context.questions import RenderedQuestion
from pace_async.errors import CandidateFault
from pace_async.events import LeaseOpened
from pace_async.implement.base import Experiment
from pace_async.implement.edits import UselessProgram, program_of
from pace_async.implement.prompts import question_for
from pace_async.search.state import Member, rules_of
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState, Terms
from pace_async.task import Task, load_task
from tests.support.contexts import evaluated, rollout
from tests.support.mid_run import ISLANDS, metrics_around, prompts_for
from tests.support.rounds_by_hand import asked

_PARENT = re.compile(r"^# The parent\nCandidate (\d+),.*?^(`{3,})python\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^# The program\nIt is (.*?),.*?^(`{3,})python\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_SPECIFICATION = re.compile(r"^# Specification\n(`{3,})text\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_SCORED = re.compile(r"andidate (\d+)(?: from \d+: |, score )(-?\d[\d.]*\d)")


@dataclass(slots=True)
class Recorded:
    """A candidate of the run. `program` is empty where its answers made none that is known."""

    parent: int
    answer: OneAnswer
    program: str = ""
    score: float | None = None


def recorded(name: str) -> list[Recorded]:
    """The candidates of a run with one call, the first is candidate 1."""
    made, programs, scores = list[Recorded](), dict[int, str](), dict[int, float]()
    for kind, question, answer in asked(name):
        scores |= {int(candidate): float(score) for candidate, score in _SCORED.findall(question)}
        if kind == "one" and (parent := _PARENT.search(question)) is not None:
            programs[int(parent[1])] = parent[3]
            made.append(Recorded(int(parent[1]), parse_one(answer)))
        elif kind == "implement" and (shown := _PROGRAM.search(question)) is not None:
            each = next(each for each in made if _first_line(each.answer.specification) == _specified(question))
            before = programs[each.parent] if shown[1].startswith("candidate") else each.program
            try:
                each.program = program_of(answer, before, seen=shown[3])
            except UselessProgram as fault:
                each.program = fault.program
            except CandidateFault:
                each.program = each.program or before
    for candidate, each in enumerate(made, start=1):
        each.program = programs.get(candidate, each.program)
        each.score = scores.get(candidate)
    return made


def _first_line(specification: str) -> str:
    return specification.strip().partition("\n")[0]


def _specified(question: str) -> str:
    match = _SPECIFICATION.search(question)
    return _first_line(match[2]) if match is not None else ""


def grown(name: str, task_name: str) -> Iterator[tuple[str, dict[str, RenderedQuestion]]]:
    """Each candidate of the run with the advisor's question and the implementer's."""
    task = load_task(task_name)
    prompts, steps = prompts_for(task), recorded(name)
    members = {0: Member(0, task.program, task.spec.bounds.lower)}
    scored = ((lease, each, each.score) for lease, each in enumerate(steps, start=1))
    members |= {lease: Member(lease, each.program, score) for lease, each, score in scored if score is not None}
    for lease, each in enumerate(steps, start=1):
        state = _state(task, steps, lease - 1)
        apply(state, LeaseOpened(lease, number := 1 + lease % ISLANDS, 2, 0, 0.0, None))
        island, parent = state.islands[number], members[each.parent]
        questions = {"advisor": prompts.questions(state, island, parent).one(prompts.budget)}
        chosen = each.answer
        briefing = briefing_of(prompts, state, island, parent, chosen.specification, chosen.reasoning, idea_of(chosen))
        experiment = Experiment(lease, idea_of(chosen), chosen.specification, briefing=briefing)
        questions["implementer"] = question_for(task, parent, experiment, briefing)
        yield f"{lease} from {each.parent}", questions


def idea_of(answer: OneAnswer) -> str:
    """The chosen idea, or the first one where an older idea was chosen."""
    return answer.texts[(answer.place or 1) - 1]


def _state(task: Task, steps: list[Recorded], known: int) -> RunState:
    """The state before candidate `known + 1` asks: all of the rounds before it are done, and its own is under way."""
    spec = task.spec
    rules = rules_of(Config.model_validate({"advisor": {"model": "api:m"}}).search, spec.fitness)
    names, low = tuple(spec.shown_metrics), spec.bounds.lower
    state = RunState(Terms(8, 2, rules, trains=False))
    apply(state, evaluated(0, 0, None, task.program, low, metrics=metrics_around(names, low, 0)))
    for lease, each in enumerate(steps[:known], start=1):
        others = [text for text in each.answer.texts if text != idea_of(each.answer)]
        rollout(
            state,
            lease,
            island=1 + lease % ISLANDS,
            parent=each.parent,
            score=each.score,
            experiment=each.answer.specification,
            text=idea_of(each.answer),
            program=each.program,
            ends=(lease - 1) // ISLANDS < known // ISLANDS,
            other=others[0] if others else "",
            metrics=metrics_around(names, each.score or 0.0, lease),
        )
    return state
