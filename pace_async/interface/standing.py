"""The state of a run, from its rows and its folder: what `pace status --json` prints and `Run.status()` returns."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pace_async.events import RunHeader
    from pace_async.events.causes import CandidateAnswers
    from pace_async.interface.documents import BestProgram, FrontShown, NotesShown, Status
    from pace_async.population.lock import Holder
    from pace_async.population.reading.reader import Reader
    from pace_async.runtime.run_paths import RunPaths


def standing_of(paths: "RunPaths", reader: "Reader") -> "Status":
    """Every figure of a run's state by its name in JSON. Raises UsageError if the population cannot be read."""
    from pace_async.observe.in_force import in_force
    from pace_async.observe.ledger import ledger_of_rows
    from pace_async.population.lock import holder_of, is_driven
    from pace_async.population.reading.lost import rows_given_up
    from pace_async.population.reading.progress import recent_answers
    from pace_async.population.reading.timings import timings_of

    driven = is_driven(paths.folder)
    with reader.at_one_moment() as snapshot:
        status, header, timings, answers = (
            snapshot.status(),
            snapshot.header(),
            snapshot.ask(timings_of),
            snapshot.ask(recent_answers),
        )
        rows_lost, changes = snapshot.ask(rows_given_up), snapshot.standing().changes
    figures = {**status, **ledger_of_rows(timings, in_force(header, changes)), "driven": driven}
    figures |= known_of(status["best_score"], header) | _parses(header, status["outcomes"], answers, str(paths.folder))
    figures["waiting"] = _waiting(holder_of(paths.folder), status["waiting"]) if driven else None
    figures["rows_lost"] = rows_lost
    figures["few_scores"] = _few_scores(status, str(paths.folder))
    if status["failing"] or figures["waiting"] or figures["few_scores"]:
        figures["advice"] = None  # the advice is for a run that works, not for one that fails or waits
    return cast("Status", figures)


def best_of(reader: "Reader") -> "BestProgram":
    """The best candidate with its program, and the task's best known score. Raises UsageError if there is none."""
    best = reader.best()
    return cast("BestProgram", {**best, **known_of(best["score"], reader.header())})


def front_shown(reader: "Reader") -> "FrontShown":
    """The front of a run with several objectives. Raises UsageError for another run, and before the first score."""
    from pace_async.population.reading.front import front_of_run, refuse_unless_several

    front = reader.ask(front_of_run)
    refuse_unless_several(front, reader.header().name)
    return {
        "objectives": {aim.metric: "maximize" if aim.higher else "minimize" for aim in front.aims},
        "hypervolume": front.hypervolume,
        "front": [
            {
                "candidate": program.candidate,
                "score": program.score,
                "violation": program.costs[0],
                "metrics": dict(program.metrics),
            }
            for program in front.programs
        ],
    }


def notes_of(reader: "Reader") -> "list[NotesShown]":
    """The pages of notes, the oldest first."""
    from dataclasses import asdict

    from pace_async.population.reading.written_notes import notes_of_run

    pages = [asdict(written) for written in reader.ask(notes_of_run)]
    return [cast("NotesShown", {**page.pop("page"), **page}) for page in pages]


def known_of(score: float | None, header: "RunHeader") -> dict[str, float | None]:
    """The task's best known score, and the score's share of it."""
    from pace_async.observe.standing import share_of_best_known
    from pace_async.task import best_known

    known = best_known(header)
    return {"best_known": known, "of_best_known": share_of_best_known(score, known, header.fitness)}


def _few_scores(status: Mapping[str, Any], run: str) -> str | None:
    """Why hardly any candidate has a score, and what to do."""
    from pace_async.observe.few_scores import few_scores

    diagnosis = few_scores(status["candidates"], status["scored"], status["causes"], run)
    return None if diagnosis is None else diagnosis.sentence


def _parses(
    header: "RunHeader", outcomes: Mapping[str, int], recent: "Sequence[CandidateAnswers]", run: str
) -> dict[str, Any]:
    """The share of candidates whose answers parse, of all and of the last ones, and the alarm if it has fallen or is
    low. Nulls and an empty text for an advisor that has no model."""
    from pace_async.observe.parse_rate import alarm_of, answers_of, lately, parse_rate, share_text

    outcomes, recent = answers_of(header.advisor, outcomes, recent)
    return {
        "parse_rate": parse_rate(outcomes),
        "parse_rate_lately": lately(recent),
        "parse_share": share_text(outcomes, recent),
        "parse_alarm": alarm_of(outcomes, recent, run),
    }


def _waiting(holder: "Holder | None", known: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the run waits for and since when, from its rows, or from its process if it cannot write rows."""
    if holder is not None and holder.waits_for:
        return {"for": holder.waits_for, "since": holder.waits_since}
    return known
