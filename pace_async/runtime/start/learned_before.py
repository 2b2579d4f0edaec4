"""What another run learned, for a new run that starts from it (`search.start_from`), as a fact of the new one.

All that the new run will need of it is in the fact, so the other run may be deleted then. A run that is named with an
@ gives its programs only.
"""

import time

from pace_async.config import Config
from pace_async.context.rows import row_of
from pace_async.context.table import what_of
from pace_async.context.texts import one_line
from pace_async.errors import UsageError
from pace_async.events import EarlierResult, LearnedBefore
from pace_async.population.reading.best_programs import best_programs
from pace_async.population.reading.reader import open_readonly
from pace_async.registry.advisors import advisor_of
from pace_async.runtime.children.catalogue_reading import options_of
from pace_async.runtime.run_paths import find_run_paths
from pace_async.runtime.start.beginning import named_run
from pace_async.search.edit_bandit import arm_of
from pace_async.search.results import Results
from pace_async.state.notes import page_seen
from pace_async.state.pools import left_anywhere
from pace_async.state.run_state import RunState
from pace_async.task import Task

BEST, LATEST = 8, 4
"""Results that are taken over."""
LONGEST_NAME, LONGEST_WHAT, LONGEST_CAUSE = 40, 200, 120


def learned_before(config: Config, task: Task) -> LearnedBefore | None:
    """What the run learned that `search.start_from` names, None if it names none or its programs only, or nothing of it
    is of use here. Raises UsageError."""
    run = config.search.start_from
    if run is None or named_run(run)[0] != run:
        return None
    with open_readonly(*find_run_paths(run).population) as reader, reader.at_one_moment() as now:
        state, ((first, *_),) = now.record().run_state, now.ask(best_programs, 1)
        return learned_by(one_line(now.header().name, LONGEST_NAME), state, first, config, task, time.time())


def learned_by(name: str, state: RunState, first: int, config: Config, task: Task, at: float) -> LearnedBefore | None:
    """What a run of this state has learned, for a run that begins with its candidate `first`."""
    edits = _edits(config, task, state, name)
    if not state.memory.active or config.search.remembers == "pool":
        return LearnedBefore(name, first, at, edits=edits) if edits else None
    views = state.memory.views.values()
    ideas = {number: idea for view in views for number, idea in view.ideas.items()}
    tested = {candidate: result for view in views for candidate, result in view.tested.items()}
    whole = Results.of(state.memory.fitness, ideas.values(), tested.values())
    page, unwanted = page_seen(state), {*state.steering.vetoed(), *left_anywhere(state)}
    return LearnedBefore(
        name,
        first,
        at,
        _results(whole, task),
        len(whole.tested),
        len(whole.worth),
        dict(whole.failures),
        {program: candidates[0] for program, candidates in whole.by_program.items()},
        tuple(ideas[number].text for _, number in whole.untried if number not in unwanted),
        page.text if page is not None else "",
        edits,
    )


def _results(view: Results, task: Task) -> tuple[EarlierResult, ...]:
    best = view.best(BEST)
    latest = [result for result in view.recent(BEST + LATEST) if result not in best][:LATEST]
    rows = [row_of(view, result, task.spec) for result in (*best, *latest)]
    return tuple(
        EarlierResult(
            row.tested.candidate,
            row.tested.parent,
            what_of(row, LONGEST_WHAT),
            row.tested.outcome,
            row.tested.score,
            row.tested.gain,
            one_line(row.tested.cause, LONGEST_CAUSE),
        )
        for row in rows
    )


def _edits(config: Config, task: Task, state: RunState, name: str) -> tuple[tuple[str, str, int, int], ...]:
    """The counts of the other run's bandit, for one here. Raises UsageError if its catalogue had an edit that the
    task's has not."""
    model = config.advisor.model
    if advisor_of(model).has_model:
        return ()
    known = {arm_of(target, option) for target, options in options_of(model, task).items() for option in options}
    if unknown := state.visible.edits.keys() - known:
        kind, option = min(unknown)
        raise UsageError(
            f"Run {name} has counted edits that the catalogue of {task.name!r} has not ({kind} to {option}): take its "
            "programs only, as RUN@best."
        )
    return tuple((*arm, tries.gains, tries.others) for arm, tries in sorted(state.visible.edits.items()))
