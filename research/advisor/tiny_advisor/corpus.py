"""Examples of good advice on random search states, through the prompts that a run uses.

An example is one prompt and several equally good answers, so that training sees the whole choice and not one draw of
it. Ideas are spread evenly over settings and never propose the parent's own value. A verdict follows from the pool. An
experiment carries out the chosen idea and names the parent's present value. Everything else has a fixed wording, so the
entropy of a sampled answer lies in the names, the options and the idea's number.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pace_async.search.ideas import admit
from pace_async.search.state import Idea, Member, SearchContext, Trial
from research.advisor.tiny_advisor.worlds import Settings, World, invented, program, shuffled

IDEAS_KEPT = 5
FAILURES = ("unchanged", "unparsed", "not_implemented", "candidate_error", "timeout")

REASON = "untested here."

SAME, OTHER = -1, -2
"""What an idea would make of the parent: nothing new, or another program."""

Pair = tuple[str, str]
"""A setting's name and an option."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`unknowable` are character ranges that neither the prompt nor the catalogue determines. They have no loss.
    `choices` map a character, where a word begins (its space included), to all words that are equally good there, so
    that training does not have to learn them from draws."""

    text: str
    unknowable: tuple[tuple[int, int], ...] = ()
    choices: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt, its purpose and equally good answers. `marks` say, for options named in the prompt's list of ideas or
    of proposals, at which character the option begins (its space included) and what comparing tells of it: SAME or
    OTHER for an idea and the parent, the place of the idea or 0 for a proposal and the pool."""

    purpose: str
    prompt: str
    answers: tuple[Answer, ...]
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A search state and the meaning of its texts. `meaning[number]` is the pair of an idea of the pool. The prompts
    name an idea by its place in the pool, which is another number."""

    world: World
    settings: Settings
    context: SearchContext
    meaning: dict[int, Pair]


def hypothesis(pair: Pair, settings: Settings) -> str:
    """The idea's sentence, which names the parent's value at the time of the proposal."""
    return f"{pair[0]} to {pair[1]} from {settings[pair[0]]} helps."


def experiment(pair: Pair, settings: Settings) -> str:
    """The change to a parent with `settings` that tests an idea: worded as the idea, but from the parent's value."""
    return f"{pair[0]} to {pair[1]} from {settings[pair[0]]}."


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
    ideas, meaning = _pool(names, world, settings, best, rng)
    return State(world, settings, SearchContext(parent, leader, ideas), meaning)


def propose_example(state: State, rng: random.Random, answers: int = 2) -> Example:
    """Three ideas on three settings, evenly drawn."""
    prompt = state.world.propose_prompt(state.context)
    return Example("propose", prompt, tuple(_proposal(state, rng) for _ in range(answers)))


def assess_example(state: State, proposals: Sequence[Pair]) -> Example:
    """New, or known if the pool has the same pair."""
    prompt = state.world.assess_prompt(state.context, [hypothesis(pair, state.settings) for pair in proposals])
    verdicts = known_places(state, proposals)
    lines = [f"Proposal {i}: {'new' if k is None else f'known {k}'}" for i, k in enumerate(verdicts, start=1)]
    told = [
        (_option_begin(prompt, f"\nProposal {i}: ", pair), k or 0)
        for i, (pair, k) in enumerate(zip(proposals, verdicts, strict=True), start=1)
    ]
    return Example("assess", prompt, (Answer("\n".join(lines)),), (*_pool_marks(state, prompt), *told))


def select_example(state: State, proposals: Sequence[Pair]) -> Example:
    """Each idea of the pool that changes the parent, after the proposals were taken in. All are good, except that tried
    ideas count only if no other is left. So the selected idea is mostly a new proposal, and the reward of a rollout
    depends on its proposals."""
    admitted = admitted_state(state, proposals)
    pairs = [admitted.meaning[idea.number] for idea in admitted.context.ideas]
    useful = {place: pair for place, pair in enumerate(pairs, start=1) if changes(pair, state.settings)}
    untried = [place for place, idea in enumerate(admitted.context.ideas, start=1) if not idea.trials]
    useful = {place: useful[place] for place in untried if place in useful} or useful
    right = {len("Idea ID:"): _spaced(map(str, useful))}
    answers = [
        Answer(f"Idea ID: {place}\nExperiment description: {experiment(pair, state.settings)}", choices=right)
        for place, pair in useful.items()
    ]
    prompt = state.world.select_prompt(admitted.context)
    return Example("select", prompt, tuple(answers), _pool_marks(admitted, prompt))


