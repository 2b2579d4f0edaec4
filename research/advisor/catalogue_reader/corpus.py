"""Examples of good advice on random catalogues, in the texts that a run uses.

Every catalogue is drawn afresh from the spare words, so that nothing can be memorised. An example is one prompt
and several answers that are all equally good. A choice is trained on the whole set of good words and not on one draw:
ideas are even over the mechanisms that are left, then over the options listed. Selection is even over the experiments
that were not tried, or over all where each was tried.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pace_async.advise.binding import spare_name, spare_value
from pace_async.advise.catalogue_prompts import (
    STATUSES,
    Edit,
    Offer,
    answer_to_propose,
    assess_text,
    experiment_text,
    propose_text,
    select_text,
    verdicts_text,
)
from pace_async.advise.catalogue_wording import ALTERNATIVES, MECHANISMS
from research.advisor.catalogue_reader.tokenizer import NAMES, VALUES

IDEAS = 3
ANSWERS = 5
WITH_SITES = 0.35
"""Share of the catalogues whose mechanisms stand at sites."""


LINES_AT_SITES = 10
"""Most lines of a menu of such a catalogue."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`choices` map the index of a word of the answer, counted in catalogue words and numbers, to all words that would
    be as good there."""

    text: str
    choices: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt and equally good answers."""

    prompt: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a prompt lists of a catalogue, and more of it that only ideas of the pool name."""

    listed: Sequence[Offer]
    unlisted: Sequence[Offer] = ()


def random_catalogue(rng: random.Random, most: int) -> Drawn:
    """A catalogue of which one to `most` targets are listed, with sites or without."""
    return at_sites(rng, most) if rng.random() < WITH_SITES else without_sites(rng, most)


def at_sites(rng: random.Random, most: int) -> Drawn:
    """A menu of mechanisms at sites: mostly one line a site. A mechanism has the same options at each site."""
    most = min(most, LINES_AT_SITES)
    count = rng.randint(3, max(3, most)) if rng.random() < 0.92 else rng.randint(1, 3)
    kinds = rng.randint(1, 6)
    distinct = count if rng.random() < 0.7 else rng.randint(-(-count // kinds), count)
    words = list(map(spare_name, rng.sample(range(NAMES), kinds + distinct + 5)))
    mechanisms, sites, elsewhere = words[:kinds], words[kinds:-5], words[-5:]
    values = list(map(spare_value, rng.sample(range(VALUES), rng.choice([8, 16, 30, 60, VALUES]))))
    options = {
        name: rng.sample(values, min(len(values), rng.choice([2, 3, 4, 5, 6, 8, 10, 14]))) for name in mechanisms
    }
    pairs = [(site, rng.choice(mechanisms)) for site in sites]
    others = [pair for pair in ((site, name) for site in sites for name in mechanisms) if pair not in pairs]
    pairs += rng.sample(others, min(len(others), count - len(pairs)))
    rng.shuffle(pairs)
    listed = rng.choice([2, 3, 4, 4, 4, 5, ALTERNATIVES])

    def offer(site: str, name: str) -> Offer:
        present = rng.choice(options[name]) if rng.random() < 0.97 else None
        others = [option for option in options[name] if option != present]
        return Offer(f"{site} {name}", present, tuple(rng.sample(others, min(listed, len(others)))))

    unlisted = [offer(site, rng.choice(mechanisms)) for site in elsewhere] if rng.random() < 0.6 else []
    return Drawn([offer(site, name) for site, name in pairs], unlisted)


def without_sites(rng: random.Random, most: int) -> Drawn:
    """Mechanisms with 2 to 6 options, sometimes 8. In some catalogues many mechanisms share options, and a few options
    have the name of a mechanism."""
    count = rng.randint(3, max(3, most)) if rng.random() < 0.92 else rng.randint(1, 3)
    more = rng.randint(1, 5) if rng.random() < 0.3 else 0
    names = [spare_name(i) for i in rng.sample(range(NAMES), count + more)]
    words = [spare_value(i) for i in rng.sample(range(VALUES), rng.choice([8, 8, 16, 30, 60, VALUES]))]
    offers: list[Offer] = []
    for name in names:
        size = rng.randint(2, 6) if rng.random() < 0.9 else 8
        options = rng.sample(words, size)
        if rng.random() < 0.02:
            options[-1] = rng.choice(names)
        present = options.pop(rng.randrange(size)) if rng.random() < 0.97 else None
        if rng.random() < 0.15:
            options = options[: rng.randint(1, len(options))]
        offers.append(Offer(name, present, tuple(options[:ALTERNATIVES])))
    return Drawn(offers[:count], offers[count:])


def random_tried(drawn: Drawn, rng: random.Random) -> list[Edit]:
    """0 to 5 ideas, some of which the parent has already, and some on what is not listed."""
    tried: list[Edit] = []
    for _ in range(rng.choice([0, 1, 2, 3, 4, 5, 5, 5])):
        offer = rng.choice(drawn.unlisted if drawn.unlisted and rng.random() < 0.7 else drawn.listed)
        option = offer.present if offer.present and rng.random() < 0.25 else rng.choice(offer.options)
        tried.append(Edit(offer.name, option, rng.choice(STATUSES)))
    return tried


def propose_example(drawn: Drawn, rng: random.Random) -> Example:
    """Ideas on different mechanisms, as long as there are different ones."""
    offers, answers = drawn.listed, list[Answer]()
    for _ in range(ANSWERS):
        ideas: list[tuple[str, str]] = []
        choices: dict[int, tuple[str, ...]] = {}
        left, place = list(offers), 0
        for _ in range(IDEAS):
            left = left or list(offers)
            alike = left
            for depth in range(len(left[0].name.split())):
                words = tuple(dict.fromkeys(one.name.split()[depth] for one in alike))
                word = rng.choice(words)
                choices[place] = words
                alike, place = [one for one in alike if one.name.split()[depth] == word], place + 1
            offer = alike[0]
            choices[place] = offer.options
            place += 1
            ideas.append((offer.name, rng.choice(offer.options)))
            left.remove(offer)
        answers.append(Answer(answer_to_propose(ideas), choices))
    return Example(propose_text(offers, random_tried(drawn, rng)), tuple(answers))


def assess_example(rng: random.Random) -> Example:
    """The verdicts as they stand in the prompt."""
    places = [rng.randint(1, 9) if rng.random() < 0.4 else None for _ in range(IDEAS)]
    return Example(assess_text(places), (Answer(verdicts_text(places)),))


def select_example(drawn: Drawn, rng: random.Random) -> Example:
    """One of 1 to 9 experiments, word by word."""
    pool: list[tuple[Edit, str | None]] = []
    for _ in range(rng.choice([1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 6, 7, 8, 9])):
        offer = rng.choice(drawn.unlisted if drawn.unlisted and rng.random() < 0.4 else drawn.listed)
        status = "untried" if rng.random() < 0.5 else rng.choice(STATUSES)
        pool.append((Edit(offer.name, rng.choice(offer.options), status), offer.present))
    untried = [n for n, (edit, _) in enumerate(pool, start=1) if edit.status == "untried"]
    good = untried or list(range(1, len(pool) + 1))
    texts = {number: experiment_text(number, *pool[number - 1]) for number in good}
    heads = tuple(text[: text.index(":", len("Idea ID: 1:")) + 1] for text in texts.values())
    answers = tuple(Answer(texts[n], {-1: heads}) for n in rng.sample(good, min(ANSWERS, len(good))))
    return Example(select_text(pool), answers)


def example(rng: random.Random, grown: float) -> Example:
    """An example of any purpose. `grown` in [0, 1] sets the largest catalogue."""
    drawn = random_catalogue(rng, 4 + round((MECHANISMS - 4) * grown))
    kind = rng.random()
    if kind < 0.62:
        return propose_example(drawn, rng)
    return select_example(drawn, rng) if kind < 0.93 else assess_example(rng)
