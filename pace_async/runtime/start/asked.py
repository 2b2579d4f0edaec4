"""What models are asked: the first questions of a run, or those of the next candidate of a run that is there.

Nothing is written, started or called.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from typing_extensions import TypedDict

from pace_async.advise.chat import thinks
from pace_async.config import Config, ProviderConfig
from pace_async.config.advisor import LONGEST_OF_THINKING, Call
from pace_async.context.bill import (
    ANSWERS,
    BY_AGENT,
    NOTHING,
    OFTEN,
    THINKING_SHARE,
    CallBill,
    OwnLimits,
    Rate,
    bill,
    in_words,
)
from pace_async.context.checked import first_questions
from pace_async.context.figures import tokens_in
from pace_async.context.notes import notes_question
from pace_async.context.pools import pool_question
from pace_async.context.questions import Prompts, RenderedQuestion
from pace_async.errors import UsageError
from pace_async.implement.assemble import only_edits
from pace_async.implement.shares import models_of
from pace_async.plan import hours
from pace_async.plan.planned import Plan
from pace_async.population.reading.reader import open_readonly
from pace_async.providers.chat import looked_up, price_of
from pace_async.providers.preflight import refuse_unless_priced
from pace_async.providers.tinker.paid import TokenPrices
from pace_async.registry.advisors import advisor_of, asked_model
from pace_async.registry.trainers import TRAINERS
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.run.core import prompts_of
from pace_async.runtime.run_paths import find_run_paths
from pace_async.runtime.start.refusals import asking, limits_of
from pace_async.runtime.start.surroundings import surroundings_of
from pace_async.state.pools import pool, view_of
from pace_async.task import Task, load_task

PAYS_FOR: Mapping[str, str] = {
    "one": "advice",
    "write": "program",
    "propose": "ideas",
    "assess": "assessment",
    "select": "choice",
    "implement": "program",
    "notes": "notes",
    "pool": "ideas that leave",
}
"""What a call of a bill is for."""
_LIMITED: Mapping[str, Call] = {call: call for call in get_args(Call)}
"""Each call of three has a limit of its own, and any other call that of an idea."""


class AskedQuestion(TypedDict):
    """One question, with about how many tokens it and each of its sections have."""

    call: str
    tokens: int
    sections: dict[str, int]
    system: str
    text: str


class AskedQuestions(TypedDict):
    """The questions of one candidate, and the digest of their templates."""

    digest: str
    questions: list[AskedQuestion]


def questions_of(config: Config, run: str | None) -> AskedQuestions:
    """The task is as a run of this configuration has it, with the run's seed program, limits and bounds. An advisor
    with a wording of its own is asked none of these: then they are those of another model with answers of the usual
    length, in one call unless `advisor.calls` is given. Raises UsageError, also for a run that asks with a wording of
    its advisor's own."""
    advisor = config.advisor
    if config.search.remembers == "pool":
        usual: dict[str, object] = {} if "calls" in advisor.model_fields_set else {"calls": "one"}
        usual |= {"max_tokens": LONGEST_OF_THINKING} if advisor.max_tokens is None else {}
        config = config.model_copy(update={"advisor": advisor.model_copy(update=usual)})
    task = limits_of(config, load_task(config.task))
    prompts = prompts_of(config, task, surroundings_of(task))
    questions = first_questions(prompts, config.advisor.calls)
    if run is not None:
        implement = {call: questions[call] for call in ("implement",) if call in questions}
        questions = {**_of_run(prompts, config, run), **implement}
    return {
        "digest": prompts.templates.digest,
        "questions": [_asked_question(call, question) for call, question in questions.items()],
    }


def bill_of(config: Config, task: Task, runs: int = 1) -> str:
    """What one candidate and so many whole runs cost, in one line. Raises UsageError."""
    asks, models = config.search.remembers != "pool", models_of(config.implementer.model)
    elsewhere = TRAINERS[config.learner.trainer].elsewhere
    if elsewhere and not asks:
        return "USD unknown: with search.memory pool the tokens of the service are not counted beforehand"
    if not asks and not models:
        return NOTHING if only_edits(config.implementer.model) else BY_AGENT
    prompts = prompts_of(config, task, surroundings_of(task))
    first = first_questions(prompts, config.advisor.calls)
    kind = advisor_of(config.advisor.model)
    if not asks:
        first = {"implement": first["implement"]}
    if not models:
        first.pop("implement", None)
    own = _rate(asked_model(config.advisor.model), config.advisor) if kind.asked else (0.0, 0.0)
    own = _service_rate(config) if elsewhere else own
    limits = _limits(config, first)
    calls = bill(prompts, first, own, _rate(models[0], config.implementer) if models else None, limits)
    if elsewhere:
        calls.append(_training(config, calls))
    charges = [replace(call, call=PAYS_FOR.get(call.call, call.call)) for call in calls]
    text = in_words(charges, config.stop.candidates, runs, config.stop.budget)
    if limits.thinking:
        text += f"; the advisor thinks, and each answer is taken to have {THINKING_SHARE:.0%} of its longest length"
    return text


def _limits(config: Config, calls: Iterable[str]) -> OwnLimits:
    """Of the advisor's calls. Unless the settings say that a served model thinks, only its folder does."""
    advisor = config.advisor
    if not advisor_of(advisor.model).served or not (advisor.thinking or thinks(advisor, advisor_folder(advisor.model))):
        return OwnLimits(advisor.max_prompt_tokens)
    half = {call: round(THINKING_SHARE * advisor.longest(_LIMITED.get(call, "propose"))) for call in calls}
    return OwnLimits(advisor.max_prompt_tokens, half)


