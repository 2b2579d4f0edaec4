"""The wording for an advisor that was trained on prompts in prose which show a catalogue's settings.

The evolve block of such a prompt holds the lines that assign the catalogue's names and nothing else. A block may hold a
whole algorithm, which the advisor has never seen and has no room for. So the prompts are made as if the programs were
their settings. Pure: equal values give equal text.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from pace_async.advise.prompts import ProseWording
from pace_async.programs.languages import PYTHON, Language, language_of
from pace_async.programs.text import assigned, editable, indentation, marks
from pace_async.search.state import Member, SearchContext
from pace_async.task import Task

REMEMBERED = 128
"""Cache size: programs whose settings are kept."""


class SettingsWording(ProseWording):
    """Prose about the settings of programs, in place of the programs. `names` are those that the catalogue assigns."""

    def __init__(self, task: Task, names: Iterable[str]) -> None:
        super().__init__(task)
        self._names = tuple(names)
        self._language = task.spec.language

    def _shown(self, context: SearchContext) -> SearchContext:
        """Settings for programs."""
        return replace(context, parent=self._settings(context.parent), best=self._settings(context.best))

    def _settings(self, member: Member) -> Member:
        return replace(member, program=settings_program(member.program, self._names, self._language))


@lru_cache(maxsize=REMEMBERED)
def settings_program(program: str, names: tuple[str, ...], language: str = PYTHON) -> str:
    """A program of marks and, between them, the lines of the block that assign these names. Entries of a table keep the
    lines around the table. A program without any of the names stays as it is."""
    try:
        block = editable(program)[1]
    except ValueError:
        return program
    lines = block.split("\n")
    numbers = sorted(_assigning(block, names, language_of(language)))
    if not numbers:
        return program
    if indentation(lines[numbers[0]]) > min(indentation(line) for line in lines if line.strip()):
        numbers = [numbers[0] - 1, *numbers, numbers[-1] + 1]
    start, end = marks(language_of(language).comment)
    return "\n".join([start, *(lines[number] for number in numbers if 0 <= number < len(lines)), end, ""])


def _assigning(block: str, names: Iterable[str], language: Language) -> set[int]:
    """Numbers of the lines that assign a name."""
    matches = (line for name in names for line in assigned(block, language, name))
    return {block.count("\n", 0, line.start()) for line in matches}
