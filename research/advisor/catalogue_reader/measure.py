"""What a saved reader really does: whole chains, sampled at temperature 1 through a run's own wording and parser.

A chain is propose, assess, admit, select, on a random parent and pool. Each catalogue is bound as a run binds it. A
chain is good if its experiment exists in the catalogue, changes the parent and agrees with the idea that it names. All
chains count, also those whose answers do not parse. Nothing is evaluated.
"""

import math
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from pace_async.advise.binding import bound_folder, slots_of
from pace_async.advise.catalogue_prompts import idea_text
from pace_async.advise.catalogue_wording import FIRST_IDEA, MENU, CatalogueWording, is_listed_whole
from pace_async.advise.wording import Detail, read_words
from pace_async.answers import parse_assess, parse_propose, parse_select
from pace_async.errors import CandidateFault
from pace_async.fitness import fitness_of
from pace_async.implement.catalogue import Catalogue, Mechanism, find_edit, load_catalogue
from pace_async.search.ideas import admit, recognised
from pace_async.search.state import Idea, Member, SearchContext, Trial
from pace_async.task import CHECKOUT
from research.advisor.catalogue_reader.tokenizer import NAMES
from research.advisor.tiny_advisor.measure import Sampler
from research.advisor.tiny_advisor.worlds import program

IDEAS_KEPT = 5
SPREAD_OF = 20
HIGHER = fitness_of("maximize", 0.0, 1.0)
"""Times that each mechanism is listed, about, in the prompts whose choice of a mechanism is computed."""
BUNDLED = ("circle_packing", "eplb", "multi_evolve", "txn_scheduling")

Options = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Figures:
    """Counts of one catalogue or of several. `spread` holds, of each catalogue, the entropy of the mechanisms that are
    proposed first, over all prompts, relative to an even choice; `evenness` the same of single prompts."""

    chains: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    mechanisms: Counter[str] = field(default_factory=Counter[str])
    spread: list[float] = field(default_factory=list[float])
    evenness: list[float] = field(default_factory=list[float])

    def shares(self) -> dict[str, float]:
        """The figures that have marks, and a few beside them."""
        count, chains = self.counts, max(1, self.chains)
        ideas = max(1, count["ideas"])
        return {
            "proposals that parse": count["parsed"] / chains,
            "ideas that exist": count["exist"] / ideas,
            "ideas that change the parent": count["change"] / ideas,
            "good chains": count["good"] / chains,
            "entropy over mechanisms": sum(self.spread) / max(1, len(self.spread)),
            "entropy in one prompt": sum(self.evenness) / max(1, len(self.evenness)),
            "verdicts repeated": count["verdicts right"] / max(1, count["verdicts"]),
            "three ideas differ": count["distinct"] / max(1, count["parsed"]),
        }


def bundled_options(task: str) -> Options:
    """The catalogue of a bundled task."""
    catalogue = load_catalogue(CHECKOUT / "tasks" / task / "catalogue.yaml")
    return {one.name: tuple(map(str, one.options)) for one in catalogue.mechanisms}


def unseen_options(rng: random.Random, mechanisms: int, low: int = 2, high: int = 6) -> Options:
    """A catalogue of invented words and numbers."""
    names: dict[str, None] = {}
    while len(names) < mechanisms:
        names[_word(rng)] = None
    words = [word for word in dict.fromkeys(_value(rng) for _ in range(12 + 3 * mechanisms)) if word not in names]
    return {name: tuple(rng.sample(words, rng.randint(low, high))) for name in names}


def sites_options(rng: random.Random, sites: int = 24, mechanisms: int = 4, size: int = 14) -> Options:
    """Every mechanism at every site, each with the same options."""
    kinds = unseen_options(rng, mechanisms, size, size)
    return {f"site{place} {name}": words for place in range(1, sites + 1) for name, words in kinds.items()}


def many_options(rng: random.Random, mechanisms: int = 8, size: int = 1250) -> Options:
    """Mechanisms with so many options that they share entries."""
    names = unseen_options(rng, mechanisms)
    return {name: tuple(f"{_word(rng)}{place}" for place in range(size)) for name in names}


def catalogue_of(options: Options) -> Catalogue:
    """The catalogue with these targets."""
    sites: dict[str, list[str]] = {}
    for target in options:
        site, _, name = target.rpartition(" ")
        sites.setdefault(name, []).extend([site] if site else [])
    words = {target.split()[-1]: known for target, known in options.items()}
    return Catalogue(
        sites=(),
        mechanisms=tuple(
            Mechanism(name=name, about="", options=words[name], sites=tuple(places)) for name, places in sites.items()
        ),
    )


