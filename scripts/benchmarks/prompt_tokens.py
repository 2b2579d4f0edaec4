"""What a candidate in the middle of a run asks its models, in tokens by section, with `advisor.calls: one`.

    python -m scripts.benchmarks.prompt_tokens
    python -m scripts.benchmarks.prompt_tokens eplb 9 --text

Tokens are characters divided by four. The implementer's question stands once for each of three specifications: settings
only, one function, the longest function of the program. The states are those of tests/support/mid_run.py: 12 candidates
with a result, two under way. No model is called.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import mean

from pace_async.context.questions import Rendered
from tests.support.mid_run import questions

TASKS = (("eplb", 6), ("eplb", 9), ("eplb", 11), ("multi_evolve", 5), ("circle_packing", 5))
"""Tasks and parents. On eplb candidate 11 is the best program, and on candidate 6 an experiment has failed."""


def tokens_by_section(asked: Mapping[str, Rendered]) -> dict[str, Counter[str]]:
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
    given = parser.parse_args()
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
    both = [counts["advisor"].total() + each.total() for call, each in counts.items() if call != "advisor"]
    yield f"| both | {round(mean(both))} | {' | '.join(map(str, both))} |"


if __name__ == "__main__":
    main()
