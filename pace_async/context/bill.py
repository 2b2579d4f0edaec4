"""What the questions of a run cost, before it begins: tokens and USD of a candidate, by call. Pure.

Tokens are estimated from the real first questions. Later questions to the advisor hold more (FULLER), within
the budget. How long a model thinks is not known: its answers are taken to be half of the longest ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.context.figures import tokens_in
from pace_async.context.questions import Prompts, RenderedQuestion

ANSWERS: Mapping[str, int] = {
    **{"one": 700, "propose": 350, "assess": 40, "select": 150, "implement": 1500, "notes": 600},
    "write": 1500,
    "pool": 150,
}
"""Tokens of a usual answer, measured with a strong model that does not think at length. Of notes: a page of the longest
length after a few sentences. An edit of the advisor's own is as long as an implementer's."""
THINKING_SHARE = 0.5
"""Of the longest answer, for a model that thinks. An assumption, not measured."""
OFTEN: Mapping[str, float] = {"assess": 0.2}
"""How often a candidate needs a call that it does not always need."""
FULLER = 1.2
"""How much longer than the first one an advisor's question is on average, once there are results."""

Rate = tuple[float, float]
"""USD of a token of a question, and of an answer."""


@dataclass(frozen=True, slots=True)
class CallBill:
    """One kind of call of a candidate, `often` times. `usd` is None where the model has no price."""

    call: str
    tokens_in: int
    tokens_out: int
    usd: float | None
    often: float = 1.0


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """Of the advisor's calls. `question`: tokens of the longest one, None without a limit of its own. `thinking`:
    tokens that an answer of a model that thinks is taken to have, by call, empty for one that does not."""

    question: int | None = None
    thinking: Mapping[str, int] = field(default_factory=dict[str, int])


NO_LIMITS = OwnLimits()


def bill(
    prompts: Prompts,
    first: Mapping[str, RenderedQuestion],
    advisor: Rate | None,
    implementer: Rate | None,
    own: OwnLimits = NO_LIMITS,
) -> list[CallBill]:
    """The calls of one candidate, in their order. What is written beside the search is so by the implementer's model
    where one is asked, else by the advisor's. `own` are the limits of the advisor's calls."""
    others = ("implement", "notes", "pool") if "implement" in first else ()
    return [
        _call(prompts, call, question, implementer, NO_LIMITS)
        if call in others
        else _call(prompts, call, question, advisor, own)
        for call, question in first.items()
    ]


def _call(prompts: Prompts, call: str, rendering: RenderedQuestion, rate: Rate | None, limits: OwnLimits) -> CallBill:
    often = 1 / prompts.notes_every if call == "notes" else OFTEN.get(call, 1.0)
    first = tokens_in(rendering.system + rendering.text)
    later = first if call == "implement" else first * FULLER
    question = round(often * min(later, max(first, prompts.tokens), limits.question or math.inf))
    answer = round(often * max(ANSWERS[call], limits.thinking.get(call, 0)))
    return CallBill(call, question, answer, None if rate is None else question * rate[0] + answer * rate[1], often)


NOTHING = "no calls, 0 USD: no model is asked over the network"
"""The bill of a run without a language model."""
BY_AGENT = "USD unknown: each call of the agent says what it costs"
"""The bill of a run whose programs an agent writes, and that asks no model itself."""


def in_words(calls: list[CallBill], candidates: int | None, runs: int = 1, budget: float | None = None) -> str:
    """One line: a candidate, by call, all runs together where each says how many candidates it has, and how far the
    `budget` of each (USD) reaches if that is less."""
    parts = [f"{each.call} {each.tokens_in} in, {each.tokens_out} out, {_usd(each.usd)}" for each in calls]
    tokens = sum(each.tokens_in for each in calls), sum(each.tokens_out for each in calls)
    often = sum(each.often for each in calls)
    priced = [each.usd for each in calls if each.usd is not None]
    whole = sum(priced) if len(priced) == len(calls) else None
    text = f"{_calls(often)}, about {tokens[0]} tokens in and {tokens[1]} out a candidate, {_usd(whole)} "
    text += f"({'; '.join(parts)})"
    if candidates is not None:
        every = candidates * runs
        text += f"; {f'{runs} runs of ' if runs > 1 else ''}{candidates} candidates: {_calls(often * every)}, "
        text += f"{tokens[0] * every} in, {tokens[1] * every} out, {_usd(None if whole is None else whole * every)}"
    if budget is not None and whole and (lasts := int(budget / whole)) < (candidates or math.inf):
        text += f"; the budget of {_usd(budget)} pays for about {lasts} candidates"
    return text if whole is not None else f"{text}; a model without a listed price is not counted in USD"


def _calls(number: float) -> str:
    return "1 call" if number == 1 else f"{number:.3g} calls" if number < 100 else f"{number:.0f} calls"


def _usd(usd: float | None) -> str:
    return "USD unknown" if usd is None else f"{usd:.2g} USD" if usd < 100 else f"{usd:.0f} USD"
