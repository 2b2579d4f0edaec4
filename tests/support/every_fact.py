"""Commits in which every kind of fact occurs, and what the audit says of the rows."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import text

from pace_async.events import (
    CascadeScore,
    CascadeStageEnded,
    Claimed,
    EarlierResult,
    EpochInForce,
    EvaluationAttempted,
    Fact,
    FaultSeen,
    FreshScore,
    IdeaGiven,
    IdeasLeft,
    IdeaTaken,
    ImplementerCalled,
    ImplementerChecked,
    ImplementerChosen,
    ImplementerReserved,
    ImplementerTry,
    IslandActed,
    LearnedBefore,
    LeaseAborted,
    LeaseReleased,
    LoopMeasured,
    MeasuredAgain,
    NotesPage,
    Practised,
    ProgramGiven,
    RescoreBegan,
    RunStateChanged,
    SettingChanged,
    Steered,
    TryEvaluated,
    VersionPublished,
)
from pace_async.population.checking import check_population
from pace_async.population.connect import Place, engine
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from tests.support.population_facts import (
    advised,
    call,
    evaluated,
    new_idea,
    opened,
    rescored,
    rollout,
    shipped,
    trained,
)

TRY = ImplementerTry(1, "coder", "ok", "", "layout = 9\n" * 40, None)
OURS = "x = 3\n" * 99
EARLIER = EarlierResult(9, 4, "hexagons", "ok", 2.25, 0.25, "")
LEARNED = LearnedBefore(
    *("before", 9, 6000.5, (EARLIER,), 2, 1, {"timeout": 1}, {"d9": 9}, ("rings",), "Worked: hex"),
    edits=(("order", "falling", 1, 2),),
)
TRIED = FreshScore(1, 2.5, "ok", 2.4, 0.9, True, 0.5, {"seconds": 0.25}, {"seconds": 0.5})


def printed(lease: int) -> Practised:
    return Practised(lease, "d1", "ok", "", 1.0, {"a": 1.0}, "printed " * 50, 0.1, False, 1.0)


def one_of_each() -> tuple[tuple[Fact, ...], ...]:
    """Commits in which every kind of fact occurs."""
    asked = replace(call("select"), prompt_ids=(), completion_ids=(), logprobs=(), spans=(), prompt="Which? " * 99)
    paid = ImplementerCalled(4, "coder", "ok", 900, 300, 0.25, 2.0, 6000.0, 1, TRY, answered=None)
    page = ImplementerCalled(
        4, "coder", "ok", 9, 3, 0.1, 2.0, 6009.0, role="notes", notes=NotesPage(1, 3, None, "Worked: hex")
    )
    parted = ImplementerCalled(
        *(4, "coder", "ok", 9, 3, 0.1, 2.0, 6010.0),
        role="notes",
        left=IdeasLeft(1, 4, 2, ((1, ""), (2, "rings, from 3 to 5"))),
    )
    acted = IslandActed(
        4, 1, "crossover", 2, None, 0, 2, 2, (IdeaTaken(9, "rings", 4),), 0.1, 3, 0.2, 0.3, 0.25, 1004.0
    )
    return (
        (*rollout(1), *rollout(2, 2, None), opened(3, 3), LeaseAborted(3, 3, "engine", "gone", 1.0)),
        (shipped(1, (1, 2)), trained(1, (1, 2)), VersionPublished(1, 0.1, 0.0, {"w": "d1"}, 1.0, 0.001)),
        (opened(4), acted, advised(4, ideas=(new_idea(10), new_idea(11, "spiral")), idea=10)),
        (ImplementerChosen(4, "tuning", "coder", 0.5, 0.01, 1.0), ImplementerReserved(1, 4, "coder", 0.5, 1.0)),
        (paid, TryEvaluated(4, 1, "timeout", "stopped", 1.0, 6001.0, "too slow"), page, parted),
        (CascadeStageEnded(4, 1, CascadeScore("quick", "ok", 1.0, 0.5, True, 0.1, False), "x = 1\n" * 99, None, 1.0),),
        (printed(4),),
        (
            EvaluationAttempted(
                4,
                "full",
                0,
                1,
                "ok",
                1.0,
                0.1,
                1.0,
                2.0,
                "",
                True,
                "node-1",
                "large",
                ((1, 0.5), (3, -0.25)),
                2.25,
                "scorer",
            ),
        ),
        (Claimed(4, 1, "x = 2\n" * 99, "layout", 2.5, {"a": 1.0}, 1.0, False, 1.0, (TRIED,), 0.5),),
        (replace(evaluated(4), fresh=(TRIED,), repeated=(2.25,)), *rollout(5), LeaseReleased(5, "expired", 1.0)),
        (IdeaGiven(3, "spirals from the middle", 5, 6010.0), Steered(5, "idea", 10, "pin", 5, 6010.5)),
        (Steered(6, "candidate", 1, "ban", 5, 6010.6), Steered(7, "candidate", 2, "pin", 5, 6010.7)),
        (Steered(8, "note", 2, "Try the hexagons\nfirst.", 5, 6010.8),),
        (LEARNED,),
        (opened(7), ProgramGiven(7, 4, OURS, "ours of today", 6011.0)),
        (advised(7, ideas=()), replace(evaluated(7), program=OURS), LeaseReleased(7, "skipped", 6012.0)),
        (EvaluationAttempted(5, "full", 0, 1, "ok", 1.0, 0.1, 1.0, 2.0, "", accepted=True, score=3.0),),
        (
            MeasuredAgain(5, "ok", "", (2.25, 3.0), 2, 6013.0),
            MeasuredAgain(1, "timeout", "too slow", (2.5,), 0, 6014.0),
        ),
        (FaultSeen("engine", "timeout", "no answer", 4, 1.0), RunStateChanged("running", "", 1.0)),
        (LoopMeasured(1.5, 0.5, 1.0), ImplementerChecked("coder", 1, 1, 0.0, 0.1, 1.0)),
        (SettingChanged("staleness.max_staleness", "2", "3", 1.0), opened(6), replace(advised(6), calls=(asked,))),
        (RescoreBegan(1, "d2", None, 7000.0), *(rescored(candidate, 1.0) for candidate in (0, 1, 4))),
        (EpochInForce(1, 6, 7002.0),),
    )


async def committed(store: Store, commits: Sequence[tuple[Fact, ...]]) -> tuple[Fact, ...]:
    for facts in commits:
        await store.commit(*facts)
    return tuple(fact for facts in commits for fact in facts)


def problems(place: Place) -> list[str]:
    with open_readonly(place) as reader:
        return [line for check in check_population(reader) for line in check.wrong]


def change(place: Place, *statements: str) -> None:
    """Change rows by hand, as no run does."""
    writer = engine(place, "write")
    with writer.begin() as connection:
        for statement in statements:
            assert connection.execute(text(statement)).rowcount > 0, statement
    writer.dispose()
