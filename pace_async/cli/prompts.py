"""pace prompts: what models are asked, and templates of one's own."""

from pathlib import Path

import typer

from pace_async.cli.completing import task_names
from pace_async.cli.options import overrides_of
from pace_async.cli.output import JSON_OPTION, print_json, tell

app = typer.Typer(help="What language models are asked.", no_args_is_help=True)


@app.callback()
def prompts() -> None:
    """What language models are asked."""


@app.command("show")
def show(
    task: str = typer.Argument(..., help="A task's name or folder.", autocompletion=task_names, metavar="TASK"),
    run: str | None = typer.Argument(None, help="A run's name or folder: ask as its next candidate.", metavar="[RUN]"),
    files: list[Path] | None = typer.Option(None, "--config", help="YAML file of settings.", metavar="FILE"),
    sets: list[str] | None = typer.Option(
        None, "--set", help="A setting, such as prompts.set=paper.", metavar="KEY=VALUE"
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Print each question as a model is asked it, with about how many tokens each section has.

    Without a run it is the first question of a search, with the seed program, the limits and the bounds that the
    settings give. Nothing is evaluated, so it says "not scored yet" where a run has the seed program's score and
    metrics, and an example stands for the ideas and the specification of later questions. Advisors of the package
    have a wording of their own, which `pace show RUN CANDIDATE --prompts` prints: of them it shows what another model
    is asked in one call, unless `advisor.calls` is given.

    Example: pace prompts show eplb

    Example: pace prompts show eplb --set advisor.calls=three --set prompts.set=paper
    """
    from pace_async.configure import resolve
    from pace_async.runtime.start.asked import questions_of

    document = questions_of(resolve(files, {**overrides_of(sets), "task": task}), run)
    if as_json:
        print_json(document)
        return
    for question in document["questions"]:
        listed = ", ".join(f"{name} {tokens}" for name, tokens in question["sections"].items() if tokens)
        tell(f"== {question['call']}: about {question['tokens']} tokens ({listed})\n")
        tell(f"[system]\n{question['system']}\n[user]\n{question['text']}")
    tell(f"digest of the templates: {document['digest']}")


@app.command("init")
def init(
    folder: Path = typer.Argument(..., help="The folder to make, as in tasks/mine/prompts.", metavar="FOLDER"),
    sets: list[str] | None = typer.Option(
        None, "--set", help="A setting, such as prompts.set=paper.", metavar="KEY=VALUE"
    ),
) -> None:
    """Copy the templates of the package, to be changed. A run takes them from its task's folder `prompts`, or from
    `--set prompts.folder=FOLDER`. Files that you leave alone may be removed again.

    Example: pace prompts init my_prompts
    """
    from pace_async.configure import resolve
    from pace_async.context.templates import copied

    for file in copied(folder, resolve(None, overrides_of(sets)).prompts):
        tell(str(file))
