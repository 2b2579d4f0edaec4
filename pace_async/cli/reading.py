"""pace status and best: read a run, whether or not it is running."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_fields, print_json, print_table, tell
from pace_async.cli.showing import measured, origin
from pace_async.interface.opening import open_run
from pace_async.interface.standing import best_of, front_shown, standing_of

if TYPE_CHECKING:
    from pace_async.cli.documents import BestWithFile
    from pace_async.events import RunHeader
    from pace_async.interface.documents import Rollback, Waiting
    from pace_async.population.reading.reader import Reader

_FROM_FRESH = "on instances that no other score comes from"
_FROM_AGAIN = "from a second evaluation"
SHOWN_EQUAL = 8
"""Most candidates that are named as equal to the best."""
_CONSERVED = ("admitted", "trained", "skipped", "aborted", "expired", "open")


def status(run: str | None = RUN_ARGUMENT, as_json: bool = JSON_OPTION) -> None:
    """How far a run is, what was trained, and how stale.

    Example: pace status circle_packing-1 --json
    """
    with open_run(run) as (paths, reader):
        standing, header = standing_of(paths, reader), reader.header()
        several = _on_front(reader, paths.folder) if header.aims and not as_json else {}
    if as_json:
        print_json(standing)
        return
    from pace_async.observe.formatting import SHARED_MEANS, savings  # only here: a mistake is refused without rich

    fails = "; ".join(f"{entry['stage']}: {entry['why']}" for entry in standing["failing"])
    leases = " ".join(f"{name} {standing[name]}" for name in _CONSERVED[1:])
    print_fields(
        {
            "run": paths.folder,
            "state": _standing(standing, paths.folder),
            **({"trust": f"shared: {SHARED_MEANS}"} if header.shares_trust else {}),
            **({"rows lost": standing["rows_lost"]} if standing["rows_lost"] else {}),
            **_waits(standing["waiting"]),
            "candidates": standing["candidates"],
            **({"few scores": standing["few_scores"]} if standing["few_scores"] else {}),
            **(
                {"answers": standing["parse_alarm"] or f"parsed: {standing['parse_share']}"}
                if standing["parse_share"]
                else {}
            ),
            **({"saved": savings(standing["evaluation_saved"])} if standing["evaluation_saved"] is not None else {}),
            **({"repeats": _repeats(standing)} if standing["repeats"] else {}),
            "best score": standing["best_score"],
            **_stands(standing["best_score"], standing["best_fresh_score"], standing["best_known"], header),
            **several,
            **_learned(standing, header),
            "leases": f"admitted {standing['admitted']} = {leases}",
            **({"fails": fails} if fails else {}),
            "speed": standing["advice"],
            "spend": _spent(standing),
            **_advisor_note(header.advisor),
        }
    )
    if standing["nodes"]:
        tell("")
        columns = ("node", "machine", "attempts", "lost", "seconds", "queue_seconds")
        print_table([{name: _rounded(entry[name]) for name in columns} for entry in standing["nodes"]])
    if standing["implementers"]:
        tell("")
        print_table(
            [
                {**entry, "usd": "unknown" if entry["usd"] is None else f"{entry['usd']:.4f}"}
                for entry in standing["implementers"]
            ]
        )


def _repeats(standing: Mapping[str, Any]) -> str:
    repeats = standing["repeats"]
    return f"{repeats} further evaluations of noisy scores, {repeats / (repeats + standing['candidates']):.0%} of all"


def _rounded(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value


def _spent(standing: Mapping[str, Any]) -> str:
    """What the run cost, and each role if others than the implementer are paid."""
    from pace_async.observe.spending import in_usd

    roles = sorted(standing["spend_by_role"].items())
    paid = {role: usd for role, usd in roles if usd != 0 or role == "implementer"}
    parts = [f", {role} {'unknown' if usd is None else f'{usd:.4f}'}" for role, usd in paid.items()]
    spent = in_usd(standing["spend_known_usd"], unpriced=standing["spend_usd"] is None)
    return spent + ("".join(parts) if len(parts) > 1 else "")


def _advisor_note(advisor: str) -> dict[str, object]:
    from pace_async.registry.advisors import advisor_of

    reason = advisor_of(advisor).why_untrained
    return {"advisor": f"{advisor}, which {reason}: it learns nothing"} if reason else {}


def _stands(score: float | None, fresh: float | None, known: float | None, header: "RunHeader") -> dict[str, object]:
    """Further lines about the best score, each only if its value exists."""
    from pace_async.observe.standing import UNCHANGED, says_nothing, to_best_known

    lines: dict[str, object] = {}
    if score is not None and says_nothing(score, fresh, header):
        lines["fresh score"] = f"the same: {UNCHANGED}"
    elif fresh is not None:
        chosen = ", by which the best is chosen" if header.by_confirmed else ""
        lines["fresh score"] = f"{fresh:.10g}, {_FROM_AGAIN if header.shares_trust else _FROM_FRESH}{chosen}"
    if known is not None:
        lines["best known"] = known if score is None else to_best_known(score, known, header.fitness)
    return lines


def _on_front(reader: "Reader", folder: Path) -> dict[str, object]:
    from pace_async.population.reading.front import front_of_run

    front = reader.ask(front_of_run)
    summary = f"{len(front.programs)} programs, hypervolume {front.hypervolume:.4f}: `pace best {folder} --front`"
    return {"front": summary}


def _equal(candidates: "Sequence[int]", noise: float | None) -> dict[str, object]:
    """Which candidates are as good as the best, as far as two evaluations of one program tell."""
    if noise is None or not candidates:
        return {}
    listing = ", ".join(map(str, candidates[:SHOWN_EQUAL])) + (" …" if len(candidates) > SHOWN_EQUAL else "")
    return {"equal": f"{listing}, within {noise:.2g}: so much do two evaluations of one program differ"}


def _learned(standing: Mapping[str, Any], header: "RunHeader") -> dict[str, object]:
    """What was trained, or why nothing is."""
    from pace_async.observe.formatting import learns_nothing
    from pace_async.registry.objectives import trains

    if not trains(header.objective):
        return {"learning": learns_nothing(header.advisor)}
    return {
        "groups": f"{standing['groups_trained']} trained, {standing['groups_skipped']} skipped",
        "versions": f"{standing['versions_published']} published",
        **_rollbacks(standing["rollbacks"]),
        "staleness": f"at most {standing['max_trained_staleness']} in what was trained"
        if standing["trained"]
        else "nothing was trained",
    }


def _waits(waiting: "Waiting | None") -> dict[str, object]:
    from time import localtime, strftime

    if waiting is None:
        return {}
    return {"waits": f"{waiting['for']}, since {strftime('%Y-%m-%d %H:%M:%S', localtime(waiting['since']))}"}


def _standing(standing: Mapping[str, Any], folder: object) -> str:
    """The state, and what to do if the process has ended."""
    if standing["state"] in ("created", "running", "draining") and not standing["driven"]:
        return f"cut off while {standing['state']}: `pace resume {folder}` goes on"
    has_reason = standing["reason"] and standing["reason"] != standing["state"]
    return f"{standing['state']} ({standing['reason']})" if has_reason else standing["state"]


def _rollbacks(rollbacks: "Sequence[Rollback]") -> dict[str, str]:
    """The versions that repeat an earlier one, empty if there is none."""
    clauses = (f"version {rollback['version']} is version {rollback['restored']} again" for rollback in rollbacks)
    return {"rollbacks": ", ".join(clauses)} if rollbacks else {}


def best(
    run: str | None = RUN_ARGUMENT,
    branch: str | None = typer.Option(
        None, "--branch", help="New branch for it, in the Git repository that the task was made of.", metavar="NAME"
    ),
    front: bool = typer.Option(
        False, "--front", help="All programs that no other one surpasses, in a run with several objectives."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """The best program: its score, where it came from, and where it is.

    With several objectives the best is the program that comes nearest to the better bounds of all of them.

    Example: pace best circle_packing-1
    """
    if front:
        _print_front(run, as_json=as_json)
        return
    from pace_async.errors import InfrastructureFault, UsageError
    from pace_async.runtime.best_program import how_to_apply, write_best
    from pace_async.task import suffix_of_programs

    with open_run(run) as (paths, reader):
        candidate, header = best_of(reader), reader.header()
        seed = reader.show(0)["program"] or ""
    suffix = suffix_of_programs(header)
    try:
        path = write_best(paths, suffix, candidate["program"], seed)
    except InfrastructureFault as fault:
        raise UsageError(f"Cannot write {paths.best(suffix)} ({fault}).") from None
    committed = _branch(header, branch, seed, candidate) if branch is not None else ""
    if as_json:
        document: BestWithFile = {**candidate, "path": str(path)}
        print_json(document)
        return
    print_fields(
        {
            "candidate": candidate["candidate"],
            "score": f"{candidate['score']:.10g}",
            **measured(candidate),
            **_stands(candidate["score"], candidate["fresh_score"], candidate["best_known"], header),
            **_equal(candidate["equal"], candidate["noise"]),
            **origin(candidate),
        }
    )
    tell(f"\nThe program is in {path}")
    for line in how_to_apply(paths, suffix)[1:]:
        tell(line)
    if committed:
        tell(committed)


def _print_front(run: str | None, *, as_json: bool) -> None:
    with open_run(run) as (_, reader):
        front = front_shown(reader)
    if as_json:
        print_json(front)
        return
    tell(", ".join(f"{metric}: {direction}" for metric, direction in front["objectives"].items()))
    tell(f"{len(front['front'])} programs, which dominate {front['hypervolume']:.4f} of what lies between the bounds\n")
    breaks = any(program["violation"] for program in front["front"])
    print_table(
        [
            {
                **{"candidate": program["candidate"], "score": f"{program['score']:.6g}"},
                **({"violation": f"{program['violation']:.4g}"} if breaks else {}),
                **{name: f"{value:.6g}" for name, value in program["metrics"].items()},
            }
            for program in front["front"]
        ]
    )


def _branch(header: "RunHeader", name: str, seed: str, candidate: Mapping[str, Any]) -> str:
    """Commit the best program in a new branch. Returns what was done. Raises UsageError."""
    from pace_async.errors import UsageError
    from pace_async.task import task_of_run
    from pace_async.task.repository import make_branch

    spec = task_of_run(header).spec
    if not spec.revision:
        raise UsageError(f"--branch: task {spec.name!r} was not made of a Git repository.")
    about = candidate["idea"] or "The best program of a search"
    message = f"{about}\n\nCandidate {candidate['candidate']}, score {candidate['score']:.10g}.\n"
    commit = make_branch(Path(spec.repository), spec.revision, name, seed, candidate["program"], message)
    return f"Branch {name} of {spec.repository} has it as commit {commit[:12]}; no checkout was touched"
