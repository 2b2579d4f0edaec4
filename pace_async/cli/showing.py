"""pace show: one candidate with the models' answers that led to it, or the islands or the notes of a run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import typer

from pace_async.cli.candidates import BEST, WHICH, find_candidate, without_run
from pace_async.cli.output import (
    JSON_OPTION,
    RUN_ARGUMENT,
    on_one_line,
    print_fields,
    print_json,
    print_table,
    tell,
)
from pace_async.interface.opening import open_run
from pace_async.interface.standing import notes_of
from pace_async.outside import indented

if TYPE_CHECKING:
    from pace_async.cli.documents import PromptsShown
    from pace_async.interface.documents import NotesShown
    from pace_async.population.reading.island_types import IslandNow, LastAction
    from pace_async.population.reading.reader import Reader
    from pace_async.runtime.run_paths import RunPaths

POINTS_SHOWN = 12
"""Points of a curve in `pace show`. With --json there are all."""


def show(
    run: str | None = RUN_ARGUMENT,
    candidate: str | None = typer.Argument(None, help=f"Which: {WHICH} [default: best].", metavar="CANDIDATE"),
    islands: bool = typer.Option(False, "--islands", help="Show the islands instead of a candidate."),
    notes: bool = typer.Option(False, "--notes", help="Show the newest page of notes instead of a candidate."),
    prompts: bool = typer.Option(False, "--prompts", help="Show the prompts of the advisor and the implementer."),
    program: bool = typer.Option(False, "--program", help="Show the whole program, not its difference to the parent."),
    as_json: bool = JSON_OPTION,
) -> None:
    """One candidate (the best one without a name), the islands, or the notes. A candidate: idea, experiment, score, the
    advisor's answers, the implementer's tries if there were several, and how its program differs from its parent's.

    With --islands: each island's progress towards the goal, its momentum, its last action with the reason, and the
    rollouts since. With --notes: what worked, what failed and what is open, as a model wrote it last, and with --json
    every page (search.notes_every). docs/search.md explains these. With --prompts: every prompt for the candidate as
    the models saw it.

    Example: pace show circle_packing-1 17

    Example: pace show best
    """
    from pace_async.errors import UsageError

    run, candidate = without_run(run, candidate)
    if islands and notes:
        raise UsageError("--islands and --notes show different things: leave one of them out.")
    if islands and (candidate is not None or prompts):
        raise UsageError("--islands shows the state of the islands: leave the candidate and --prompts out.")
    if notes and (candidate is not None or prompts):
        raise UsageError("--notes shows the notes of the whole run: leave the candidate and --prompts out.")
    with open_run(run) as (paths, reader):
        if notes:
            _show_notes(notes_of(reader), as_json)
        elif islands:
            from pace_async.population.reading.islands_now import islands_now

            now = islands_now(reader.record())
            if as_json:
                print_json(now)
            else:
                print_table([_island(island) for island in now])
        elif prompts:
            _show_prompts(paths, reader, find_candidate(reader, candidate or BEST)["candidate"], as_json)
        else:
            details = find_candidate(reader, candidate or BEST)
            parent = None if program or as_json or details["parent"] is None else reader.show(details["parent"])
            _show_candidate(details, parent, as_json)


def _show_notes(pages: "list[NotesShown]", as_json: bool) -> None:
    from pace_async.errors import UsageError

    if as_json:
        print_json(pages)
        return
    from pace_async.observe.spending import cost_of

    if not pages:
        raise UsageError("The run has no notes yet: with search.notes_every a model writes them.")
    page = pages[-1]
    print_fields(
        {
            "candidates": f"{page['candidates']}, of which {page['newest']} is the newest",
            "model": page["model"],
            "tokens": f"{page['prompt_tokens']} in, {page['completion_tokens']} out",
            "cost": cost_of(page["cost_usd"]),
            **({"shown": f"from the end of group {page['from_group']} on"} if page["from_group"] is not None else {}),
            **({"earlier": f"{len(pages) - 1} (--json prints every page)"} if len(pages) > 1 else {}),
        }
    )
    tell(f"\n{indented(page['text'])}")


def _island(island: "IslandNow") -> dict[str, object]:
    acted = island["last_action"]
    return {
        "island": island["island"],
        "rollouts": island["rollouts"],
        "best": island["best_score"],
        "progress": f"{island['progress']:.2f}",
        "momentum": f"{island['momentum']:.2g}",
        "ideas": island["ideas"],
        "last action": None if acted is None else _action(island, acted),
        "since": None if acted is None else island["since_action"],
        "why": None if acted is None else acted["why"],
    }


def _action(island: "IslandNow", acted: "LastAction") -> str:
    if acted["action"] == "crossover":
        return f"crossover with island {acted['partner']}, from candidate {acted['candidate']}"
    left = f" (its later ideas return in {island['staying']})" if island["staying"] else ""
    return f"backtrack to candidate {acted['candidate']}{left}"


def _show_candidate(candidate: dict[str, Any], parent: dict[str, Any] | None, as_json: bool) -> None:
    """`parent` is the candidate that the program is compared with, None to show the whole program."""
    from pace_async.cli.evaluation import in_words

    if as_json:
        print_json(candidate)
        return
    waited = candidate["queue_seconds"]
    print_fields(
        {
            "candidate": candidate["candidate"],
            "outcome": f"{candidate['outcome']}: {candidate['detail']}"
            if candidate["detail"]
            else candidate["outcome"],
            "score": candidate["score"],
            **_marked(candidate),
            **measured(candidate),
            "reward": candidate["reward"],
            **({"queued": f"{waited:.1f} s for an evaluation slot"} if waited and waited >= 0.05 else {}),
            **_practised(candidate["practice"]),
            **{f"stage {stage['stage']}": in_words(stage) for stage in candidate["cascade"]},
            **reported(candidate["curve"], candidate["reported_by"]),
            "fresh scores": _fresh(candidate["fresh_scores"]),
            **_implementer_choice(candidate["chosen"]),
            **origin(candidate),
            **_corrected(candidate["tries"]),
        }
    )
    if candidate["practice"] and candidate["practice"]["printed"]:
        tell(f"\nprinted in practice\n{indented(candidate['practice']['printed'])}")
    for call in candidate["calls"]:
        counted = _token_counts(call)
        tell(f"\n{call['purpose']}{f' ({counted})' if counted else ''}")
        tell(indented(call["text"]))
    for attempt in candidate["tries"] if len(candidate["tries"]) > 1 else ():
        tell(f"\ntry {attempt['number']} of {attempt['model']}: {_try_result(attempt, candidate)}")
    if candidate["program"]:
        _show_program(candidate, parent)


def _marked(candidate: dict[str, Any]) -> dict[str, str]:
    """What a person said of the candidate last, and since when it holds."""
    from pace_async.interface.steering import DONE

    if not candidate["mark"]:
        return {}
    after = candidate["mark_after"]
    when = "not taken in yet" if after is None else f"from candidate {after + 1} on"
    return {"by a person": f"{DONE[candidate['mark']]}, {when}"}


def _token_counts(call: Mapping[str, Any]) -> str:
    """The tokens of an advisor's call, nothing if they are not known. Only an advisor that the run serves has
    versions."""
    versions = [f"version {version} tokens {start}-{end}" for version, start, end in call["versions"]]
    tokens = f"{call['prompt_tokens']} tokens in, {call['completion_tokens']} out" if call["prompt_tokens"] else ""
    return ", ".join(part for part in (tokens, *versions) if part)


def _show_program(candidate: Mapping[str, Any], parent: Mapping[str, Any] | None) -> None:
    """Its difference to the parent's, or the whole program where there is nothing to compare it with."""
    from pace_async.report.difference import difference

    if parent is None or not parent["program"]:
        tell(f"\nprogram\n{indented(candidate['program'])}")
        return
    lines = difference(parent["program"], candidate["program"], f"candidate {parent['candidate']}", "this program")
    tell(f"\nchanges of candidate {parent['candidate']} (--program shows the whole program)")
    tell(indented("\n".join(line.text for line in lines)) if lines else indented("none"))


