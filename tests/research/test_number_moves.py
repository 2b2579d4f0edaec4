"""What the local server answers where a task has no catalogue."""

import pytest

from research.rivals import number_moves
from research.rivals.local_advice import advice

BLOCK = "x1 = 4  # not 9\ny = 0.5 * x1 + 1e-3\n"


@pytest.mark.parametrize(
    ("place", "factor", "changed"),
    [
        (1, 2.0, "x1 = 8  # not 9"),
        (2, 1.1, "y = 0.55 * x1"),
        (3, 0.5, "+ 0.0005"),
        (4, 1.03, "x1 = 5  # not 9"),
        (4, 0.97, "x1 = 3  # not 9"),
    ],
)
def test_one_number_outside_of_comments_is_multiplied(place: int, factor: float, changed: str) -> None:
    new = number_moves.scaled(BLOCK, place, factor)
    assert changed in new
    assert sum(old != line for old, line in zip(BLOCK.split("\n"), new.split("\n"), strict=True)) == 1


def test_a_block_without_numbers_stays() -> None:
    assert number_moves.scaled("x = y\n", 3, 2.0) == "x = y\n"


@pytest.mark.parametrize(("mark", "fence"), [("#", "r"), ("//", "go")])
def test_the_answer_is_the_block_with_the_number_that_the_experiment_names(mark: str, fence: str) -> None:
    program = f"{mark} EVOLVE-BLOCK-START\na = 10\nb = 20\n{mark} EVOLVE-BLOCK-END\nprint(a)\n"
    question = f"The program:\n```{fence}\n{program}```\n\nExperiment: Multiply number 2 of the block by 0.5.\n"
    assert number_moves.answer(question) == f"```{fence}\na = 10\nb = 10\n```\n"


def test_ideas_are_read_again_and_differ() -> None:
    ideas = [number_moves.idea(number) for number in range(60)]
    assert len(set(ideas)) == 60
    program = "# EVOLVE-BLOCK-START\na = 10\n# EVOLVE-BLOCK-END\n"
    for idea in ideas:
        assert "a = 10\n" not in number_moves.answer(f"```python\n{program}```\n\nExperiment: {idea}\n")
    told = advice("ok", "\nPropose three new ideas", "key", None, 1)
    assert told.count("Multiply number") == 3
