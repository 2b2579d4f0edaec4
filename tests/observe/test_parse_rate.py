"""The share of answers that parse is shown, and a fall of it raises an alarm once, on the screen and in status."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.config import StopConfig
from pace_async.events import Evaluated, RunStateChanged
from pace_async.events.causes import DID_NOT_END
from pace_async.observe.fold import fold
from pace_async.observe.history import view_of
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.parse_rate import alarm_of, answers_of, lately, parse_rate, share_text
from pace_async.observe.plain import PlainDisplay
from pace_async.observe.search_sections import failing_or_bottleneck, search
from pace_async.observe.summary import closing_words
from pace_async.population.reading.progress import RECENT, recent_answers
from pace_async.population.reading.reader import open_readonly
from tests.support.observe_facts import fold_all
from tests.support.population_facts import HEADER, advised, evaluated, fresh, opened


def ended(lease: int, parsed: bool) -> Evaluated:
    return evaluated(lease, score=1.0) if parsed else replace(evaluated(lease, score=None), outcome="unparsed")


def events(parses: Sequence[bool]) -> list[Evaluated]:
    return [ended(lease, parsed) for lease, parsed in enumerate(parses, start=1)]


def ran(parses: Sequence[bool]) -> RunView:
    return fold_all(RunView(header=HEADER), [RunStateChanged("running", "", 0.0), *events(parses)])


def alarm(parses: Sequence[bool]) -> str | None:
    view = ran(parses)
    return alarm_of(view.outcomes, view.recent_answers, HEADER.name)


def test_the_share_is_that_of_all_candidates_and_of_the_last_ones() -> None:
    assert (parse_rate({}), lately(()), share_text({}, ())) == (None, None, "")
    view = ran([True] * 60 + [False] * 20)
    assert parse_rate(view.outcomes) == 0.75
    assert lately(view.recent_answers) == 12 / RECENT
    assert share_text(view.outcomes, view.recent_answers) == "75 %, of the last 32 38 %"
    few = ran([True, False])
    assert share_text(few.outcomes, few.recent_answers) == "50 %"


@pytest.mark.parametrize(
    ("parses", "alarms"),
    [
        ([True] * 64, False),
        ([True] * 32 + [False] * 32, True),
        ([False] * 32 + [True] * 32, False),
        ([True] * 31 + [True, False] * 16, False),  # too few before
        ([False] * 31, False),
        ([False] * 32, True),  # worse than anything before or not
        ([False] * 800, True),
        ([True, False] * 64, False),  # bad, and no worse than before
        ([True] * 96 + [True] * 28 + [False] * 4, False),  # an eighth, where nothing failed before
        ([True] * 96 + [True] * 16 + [False] * 16, True),
        ([True] * 96 + [False] * 32 + [True] * 32, False),  # it has recovered
    ],
)
def test_the_alarm_is_raised_by_a_clear_fall_only(parses: list[bool], alarms: bool) -> None:
    found = alarm(parses)
    assert (found is not None) is alarms
    if found is not None:
        assert "of the last 32 answers cannot be parsed" in found
        assert "none was cut off by length" in found
        last = max(lease for lease, parsed in enumerate(parses, start=1) if not parsed)
        assert found.endswith(f"; `pace show {HEADER.name} {last} --prompts` shows one")


def test_the_alarm_names_the_cause_and_the_setting() -> None:
    cut = replace(ended(1, False), detail=f"propose {DID_NOT_END} 256 tokens")
    view = fold_all(
        RunView(header=HEADER), [*(replace(cut, lease=lease) for lease in range(1, 25)), *events([False] * 8)]
    )
    found = alarm_of(view.outcomes, view.recent_answers, HEADER.name)
    assert found is not None
    assert "32 of the last 32 answers cannot be parsed: 75 % of these were cut off by length" in found
    assert "raise advisor.max_tokens" in found and f"`pace show {HEADER.name} 24 --prompts` shows one" in found


def test_the_end_of_a_run_names_its_folder_and_the_candidate(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    [alarmed] = [
        line for line in closing_words(ran([True] * 48 + [False] * 32), folder, 9.0) if "cannot be parsed" in line
    ]
    assert f"`pace show '{folder}' 80 --prompts` shows one" in alarmed


def test_the_alarm_stands_on_the_screen_in_place_of_advice_and_is_printed_once(tmp_path: Path) -> None:
    parses = [True] * 48 + [False] * 32
    view = ran(parses)
    assert failing_or_bottleneck(view, 9.0, 200).plain == alarm(parses)
    assert "60 % parsed" in "\n".join(line.plain for line in search(view, 9.0, 120).lines)
    assert "cannot be parsed" not in failing_or_bottleneck(ran([True] * 80), 9.0, 200).plain
    file = tmp_path / "screen"
    with file.open("w") as stream:
        output = Output(stream)
        display, shown = PlainDisplay(output), ran([])
        for event in events([*parses, *[False] * 16]):
            shown = fold(shown, event)
            display.take(event, shown)
        anyio.run(output.drain, 1.0)
    assert file.read_text().count("answers cannot be parsed") == 1


@pytest.mark.parametrize(("advisor", "says"), [("bandit", False), ("tiny", True), ("api:any", True), ("./mine", True)])
def test_nothing_is_said_of_answers_where_no_model_gives_any(advisor: str, says: bool, tmp_path: Path) -> None:
    header = replace(HEADER, advisor=advisor)
    parses = [True] * 48 + [False] * 32
    view = fold_all(RunView(header=header), [RunStateChanged("running", "", 0.0), *events(parses)])
    screen = "\n".join(line.plain for line in search(view, 9.0, 120).lines)
    assert ("% parsed" in screen) is says
    assert ("cannot be parsed" in failing_or_bottleneck(view, 9.0, 200).plain) is says
    outcomes, recent = answers_of(advisor, view.outcomes, view.recent_answers)
    assert bool(share_text(outcomes, recent)) is says
    file = tmp_path / "screen"
    with file.open("w") as stream:
        output = Output(stream)
        PlainDisplay(output).take(events([False])[0], view)
        anyio.run(output.drain, 1.0)
    assert ("answers cannot be parsed" in file.read_text()) is says


async def test_the_rows_give_what_was_seen(tmp_path: Path) -> None:
    told = events([True] * 40 + [False] * 32)
    async with fresh(tmp_path) as store:
        for one in told:
            await store.commit(opened(one.lease), advised(one.lease), one)
        view = await view_of(await store.load(HEADER.name), StopConfig(), store)
    assert view.recent_answers == ran([True] * 40 + [False] * 32).recent_answers
    with open_readonly(str(tmp_path / "population.db")) as reader:
        assert reader.ask(recent_answers) == view.recent_answers
        assert reader.status()["outcomes"] == {"ok": 40, "unparsed": 32}
