"""Renders every template once, on the first question of a task, before a run begins. Pure but for the template files.

The same first question says what a run's prompts hold and about what they cost, before anything is asked.
"""

from dataclasses import replace
from typing import Any

from pace_async.context.briefing import HIDDEN, Briefing
from pace_async.context.files import files_levels
from pace_async.context.notes import asked_for_notes
from pace_async.context.notes_page import LONGEST
from pace_async.context.pools import pool_question
from pace_async.context.questions import NearProposal, Prompts, Questions, RenderedQuestion
from pace_async.context.sections import CUT, SHARES
from pace_async.context.templates import NAMES, Templates
from pace_async.context.texts import answer_form, fenced, size_text
from pace_async.context.value import NOT_KNOWN, Context, Surroundings
from pace_async.search.results import KnownIdea, Results
from pace_async.search.state import Member
from pace_async.task import Task

EXAMPLE = "Replace the greedy step by a search that takes back bad choices."


def first_questions(prompts: Prompts, calls: str) -> dict[str, RenderedQuestion]:
    """What the first rollout is asked with `calls`, three or one, by call, then the implementer's question unless the
    advisor writes the code itself, and those of what is written beside the search, if anything is. Nothing is
    evaluated, so they say that the task's program is not scored yet. Raises UsageError for a template that does not
    render."""
    task = prompts.task
    seed = Member(0, task.program, task.spec.bounds.lower)
    view = Results(task.spec.fitness)
    questions = Questions(prompts, _first(seed), view)
    ideas = [KnownIdea(place, EXAMPLE, 1, 1) for place in (1, 2, 3)]
    if prompts.end_to_end:
        by_call = {"write": questions.write(prompts.budget)}
    elif calls == "one":
        by_call = {"one": questions.one(prompts.budget)}
    else:
        by_call = {
            "propose": questions.propose(prompts.budget),
            "assess": questions.assess(prompts.budget, [NearProposal(1, EXAMPLE, 1, EXAMPLE)]),
            "select": questions.select(prompts.budget, ideas),
        }
    if not prompts.end_to_end:
        by_call["implement"] = _implement(prompts, seed)
    if prompts.notes_every:
        by_call["notes"] = asked_for_notes(prompts, _first(seed))
    if prompts.drop_ideas:
        pool = [KnownIdea(place, EXAMPLE, 1, 1) for place in range(1, prompts.drop_ideas + 2)]
        by_call["pool"] = pool_question(prompts, view, pool)
    return by_call


def check(templates: Templates, task: Task, around: Surroundings = NOT_KNOWN) -> None:
    """Raises UsageError, with file and line, for a template that does not render."""
    prompts = Prompts(task, templates, around)
    for calls in ("one", "three"):
        first_questions(prompts, calls)
    first_questions(replace(prompts, end_to_end=True), "one")
    section = dict.fromkeys((*SHARES, *CUT), "text")
    form = answer_form(task.spec, task.program)
    values: dict[str, Any] = {**form, "idea": EXAMPLE, "specification": EXAMPLE, "request": "", "reasoning": EXAMPLE}
    values |= {"pool": 6, "kept": 5, "answer": EXAMPLE, "wrong": "the answer has no line for its choice"}
    lists = {"near": [NearProposal(1, EXAMPLE, 1, EXAMPLE)], "proposed": [{"number": 1, "text": EXAMPLE}]}
    for name in NAMES:
        templates.render(
            name, section=section, cut=True, longest=LONGEST, answer_length="", needs="", **lists, **values
        )


def _first(seed: Member) -> Context:
    return Context(
        parent=seed,
        best=None,
        other=None,
        metrics={},
        best_rows=(),
        recent_rows=(),
        lineage=(),
        failed=(),
        ideas=(),
        under_way=(),
        tested=0,
        scored=0,
        untried=0,
        begun=False,
    )


def _implement(prompts: Prompts, seed: Member) -> RenderedQuestion:
    spec = prompts.task.spec
    briefing = Briefing(prompts, EXAMPLE)
    specification = f"{EXAMPLE}\nNeeds: {spec.entry or 'none'}"
    excerpt = briefing.seen(seed.program, specification)
    note = HIDDEN if excerpt != seed.program else ""
    head = f"It is candidate 0, with {size_text(spec, seed.program)}.{note}"
    text = f"{head}\n{fenced(excerpt, spec.written_in.fences[0])}"
    values: dict[str, Any] = {
        **answer_form(spec, seed.program),
        "idea": EXAMPLE,
        "specification": fenced(specification, "text"),
        "request": "Carry out the specification.",
    }
    whole = files_levels(seed.program, seed.program, spec, head) if spec.has_folder else None
    return briefing.render(whole or (lambda level: text if level == 0 else None), seed, values)