def _practised(practice: Mapping[str, Any] | None) -> dict[str, object]:
    """The result on practice instances, empty without them."""
    if practice is None:
        return {}
    if practice["score"] is None:
        return {"practice": on_one_line(f"{practice['outcome']}: {practice['detail']}")}
    return {"practice": f"{practice['score']:.10g} in {practice['seconds']:.2f} s, which counts for nothing"}


def reported(curve: list[tuple[int, float]], reporter: str | None) -> dict[str, object]:
    """What was reported of its evaluation: all of it, or where it is long some points from its beginning to its end."""
    if not curve:
        return {}
    last = len(curve) - 1
    places = sorted({round(part * last / (POINTS_SHOWN - 1)) for part in range(POINTS_SHOWN)})
    points = ", ".join(f"{curve[place][0]}: {curve[place][1]:.6g}" for place in places)
    by = "the trusted scorer" if reporter == "scorer" else "its evaluator under shared trust"
    return {"reported": f"{points} (step: value, {len(curve)} in all, by {by})"}


def _implementer_choice(chosen: dict[str, Any] | None) -> dict[str, object]:
    """The model that a bandit chose for the candidate, and why."""
    from pace_async.observe.spending import cost_of

    if chosen is None:
        return {}
    reason = f"a sampled rate of gains of {chosen['rate']:.2f} at {cost_of(chosen['usd'])}"
    return {"implementer": f"{chosen['model']}, chosen for {chosen['kind']}: {reason}"}


