"""The plan of `next_problem.py`: does what an advisor learned on one table help it on the next one?

Planned on 29 November 2026, before any of its runs. Each pair has two hidden tables of columnar, A and B, with seeds of
its own. On A an advisor starts as it is in the package, trains for CANDIDATES candidates, and leaves its newest version
N. A bandit searches A for as long, and leaves its counts. On B four arms search with equal seeds:

    cold         the advisor from version 0, as it is in the package
    warm         the same with the weights of version N as version 0, and a fresh optimizer
    told bandit  the bandit, which begins with the counts of A's
    bandit       the bandit, which knows nothing

The advisor learns on B in both of its arms. All arms begin with the task's own program, so nothing but the advice comes
from A.

Hypothesis: the kinds of columns are the same on all tables, and what helps one column of a kind mostly helps the
others. So `warm` is ahead of `cold`, most after few candidates. A bandit keeps exact counts by kind of column, so the
told bandit may be ahead of `warm`.

Measure: the best score in bits after MARKS candidates, paired by table. Two-sided paired t tests with 95 % intervals,
and Holm's correction over the four differences of COMPARED at MARKS. p below .05 is told apart. The pairs are run in
the order of their seeds, and a pair counts once its four arms have finished. If there is no time for PAIRS, the verdict
is that of the pairs that there are, and says how many. All other differences are exploratory: interval, no verdict.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from research.trials.plan import COMMON, FREE, OWN_RATE, RELATIVE

PAIRS = 10
FIRST_A, FIRST_B = 11_000, 11_500
"""Seeds of run and table. No other trial has used them."""
CANDIDATES = 480
MARKS = (160, CANDIDATES)
BEFORE = ("learned", "counted")
"""The runs on A: of the advisor, and of the bandit."""
AFTER = ("cold", "warm", "told bandit", "bandit")
COMPARED = (("warm", "cold"), ("warm", "told bandit"))
EXPLORED = (("told bandit", "bandit"), ("cold", "bandit"))

_LEARNS = ("--objective", "pace", *FREE, *RELATIVE, f"--set=learner.tiny_learning_rate={OWN_RATE['pace']:g}")
_BANDIT = ("--advisor", "bandit", "--objective", "none")
_ARMS: Mapping[str, Sequence[str]] = {
    "learned": _LEARNS,
    "cold": _LEARNS,
    "warm": _LEARNS,
    "counted": _BANDIT,
    "told bandit": _BANDIT,
    "bandit": _BANDIT,
}


def folder_of(folder: Path, arm: str, pair: int) -> Path:
    """The folder of a run."""
    return folder / f"{arm.replace(' ', '_')}-{pair}"


def arguments(folder: Path, arm: str, pair: int) -> Sequence[str]:
    """The arguments of `pace run`."""
    seed = pair + (FIRST_A if arm in BEFORE else FIRST_B)
    begins = ("--advisor-from", str(folder_of(folder, "learned", pair))) if arm == "warm" else ()
    numbers = ("--seed", str(seed), f"--set=evaluation.seed={seed}", "--candidates", str(CANDIDATES))
    return ("columnar", *COMMON, *_ARMS[arm], *begins, "--async", "--max-staleness", "2", *numbers)
