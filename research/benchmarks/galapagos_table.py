"""Imports, checks and scores the tasks of Galapagos that need only Python packages, and tells what became of each.

    python research/benchmarks/galapagos_table.py --folder DIR [--shard I/N] [--match REGEX] [--again CAUSE]
    python research/benchmarks/galapagos_table.py --folder DIR --table docs/results/galapagos.md

DIR gets the tasks, one environment for the packages that pace does not bring, and a line for each task in
`rows-SHARD.jsonl`. The same command goes on with what is missing there. Shards may run one after the other or at once.
"""

import argparse
import contextlib
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from pace_async.errors import PaceError
from pace_async.peers.example import ImportOptions
from pace_async.peers.write import SETTINGS, name_of
from pace_async.runtime.start.importing import ENVIRONMENT, import_example, names_of
from pace_async.runtime.start.task_check import Check, examine
from pace_async.task import Setting

CAUSES = {
    "scored": "checked and scored",
    "needs packages": "its packages cannot be installed here",
    "needs a GPU": "it asks for a card",
    "too slow": "the seed program takes longer than the limit",
    "no seed": "it has no seed program",
    "failing": "the seed program has no score for another reason, or a check fails",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="longest evaluation")
    parser.add_argument("--shard", default="0/1", help="I/N: the tasks I, I + N, I + 2N, …")
    parser.add_argument("--match", default="", help="a regular expression: only tasks whose name it matches")
    parser.add_argument("--again", default="", help="a cause whose tasks are done again", choices=["", *CAUSES])
    parser.add_argument("--table", type=Path, help="write the page from what is there, and run nothing")
    asked = parser.parse_args()
    rows = {row["task"]: row for row in rows_of(asked.folder)}
    if asked.table:
        asked.table.write_text(page(list(rows.values()), len(names_of("galapagos"))), encoding="utf-8")
        return
    index, count = (int(part) for part in asked.shard.split("/"))
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in list(names_of("galapagos"))[index::count]:
        if not re.search(asked.match, name) or (name in rows and rows[name]["cause"] != asked.again):
            continue
        row = row_of(name, asked.folder, asked.seconds)
        with (asked.folder / f"rows-{index}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(f"\n{json.dumps(row)}\n")  # apart from a line that was cut short
        print(f"{name}: {row['cause']} {row['score']} {row['detail']}", flush=True)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of all shards, in the order in which they were measured. A later row of a task replaces an earlier
    one."""
    lines = [line for file in folder.glob("rows-*.jsonl") for line in file.read_text(encoding="utf-8").splitlines()]
    rows: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # one that was cut short by a kill
            rows.append(json.loads(line))
    return sorted(rows, key=lambda row: row.get("at", 0.0))


def row_of(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Import, check and score one task."""
    goal = folder / "tasks" / name_of(Path(name))
    shutil.rmtree(goal, ignore_errors=True)
    began = time.monotonic()
    row: dict[str, Any] = {
        "task": name,
        "cause": "failing",
        "score": None,
        "detail": "",
        "limit_s": seconds,
        "at": time.time(),
    }
    try:
        made = import_example(
            "galapagos", name, goal, ImportOptions(), True, install=True, environment=folder / ENVIRONMENT
        )
    except PaceError as error:
        text = str(error)
        cause = (
            "needs packages" if "cannot be installed" in text else "no seed" if "seed program" in text else "failing"
        )
        return row | {"cause": cause, "detail": text}
    own = next((line for line in made.lines if line.startswith("environment:")), "")
    settings = goal / SETTINGS
    limited = re.sub(
        r"^timeout_s: (.+)$",
        lambda given: f"timeout_s: {min(float(given[1]), seconds)}",
        settings.read_text(),
        flags=re.M,
    )
    settings.write_text(limited)
    checks: list[Check] = []
    anyio.run(examine, str(goal), 0, checks.append, dict[str, Setting]())
    return row | {"own_packages": bool(own), "seconds": round(time.monotonic() - began, 1)} | verdict(checks)


def verdict(checks: Sequence[Check]) -> dict[str, Any]:
    """Cause, score and detail of what the checks found."""
    failed = [one for one in checks if not one.ok]
    scored = next((one for one in checks if one.name == "seed program scores"), None)
    score = re.match(r"(-?[\d.]+(?:e[-+]?\d+)?) in ([\d.]+) s", scored.found) if scored is not None else None
    if score is not None and not failed:
        return {"cause": "scored", "score": float(score[1]), "evaluation_s": float(score[2]), "detail": ""}
    said = f"{failed[0].name}: {failed[0].found}" if failed else ""
    if failed and failed[0].name == "modules are installed":
        cause = "needs packages"
    elif "GPU" in said:
        cause = "needs a GPU"
    elif (
        failed and failed[0].name == "seed program scores" and (score or said.partition(": ")[2].startswith("timeout"))
    ):
        cause = "too slow"
    else:
        cause = "failing"
    return {"cause": cause, "score": float(score[1]) if score is not None else None, "detail": said[:300]}


def page(rows: Sequence[Mapping[str, Any]], count: int) -> str:
    """The page of the results."""
    causes = Counter(row["cause"] for row in rows)
    limits = sorted({row["limit_s"] for row in rows})
    lines = [
        "# The tasks of Galapagos",
        "",
        "Written by `python research/benchmarks/galapagos_table.py --folder DIR --table docs/results/galapagos.md` "
        "from what the same script measured: `pace task import galapagos NAME --install`, then `pace task check`, "
        "which scores the seed program twice. The tasks are those of open-galapagos 0.4.0 whose card names nothing but "
        f"Python packages. {len(rows)} of {count} were tried, with a limit of "
        f"{' or '.join(f'{limit:g}' for limit in limits)} s for one evaluation.",
        "",
        "| | tasks | what it means |",
        "|---|---|---|",
        *(f"| {cause} | {causes[cause]} | {meaning} |" for cause, meaning in CAUSES.items()),
        f"| not tried | {count - len(rows)} | |",
        "",
        "## Not scored",
        "",
        "| task | cause | what was said |",
        "|---|---|---|",
        *(
            f"| {row['task']} | {row['cause']} | {' '.join(row['detail'].split()).replace('|', '/')} |"
            for row in sorted(rows, key=lambda row: row["task"])
            if row["cause"] != "scored"
        ),
        "",
        "## Scored",
        "",
        "| task | score of the seed program | seconds of one evaluation | more packages |",
        "|---|---|---|---|",
        *(
            f"| {row['task']} | {row['score']:g} | {row['evaluation_s']:g} | {'yes' if row['own_packages'] else ''} |"
            for row in sorted(rows, key=lambda row: row["task"])
            if row["cause"] == "scored"
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
