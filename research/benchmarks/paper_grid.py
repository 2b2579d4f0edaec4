"""The paper's comparison: tasks × methods × seeds, each a separate `pace run`, with a table and three panels a task.

    python research/benchmarks/paper_grid.py --scale small  # two cores; no GPU, no key, no network
    python research/benchmarks/paper_grid.py --scale paper --tasks eplb --advisor 8b --seeds 0
    python research/benchmarks/paper_grid.py --scale small --shard 2/3  # a third of the runs, for one of three machines
    python research/benchmarks/paper_grid.py --scale small --tasks multi_evolve --without-guards
    python research/benchmarks/paper_grid.py --scale small --report-only
    python research/benchmarks/paper_grid.py --scale paper --dry-run  # cards, hours and USD, and runs nothing

Resumable: a finished run is not run again, and an interrupted one goes on. To join shards, copy their folders into one.
The settings are those of the scale: `configs/paper/small.yaml` for any task, with `small_TASK.yaml` where there is one,
or `TASK.yaml` as published. For a method other than `pace`, `METHOD.yaml` overrides them. `end_to_end` needs a language
model, so `pace run` refuses it at scale small. With --without-guards the
steps at scale small are not limited either. The table goes to table.md and the panels (best reward so far, entropy,
gradient norm) to TASK.svg, in the folder of --out. The table also has the other metrics of the best program, the
gradient norm before clipping, the mean entropy of the first and of the last quarter of updates, the mean spread of the
rewards in a group in the first and the last quarter of groups, the spikes of a run, and the share of the candidates
after which a method was as good as another at its end.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.fitness import fitness_of
from pace_async.report.diagnostics import diagnostics_of, place_reaching, quarters
from research.benchmarks import paper_costs
from research.benchmarks.bench_runs import (
    Wanted,
    difference,
    exit_code,
    finished,
    known_names,
    known_tasks,
    made_folder,
    part_of,
    refuse,
    run_all,
    seeds_of,
    spread,
)
from research.benchmarks.objectives_plot import Curve, draw
from research.benchmarks.run_traces import Trace, read

CONFIGS = Path(__file__).parents[2] / "configs" / "paper"
METHODS = {
    "pace": "PACEvolve++",
    "thetaevolve": "ThetaEvolve",
    "ttt_discover": "TTT-Discover",
    "ttt_discover_published": "TTT-Discover, as published",
    "maxk": "Max@k",
    "no_rl": "no RL",
    "end_to_end": "no advisor: one model writes the code",
}
TITLES = {"eplb": "EPLB", "kuairec": "KuaiRec", "multi_evolve": "Multi-Evolve"}
ADVISORS = {"4b": "Qwen3.5-4B", "8b": "DeepSeek-R1-0528-Qwen3-8B"}
OURS = "pace"
ROWS = tuple(method for method in METHODS if method not in ("ttt_discover_published", "end_to_end"))
"""Those of the paper: all in one harness."""
SCALES = {
    "small": {"tasks": "circle_packing,eplb", "seeds": "0-2", "jobs": 2},
    "paper": {"tasks": "eplb,kuairec,multi_evolve", "seeds": "0", "jobs": 1},
}
METRICS = {
    "eplb": ("balancedness", "speed"),
    "kuairec": ("ndcg_10", "ndcg_50", "hr_10", "hr_50", "mrr"),
    "multi_evolve": ("pearson", "precision_five_per_cent", "precision_five_items"),
}
"""Those of the paper's tables, where a task reports more."""

HIGHER = fitness_of("maximize", 0.0, 1.0)
"""Of the tasks of the paper. Which score is as good as another does not depend on the bounds."""

