"""Worlds for prompts: a task with named settings and their options, real or made up.

A real world is a task with its catalogue, one of those that the shipped advisor was trained on. A made-up world keeps a
real world's words but shuffles the options between names, or invents both. There only the prompt determines the answer,
so a model trained on it has to copy. Not the catalog implementer: nothing is edited here.
"""

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pace_async.advise.prompts import ProseWording
from pace_async.advise.wording import Detail
from pace_async.runtime.start.new_task import make_task
from pace_async.search.state import SearchContext
from pace_async.task import BLOCK_END, BLOCK_START, CHECKOUT, Task, load_task
from pace_async.yaml_text import read_mapping

TRAINED_ON = ("circle_packing", "eplb")
"""The bundled tasks of the recipe; a task that is added later changes nothing in it."""

Settings = dict[str, str]
"""Name of each setting to its literal, in the order of the evolve block."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class World:
    """`options[name]` are literals as in code, quotes included. In a real world `default` are the seed program's
    settings, and options can be memorised. In a made-up one they cannot."""

    task: Task
    options: Mapping[str, tuple[str, ...]]
    default: Settings | None
    real: bool

    def propose_prompt(self, context: SearchContext) -> str:
        """The prompt for three ideas."""
        return ProseWording(self.task).propose(context, Detail(), random.Random).text

    def assess_prompt(self, context: SearchContext, proposals: Sequence[str]) -> str:
        """The prompt for the verdicts on these proposals."""
        return ProseWording(self.task).assess(context, proposals, Detail()).text

    def select_prompt(self, context: SearchContext) -> str:
        """The prompt for an experiment."""
        return ProseWording(self.task).select(context, Detail()).text


def literal(option: object) -> str:
    """An option as it stands in code."""
    return f'"{option}"' if isinstance(option, str) else repr(option)


def program(settings: Settings) -> str:
    """A program that is only its evolve block."""
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return f"{BLOCK_START}\n{lines}{BLOCK_END}\n"


def real_worlds() -> list[World]:
    """The tasks of the recipe, and the example that `pace task init` writes."""
    tasks = [load_task(str(CHECKOUT / "tasks" / name)) for name in TRAINED_ON]
    with tempfile.TemporaryDirectory() as folder:
        make_task("my_task", Path(folder) / "my_task")
        tasks.append(load_task(str(Path(folder) / "my_task")))
        return [read_world(task, task.catalogue_path) for task in tasks if task.catalogue_path is not None]


def read_world(task: Task, catalogue: Path) -> World:
    """A task and its catalogue, as a world."""
    tree = read_mapping(catalogue)
    options = {
        str(entry["name"]): tuple(literal(option) for option in entry["options"]) for entry in tree["mechanisms"]
    }
    default: Settings = {}
    for line in task.program.splitlines():
        name, equals, value = line.partition(" = ")
        if equals and name.strip() in options and name.strip() not in default:
            default[name.strip()] = value.split("  #")[0].strip()
    return World(task, {name: options[name] for name in default}, default, real=True)


def shuffled(world: World, rng: random.Random, size: int) -> World:
    """`size` names of `world`, each with options drawn from all of them."""
    names = rng.sample(list(world.options), min(size, len(world.options)))
    every = sorted({option for options in world.options.values() for option in options})
    return World(world.task, {name: tuple(rng.sample(every, 5)) for name in names}, None, real=False)


def invented(world: World, rng: random.Random, size: int) -> World:
    """`size` settings with random names and options, under a random background."""
    options: dict[str, tuple[str, ...]] = {}
    while len(options) < size:
        options[_word(rng)] = tuple({_value(rng) for _ in range(6)})
    words = [_word(rng) for _ in range(rng.randint(3, 8))]
    spec = world.task.spec.model_copy(
        update={
            "background": " ".join(words).capitalize() + ".",
            "coding_requirements": "",
            "direction": rng.choice(["maximize", "minimize"]),
        }
    )
    return World(replace(world.task, spec=spec), options, None, real=False)


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.randint(2, 4)))


def _value(rng: random.Random) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return f'"{_word(rng)}"'
    if kind == 1:
        return repr(round(10 ** rng.uniform(-4, 1), 4))
    return str(rng.randrange(1, 120))
