"""Examples of good advice on random search states, through the prompts that a run uses.

An example is one prompt and several answers that are all equally good, so that training sees the whole choice and not
one draw of it. Ideas are spread evenly over settings and never propose what the parent has; a verdict is what the
pool says; an experiment carries out the idea chosen and names the parent's present value. Everything that is not a
choice has one wording: so the entropy of a sampled answer lies in the names, the options and the idea's number.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pace_async.advise.prompts import assess_prompt, propose_prompt, select_prompt
from pace_async.search.ideas import admit
from pace_async.search.state import Idea, Member, SearchContext, Trial
from tiny_advisor.worlds import Settings, World, invented, program, shuffled

IDEAS_KEPT = 5
FAILURES = ("unchanged", "unparsed", "not_implemented", "candidate_error", "timeout")

REASON = "untested here."

Pair = tuple[str, str]
"""A setting's name and an option."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`unknowable` are character ranges that nothing in the prompt or the catalogue determines: no loss there.
    `choices` map a character, where a word begins (its space included), to all words that would be as good there, so
    that training need not learn from draws what is not drawn."""

    text: str
    unknowable: tuple[tuple[int, int], ...] = ()
    choices: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt, its purpose and equally good answers."""

    purpose: str
    prompt: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A search state and what its texts mean. `meaning[number]` is the pair of an idea of the pool."""

    world: World
    settings: Settings
    context: SearchContext
    meaning: dict[int, Pair]
    next_number: int


def hypothesis(pair: Pair, settings: Settings) -> str:
    """The idea's sentence, which names what the parent had when it was proposed."""
    return f"{pair[0]} from {settings[pair[0]]} to {pair[1]} helps."


def experiment(number: int, pair: Pair, settings: Settings) -> str:
    """What to do to a parent with `settings` to test idea `number`. It names the idea as the pool does."""
    return f"Idea {number}: {pair[0]} from {settings[pair[0]]} to {pair[1]}."


def random_world(
    worlds: Sequence[World], rng: random.Random, made_up: float, size: int, invented_too: bool = True
) -> World:
    """A world, with at most `size` settings where it is made up, which it is with probability `made_up`: half of those
    are shuffled, half invented."""
    world = rng.choice(worlds)
    draw = rng.random()
    if draw < made_up / 2:
        return shuffled(world, rng, size)
    if draw < made_up:
        return invented(world, rng, size) if invented_too else shuffled(world, rng, size)
    return world


