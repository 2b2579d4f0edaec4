"""What turns experiments into code."""

import shlex
from typing import ClassVar, Literal, cast

from pydantic import Field, field_validator, model_validator

from pace_async.config.provider import ProviderConfig
from pace_async.config.section import MAY_CHANGE, OnResume, Section
from pace_async.registry.implementers import IMPLEMENTERS, implementer_of, names_in

AGENT_S = 900.0
"""Deadline of a call of a known agent, where none is given."""


class RepairConfig(Section):
    """How often a model is shown what is wrong with its program and asked again."""

    on_resume: ClassVar[OnResume] = MAY_CHANGE

    compile_tries: int = Field(
        default=3,
        ge=1,
        description="Answers that a model may give until one is a program that compiles; 1: no repair.",
    )
    evaluate_tries: int = Field(
        default=2,
        ge=1,
        description="Programs of one experiment that may be evaluated if they fail by an error in the code; 1: no "
        "repair.",
    )


class ImplementerConfig(ProviderConfig):
    """What turns an experiment into code."""

    on_resume: ClassVar[OnResume] = MAY_CHANGE

    model: str = Field(
        default="catalog",
        description=f"What writes the code. {IMPLEMENTERS.described()} Or several: a,b or a=3,b=1.",
    )
    choice: Literal["weights", "bandit"] = Field(
        default="weights",
        description="How one of several models is chosen for a candidate. weights: drawn by weight. bandit: by each "
        "model's gains with experiments of this kind, in relation to its cost; weights then have no effect.",
    )
    cost_weight: float = Field(
        default=1.0, ge=0, le=1, description="How much cost counts for the bandit. 1: gain per USD. 0: gain alone."
    )
    command: tuple[str, ...] = Field(
        default=(),
        description="The command of the implementer `command`, as a list of words or one text. {prompt}, {program} and "
        "{folder} stand for the message, the program's file and the folder.",
    )
    price_per_call: float | None = Field(
        default=None,
        ge=0,
        description="USD that a call of implementer.command may cost at most. It counts for a call that reports no "
        "cost of its own.",
    )
    keep_folders: bool = Field(
        default=False, description="Keep the folders in which the command worked, in RUN/agents."
    )
    max_tokens: int = Field(default=8192, ge=16, description="Longest answer, in tokens, reasoning included.")
    repair: RepairConfig = RepairConfig()

    @model_validator(mode="before")
    @classmethod
    def _patient_with_agents(cls, given: object) -> object:
        """A coding agent works for minutes."""
        if not isinstance(given, dict):
            return given
        values = cast("dict[str, object]", given)
        if not any(implementer_of(name).known_agent for name in names_in(str(values.get("model", "")))):
            return values
        return {"timeout_s": AGENT_S, "deadline_s": 2 * AGENT_S, **values}

    @property
    def longest_answer(self) -> int:
        return self.max_tokens

    @field_validator("command", mode="before")
    @classmethod
    def _words(cls, command: object) -> object:
        """A text is split as a shell splits it. A number is a word."""
        if isinstance(command, str):
            return shlex.split(command)
        if isinstance(command, list | tuple):
            return [
                str(word) if isinstance(word, int | float) and not isinstance(word, bool) else word
                for word in cast("list[object]", command)
            ]
        return command
