"""Advisors (`--advisor`).

A name that begins with `api:` is a model that is asked over the network: no engine serves it, no version is made, and
it learns nothing. `bandit` is not a model at all. Every other name that is not in the table is a model directory, or an
id in the hub's cache. An advisor of the package has its folder beside the code of the advisor, under its name. What
its folder holds says which catalogues it knows and whether it reads others.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.advise import bandit
    from pace_async.advise.advisor import ChooserFactory
else:
    (bandit,) = later("pace_async.advise", "bandit")


@dataclass(frozen=True, slots=True)
class AdvisorKind(Entry["ChooserFactory"]):
    """`packaged`: its folder is in the package. `chosen_for_task`: it stands for one of the package, which the run
    chooses for its task. `small`: it has the learning rate of the package's models. `served`: an engine serves its
    tokens, and a learner may train it. `asked`: it is a model that is asked over the network. One that is neither has
    no model: its `code` makes an `advise.advisor.Chooser` from the words of the task's catalogue."""

    packaged: bool = False
    chosen_for_task: bool = False
    small: bool = False
    served: bool = True
    asked: bool = False

    @property
    def has_model(self) -> bool:
        """Whether a model answers prompts."""
        return self.served or self.asked

    @property
    def asks_in_prose(self) -> bool:
        """Whether it is any language model, and none of the package."""
        return self.has_model and not self.packaged and not self.chosen_for_task

    @property
    def why_untrained(self) -> str:
        """Why it cannot learn, as a clause about `it`. Empty if it can."""
        if self.served:
            return ""
        return "is asked over the network" if self.asked else "has no model"


API = "api:"
DIRECTORY = AdvisorKind(
    "DIR", "a model directory that transformers can load, or an id of the hub after `hf download ID`"
)
ASKED = AdvisorKind(
    "api:MODEL",
    "any model that litellm knows, asked over the network, which does not learn",
    served=False,
    asked=True,
)

ADVISORS = Registry(
    "advisor",
    AdvisorKind("auto", "the one in the package that fits the task's catalogue", chosen_for_task=True, small=True),
    AdvisorKind("tiny", "knows the catalogues that it was trained on", packaged=True, small=True),
    AdvisorKind("reader", "reads the task's catalogue in its prompt", packaged=True, small=True),
    AdvisorKind(
        "bandit",
        "no model: tries most often what gained at sites of the same kind, and needs the task's catalogue",
        lambda: bandit.BanditAdvisor,
        served=False,
    ),
    DIRECTORY,
    ASKED,
)


def advisor_of(model: str) -> AdvisorKind:
    """The entry for `advisor.model`. A name that is not in the table is a directory's."""
    return ASKED if model.startswith(API) else ADVISORS.get(model, DIRECTORY)


def asked_model(setting: str) -> str:
    """The name of an asked model, as litellm knows it."""
    return setting.removeprefix(API)
