"""What a task's evaluations get from this machine: slots with their own processors and cards, and the user's
environment.

Invariant: what a slot owns belongs to no other slot, except a card of which the task asks for a share.

Whatever a task asks for and this machine does not have is refused here, in one sentence, before anything is started.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pace_async import config
from pace_async.errors import NotHere, UsageError
from pace_async.evaluate.base import Limits
from pace_async.evaluate.sandbox.environment import Environment, find_environment
from pace_async.evaluate.sandbox.tiers import THREADS
from pace_async.gpus import Card, driver_libraries, driver_nodes, find_cards
from pace_async.task import Task

NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Slot:
    """What an evaluation owns. Without `processors` it shares all of them."""

    processors: tuple[int, ...] = ()
    cards: tuple[Card, ...] = ()

    def limits(self, limits: Limits) -> Limits:
        """The limits of an evaluation in this slot. CUDA reserves more addresses than any limit on them would leave."""
        if self.processors:
            limits = replace(limits, processors=self.processors)
        if not self.cards:
            return limits
        all_of_them = int(limits.seconds * len(os.sched_getaffinity(0))) + 2
        return replace(
            limits,
            address_space=False,
            processor_s=all_of_them if limits.processor_s is None else limits.processor_s,
            devices=(*(card.node for card in self.cards), *driver_nodes()),
            libraries=driver_libraries(),
        )

    def variables(self, *, alone: bool) -> dict[str, str]:
        """Variables for the libraries of a program: how many threads to start, and which cards to use. `alone`: no
        other card can be opened in the sandbox, so CUDA counts from 0 there."""
        threads: dict[str, str] = {}
        if self.processors:
            threads.update(dict.fromkeys(THREADS, str(len(self.processors))))
        if not self.cards:
            return threads
        names = [str(at) if alone else card.name for at, card in enumerate(self.cards)]
        if all(card.uuid for card in self.cards):
            names = [card.uuid for card in self.cards]
        return {**threads, "CUDA_VISIBLE_DEVICES": ",".join(names)}


NOTHING_OWNED = Slot()


@dataclass(frozen=True, slots=True)
class Resources:
    """`cpus` is None if evaluations share the processors. `gpus` are the cards that were asked for."""

    environment: Environment
    slots: tuple[Slot, ...]
    cpus: int | None = None
    gpus: float = 0.0

    @property
    def identity(self) -> str:
        """Changes with everything here on which a score may depend. Empty if nothing was asked for. No value of a
        variable can be read from it."""
        own = [f"cpus-{self.cpus}"] if self.cpus is not None else []
        own += [f"gpus-{self.gpus:g}-{'-'.join(self.models)}"] if self.models else []
        return " ".join((*own, self.environment.identity)).strip()

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the slots' cards, each once. `GPU` where the driver does not report it."""
        names = {card.model.replace(" ", "_") or "GPU" for slot in self.slots for card in slot.cards}
        return tuple(sorted(names))

    @property
    def start_cold(self) -> bool:
        """Whether a function has to be started without a warm parent: libraries read variables when they are imported,
        which the parent has done, and a process that uses a card cannot be forked."""
        return bool(self.environment.variables) or (self.cpus or 1) > 1 or bool(self.models)

    def in_words(self) -> str:
        """For the plan of a run, empty if nothing was asked for."""
        phrases = [f"{self.cpus} processors each" if self.cpus != 1 else "1 processor each"] if self.cpus else []
        phrases += self._cards_in_words()
        phrases += [f"prefix {place.removesuffix('/bin')}" for place in self.environment.places]
        passed = self.environment.passed_on
        return ", ".join((*phrases, *([f"variables {', '.join(passed)}"] if passed else [])))

    def _cards_in_words(self) -> list[str]:
        if not self.gpus:
            return []
        if not self.models:
            return ["no GPU, because none is free"]
        names = dict.fromkeys(str(card.node) for slot in self.slots for card in slot.cards)
        share = f"{self.gpus:g} of a GPU each" if self.gpus < 1 else f"{self.gpus:g} GPU{'s' * (self.gpus > 1)} each"
        return [f"{share} ({', '.join(names)})"]