def _try_result(attempt: dict[str, Any], candidate: dict[str, Any]) -> str:
    """The result of a model's answer."""
    if attempt["outcome"] != "ok":
        return on_one_line(f"{attempt['outcome'].replace('_', ' ')}: {attempt['detail']}")
    if attempt["evaluation"] is not None:
        return on_one_line(f"a program, {attempt['evaluation']}: {attempt['evaluation_detail']}")
    return f"a program, {candidate['outcome']}"


def _corrected(tries: list[dict[str, Any]]) -> dict[str, object]:
    """What the implementer corrected in the experiment, in its words."""
    from pace_async.events import ImplementerTry, deviation_of

    deviation = deviation_of([ImplementerTry(**attempt) for attempt in tries])
    return {"corrected": deviation} if deviation else {}


def _fresh(tries: list[dict[str, Any]]) -> str | None:
    """The result of a claimed new best on fresh instances, None without a claim."""
    if not tries:
        return None
    scores = ", ".join(
        evaluation["outcome"] if evaluation["score"] is None else f"{evaluation['score']:.10g}" for evaluation in tries
    )
    return f"{scores}: {'confirmed' if tries[-1]['held'] else 'not confirmed'} (claimed {tries[0]['claimed']:.10g})"


def _show_prompts(paths: "RunPaths", reader: "Reader", candidate: int, as_json: bool) -> None:
    from dataclasses import asdict

    from pace_async.cli.prompt_history import asked_for

    prompts = asked_for(paths, reader, candidate)
    if as_json:
        print_json(cast("PromptsShown", {"candidate": candidate, **asdict(prompts)}))
        return
    for prompt in prompts.advisor:
        tokens = f" ({prompt.tokens} tokens)" if prompt.tokens is not None else ""
        tell(f"advisor, {prompt.purpose}{tokens}\n{indented(prompt.text)}\n")
        tell(f"its answer\n{indented(prompt.answer)}\n")
    for message in prompts.messages:
        tell(f"implementer, {message['role']}\n{indented(message['content'])}\n")
    for again in prompts.repairs:
        tell(f"implementer, try {again.number}, user\n{indented(again.content)}\n")
    if prompts.note:
        tell(f"{prompts.note[0].upper()}{prompts.note[1:]}.")


def measured(candidate: Mapping[str, Any]) -> dict[str, object]:
    """How many evaluations a score is the mean of, if of several."""
    if candidate["standard_error"] is None:
        return {}
    return {"measured": f"the mean of {candidate['evaluations']} evaluations, ± {candidate['standard_error']:.2g}"}


def origin(candidate: Mapping[str, Any]) -> dict[str, object]:
    """The origin of a candidate."""
    from pace_async.observe.spending import cost_of

    return {
        "idea": candidate["idea"],
        "experiment": candidate["experiment"],
        "parent": candidate["parent"],
        "island": candidate["island"],
        "policy version": candidate["policy_version"],
        "staleness": candidate["staleness"],
        "cost": cost_of(candidate["cost_usd"]),
    }
