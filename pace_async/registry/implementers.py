"""Implementers (`--implementer`).

The code of a built-in implementer is a class that is made from a task and raises UsageError where the task lacks what
it needs. Every name that is not in the table is a model, asked over the network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.implement import advisor_edit, agent, agent_prompt, catalogue, prompts
    from pace_async.implement.assemble import AgentFactory
    from pace_async.implement.base import BuiltInFactory
    from pace_async.implement.prompts import MessagesFor
else:
    advisor_edit, agent, agent_prompt, catalogue, prompts = later(
        "pace_async.implement", "advisor_edit", "agent", "agent_prompt", "catalogue", "prompts"
    )


@dataclass(frozen=True, slots=True)
class ImplementerKind(Entry["BuiltInFactory"]):
    """`asks_a_model`: it is asked a tiny question before a run. `agent` makes one that is a program and works in a
    folder, the
    user's own (implementer.command) or a `known_agent`. The calls of both cost money. `needs_catalogue`: the task
    must bring a catalogue of mechanisms. `by_advisor`: the advisor has written the edit, as `advisor.role` says,
    and no user chooses it. `prompts` gives the function that makes the messages of a call again, if its calls have
    any."""

    asks_a_model: bool = False
    agent: "Callable[[], AgentFactory] | None" = None
    known_agent: bool = False
    needs_catalogue: bool = False
    by_advisor: bool = False
    prompts: "Callable[[], MessagesFor] | None" = None

    @property
    def runs_command(self) -> bool:
        """Whether it is a program that works in a folder."""
        return self.agent is not None

    @property
    def is_built_in(self) -> bool:
        """Whether `code` makes it from a task. Its calls are free."""
        return not (self.asks_a_model or self.runs_command)


MODEL = ImplementerKind(
    "MODEL",
    "any model that litellm knows",
    asks_a_model=True,
    prompts=lambda: prompts.messages_for,
)

BY_ADVISOR = ImplementerKind(
    "advisor",
    "none: with advisor.role end_to_end the advisor writes the code itself",
    lambda: advisor_edit.AdvisorEdit,
    by_advisor=True,
)

IMPLEMENTERS = Registry(
    "implementer",
    ImplementerKind(
        "catalog",
        "edits by the task's catalogue, free",
        lambda: catalogue.CatalogImplementer,
        needs_catalogue=True,
    ),
    ImplementerKind(
        "command",
        "an agent of yours, started by implementer.command in a folder for each candidate",
        agent=lambda: agent.AgentMaker,
        prompts=lambda: agent_prompt.messages_for,
    ),
    *(
        ImplementerKind(
            name,
            f"{about}, or {name}:MODEL",
            agent=lambda: agent.AgentMaker,
            known_agent=True,
            prompts=lambda: agent_prompt.messages_for,
        )
        for name, about in (
            ("claude", "Claude Code"),
            ("codex", "the Codex CLI"),
            ("opencode", "OpenCode"),
        )
    ),
    BY_ADVISOR,
    MODEL,
)


def implementer_of(name: str) -> ImplementerKind:
    """The entry of this name. A known agent may have its model behind a colon. A name that is not in the table is a
    model's."""
    before = IMPLEMENTERS.get(name.partition(":")[0])
    return before if before is not None and before.known_agent else IMPLEMENTERS.get(name, MODEL)


def names_in(setting: str) -> list[str]:
    """The names of a setting such as `a=3,b`, without their weights. Nothing is refused."""
    return [part.partition("=")[0].strip() for part in setting.split(",")]