@dataclass(frozen=True, slots=True)
class OfRun:
    """The run that evaluates. `name` is its name on machines that other runs use too. `taken` are the owners of cards
    that its evaluations may not use, by the name of the card."""

    name: str = ""
    taken: Mapping[str, str] = field(default_factory=dict[str, str])


NO_RUN = OfRun()
"""For evaluations that belong to no run."""


def resources_of(
    task: Task,
    evaluation: config.EvaluationConfig,
    owners: Mapping[str, str] = NOTHING,
    cards: Sequence[Card] | None = None,
) -> Resources:
    """`owners` are those of cards that evaluations may not use, by the name of the card. `cards` are those of this
    machine. Raises UsageError for what this machine does not have."""
    parts = processors_of(task, evaluation.slots)
    all_cards = tuple(find_cards() if cards is None else cards)
    owned = cards_of_slots(task, len(parts), all_cards, owners)
    slots = tuple(Slot(own, of_slot) for own, of_slot in zip(parts, owned, strict=False))
    return Resources(find_environment(task), slots, task.spec.cpus, task.spec.gpus)


def refuse_if_timed(task: Task) -> None:
    """Raises UsageError if a task whose score contains time asks for what has no reliable clock."""
    if (task.spec.cpus or 1) > 1 and not task.spec.written_in.needs_threads:
        raise UsageError(
            f"Task {task.name!r} scores time, so its programs have one thread: cpus in task.yaml must be 1 or left out."
        )
    if task.spec.gpus:
        raise UsageError(
            f"Task {task.name!r} scores time, and the work of a GPU is not counted in it: leave gpus out of task.yaml."
        )


def processors_of(task: Task, count: int, processors: Sequence[int] | None = None) -> Sequence[tuple[int, ...]]:
    """The processors of at most `count` slots, as many as have their own, or none for each if the task asks for none.
    `processors` are those that this process may use. Raises UsageError if there are not enough for one."""
    cpus = task.spec.cpus
    if cpus is None:
        return [()] * count
    here = sorted(os.sched_getaffinity(0) if processors is None else processors)
    if cpus > len(here):
        raise UsageError(
            f"Task {task.name!r} wants {cpus} processors for each evaluation, and this machine lets pace use "
            f"{len(here)}: lower cpus in task.yaml, or evaluate elsewhere."
        )
    return [tuple(here[at : at + cpus]) for at in range(0, len(here) - cpus + 1, cpus)][:count]


def cards_of_slots(
    task: Task, count: int, cards: Sequence[Card], owners: Mapping[str, str]
) -> Sequence[tuple[Card, ...]]:
    """The cards of each of `count` slots. If the task does not need its cards, there are fewer slots where there are
    too few cards, and slots without a card where none is free. Raises UsageError for a task that needs more, NotHere
    where there is no card at all."""
    gpus = task.spec.gpus
    if not gpus:
        return [()] * count
    free = [card for card in cards if not any(card.is_named(name) for name in owners)]
    if gpus < 1:
        owned = [(card,) for _ in range(int(1 / gpus + 1e-9)) for card in free]
    else:
        owned = [tuple(free[at : at + int(gpus)]) for at in range(0, len(free) - int(gpus) + 1, int(gpus))]
    if len(owned) >= count:
        return owned[:count]
    if not task.spec.gpus_required:
        return owned or [()] * count
    raise (UsageError if cards else NotHere)(
        _too_few(task, count, len(cards), [owners[name] for name in owners], len(free))
    )


def _too_few(task: Task, count: int, total: int, owners: Sequence[str], free: int) -> str:
    gpus = "a GPU" if task.spec.gpus == 1 else f"{task.spec.gpus:g} GPUs" if task.spec.gpus > 1 else "a share of a GPU"
    if not total:
        return (
            f"Task {task.name!r} needs {gpus} for each evaluation, and pace sees none here: evaluate elsewhere, or say "
            "evaluation.gpus_required=false if it also runs without."
        )
    cause = f", because of {' and '.join(dict.fromkeys(owners))}"
    text = f"{free} of {total} cards {'is' if free == 1 else 'are'} free{cause if free < total else ''}"
    return (
        f"Task {task.name!r} needs {gpus} for each of {count} evaluations at once, and {text}: lower evaluation.slots, "
        "or ask for a share of a card in task.yaml, as in gpus: 0.5."
    )
