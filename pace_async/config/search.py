"""How candidates are proposed and kept."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pace_async.config.choice import OneOf
from pace_async.config.section import MAY_CHANGE, OnResume, Section, stays
from pace_async.registry.parent_rules import PARENT_RULES


class SearchConfig(Section):
    """How candidates are proposed and kept."""

    on_resume: ClassVar[OnResume] = stays("the islands are rebuilt from the rows with it")

    threads: Annotated[int, stays("each thread is an island, and the islands are there")] = Field(
        default=8, ge=1, description="Search threads; each is one island."
    )
    start_from: Annotated[str | None, stays("the programs have been taken over")] = Field(
        default=None,
        description="A run of the same task, as RUN, RUN@best:K or RUN@all, from whose best programs this one begins: "
        "the best takes the place of the task's own, and the others are evaluated first. RUN alone also brings what "
        "that run learned: its ideas, results, notes, and the counts of a bandit.",
    )
    start_with: Annotated[tuple[str, ...], stays("the programs have been taken over")] = Field(
        default=(), description="Programs of your own that are evaluated first: files, or folders of them."
    )
    memory: Literal["auto", "run", "island", "pool"] = Field(
        default="auto",
        description="What the advisor is told of earlier results. run: all of the run's. island: those of its own "
        "island. pool: the latest ideas of its island (`ideas_kept`), for the advisors of the package. auto: pool for "
        "these, island under --sync, else run.",
    )
    untried_kept: Annotated[int, MAY_CHANGE] = Field(
        default=12,
        ge=1,
        description="Most untried ideas that are shown, half of them the latest, where memory is not pool.",
    )
    notes_every: Annotated[int, MAY_CHANGE] = Field(
        default=0,
        ge=0,
        description="After so many candidates a model rewrites a page of what worked, what failed and what is open, "
        "which advisors are then shown. It is the model of the implementer, or of an api: advisor, and never one that "
        "is trained. 0: no notes. Needs memory run.",
    )
    drop_ideas: Annotated[int, MAY_CHANGE] = Field(
        default=0,
        ge=0,
        description="Once an island knows more ideas than this, a model says which of them leave with their "
        "experiments: its questions show them no more. It is the model that would write notes. 0: none leaves. Needs "
        "memory island.",
    )
    ideas_kept: int = Field(
        default=5, ge=1, description="Ideas in an island's pool, with memory pool; the stalest is dropped."
    )
    trials_shown: Annotated[int, MAY_CHANGE] = Field(
        default=2, ge=0, le=50, description="Latest experiments shown under each idea."
    )
    summary_from: Annotated[int, MAY_CHANGE] = Field(
        default=20,
        ge=1,
        description="From so many experiments on, an idea is shown by a summary and the latest of them.",
    )
    members_kept: int = Field(default=100, ge=1, description="Programs an island keeps as possible parents.")
    memory_mb: int | None = Field(
        default=2048,
        ge=1,
        description="Memory for the programs and the histories of all islands, in MiB. Each island has an equal share: "
        "half for its programs (the best that fit are kept), half for its history. null: no limit.",
    )
    parents: Annotated[str, OneOf(PARENT_RULES), MAY_CHANGE] = Field(
        default="tournament",
        description=f"How an island chooses the program to change. {PARENT_RULES.described()}",
    )
    tournament_size: Annotated[int, MAY_CHANGE] = Field(
        default=2, ge=1, description="Programs drawn for a tournament of parents."
    )
    tournament_pool: Annotated[int, MAY_CHANGE] = Field(
        default=4, ge=1, description="The tournament draws among this many of the best."
    )
    migration: Annotated[float, MAY_CHANGE] = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Probability that the parent is the winner of a tournament among the best programs of all islands. "
        "Otherwise, or if the island's own program wins, `parents` chooses. 0: islands use only their own programs.",
    )
    top_k: Annotated[int, MAY_CHANGE] = Field(default=4, ge=1, description="top_k chooses among this many of the best.")
    puct_exploration: Annotated[float, MAY_CHANGE] = Field(
        default=1.0, ge=0, description="How much puct favours programs tried less over programs that reached more."
    )
    grid_bins: Annotated[int, MAY_CHANGE] = Field(
        default=8, ge=1, description="Parts of each of the two features of map_elites."
    )
    backtracking: Annotated[bool, MAY_CHANGE] = Field(
        default=False,
        description="Whether an island that has stopped improving goes back along its own history or crosses over with "
        "another island (PACEvolve). Off: in 480 candidates it gained nothing, and longer runs are not measured.",
    )
    actions: Annotated[Literal["both", "backtrack", "crossover"], MAY_CHANGE] = Field(
        default="both",
        description="Allowed actions of an island; with crossover alone there may be no partner, and it does not act.",
    )
    momentum_decay: float = Field(default=0.85, ge=0, lt=1, description="Share of an island's momentum that stays.")
    momentum_trigger: Annotated[float, MAY_CHANGE] = Field(
        default=0.001, ge=0, description="An island acts once its momentum is less than this."
    )
    action_interval: Annotated[int, MAY_CHANGE] = Field(
        default=15, ge=0, description="An island acts only after more rollouts than this since it last acted or began."
    )
    backtrack_stay: Annotated[int, MAY_CHANGE] = Field(
        default=5, ge=1, description="Rollouts of an island after a backtrack before its later ideas return."
    )

    @property
    def remembers(self) -> str:
        """`memory` in force. A run decides what auto means when its settings are read."""
        return "pool" if self.memory == "auto" else self.memory
