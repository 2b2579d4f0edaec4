"""What a candidate in the middle of a run asks its models, in tokens by section, with `advisor.calls: one`.

    python -m scripts.benchmarks.prompt_tokens
    python -m scripts.benchmarks.prompt_tokens eplb 9 --text
    python -m scripts.benchmarks.prompt_tokens --every
    python -m scripts.benchmarks.prompt_tokens --grown

Tokens are characters divided by four. The implementer's question stands once for each of three specifications: settings
only, one function, the longest function of the program. The states are those of tests/support/mid_run.py: 12 candidates
with a result, two under way. `--every` sums both questions on every bundled task, and `--grown` those of runs that were
answered by hand, in which programs grew. No model is called.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean

from pace_async.context.questions import RenderedQuestion
from tests.support.grown_run import grown
from tests.support.mid_run import questions

TASKS = (("eplb", 6), ("eplb", 9), ("eplb", 11), ("multi_evolve", 5), ("circle_packing", 5))
"""Tasks and parents. On eplb candidate 11 is the best program, and on candidate 6 an experiment has failed."""


EVERY = tuple(sorted(file.parent.name for file in (Path(__file__).parents[2] / "tasks").glob("*/task.yaml")))
"""Bundled tasks."""
BY_HAND = (("multi_evolve_one_call_3", "multi_evolve"), ("eplb_one_call_2", "eplb"))
"""Recorded runs with one call."""


def tokens_by_section(asked: Mapping[str, RenderedQuestion]) -> dict[str, Counter[str]]:
    """Tokens of each question by section. `wording` are the system prompt and all that stands around the sections."""
    counts = dict[str, Counter[str]]()
    for call, question in asked.items():
        characters = Counter({name: len(text) for name, text in question.sections.items()})
        characters["wording"] = len(question.system) + len(question.text) - characters.total()
        counts[call] = Counter({name: round(count / 4) for name, count in characters.items()})
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?")
    parser.add_argument("parent", nargs="?", type=int, default=0)
    parser.add_argument("--text", action="store_true", help="print the questions too")
    parser.add_argument("--every", action="store_true", help="the sums on every bundled task")
    parser.add_argument("--grown", action="store_true", help="the sums for each candidate of runs by hand")
    given = parser.parse_args()
    if given.every:
        for task in EVERY:
            sums = [sums_of(tokens_by_section(questions(task, parent))) for parent in (5, 9)]
            print(task, *(f"mean {round(mean(each))}, dearest {max(each)}" for each in sums), sep=" | ")
        return
    if given.grown:
        for run, task in BY_HAND:
            sums = [sums_of(tokens_by_section(asked))[0] for _, asked in grown(run, task)]
            print(run, f"mean {round(mean(sums))}", *sums)
        return
    for task, parent in TASKS if given.task is None else ((given.task, given.parent),):
        asked = questions(task, parent)
        counts = tokens_by_section(asked)
        if given.text:
            print(*(f"[system]\n{each.system}\n[user]\n{each.text}" for each in asked.values()), sep="\n")
        print(*table(f"{task}, candidate {parent}", counts), sep="\n", end="\n\n")


def table(title: str, counts: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Lines of Markdown. `both` are the advisor's question and the implementer's of that column."""
    used = [
        name
        for name in {name: None for each in counts.values() for name in each}
        if any(each[name] for each in counts.values())
    ]
    yield f"| {title} | {' | '.join(counts)} |"
    yield f"|---|{'---:|' * len(counts)}"
    for name in sorted(used, key=lambda name: -counts["advisor"][name]):
        yield f"| {name} | {' | '.join(str(each[name] or '') for each in counts.values())} |"
    yield f"| all | {' | '.join(str(each.total()) for each in counts.values())} |"
    both = sums_of(counts)
    yield f"| both | {round(mean(both))} | {' | '.join(map(str, both))} |"


def sums_of(counts: Mapping[str, Counter[str]]) -> list[int]:
    """Tokens of the advisor's question and the implementer's together, for each specification."""
    return [counts["advisor"].total() + each.total() for call, each in counts.items() if call != "advisor"]


if __name__ == "__main__":
    main()
