"""pace advantages: the advantages that the learner computes from given rewards."""

from typing import TYPE_CHECKING

import typer

from pace_async.cli.output import JSON_OPTION, print_json, tell
from pace_async.registry.objectives import OBJECTIVES

if TYPE_CHECKING:
    from pace_async.cli.documents import AdvantagesShown

_K = 4  # of the best-of-k branch, as in a run
_COLLAPSED = ("other_branch", "skip")


def show(
    rewards: list[float] = typer.Argument(..., help="Rewards of one group.", metavar="R1 R2 ..."),
    objective: str = typer.Option(
        "pace", "--objective", help=f"{', '.join(name for name, entry in OBJECTIVES.items() if entry.trains)}."
    ),
    k: int | None = typer.Option(None, "--k", help="k of the best-of-k branch [default: 4, or the number of rewards]."),
    alpha: float = typer.Option(0.0, "--alpha", help="Weight of the best-of-k branch, 0 to 1."),
    restandardise: bool = typer.Option(
        False, "--restandardise", help="Standardise the mixture once more, as the authors' code does."
    ),
    collapsed: str = typer.Option(
        "other_branch",
        "--collapsed",
        help="Where one branch of pace has collapsed: other_branch or skip, as learner.collapsed.",
        metavar="other_branch|skip",
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Print the advantages that the learner would use for these rewards.

    Example: pace advantages --objective pace --k 2 --alpha 0.5 -1 0 2.5 4
    """
    from pace_async.errors import UsageError
    from pace_async.objectives import Collapsed, advantages

    if collapsed not in _COLLAPSED:
        raise UsageError(f"--collapsed takes {' or '.join(_COLLAPSED)}, not {collapsed!r}.")
    branch_k = min(_K, len(rewards)) if k is None else k
    try:
        result = advantages(
            objective, rewards, k=branch_k, alpha=alpha, restandardise=restandardise, collapsed=collapsed
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    if as_json:
        document: AdvantagesShown = {"advantages": None, "skipped": True}
        if isinstance(result, Collapsed):
            document["reason"] = f"{result.branch} branch collapsed"
        else:
            document = {"advantages": list(result), "skipped": False}
        print_json(document)
    elif isinstance(result, Collapsed):
        tell(f"skipped: {_collapse_reason(result.branch, rewards)}")
    else:
        labels = [f"{reward:g}" for reward in rewards]
        width = max(map(len, labels))
        for reward, value in zip(labels, result, strict=True):
            tell(f"{reward:<{width}}  {value:+.6f}")


def _collapse_reason(branch: str, rewards: list[float]) -> str:
    """Why a branch collapsed: the rewards are too far apart for a finite spread, or too close together."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.std(rewards)
    if not np.isfinite(spread):
        return "the spread of these rewards is not finite"
    return f"the {branch} branch carries no signal for these rewards"