def measure(folder: Path, catalogues: Sequence[Options], chains: int, seed: int, batch: int = 50) -> Figures:
    """Figures over `chains` chains on each catalogue."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as temporary:
        for number, options in enumerate(catalogues):
            rng = random.Random(f"measure {seed} {number}")
            bound = bound_folder(folder, options, Path(temporary) / str(number))
            sampler = Sampler(bound, seed + number)
            wording = CatalogueWording(options, HIGHER, None, slots_of(folder, options).shared)
            _look_at_spread(sampler, options, wording, rng, figures)
            for begin in range(0, chains, batch):
                contexts = [random_context(options, rng) for _ in range(min(batch, chains - begin))]
                _chains(sampler, catalogue_of(options), wording, contexts, rng, figures)
    return figures


def first_ideas(folder: Path, catalogues: Sequence[Options], questions: int, seed: int) -> dict[str, float]:
    """Shares of `questions` answers on each catalogue, of one idea each, as a run of one call asks for them: those that
    name an edit of the catalogue, and those that change the parent. With the mean entropy of a first word in one
    prompt, over that of an even choice."""
    found: list[tuple[bool, bool, float]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for number, options in enumerate(catalogues):
            rng = random.Random(f"measure {seed} {number}")
            sampler = Sampler(bound_folder(folder, options, Path(temporary) / str(number)), seed + number)
            wording = CatalogueWording(options, HIGHER, None, slots_of(folder, options).shared)
            found += [_only(sampler, options, wording, rng) for _ in range(questions)]
    names = ("answers that parse", "ideas that change the parent", "entropy in one prompt")
    return {name: sum(column) / len(found) for name, column in zip(names, zip(*found, strict=True), strict=True)}


def _only(
    sampler: Sampler, options: Options, wording: CatalogueWording, rng: random.Random
) -> tuple[bool, bool, float]:
    """Whether an answer names an edit and changes the parent, and how even the first word was."""
    context = random_context(options, rng)
    question = wording.only(context, Detail(), lambda: rng)
    answer = sampler.sample([question.text], FIRST_IDEA)[0].text
    even = _relative_entropy(first_choice(sampler, question.text).values())
    try:
        _, text = wording.read_only(context, read_words(answer, question.words))
    except CandidateFault:
        return False, False, even
    edit = find_edit(catalogue_of(options), text)
    return True, not _has(context.parent.program, edit.assigned, str(edit.option)), even


def random_context(options: Options, rng: random.Random) -> SearchContext:
    """A parent with random settings and a pool of 0 to 5 ideas, tried or not."""
    settings = {name: rng.choice(words) for name, words in options.items()}
    parent = Member(1, program({name.replace(" ", "_"): _literal(value) for name, value in settings.items()}), 1.0)
    ideas: dict[str, Idea] = {}
    for number in range(1, rng.choice([0, 1, 2, 3, 4, 5]) + 1):
        name = rng.choice(list(options))
        text = idea_text(name, rng.choice(options[name]))
        score = rng.choice([None, 0.5, 1.5])
        trials = () if rng.random() < 0.5 else (Trial(9, text, "ok" if score else "timeout", score),)
        ideas[text] = Idea(number, text, trials)
    return SearchContext(parent, parent, tuple(ideas.values()))


def _chains(
    sampler: Sampler,
    catalogue: Catalogue,
    wording: CatalogueWording,
    contexts: Sequence[SearchContext],
    rng: random.Random,
    figures: Figures,
) -> None:
    count = figures.counts
    figures.chains += len(contexts)
    questions = [wording.propose(context, Detail(), lambda: rng) for context in contexts]
    answers = sampler.sample([question.text for question in questions])
    proposed: list[tuple[SearchContext, list[str]]] = []
    for context, question, answer in zip(contexts, questions, answers, strict=True):
        try:
            texts = [text for text, _ in parse_propose(read_words(answer.text, question.words))]
        except CandidateFault:
            continue
        count["parsed"] += 1
        _look_at_ideas(catalogue, context, texts, figures)
        proposed.append((context, texts))
    if not proposed:
        return
    questions = [wording.assess(context, texts, Detail()) for context, texts in proposed]
    answers = sampler.sample([question.text for question in questions])
    admitted: list[SearchContext] = []
    for (context, texts), question, answer in zip(proposed, questions, answers, strict=True):
        try:
            said = parse_assess(answer.text, len(texts), len(question.ideas))
        except CandidateFault:
            continue
        following = len(context.ideas) + 1
        known = recognised(context.ideas, texts, [None] * len(texts), following)
        numbers = [idea.number for idea in question.ideas]
        count["verdicts"] += len(said)
        count["verdicts right"] += sum(
            (None if k is None else numbers[k - 1]) == (true if true in numbers else None)
            for k, true in zip(said, known, strict=True)
        )
        pool, _, _ = admit(context.ideas, texts, known, following, IDEAS_KEPT)
        admitted.append(replace(context, ideas=pool))
    if not admitted:
        return
    selections = [wording.select(context, Detail()) for context in admitted]
    answers = sampler.sample([question.text for question in selections])
    for context, question, answer in zip(admitted, selections, answers, strict=True):
        text = read_words(answer.text, question.words)
        count["good"] += is_good(catalogue, context, question.ideas, text)


def _look_at_spread(
    sampler: Sampler, options: Options, wording: CatalogueWording, rng: random.Random, figures: Figures
) -> None:
    """The weight of a first word (a site, or a mechanism without sites) is its probability where it is listed, times
    the number of those listed. Words that share an entry are one."""
    if len(options) < 2:
        return
    listed = len(options) if is_listed_whole(options, wording.shared) else min(MENU, len(options))
    names = min(len({target.split()[0] for target in options}), NAMES)
    weights: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(math.ceil(SPREAD_OF * max(1, names / listed))):
        chances = first_choice(sampler, wording.propose(random_context(options, rng), Detail(), lambda: rng).text)
        figures.evenness.append(_relative_entropy(chances.values()))
        for name, chance in chances.items():
            weights[name].append(chance * len(chances))
    figures.spread.append(_relative_entropy(sum(found) / len(found) for found in weights.values() if found))


@torch.inference_mode()
def first_choice(sampler: Sampler, prompt: str) -> dict[str, float]:
    """The chance of the first word of each line to be proposed first, among these."""
    names = list(dict.fromkeys(re.findall(r"^    ([\w.]+)(?: [\w.]+)? = ", prompt, re.MULTILINE)))
    entries = sampler.tokenizer.get_vocab()
    ids = sampler.tokenizer.encode(f"{prompt}Idea 1\nHypothesis:").ids
    logits = sampler.model(input_ids=torch.tensor([ids])).logits[0, -1].float()
    return dict(zip(names, logits[[entries[f"Ġ{name}"] for name in names]].softmax(-1).tolist(), strict=True))


def _relative_entropy(weights: Iterable[float]) -> float:
    """Entropy of weights, over that of equal ones."""
    known = list(weights)
    total = sum(known)
    if len(known) < 2:
        return 1.0
    return -sum(w / total * math.log(w / total) for w in known if w > 0) / math.log(len(known))


def is_good(catalogue: Catalogue, context: SearchContext, ideas: Sequence[Idea], answer: str) -> bool:
    """Whether the experiment exists, changes the parent and agrees with the idea that it names."""
    try:
        place, text = parse_select(answer, len(ideas))
        edit = find_edit(catalogue, text)
        idea = find_edit(catalogue, ideas[place - 1].description)
    except CandidateFault:
        return False
    return edit == idea and not _has(context.parent.program, edit.assigned, str(edit.option))


def _look_at_ideas(catalogue: Catalogue, context: SearchContext, texts: Sequence[str], figures: Figures) -> None:
    count = figures.counts
    count["distinct"] += len(set(texts)) == len(texts)
    for text in texts:
        count["ideas"] += 1
        try:
            edit = find_edit(catalogue, text)
        except CandidateFault:
            continue
        count["exist"] += 1
        figures.mechanisms[edit.mechanism] += 1
        count["change"] += not _has(context.parent.program, edit.assigned, str(edit.option))


def _has(text: str, name: str, option: str) -> bool:
    return f"{name} = {_literal(option)}\n" in text


def _literal(option: str) -> str:
    """The option as it stands in code."""
    try:
        float(option)
    except ValueError:
        return f'"{option}"'
    return option


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprstv") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))


def _value(rng: random.Random) -> str:
    kind = rng.randrange(3)
    if kind == 0:
        return _word(rng)
    return str(rng.randrange(1, 300)) if kind == 1 else repr(round(rng.uniform(0.001, 10), rng.choice([1, 2, 3])))