Runs = Mapping[str, Sequence[Trace]]
"""The finished runs of each method on one task."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(SCALES), default="small")
    parser.add_argument("--tasks", help="by comma; default: circle_packing,eplb at scale small, else the paper's three")
    parser.add_argument(
        "--methods", default=",".join(ROWS), help=f"by comma, of {', '.join(METHODS)}; default: {', '.join(ROWS)}"
    )
    parser.add_argument("--seeds", help="first-last, or a single one; default: 0-2 at scale small, else 0")
    parser.add_argument(
        "--without-guards", action="store_true", help="at scale small: no warm-up, limit on a step or rollback"
    )
    parser.add_argument("--advisor", choices=["4b", "8b"], default="4b", help="at scale paper: Qwen3.5 or DeepSeek-R1")
    parser.add_argument("--candidates", type=int, help="of a run; default: what the settings say")
    parser.add_argument("--budget", type=float, help="USD of a run, at most; default: what the settings say")
    parser.add_argument("--jobs", type=int, help="runs at once; default: 2 at scale small, else 1")
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the runs")
    parser.add_argument(
        "--folder", type=Path, help="of the runs; default: runs/paper_grid/small, small_without_guards or ADVISOR"
    )
    parser.add_argument("--out", type=Path, help="folder of table and plots; default: that of the runs")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--report-only", action="store_true")
    instead.add_argument(
        "--dry-run", action="store_true", help="at scale paper: cards, hours and USD of each row, and of all seeds"
    )
    chosen = parser.parse_args()
    if chosen.dry_run and chosen.scale == "small":
        refuse("--dry-run is for --scale paper: at scale small no model is paid and no card is needed")
    for name, value in SCALES[chosen.scale].items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, value)
    if chosen.folder is None:
        small = "small_without_guards" if chosen.without_guards else "small"
        chosen.folder = Path("runs/paper_grid") / (small if chosen.scale == "small" else chosen.advisor)
    seeds, tasks, methods = (
        seeds_of(chosen.seeds),
        known_tasks(chosen.tasks),
        known_names(chosen.methods, METHODS, "method"),
    )
    if chosen.dry_run:
        paper_costs.show(
            [
                (TITLES.get(task, task), _advisor(chosen, method), partial(planned, chosen, task, method))
                for task in tasks
                for method in methods
            ],
            len(seeds),
        )
        return 0
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        every = [wanted(chosen, task, method, seed) for seed in seeds for task in tasks for method in methods]
        failed = run_all(part_of(every, chosen.shard), chosen.jobs)
    write_report(
        {
            task: {
                method: [read(folder) for seed in seeds if finished(folder := folder_of(chosen, task, method, seed))]
                for method in methods
            }
            for task in tasks
        },
        chosen.out or chosen.folder,
    )
    return exit_code(failed)


def folder_of(chosen: argparse.Namespace, task: str, method: str, seed: int) -> Path:
    """The folder of one run."""
    return chosen.folder / f"{task}-{method}-{seed}"


def layers_of(chosen: argparse.Namespace, task: str, method: str) -> list[Path]:
    """Files of settings: those of the scale, overridden by the advisor's and the method's."""
    layers = [task]
    if chosen.scale == "small":
        layers = ["small"]
        if (CONFIGS / f"small_{task}.yaml").is_file():
            layers.append(f"small_{task}")
        if chosen.without_guards:
            layers.append("without_guards")
    if chosen.scale == "paper" and chosen.advisor == "8b":
        layers.append("deepseek_8b")
    if method != OURS:
        layers.append(method)
    return [CONFIGS / f"{layer}.yaml" for layer in layers]


def planned(chosen: argparse.Namespace, task: str, method: str) -> Config:
    """The settings of one run, but for its seed and folder. Raises UsageError."""
    given = {"stop.candidates": chosen.candidates, "stop.budget": chosen.budget}
    own = {"task": task, **{name: value for name, value in given.items() if value is not None}}
    return resolve(layers_of(chosen, task, method), own)


def _advisor(chosen: argparse.Namespace, method: str) -> str:
    """The advisor of a row, with the method where it is not the paper's."""
    return ADVISORS[chosen.advisor] + (f", {METHODS[method]}" if method != OURS else "")


def wanted(chosen: argparse.Namespace, task: str, method: str, seed: int) -> Wanted:
    """One run."""
    arguments = [task]
    for layer in layers_of(chosen, task, method):
        arguments += ["--config", str(layer)]
    arguments += ["--seed", str(seed), f"--set=evaluation.memo={chosen.folder / 'memo.db'}"]
    if chosen.candidates is not None:
        arguments += ["--candidates", str(chosen.candidates)]
    if chosen.budget is not None:
        arguments += ["--budget", f"{chosen.budget:g}"]
    return Wanted(folder_of(chosen, task, method, seed), arguments)


def write_report(grid: Mapping[str, Runs], folder: Path) -> None:
    """Print the tables of all tasks that have finished runs, and write them and the panels to `folder`."""
    tables: list[str] = []
    for task, every in grid.items():
        runs = {method: traces for method, traces in every.items() if traces}
        if runs:
            tables.append(report(task, runs))
            made_folder(folder)
            plot(task, runs, folder / f"{task}.svg")
    if not tables:
        sys.stderr.write("no run has finished yet, so there is nothing to report\n")
        return
    text = "\n".join(tables)
    (folder / "table.md").write_text(text)
    sys.stdout.write(text)


