"""pace status, best and show: read a run, whether or not it is running."""

from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_fields, print_json, print_table, shown

if TYPE_CHECKING:
    from pace_async.population.lock import Holder
    from pace_async.population.reader import Reader

_CONSERVED = ("admitted", "trained", "skipped", "aborted", "expired", "open")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status")(status)
    app.command("best")(best)
    app.command("show")(show)


def status(run: str | None = RUN_ARGUMENT, as_json: bool = JSON_OPTION) -> None:
    """How far a run is, what was trained, and how stale.

    Example: pace status circle_packing-1 --json
    """
    from pace_async.observe.ledger import ledger_of_rows
    from pace_async.population.lock import holder_of, is_driven
    from pace_async.population.reader import open_readonly
    from pace_async.runtime.places import find_places

    places = find_places(run)
    with open_readonly(*places.population) as reader:
        driven = is_driven(places.folder)
        status = reader.status()
        found = {**status, **ledger_of_rows(reader.query, reader.header()), "driven": driven}
    found["waiting"] = _waiting(holder_of(places.folder), status["waiting"]) if driven else None
    if as_json:
        print_json(found)
        return
    leases = " ".join(f"{name} {found[name]}" for name in _CONSERVED[1:])
    print_fields(
        {
            "run": places.folder,
            "state": _standing(found, places.folder),
            **_waits(found["waiting"]),
            "candidates": found["candidates"],
            "best score": found["best_score"],
            "groups": f"{found['groups_trained']} trained, {found['groups_skipped']} skipped",
            "versions": f"{found['versions_published']} published",
            "staleness": f"at most {found['max_trained_staleness']} in what was trained",
            "leases": f"admitted {found['admitted']} = {leases}",
            "limit": found["advice"],
            "spend": f"{found['spend_usd']:.4f} USD",
        }
    )


