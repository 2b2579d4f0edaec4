"""The tables of the trials, in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import get_args

import numpy as np

from research.benchmarks.bench_runs import spread
from research.trials.figures import Difference, Figures, difference, holm, verdict
from research.trials.plan import HALF, MARKS, Comparison, Measure

Runs = Mapping[int, Figures]
"""The figures of an arm, by seed."""
Found = Mapping[tuple[str, str], Runs]
"""Those of each testbed and arm."""


def table(runs: Mapping[str, Runs], candidates: int) -> Iterator[str]:
    """What each arm found on a testbed. Groups: trained, skipped, and held by the guard against collapse. Age:
    of the rollouts that trained, in updates."""
    marks = [mark for mark in MARKS if mark <= candidates]
    shares = "".join(f" share after {mark} |" for mark in marks)
    yield f"| arm | seeds |{shares} area | evaluations to {HALF} | groups | age | parsed | entropy | seconds |"
    yield "|---" * (9 + len(marks)) + "|"
    for arm, by_seed in runs.items():
        every = list(by_seed.values())
        if not every:
            continue
        cells = [arm, str(len(every)), *(spread([one.share(mark) for one in every]) for mark in marks)]
        cells.append(spread([one.measured("area") for one in every]))
        never = sum(one.censored for one in every)
        soon = np.mean([one.measured("evaluations to the mark") for one in every])
        cells.append(f"{soon:.0f}" + (f" ({never} never)" if never else ""))
        cells.append(
            ", ".join(f"{np.mean(part):.0f}" for part in ([r.trained for r in every], [r.skipped for r in every]))
        )
        cells[-1] += f", {np.mean([one.held for one in every]):.1f}"
        cells.append(f"{np.mean([one.age for one in every]):.1f}")
        cells.append(f"{np.mean([one.parsed for one in every]):.3f}")
        first, last = (float(np.mean([one.entropy[end] for one in every])) for end in (0, 1))
        cells.append("" if isnan(first) else f"{first:.3f} → {last:.3f}")
        cells.append(f"{np.mean([one.seconds for one in every]):.0f}")
        yield f"| {' | '.join(cells)} |"


def differences(runs: Mapping[str, Runs], other: str, candidates: int) -> Iterator[str]:
    """Each arm less the other one, paired by seed."""
    measures = [
        name for name in get_args(Measure) if not name.startswith("share") or int(name.split()[-1]) <= candidates
    ]
    yield f"| less `{other}`, paired, 95 % | pairs | " + " | ".join(measures) + " |"
    yield "|---" * (2 + len(measures)) + "|"
    for arm, by_seed in runs.items():
        gaps = [difference(_measured(by_seed, name), _measured(runs.get(other, {}), name)) for name in measures]
        if arm != other and all(gaps):
            pairs = gaps[0].pairs if gaps[0] else 0
            yield f"| {arm} | {pairs} | " + " | ".join(map(str, gaps)) + " |"


def verdicts(comparisons: Sequence[Comparison], found: Found) -> Iterator[str]:
    """The preregistered comparisons of a family. A verdict is said once all seeds of its comparison have run. Until all
    comparisons have, each p is multiplied by their number, which is never less than what Holm's correction gives."""
    gaps = [_gap(comparison, found) for comparison in comparisons]
    rows = list(zip(comparisons, gaps, strict=True))
    complete = [gap is not None and gap.pairs == one.seeds for one, gap in rows]
    yield "| claim | testbed | difference | measured | effect, 95 % | pairs | p, corrected | verdict |"
    yield "|---" * 8 + "|"
    plain = [_p(one, gap) for one, gap in rows]
    corrected = holm(plain) if all(complete) else [min(1.0, len(plain) * p) for p in plain]
    for (one, gap), p, whole in zip(rows, corrected, complete, strict=True):
        cells = [one.claim, one.testbed, f"{one.ours} − {one.theirs}", one.measure]
        cells += [str(gap) if gap else "", f"{gap.pairs if gap else 0} of {one.seeds}"]
        cells += [f"{p:.2g}" if whole else "", verdict(one, gap, p) if whole and gap else "still running"]
        yield f"| {' | '.join(cells)} |"


def _gap(comparison: Comparison, found: Found) -> Difference | None:
    ours, theirs = (found.get((comparison.testbed, arm), {}) for arm in (comparison.ours, comparison.theirs))
    return difference(_measured(ours, comparison.measure), _measured(theirs, comparison.measure))


def _measured(runs: Runs, measure: Measure) -> Mapping[int, float]:
    return {seed: one.measured(measure) for seed, one in runs.items()}


def _p(comparison: Comparison, gap: Difference | None) -> float:
    if gap is None:
        return 1.0
    p = gap.equivalent_p if comparison.better == 0 else gap.p
    return 1.0 if isnan(p) else p


def joined(parts: Sequence[Iterator[str]]) -> str:
    """Tables with an empty line between them."""
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
