"""pace idea: ideas of one's own for a run that searches."""

import typer

from pace_async.cli.output import JSON_OPTION, NAMED_RUN, RUN_ARGUMENT, print_json, tell

app = typer.Typer(help="Ideas of your own for a run.", no_args_is_help=True)
NUMBERS: list[int] = typer.Argument(..., help="Numbers of ideas.", metavar="N...")
UNDO: bool = typer.Option(False, "--undo", help="Take it back.")


@app.callback()
def idea() -> None:
    """Ideas of your own for a run."""


@app.command("add")
def add(
    run: str = NAMED_RUN,
    text: str = typer.Argument(..., help="What to try, as you would tell a colleague.", metavar="IDEA"),
) -> None:
    """Put an idea into a run, which may be going on in another terminal. Its advisor sees it from the next candidate
    on, before other untried ideas, and decides whether and how to try it. A run that has ended takes it in when it is
    resumed.

    Example: pace idea add eplb-1 "Place the two hottest experts on different nodes before anything else."
    """
    from pace_async.interface.ideas import add_idea

    tell(f"idea {add_idea(run, text)}: the advisor sees it from the next candidate on")


@app.command("veto")
def veto(run: str = NAMED_RUN, numbers: list[int] = NUMBERS, undo: bool = UNDO) -> None:
    """Rule ideas out. From the next candidate on they are not shown as untried, and no answer may choose them. What was
    tried of them stays in the results.

    Example: pace idea veto eplb-1 12 7
    """
    _mark(run, numbers, "veto", undo)


@app.command("pin")
def pin(run: str = NAMED_RUN, numbers: list[int] = NUMBERS, undo: bool = UNDO) -> None:
    """Put ideas first among the untried ones, as pinned by a person, until they are tried. At most five wait at a time.

    Example: pace idea pin eplb-1 12
    """
    _mark(run, numbers, "pin", undo)


def _mark(run: str, numbers: list[int], mark: str, undo: bool) -> None:
    from pace_async.interface.steering import mark_ideas

    goes_on = mark_ideas(run, numbers, mark, undo)
    when = "from the next candidate on" if goes_on else "when the run, which has ended, is resumed"
    tell_marked("idea", numbers, mark, undo, when)


def tell_marked(noun: str, numbers: list[int], mark: str, undo: bool, when: str) -> None:
    """Say what these are from now on by the word of a person."""
    from pace_async.interface.steering import DONE
    from pace_async.observe.formatting import count

    status = f"not {DONE[mark]} any more" if undo else DONE[mark]
    tell(f"{count(len(numbers), noun)} {status} {when}")


@app.command("list")
def list_ideas(run: str | None = RUN_ARGUMENT, as_json: bool = JSON_OPTION) -> None:
    """The ideas of people in a run, and what came of each, and others that were pinned or ruled out.

    Example: pace idea list eplb-1
    """
    from pace_async.interface.ideas import ideas_given
    from pace_async.interface.steering import DONE
    from pace_async.observe.formatting import clean, count, score

    ideas = ideas_given(run)
    if as_json:
        print_json(ideas)
        return
    for each in ideas:
        outcome = "not taken in yet" if each["after"] is None else "not tried yet"
        if each["tried"]:
            outcome = f"tried {count(each['tried'], 'time')}"
            outcome += ", no score" if each["score"] is None else f", best {score(each['score'])} ({each['candidate']})"
        if each["mark"]:
            outcome += f", {DONE[each['mark']]}{'' if each['mark_after'] is not None else ' (not taken in yet)'}"
        tell(f"{each['number']}  {outcome}: {clean(each['text'])}")
    if not ideas:
        tell("nobody has put an idea into this run: `pace idea add RUN IDEA`")