def bare_example(state: State, rng: random.Random) -> Example:
    """Only copying and comparing: an assess or select prompt without task and question, and many short answers. It is
    not used in a run. Training begins with it."""
    if state.context.ideas and rng.random() < 0.4:
        pairs = [pair for _ in range(2) for pair in random_proposals(state, rng, 0.5)]
        assessed = assess_example(state, pairs[: rng.randint(2, 6)])
        [answer] = assessed.answers
        return _bare(replace(assessed, answers=(Answer(answer.text, ((0, len("Proposal")),)),)))
    answers: list[Answer] = []
    for place, idea in enumerate(state.context.ideas, start=1):
        pair = state.meaning[idea.number]
        if changes(pair, state.settings):
            text = f"Idea ID: {place}\nExperiment description: {experiment(pair, state.settings)}"
            answers.append(Answer(text, ((0, 4),)))
    for name in rng.sample(list(state.settings), min(4, len(state.settings))):
        option = _other(state, name, rng)
        text = f"Hypothesis: {hypothesis((name, option), state.settings)}\nReasoning: {REASON}"
        begin = len(f"Hypothesis: {name} to")
        choices = {len("Hypothesis:"): _spaced(state.settings)}
        if state.world.real:
            answers.append(Answer(text, ((0, 4),), choices | {begin: _spaced(_others(state, name))}))
        else:
            answers.append(Answer(text, ((0, 4), (begin, begin + 1 + len(option))), choices))
    prompt = state.world.select_prompt(state.context)
    return _bare(Example("select", prompt, tuple(answers), _pool_marks(state, prompt)))


def known_places(state: State, proposals: Sequence[Pair]) -> list[int | None]:
    """For each proposal the place of the pool's idea with the same pair, or None."""
    places = {state.meaning[idea.number]: place for place, idea in enumerate(state.context.ideas, start=1)}
    return [places.get(pair) for pair in proposals]


def admitted_state(state: State, proposals: Sequence[Pair]) -> State:
    """The state after true verdicts on the proposals."""
    numbers = [None if k is None else state.context.ideas[k - 1].number for k in known_places(state, proposals)]
    texts = [hypothesis(pair, state.settings) for pair in proposals]
    pool, notes, _ = admit(state.context.ideas, texts, numbers, len(state.context.ideas) + 1, IDEAS_KEPT)
    meaning = state.meaning | {note.number: pair for note, pair in zip(notes, proposals, strict=True)}
    return replace(state, context=replace(state.context, ideas=pool), meaning=meaning)


def random_proposals(state: State, rng: random.Random, repeated: float = 0.3) -> list[Pair]:
    """Three pairs on different settings. Each is from the pool with probability `repeated`, if one of the pool changes
    the parent."""
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
        return assess_example(state, random_proposals(state, rng, 0.08))
    return select_example(state, random_proposals(state, rng, 0.15))


def _bare(whole: Example) -> Example:
    begin = whole.prompt.index("\nParent") + 1
    prompt = whole.prompt[begin:].rsplit("\n\n", 1)[0] + "\n"
    return Example("bare", prompt, whole.answers, tuple((place - begin, told) for place, told in whole.marks))


def _pool_marks(state: State, prompt: str) -> tuple[tuple[int, int], ...]:
    pairs = [state.meaning[idea.number] for idea in state.context.ideas]
    return tuple(
        (_option_begin(prompt, f"\nIdea {place}: ", pair), OTHER if changes(pair, state.settings) else SAME)
        for place, pair in enumerate(pairs, start=1)
    )


def _option_begin(prompt: str, heading: str, pair: Pair) -> int:
    return prompt.index(heading) + len(heading) + len(f"{pair[0]} to")


def _proposal(state: State, rng: random.Random) -> Answer:
    text, unknowable = "", list[tuple[int, int]]()
    choices: dict[int, tuple[str, ...]] = {}
    left = list(state.settings)
    for number, name in enumerate(rng.sample(left, 3), start=1):
        option = _other(state, name, rng)
        text += f"{chr(10) if text else ''}Idea {number}\nHypothesis: "
        choices[len(text) - 1] = _spaced(left)
        left.remove(name)
        begin = len(text) + len(f"{name} to")
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
) -> tuple[tuple[Idea, ...], dict[int, Pair]]:
    meaning: dict[int, Pair] = {}
    ideas: list[Idea] = []
    for _ in range(rng.choice([0, 1, 2, 3, 4, 5, 5, 5])):
        name = rng.choice(names)
        kind = rng.random()
        option = settings[name] if kind < 0.3 else best[name] if kind < 0.4 else rng.choice(world.options[name])
        if (name, option) not in meaning.values():
            number = len(ideas) + 1
            meaning[number] = (name, option)
            trials = tuple(_trial(rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 3])))
            others = [other for other in world.options[name] if other != option]
            kept = option != settings[name] and rng.random() < 0.5
            before = {name: settings[name] if kept else rng.choice(others)}
            ideas.append(Idea(number, hypothesis((name, option), before), trials))
    return tuple(ideas), meaning


def _trial(rng: random.Random) -> Trial:
    if rng.random() < 0.2:
        return Trial(1, "", rng.choice(FAILURES), None)
    return Trial(1, "", "ok", _score(rng))


def _score(rng: random.Random) -> float:
    return 2.636 - 1.7 * rng.random() ** 3 if rng.random() < 0.8 else rng.uniform(0, 3)
