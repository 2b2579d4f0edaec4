"""pace advantages: what the learner would make of these rewards."""

import typer

from pace_async.cli.output import JSON_OPTION, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advantages", context_settings={"ignore_unknown_options": True})(show)


def show(
    rewards: list[float] = typer.Argument(..., help="Rewards of one group.", metavar="R1 R2 ..."),
    objective: str = typer.Option("pace", "--objective", help="pace, grpo, entropic or maxk."),
    k: int = typer.Option(4, "--k", help="k of the best-of-k branch."),
    alpha: float = typer.Option(0.0, "--alpha", help="Weight of the best-of-k branch, 0 to 1."),
    restandardise: bool = typer.Option(
        False, "--restandardise", help="Standardise the mixture once more, as the authors' code does."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Print the advantages that the learner would use for these rewards.

    Example: pace advantages --objective pace --k 2 --alpha 0.5 -1 0 2.5 4
    """
    from pace_async.errors import UsageError
    from pace_async.objectives import Collapsed, advantages

    try:
        result = advantages(objective, rewards, k=k, alpha=alpha, restandardise=restandardise)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    skipped = isinstance(result, Collapsed)
    if as_json:
        reason = {"reason": f"{result.branch} branch collapsed"} if isinstance(result, Collapsed) else {}
        print_json({"advantages": None if skipped else result, "skipped": skipped, **reason})
    elif isinstance(result, Collapsed):
        typer.echo(f"skipped: the {result.branch} branch carries no signal for these rewards")
    else:
        shown = [f"{reward:g}" for reward in rewards]
        width = max(map(len, shown))
        for reward, value in zip(shown, result, strict=True):
            typer.echo(f"{reward:<{width}}  {value:+.6f}")
