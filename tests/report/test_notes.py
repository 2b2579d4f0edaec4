"""Notes in the report, on a run's web page, from Python and on the terminal: the text of a model, as data."""

import json
from pathlib import Path

import anyio

from pace_async.events import ImplementerCalled, NotesPage
from pace_async.interface.reading import open as open_for_reading
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.written_notes import WrittenNotes
from pace_async.report.facts import gather
from pace_async.report.notes import EARLIER, notes
from pace_async.report.page import page
from pace_async.web.overview import run_page
from tests.support.command_line import Shell
from tests.support.population_facts import fresh, rollout

HOSTILE = "Worked:\n<script>alert(1)</script> \u202egnp\x1b[31m\nFailed:\n</pre><h1>Run</h1>\nOpen:\nmore"


def written(number: int, text: str = HOSTILE) -> WrittenNotes:
    return WrittenNotes(NotesPage(number, 4 * number, None, text), 4 * number, "a <model>", 900, 300, 0.25, 6000.0)


def a_run(folder: Path, pages: int = 2) -> Path:
    """The population of a run with so many pages, the last of which is hostile."""

    async def make() -> None:
        async with fresh(folder) as store:
            for number in range(1, pages + 1):
                text = HOSTILE if number == pages else "Worked:\nthe first\nFailed:\nnothing\nOpen:\nall"
                notes = NotesPage(number, number, None, text)
                call = ImplementerCalled(number, "writer", "ok", 900, 300, 0.25, 2.0, 6000.0, role="notes", notes=notes)
                await store.commit(*rollout(number), call)

    folder.mkdir(exist_ok=True)
    anyio.run(make)
    return folder / "population.db"


def test_a_page_is_text_with_its_model_and_its_cost_and_earlier_ones_are_folded() -> None:
    assert notes(()) == []
    [newest] = notes([written(1)])
    assert "After 4 candidates, by a &lt;model&gt;: 900 tokens in, 300 out, $0.25." in newest
    assert "&lt;script&gt;" in newest and "<script>" not in newest and "</pre><h1>" not in newest
    assert "\u202e" not in newest and "\x1b" not in newest
    newest, earlier = notes([written(number) for number in range(1, EARLIER + 4)])
    assert f"After {4 * (EARLIER + 3)} candidates" in newest
    assert f"<summary>{EARLIER} of {EARLIER + 2} earlier pages</summary>" in earlier
    assert earlier.count('class="page"') == EARLIER


def test_the_report_and_the_web_page_of_a_run_show_its_notes(tmp_path: Path) -> None:
    with open_readonly(a_run(tmp_path)) as reader:
        facts = gather(reader)
    for made in (page(facts), run_page("demo", facts)):
        assert ">Notes</h2>" in made and "Earlier pages" in made and "&lt;script&gt;alert(1)" in made
        assert "<script>alert" not in made and made.index("After 2 candidates") < made.index("After 1 candidates")


def test_a_run_without_notes_shows_no_heading_for_them(tmp_path: Path) -> None:
    with open_readonly(a_run(tmp_path, pages=0)) as reader:
        facts = gather(reader)
    assert "Notes</h2>" not in page(facts) and "Notes</h2>" not in run_page("demo", facts)


def test_the_terminal_and_python_show_the_notes(shell: Shell) -> None:
    a_run(shell.folder / "run")
    said = shell.pace("show", "run", "--notes")
    assert said.code == 0 and "2, of which 2 is the newest" in said.out and "0.2500 USD" in said.out
    assert "    Worked:\n    <script>alert(1)</script>" in said.out and "\x1b" not in said.out
    pages = json.loads(shell.pace("show", "run", "--notes", "--json").out)
    assert pages == open_for_reading(shell.folder / "run").notes()
    assert [(one["number"], one["newest"], one["text"][:16]) for one in pages] == [
        (1, 1, "Worked:\nthe firs"),
        (2, 2, "Worked:\n<script>"),
    ]


def test_notes_are_asked_for_alone_and_a_run_without_any_says_so(shell: Shell) -> None:
    a_run(shell.folder / "run", pages=0)
    for wrong, sentence in (
        (("--islands",), "leave one of them out"),
        (("1",), "leave the candidate and --prompts out"),
        (("--prompts",), "leave the candidate and --prompts out"),
        ((), "The run has no notes yet: with search.notes_every"),
    ):
        said = shell.pace("show", "run", "--notes", *wrong)
        assert said.code == 2 and sentence in said.err
