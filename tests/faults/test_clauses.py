"""The list of faults and the tests that show them agree, in both directions. Read from the files and not collected, so
that it holds whichever tests are run."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

from tests.faults.clauses import CLAUSES, NOT_COVERED

TESTS = Path(__file__).parents[1]
LISTED = {(heading, clause) for heading, clauses in CLAUSES.items() for clause in clauses}


@cache
def marked() -> Counter[tuple[str, str]]:
    """How often each clause is named in a mark, over all files of tests."""
    found: Counter[tuple[str, str]] = Counter()
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.fault"):
                heading, clause = (ast.literal_eval(argument) for argument in node.args)
                found[heading, clause] += 1
    return found


def test_every_clause_has_a_test_or_a_statement_that_it_has_none() -> None:
    without = LISTED - set(marked())
    assert without == set(NOT_COVERED), "a clause without a test belongs in NOT_COVERED, one with a test does not"
    assert all(NOT_COVERED.values()), "each with its reason"


def test_every_mark_names_a_clause() -> None:
    assert set(marked()) <= LISTED


def test_no_clause_occurs_twice() -> None:
    assert len(LISTED) == sum(len(clauses) for clauses in CLAUSES.values())
