"""Questions and answers of runs in which a strong model answered by hand."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

ROUNDS = Path(__file__).parents[1] / "data" / "by_hand"


def asked(name: str) -> Iterator[tuple[str, str, str]]:
    """Kind of call, question and answer."""
    for line in lzma.decompress((ROUNDS / f"{name}.jsonl.xz").read_bytes()).decode().splitlines():
        row = json.loads(line)
        question = row["question"]
        if "You change one" in question:
            kind = "implement"
        elif "Propose three new ideas" in question:
            kind = "propose"
        elif "You keep the notes" in question:
            kind = "notes"
        else:
            kind = "select" if "Choose one idea by its number" in question else "one"
        yield kind, question, row["answer"]