def report(task: str, runs: Runs) -> str:
    """The tables of one task, in Markdown: mean ± standard deviation over the runs of a method."""
    names = METRICS.get(task) or tuple(next(iter(runs.values()))[0].metrics)
    heads = ["method", "runs", "best score", "best reward", "area under best reward", *names]
    heads += ["entropy, first → last quarter", "gradient norm, median", "largest", "spikes: entropy, gradient norm"]
    heads += ["spread of rewards, first → last quarter", "seconds"]
    lines = [f"### {task}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for method, traces in runs.items():
        cells = [METHODS[method], str(len(traces))]
        cells += [spread(column) for column in _outcomes(traces).values()]
        cells += [spread([trace.metrics[name] for trace in traces]) for name in names]
        cells += [
            *_diagnostics(traces),
            _change([trace.reward_spread for trace in traces]),
            f"{np.mean([trace.seconds for trace in traces]):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    others = [method for method, traces in runs.items() if method != OURS and len(traces) > 1]
    if others and len(runs.get(OURS, ())) > 1:
        ours = _outcomes(runs[OURS])
        lines += ["", f"| difference (95 % interval, Welch) | {' | '.join(ours)} |", "|---" * (len(ours) + 1) + "|"]
        for method in others:
            cells = [difference(ours[name], column) for name, column in _outcomes(runs[method]).items()]
            lines.append(f"| {METHODS[OURS]} − {METHODS[method]} | {' | '.join(cells)} |")
        lines += ["", "| as good as the other at its end | share of the candidates |", "|---|---|"]
        for method in others:
            for ahead, behind in ((OURS, method), (method, OURS)):
                lines.append(f"| {METHODS[ahead]} as {METHODS[behind]} | {_reached(runs[ahead], runs[behind])} |")
    return "\n".join(lines) + "\n"


def _reached(traces: Sequence[Trace], others: Sequence[Trace]) -> str:
    """When the mean of the best score so far was first as good as that of the others at the end."""
    length = min(len(trace.best) for trace in (*traces, *others))
    final = float(np.mean([trace.best[length - 1] for trace in others]))
    means = np.mean([trace.best[:length] for trace in traces], axis=0)
    place = place_reaching([(float(at), float(mean)) for at, mean in enumerate(means, 1)], final, HIGHER)
    return "never" if place is None else f"{100 * place / length:.0f} % ({place:.0f} of {length})"


def _outcomes(traces: Sequence[Trace]) -> dict[str, list[float]]:
    """The results of the search and their time, one figure a run."""
    return {
        "best score": [float(trace.best[-1]) for trace in traces],
        "best reward": [float(trace.best_reward[-1]) for trace in traces],
        "area under best reward": [float(trace.best_reward.mean()) for trace in traces],
    }


def _diagnostics(traces: Sequence[Trace]) -> list[str]:
    """Means over runs, dashes if nothing was trained."""
    trained = [trace for trace in traces if len(trace.entropy)]
    if not trained:
        return ["–"] * 4
    norms = [trace.grad_norm for trace in trained]
    middle, largest = np.mean([np.median(norm) for norm in norms]), np.max([norm.max() for norm in norms])
    diagnostics = [diagnostics_of(list(trace.entropy), list(trace.grad_norm), []) for trace in trained]
    entropy = _change([trace.entropy for trace in trained])
    spikes = [
        _mean([each.entropy_spikes for each in diagnostics]),
        _mean([each.grad_norm_spikes for each in diagnostics]),
    ]
    return [entropy, f"{middle:.2f}", f"{largest:.2f}", ", ".join(spikes)]


def _mean(numbers: Sequence[int | None]) -> str:
    """Of the runs with enough groups, a dash if there are none."""
    known = [number for number in numbers if number is not None]
    return f"{np.mean(known):.1f}" if known else "–"


def _change(curves: Sequence[Curve]) -> str:
    """The means over runs of the first and of the last quarter, a dash without a value."""
    found = [change for curve in curves if (change := quarters(list(curve))) is not None]
    if not found:
        return "–"
    first, last = np.mean(found, axis=0)
    return f"{first:.3f} → {last:.3f}"


def plot(task: str, runs: Runs, path: Path) -> None:
    """Draw the three panels. Runs that train nothing appear only in the first."""
    learning = {method: traces for method, traces in runs.items() if any(len(trace.entropy) for trace in traces)}
    panels = {
        "best reward so far": {
            (METHODS[method], ""): [t.best_reward for t in traces] for method, traces in runs.items()
        },
        "entropy, nats a token": {(METHODS[method], ""): [t.entropy for t in ts] for method, ts in learning.items()},
        "gradient norm": {(METHODS[method], ""): [t.grad_norm for t in ts] for method, ts in learning.items()},
    }
    draw(path, task, panels)


if __name__ == "__main__":
    sys.exit(main())
