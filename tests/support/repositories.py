"""A made repository of three packages and forty files, whose benchmark and tests are its evaluator, and an advisor on
loopback for runs of its task."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.raw_provider import Asked, answering

PACKAGES = ("alpha", "beta", "gamma")
MODULES = 9
BENCH = """\
import importlib
import subprocess
import sys

code = subprocess.run([sys.executable, "tests/test_values.py"]).returncode
if code:
    sys.exit(code)
names = [f"{package}.m{number}" for package in ("alpha", "beta", "gamma") for number in range(1, 10)]
sys.path.insert(0, "src")
print("score", sum(importlib.import_module(name).value() for name in names))
"""
TESTS = """\
import sys
import unittest

sys.path.insert(0, "src")

from alpha import m1, m2
from beta import m3


class Values(unittest.TestCase):
    def test_values_are_numbers(self):
        self.assertTrue(all(isinstance(module.value(), float) for module in (m1, m2, m3)))


if __name__ == "__main__":
    unittest.main()
"""


def make_repository(folder: Path) -> Path:
    """The repository, with one commit and a clean checkout."""
    for package in PACKAGES:
        (folder / "src" / package).mkdir(parents=True)
        (folder / "src" / package / "__init__.py").write_text("")
        for number in range(1, MODULES + 1):
            text = f'"""Module {number}."""\n\nVALUE = 1.0\n\n\ndef value():\n    return VALUE\n'
            (folder / "src" / package / f"m{number}.py").write_text(text)
    (folder / "src" / "gamma" / "unused.py").write_text("U = 1\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_values.py").write_text(TESTS)
    (folder / "bench.py").write_text(BENCH)
    (folder / ".gitignore").write_text("build/\n")
    for number in range(7):
        (folder / f"NOTES{number}.md").write_text(f"note {number}\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        author = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **author})
    return folder


@contextmanager
def advised() -> Generator[tuple[str, Asked]]:
    """An advisor on loopback with a new idea for each question. Yields the address of its API, and what it is asked."""
    number = iter(range(1, 1_000_000))

    def answer(_: dict[str, Any]) -> tuple[int, object]:
        place = next(number)
        said = (
            f"Idea A (refine): raise value number {place} of a module\nChoice: A\nReasoning: it is added up\n"
            f"Specification:\nRaise VALUE number {place}.\nNeeds: none"
        )
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "local"}
        return 200, {**body, "choices": [choice], "usage": usage}

    with answering(answer) as (url, asked):
        yield f"{url}/v1", asked
