"""Tokens by call, and what became of the ideas, in the searches by hand whose questions and answers are kept.

    python -m scripts.benchmarks.rounds_by_hand

Tokens are characters divided by four, in the mean over the calls of a kind. A candidate counts if an implementer was
asked for its specification. Prints the table of docs/results/by_hand.md.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean

from pace_async.advise.one_answer import parse_one
from pace_async.answers import IDEAS_PER_PROPOSAL, parse_select
from tests.support.rounds_by_hand import ROUNDS, asked

KINDS = ("one", "propose", "select", "implement", "notes")
RUNS = tuple(sorted(file.name.partition(".")[0] for file in ROUNDS.glob("*.jsonl.xz")))
ANY = 10**6
"""Above the number of any idea."""
AGAIN = "# Your answer to this cannot be "
"""What stands above an answer that is asked for once more."""
COMPARED = 60
"""Characters by which a specification is recognised in the implementer's question."""

_UNTRIED = re.compile(r"^# (?:Untried ideas|Ideas that nobody has tried)\n(.*?)(?=^# )", re.MULTILINE | re.DOTALL)
_MORE = re.compile(r"^(\d+) more untried ideas", re.MULTILINE)
_TRIED = re.compile(r"^(\d+) tried in all", re.MULTILINE)


@dataclass(slots=True)
class Counted:
    """One run. `tokens` are those of each question and its answer, by kind of call. Ideas have the numbers that the run
    gave them. `known` are the untried ideas of which the last question to the advisor tells, shown or only counted, and
    `complete` the candidates of which it tells."""

    tokens: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[float, float]]](list)
    )
    candidates: int = 0
    proposed: list[set[int]] = field(default_factory=list[set[int]])
    tried: set[int] = field(default_factory=set[int])
    covered: set[int] = field(default_factory=set[int])
    known: int = 0
    complete: int = 0

    @property
    def ideas(self) -> int:
        return sum(map(len, self.proposed))

    @property
    def evicted(self) -> int:
        """Ideas of candidates that were complete at the last question, neither tried nor covered, and not known."""
        waiting = set[int]().union(*self.proposed[: self.complete]) - self.tried - self.covered
        return max(0, len(waiting) - self.known)


def counted(run: str) -> Counted:
    """What the questions and answers of a run say."""
    rows, found = list(asked(run)), Counted()
    carried_out = [" ".join(question.split()) for kind, question, _ in rows if kind == "implement"]
    mended = [question for _, question, _ in rows if AGAIN in question]
    refused = dict[str, int]()
    for kind, question, answer in rows:
        found.tokens[kind].append((len(question) / 4, len(answer) / 4))
        if kind in ("one", "select") and (untried := _UNTRIED.search(question)):
            more, tried = _MORE.search(untried[1]), _TRIED.search(question)
            found.known = untried[1].count("- idea ") + (int(more[1]) if more else 0)
            found.complete = int(tried[1]) if tried else 0
        place = next((place for said, place in refused.items() if said in question), None)
        if kind in ("one", "propose") and place is None:
            found.candidates += 1
            if kind == "one" and any(answer.strip() in again for again in mended):
                refused[answer.strip()] = found.candidates
                found.proposed.append(set())
                continue
        first = IDEAS_PER_PROPOSAL * ((found.candidates if place is None else place) - 1)
        if kind == "propose":
            found.proposed.append({first + each for each in range(1, IDEAS_PER_PROPOSAL + 1)})
        elif kind == "select":
            found.tried.add(parse_select(answer, ANY)[0])
        elif kind == "one":
            read = parse_one(answer)
            if not any(" ".join(read.specification.split())[:COMPARED] in text for text in carried_out):
                found.proposed.append(set())
                continue
            proposed = {first + each for each in range(1, len(read.ideas) + 1)}
            if place is None:
                found.proposed.append(proposed)
            else:
                found.proposed[place - 1] = proposed
            chosen = first + read.place if read.place is not None else read.number
            found.tried |= {chosen} if chosen is not None else set()
            found.covered |= {*read.covers, *(first + each for each in read.covers_places)}
    found.covered -= found.tried
    return found


def row_of(run: str) -> str:
    """The run's line of the table."""
    found = counted(run)
    calls = "".join(f" {_tokens_text(found.tokens.get(kind, []))} |" for kind in KINDS)
    never = found.ideas - len(found.tried)
    return (
        f"| `{run}` | {found.candidates} |{calls} {found.ideas} | {len(found.tried)} | {never}, {len(found.covered)} | "
        f"{found.evicted} |"
    )


def _tokens_text(sizes: Sequence[tuple[float, float]]) -> str:
    """Tokens of a question and of an answer in the mean, empty without a call."""
    if not sizes:
        return ""
    return f"{mean(size for size, _ in sizes):,.0f}, {mean(size for _, size in sizes):,.0f}"


def main() -> int:
    heads = (
        "questions and answers",
        "candidates",
        *KINDS,
        "ideas",
        "tried",
        "never tried, of which covered",
        "evicted",
    )
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    for run in RUNS:
        sys.stdout.write(f"{row_of(run)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