def hours_of(config: Config, task: Task, plan: Plan | None, slots: int) -> str:
    """How long the run may take, in one line. Empty where no model is asked or planned, or nothing says how many
    candidates there are."""
    candidates = config.stop.candidates or (config.stop.updates or 0) * config.learner.group_size
    models = models_of(config.implementer.model)
    kind = advisor_of(config.advisor.model)
    if not candidates or not (models or plan is not None or kind.asked):
        return ""
    shape = hours.Shape(candidates, config.learner.group_size, config.search.threads, slots, config.bound == 0)
    return hours.in_words(shape, *(_pace(config, task, plan, longest=longest) for longest in (False, True)))


def _pace(config: Config, task: Task, plan: Plan | None, *, longest: bool) -> hours.Pace:
    """The stages with usual answers and evaluations of no length, or with the longest of both."""
    often = _calls(config)
    thinking = _limits(config, often).thinking
    usual = {call: max(ANSWERS[call], thinking.get(call, 0)) for call in often}
    most = {call: config.advisor.longest(_LIMITED.get(call, "propose")) for call in often}
    each = most if longest and not advisor_of(config.advisor.model).packaged else usual
    answers = {call: often[call] * tokens for call, tokens in each.items()}
    program = config.implementer.max_tokens if longest else ANSWERS["implement"]
    training = 0.0
    if plan is not None and plan.shape.rows:
        questions = sum(often.values()) * (plan.shape.tokens - plan.shape.answers)
        tokens = round(config.learner.group_size * (questions + sum(answers.values())))
        training = hours.training_seconds(plan.step.parameters, tokens, plan.needs.push_s)
    served = advisor_of(config.advisor.model).served
    return hours.Pace(
        advice=hours.answering(answers, hours.SERVED_TOKENS_S if served else hours.ASKED_TOKENS_S),
        program=program / hours.ASKED_TOKENS_S if models_of(config.implementer.model) else 0.0,
        evaluation=task.spec.timeout_s if longest else 0.0,
        training=training,
    )


def _calls(config: Config) -> Mapping[str, float]:
    """The calls of a candidate to its advisor, and how often each is made."""
    only = "write" if config.advisor.writes_code else "one"
    calls = (only,) if config.advisor.calls == "one" else ("propose", "assess", "select")
    return {call: OFTEN.get(call, 1.0) for call in calls}


def refuse_without_prices(config: Config) -> None:
    """Raises UsageError, under a budget, for a model whose price is not known. A run asks the model first, which may
    find a mistake in its name."""
    if config.stop.budget is None:
        return
    for caller, models, provider in asking(config):
        for model in models:
            chat = looked_up(model, provider)
            refuse_unless_priced(model, caller, chat.price, chat.is_listed_free)


def _service_rate(config: Config) -> Rate | None:
    """USD of a token of a question and of a sampled one at the trainer's service. A server of the user's own without
    prices costs nothing."""
    prices = TokenPrices.of(config.tinker)
    known = config.tinker.url is not None or config.tinker.prices[0] is not None
    return (prices.prompt, prices.sampled) if known else None


def _training(config: Config, calls: Sequence[CallBill]) -> CallBill:
    """A candidate's part of a step: all tokens of its advisor, read once and trained once."""
    tokens = sum(call.tokens_in + call.tokens_out for call in calls if call.call not in ("implement", "notes", "pool"))
    price = TokenPrices.of(config.tinker).trained
    usd = None if _service_rate(config) is None else 2 * tokens * price
    return CallBill("training", tokens, tokens, usd, 1 / config.learner.group_size)


def _rate(model: str, config: ProviderConfig) -> Rate | None:
    """USD of a token, None without a price. A model that the user serves costs nothing here."""
    price = price_of(model, config)
    return None if price is None else (price.prompt, price.completion)


def _of_run(prompts: Prompts, config: Config, run: str) -> dict[str, RenderedQuestion]:
    """What the next candidate of the run's first island is asked, on its best program."""
    where, name = find_run_paths(run).population
    with open_readonly(where, name) as reader:
        record = reader.record()
    state = record.run_state
    if not state.memory.active or not state.islands:
        raise UsageError(f"{run} asks its models in a wording of the advisor's own, or has not begun.")
    island = state.islands[min(state.islands)]
    questions = prompts.questions(state, island, island.members[0])
    beside = {"notes": notes_question(prompts, state)} if prompts.notes_every else {}
    if prompts.drop_ideas:
        view = view_of(state, island)
        beside["pool"] = pool_question(prompts, view, pool(state, view))
    if config.advisor.writes_code:
        return {"write": questions.write(prompts.budget), **beside}
    if config.advisor.calls == "one":
        return {"one": questions.one(prompts.budget), **beside}
    return {"propose": questions.propose(prompts.budget), "select": questions.select(prompts.budget, ()), **beside}


def _asked_question(call: str, question: RenderedQuestion) -> AskedQuestion:
    sections = {name: tokens_in(text) for name, text in question.sections.items()}
    return {
        "call": call,
        "tokens": tokens_in(question.system + question.text),
        "sections": sections,
        "system": question.system,
        "text": question.text,
    }
