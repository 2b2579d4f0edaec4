"""Writes what each ready config needs into its comment, as `pace plan` says.

python scripts/documentation/docs_plans.py           write the comments
python scripts/documentation/docs_plans.py --check   exit code 1 if a comment is not what would be written, or if a
                                                     config does not fit the cards that its comment names

A block begins with a line that names the command and ends with END. The models are those in `shapes`, by their
config.json alone. Equal training steps are counted once, each in a fork of this process, because importing torch takes
longer than most counts.
"""

import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

from pace_async.cli.planning import lines_of
from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.plan.places import CardMemory
from pace_async.plan.planned import Counter, Plan
from pace_async.plan.step import StepBytes, StepShape
from pace_async.runtime.children.advisor_choice import with_advisor
from pace_async.runtime.start.planning import plan_for
from pace_async.task import load_task
from scripts.documentation.docs_page import written

ROOT = Path(__file__).parents[2]
SHAPES = Path(__file__).parent / "shapes"
END = "# End of the plan.\n"
_BLOCK = re.compile(rf"(# What it needs, in GiB, as `pace plan ([^`]+)` says:\n)((?:#.*\n)*?){END}")


def configs() -> list[Path]:
    """The ready configs with such a block."""
    return sorted(file for file in (ROOT / "configs").rglob("*.yaml") if _BLOCK.search(file.read_text("utf-8")))


def text_of(config: Path, count: Counter) -> tuple[str, bool]:
    """The config's text with the block as it should be, and whether the run fits."""
    text = config.read_text("utf-8")
    found = _BLOCK.search(text)
    assert found is not None
    config_of_run, plan = _plan(found[2].split(), count)
    lines = "".join(f"#   {line}".rstrip() + "\n" for line in lines_of(config_of_run, plan))
    return text[: found.end(1)] + lines + END + text[found.end() :], not plan.faults


def _plan(words: list[str], count: Counter) -> tuple[Config, Plan]:
    files = [ROOT / word for word in words if word.endswith(".yaml")]
    sizes = [float(after) for word, after in pairwise(words) if word == "--card"]
    config = resolve(files, environment={})
    config = with_advisor(config, load_task(config.task))
    cards = [CardMemory(str(number), size * 2**30) for number, size in enumerate(sizes)]
    return config, plan_for(config, cards, count)


def _counter() -> Counter:
    """Counts in forks of this process."""
    import torch
    from transformers.utils import logging

    from pace_async.plan.count import count

    logging.set_verbosity_error()
    torch.set_num_threads(1)

    def forked(shape: StepShape) -> StepBytes:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as child:
            return child.submit(count, shape).result()

    return cache(forked)


def main() -> int:
    os.chdir(SHAPES)
    count, worst = _counter(), 0
    for config in configs():
        text, fits = text_of(config, count)
        if not fits:
            print(f"{config} does not fit", file=sys.stderr)
            worst = 1
        worst = max(worst, written(config, text, sys.argv))
    return worst


if __name__ == "__main__":
    sys.exit(main())