def random_state(world: World, rng: random.Random, size: int = 99) -> State:
    """A parent with random settings (at most `size`), a best that differs in 0 to 4, a pool of 0 to 5 ideas, some of
    which the parent has already."""
    names = list(world.options)
    if len(names) > size:
        kept = set(rng.sample(names, size))
        names = [name for name in names if name in kept]
    settings = {name: rng.choice(world.options[name]) for name in names}
    if world.default is not None and rng.random() < 0.5:
        changed = rng.sample(names, rng.randint(0, len(names) // 2))
        settings = {name: settings[name] if name in changed else world.default[name] for name in names}
    best = dict(settings)
    for name in rng.sample(names, min(len(names), rng.choice([0, 0, 1, 1, 2, 3, 4]))):
        best[name] = rng.choice(world.options[name])
    score = _score(rng)
    parent = Member(1, program(settings), score)
    leader = parent if best == settings else Member(2, program(best), score + abs(rng.gauss(0, 0.1)))
    ideas, meaning, latest = _pool(names, world, settings, best, rng)
    return State(world, settings, SearchContext(parent, leader, ideas), meaning, latest + 1)


def propose_example(state: State, rng: random.Random, answers: int = 2) -> Example:
    """Three ideas on three settings, evenly drawn."""
    prompt = propose_prompt(state.world.task, state.context)
    return Example("propose", prompt, tuple(_proposal(state, rng) for _ in range(answers)))


def assess_example(state: State, proposals: Sequence[Pair]) -> Example:
    """New, or known where the pool has the same pair."""
    prompt = assess_prompt(state.world.task, state.context, [hypothesis(pair, state.settings) for pair in proposals])
    verdicts = known_numbers(state, proposals)
    lines = [f"Idea {i}: {'new' if k is None else f'known {k}'}" for i, k in enumerate(verdicts, start=1)]
    return Example("assess", prompt, (Answer("\n".join(lines)),))


def select_example(state: State, proposals: Sequence[Pair]) -> Example:
    """Each idea of the pool that changes the parent, once the proposals were taken in; all of them are good."""
    admitted = admitted_state(state, proposals)
    numbers = [idea.number for idea in admitted.context.ideas]
    useful = [k for k in numbers if changes(admitted.meaning[k], state.settings)]
    numbers_right = {len("Idea ID:"): _spaced(str(k) for k in useful)}
    answers = [
        Answer(
            f"Idea ID: {k}\nExperiment description: {experiment(k, admitted.meaning[k], state.settings)}",
            choices=numbers_right,
        )
        for k in useful
    ]
    return Example("select", select_prompt(state.world.task, admitted.context), tuple(answers))


def bare_example(state: State, rng: random.Random) -> Example:
    """Only copying and comparing: an assess or select prompt without task and question, and many short answers. Not
    asked for in a run; the first thing that training shows."""
    if state.context.ideas and rng.random() < 0.4:
        pairs = [pair for _ in range(2) for pair in random_proposals(state, rng, 0.5)]
        assessed = assess_example(state, pairs[: rng.randint(2, 6)])
        [answer] = assessed.answers
        return Example("bare", _bare(assessed.prompt), (Answer(answer.text, ((0, 4),)),))
    answers: list[Answer] = []
    for idea in state.context.ideas:
        pair = state.meaning[idea.number]
        if changes(pair, state.settings):
            text = f"Idea ID: {idea.number}\nExperiment description: {experiment(idea.number, pair, state.settings)}"
            answers.append(Answer(text, ((0, 4),)))
    for name in rng.sample(list(state.settings), min(4, len(state.settings))):
        option = _other(state, name, rng)
        text = f"Hypothesis: {hypothesis((name, option), state.settings)}\nReasoning: {REASON}"
        begin = len(f"Hypothesis: {name} from {state.settings[name]} to")
        choices = {len("Hypothesis:"): _spaced(state.settings)}
        if state.world.real:
            answers.append(Answer(text, ((0, 4),), choices | {begin: _spaced(_others(state, name))}))
        else:
            answers.append(Answer(text, ((0, 4), (begin, begin + 1 + len(option))), choices))
    return Example("bare", _bare(select_prompt(state.world.task, state.context)), tuple(answers))


def known_numbers(state: State, proposals: Sequence[Pair]) -> list[int | None]:
    """For each proposal the number of the pool's idea with the same pair, or None."""
    numbers = {state.meaning[idea.number]: idea.number for idea in state.context.ideas}
    return [numbers.get(pair) for pair in proposals]


def admitted_state(state: State, proposals: Sequence[Pair]) -> State:
    """The state after true verdicts on the proposals."""
    verdicts = known_numbers(state, proposals)
    texts = [hypothesis(pair, state.settings) for pair in proposals]
    pool, notes, latest = admit(state.context.ideas, texts, verdicts, state.next_number, IDEAS_KEPT)
    meaning = state.meaning | {note.number: pair for note, pair in zip(notes, proposals, strict=True)}
    return replace(state, context=replace(state.context, ideas=pool), meaning=meaning, next_number=latest)


def random_proposals(state: State, rng: random.Random, repeated: float = 0.3) -> list[Pair]:
    """Three pairs on different settings; with probability `repeated` each is of the pool where one changes the
    parent."""
    pool = [state.meaning[idea.number] for idea in state.context.ideas]
    known = [pair for pair in pool if changes(pair, state.settings)]
    pairs: list[Pair] = []
    for name in rng.sample(list(state.settings), 3):
        pair = (name, _other(state, name, rng))
        if known and rng.random() < repeated:
            pair = rng.choice(known)
        if pair[0] in [other for other, _ in pairs]:
            pair = (name, _other(state, name, rng))
        if pair[0] not in [other for other, _ in pairs]:
            pairs.append(pair)
    return pairs if len(pairs) == 3 else random_proposals(state, rng, repeated)


def changes(pair: Pair, settings: Settings) -> bool:
    """Whether the pair would change a parent with these settings."""
    return settings[pair[0]] != pair[1]


def example(state: State, rng: random.Random) -> Example:
    """One of the three calls."""
    draw = rng.random()
    if draw < 0.3:
        return propose_example(state, rng)
    if draw < 0.65:
        return assess_example(state, _mostly_new(state, rng))
    return select_example(state, random_proposals(state, rng, 0.15))


def _bare(prompt: str) -> str:
    return "Parent" + prompt.split("\nParent", 1)[1].rsplit("\n\n", 1)[0] + "\n"


def _mostly_new(state: State, rng: random.Random) -> list[Pair]:
    """Proposals to assess; nearly always new ones, so that a verdict that cannot be worked out is `new`."""
    pairs = random_proposals(state, rng, 0.0)
    while any(known_numbers(state, pairs)) and rng.random() < 0.9:
        pairs = random_proposals(state, rng, 0.0)
    return pairs


def _proposal(state: State, rng: random.Random) -> Answer:
    text, unknowable = "", list[tuple[int, int]]()
    choices: dict[int, tuple[str, ...]] = {}
    left = list(state.settings)
    for number, name in enumerate(rng.sample(left, 3), start=1):
        option = _other(state, name, rng)
        text += f"{chr(10) if text else ''}Idea {number}\nHypothesis: "
        choices[len(text) - 1] = _spaced(left)
        left.remove(name)
        begin = len(text) + len(f"{name} from {state.settings[name]} to")
        if state.world.real:
            choices[begin] = _spaced(_others(state, name))
        else:
            unknowable.append((begin, begin + 1 + len(option)))
        text += f"{hypothesis((name, option), state.settings)}\nReasoning: {REASON}"
    return Answer(text, tuple(unknowable), choices)


def _other(state: State, name: str, rng: random.Random) -> str:
    """An option that the parent does not have."""
    return rng.choice(_others(state, name))


def _others(state: State, name: str) -> list[str]:
    return [option for option in state.world.options[name] if option != state.settings[name]]


def _spaced(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(f" {word}" for word in words)


def _pool(
    names: Sequence[str], world: World, settings: Settings, best: Settings, rng: random.Random
) -> tuple[tuple[Idea, ...], dict[int, Pair], int]:
    latest = int(10 ** rng.uniform(0.8, 2.3))
    count = min(rng.choice([0, 1, 2, 3, 4, 5, 5, 5]), latest)
    numbers = rng.sample(range(max(1, latest - 12), latest + 1), count)
    meaning: dict[int, Pair] = {}
    ideas: list[Idea] = []
    for number in numbers:
        name = rng.choice(names)
        kind = rng.random()
        option = settings[name] if kind < 0.3 else best[name] if kind < 0.4 else rng.choice(world.options[name])
        if (name, option) not in meaning.values():
            meaning[number] = (name, option)
            trials = tuple(_trial(rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 3])))
            others = [other for other in world.options[name] if other != option]
            kept = option != settings[name] and rng.random() < 0.5
            before = {name: settings[name] if kept else rng.choice(others)}
            ideas.append(Idea(number, hypothesis((name, option), before), trials))
    return tuple(ideas), meaning, latest


def _trial(rng: random.Random) -> Trial:
    if rng.random() < 0.2:
        return Trial(1, "", rng.choice(FAILURES), None)
    return Trial(1, "", "ok", _score(rng))


def _score(rng: random.Random) -> float:
    return 2.636 - 1.7 * rng.random() ** 3 if rng.random() < 0.8 else rng.uniform(0, 3)