def _waiting(holder: "Holder | None", known: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the run waits for and since when: what its rows say, or its process, where it cannot write rows."""
    if holder is not None and holder.waits_for:
        return {"for": holder.waits_for, "since": holder.waits_since}
    return known


def _waits(waiting: dict[str, Any] | None) -> dict[str, object]:
    from time import localtime, strftime

    if waiting is None:
        return {}
    return {"waits": f"{waiting['for']}, since {strftime('%Y-%m-%d %H:%M:%S', localtime(waiting['since']))}"}


def _standing(found: dict[str, Any], folder: object) -> str:
    """The state, and what to do where its process is gone."""
    if found["state"] in ("created", "running", "draining") and not found["driven"]:
        return f"cut off while {found['state']}: `pace resume {folder}` goes on"
    told = found["reason"] and found["reason"] != found["state"]
    return f"{found['state']} ({found['reason']})" if told else found["state"]


def best(run: str | None = RUN_ARGUMENT, as_json: bool = JSON_OPTION) -> None:
    """The best program: its score, where it came from, and where it is.

    Example: pace best circle_packing-1
    """
    from pace_async.errors import UsageError
    from pace_async.population.reader import open_readonly
    from pace_async.runtime.places import find_places

    places = find_places(run)
    with open_readonly(*places.population) as reader:
        found = reader.best()
    try:
        places.best.write_text(found["program"])
    except OSError as error:
        raise UsageError(f"Cannot write {places.best}: {error.strerror}.") from None
    if as_json:
        print_json({**found, "path": str(places.best)})
        return
    print_fields({"candidate": found["candidate"], "score": f"{found['score']:.10g}", **_origin(found)})
    typer.echo(f"\nThe program is in {places.best}")


def show(
    run: str = typer.Argument(..., help="Run folder or its name under ./runs.", metavar="RUN"),
    candidate: int | None = typer.Argument(None, help="Candidate number.", metavar="CANDIDATE"),
    islands: bool = typer.Option(False, "--islands", help="Show how the islands stand, and no candidate."),
    prompts: bool = typer.Option(False, "--prompts", help="Show what the advisor and the implementer were asked."),
    as_json: bool = JSON_OPTION,
) -> None:
    """One candidate: idea, experiment, score, the advisor's answers, and its evolve block; or the islands.

    With --islands: of each island its progress towards the goal, its momentum, what it did last, how many rollouts
    since, and why. docs/search.md says what these are. With --prompts: every question that was put for the candidate,
    as the models saw it.

    Example: pace show circle_packing-1 17
    """
    from pace_async.errors import UsageError
    from pace_async.population.islands_now import islands_now
    from pace_async.population.reader import open_readonly
    from pace_async.runtime.places import find_places

    if islands == (candidate is not None) or (islands and prompts):
        raise UsageError("Say which candidate to show, or --islands.")
    with open_readonly(*find_places(run).population) as reader:
        if candidate is None:
            _show_islands(islands_now(reader.record()), as_json)
        elif prompts:
            _show_prompts(reader, candidate, as_json)
        else:
            _show_candidate(reader.show(candidate), as_json)


def _show_islands(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_table([_island(one) for one in found])


def _island(found: dict[str, Any]) -> dict[str, object]:
    acted = found["last_action"]
    return {
        "island": found["island"],
        "rollouts": found["rollouts"],
        "best": found["best_score"],
        "progress": f"{found['progress']:.2f}",
        "momentum": f"{found['momentum']:.2g}",
        "ideas": found["ideas"],
        "last action": None if acted is None else _action(found, acted),
        "since": None if acted is None else found["since_action"],
        "why": None if acted is None else acted["why"],
    }


def _action(found: dict[str, Any], acted: dict[str, Any]) -> str:
    if acted["action"] == "crossover":
        return f"crossover with island {acted['partner']}, from candidate {acted['candidate']}"
    left = f" (its later ideas return in {found['staying']})" if found["staying"] else ""
    return f"backtrack to candidate {acted['candidate']}{left}"


def _show_candidate(found: dict[str, Any], as_json: bool) -> None:
    from pace_async.cli.evaluation import in_words
    from pace_async.task import split_block

    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "candidate": found["candidate"],
            "outcome": f"{found['outcome']}: {found['detail']}" if found["detail"] else found["outcome"],
            "score": found["score"],
            "reward": found["reward"],
            **{f"stage {stage['stage']}": in_words(stage) for stage in found["cascade"]},
            "fresh scores": _fresh(found["fresh_scores"]),
            **_origin(found),
        }
    )
    for call in found["calls"]:
        versions = ", ".join(f"version {v} tokens {start}-{end}" for v, start, end in call["versions"])
        typer.echo(
            f"\n{call['purpose']} ({call['prompt_tokens']} tokens in, {call['completion_tokens']} out, {versions})"
        )
        typer.echo(_indented(call["text"]))
    if found["program"]:
        try:
            block = split_block(found["program"])[1]
        except ValueError:
            block = found["program"]
        typer.echo("\nevolve block")
        typer.echo(_indented(block))


def _fresh(tries: list[dict[str, Any]]) -> str | None:
    """How a claim to be a new best came out on fresh instances; None where there was none."""
    if not tries:
        return None
    scores = ", ".join(one["outcome"] if one["score"] is None else f"{one['score']:.10g}" for one in tries)
    return f"{scores}: {'confirmed' if tries[-1]['held'] else 'not confirmed'} (claimed {tries[0]['claimed']:.10g})"


def _show_prompts(reader: "Reader", candidate: int, as_json: bool) -> None:
    from dataclasses import asdict

    from pace_async.runtime.asked import asked_for

    found = asked_for(reader, candidate)
    if as_json:
        print_json({"candidate": candidate, **asdict(found)})
        return
    for prompt in found.advisor:
        typer.echo(f"advisor, {prompt.purpose} ({prompt.tokens} tokens)\n{_indented(prompt.text)}\n")
        typer.echo(f"its answer\n{_indented(prompt.answer)}\n")
    for message in found.messages:
        typer.echo(f"implementer, {message['role']}\n{_indented(message['content'])}\n")
    if found.note:
        typer.echo(f"{found.note[0].upper()}{found.note[1:]}.")


def _origin(found: dict[str, Any]) -> dict[str, object]:
    return {
        "idea": found["idea"],
        "experiment": found["experiment"],
        "parent": found["parent"],
        "island": found["island"],
        "policy version": found["policy_version"],
        "staleness": found["staleness"],
        "cost": f"{found['cost_usd']:.4f} USD",
    }


def _indented(text: str) -> str:
    return "\n".join(f"    {shown_line(line)}" for line in text.splitlines())


def shown_line(line: str) -> str:
    """A line of somebody's text, its spacing kept, made harmless for a terminal."""
    kept = len(line) - len(line.lstrip(" "))
    return " " * kept + (shown(line) if line.strip() else "")
