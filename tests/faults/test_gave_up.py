"""The message that a run gave up says what to do about it."""

import ast
from pathlib import Path

import pytest

import pace_async

REMEDIES = (
    "`pace resume",
    "`pace rescore` goes on",
    "try again later",
    "and try again.",
    ".remedy}",
    "{remedy(",
    "see to the disk, then {then}",
    "and {self._then}",
    "self._last_words(",
    "{DISK_REMEDIES[",
)
"""One of them stands in each sentence, or is put into it; `then`, `_then`, `remedy` and DISK_REMEDIES say what to do.
`_last_words` ends in `pace resume`."""


def sentences() -> list[tuple[str, str]]:
    """Where a GaveUp is raised in the package, and the source of its sentence."""
    found: list[tuple[str, str]] = []
    for file in sorted(Path(pace_async.__file__).parent.rglob("*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "GaveUp":
                (sentence,) = node.args
                found.append((f"{file.name}:{node.lineno}", ast.unparse(sentence)))
    return found


@pytest.mark.long
@pytest.mark.fault("Sick, not dead", "every sentence with which a run gives up says what to do")
def test_every_sentence_with_which_a_run_gives_up_says_what_to_do() -> None:
    found = sentences()
    assert len(found) >= 10
    assert [(where, said) for where, said in found if not any(remedy in said for remedy in REMEDIES)] == []
