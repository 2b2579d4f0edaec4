"""Advisors (`--advisor`).

A name that begins with `api:` is a model that is asked over the network: no engine serves it, no version is made, and
it learns nothing. Every other name that is not in the table is a model directory, or an id in the hub's cache. An
advisor of the package has its folder beside the code of the advisor, under its name. What its folder holds says which
catalogues it knows and whether it reads others.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class AdvisorKind(Entry):
    """`packaged`: its folder is in the package. `chosen_for_task`: it stands for one of the package, which the run
    chooses for its task. `small`: it has the learning rate of the package's models. `served`: an engine serves its
    tokens, and a learner may train it."""

    packaged: bool = False
    chosen_for_task: bool = False
    small: bool = False
    served: bool = True


API = "api:"
DIRECTORY = AdvisorKind(
    "DIR", "a model directory that transformers can load, or an id of the hub after `hf download ID`"
)
ASKED = AdvisorKind(
    "api:MODEL", "any model that litellm knows, asked over the network, which does not learn", served=False
)

ADVISORS = Registry(
    "advisor",
    AdvisorKind("auto", "the one in the package that fits the task's catalogue", chosen_for_task=True, small=True),
    AdvisorKind("tiny", "knows the catalogues that it was trained on", packaged=True, small=True),
    AdvisorKind("reader", "reads the task's catalogue in its prompt", packaged=True, small=True),
    DIRECTORY,
    ASKED,
)


def advisor_of(model: str) -> AdvisorKind:
    """The entry for `advisor.model`. A name that is not in the table is a directory's."""
    return ASKED if model.startswith(API) else ADVISORS.get(model, DIRECTORY)


def asked_model(setting: str) -> str:
    """The name of an asked model, as litellm knows it."""
    return setting.removeprefix(API)
