"""Plain lines, JSON lines, the closing words, and the view of a run that goes on."""

import io
import json
import math
import runpy
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.config import StopConfig
from pace_async.events import (
    GIVEN_UP,
    CallUnaffordable,
    Evaluated,
    Fact,
    GroupEnded,
    ImplementerCalled,
    Role,
    RunStateChanged,
    StageChanged,
    TransientEvent,
    VersionPublished,
)
from pace_async.observe.bus import Bus, observing
from pace_async.observe.history import view_of
from pace_async.observe.jsonl import JsonlDisplay, event_line
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import PlainDisplay
from pace_async.observe.summary import closing_words
from pace_async.population.store import Store
from tests.support.observe_facts import BEGIN, fold_all, life, scored
from tests.support.population_facts import (
    HEADER,
    advised,
    call,
    empty_population,
    opened,
    rollout,
    seed_program,
    shipped,
    trained,
)

STOP = StopConfig(candidates=24)
EMPTY = RunView(HEADER, STOP)
SCREENSHOT = Path(__file__).parents[2] / "scripts" / "documentation" / "screenshot.py"


async def plain_lines(facts: list[Fact], view: RunView = EMPTY, every: int = 20) -> list[str]:
    stream = io.StringIO()
    bus = Bus(view)
    with anyio.fail_after(20):
        async with observing(bus, [PlainDisplay(Output(stream), every)]):
            for fact in facts:
                bus.publish(fact)
    return stream.getvalue().splitlines()


async def log_of(folder: Path, facts: list[Fact], view: RunView = EMPTY) -> Path:
    path = folder / "events.jsonl"
    bus = Bus(view)
    with anyio.fail_after(20):
        async with observing(bus, [JsonlDisplay(path, clock=lambda: BEGIN)]):
            for fact in facts:
                bus.publish(fact)
    return path


async def test_each_event_that_matters_is_a_line_and_ordinary_candidates_are_silent() -> None:
    facts: list[Fact] = [
        RunStateChanged("running", "", 2900.0),
        replace(seed_program(), at=2901.0),
        *rollout(1),
        *rollout(2, 2, 1.0),
        replace(shipped(1, (1, 2)), at=3010.0),
        replace(trained(1, (1, 2)), at=3011.0),
        RunStateChanged("done", "candidates", 3600.0),
    ]
    assert await plain_lines(facts) == [
        "run demo · task circle_packing · objective pace · advisor tiny · implementer catalog · 2 search threads"
        " · groups of 2 · staleness at most 2 · seed 7",
        "   0:00  running",
        "   0:01  seed program scored 0.9598",
        '   1:41  candidate 1 (island 1) scored 2.5000, the best so far: Change layout to "hex".',
        "   1:51  group 1 trained version 1: mean reward 0.50, alpha 0.05, staleness 0",
        "  11:40  done: stop rule candidates met",
    ]


async def test_every_few_candidates_a_line_gives_the_runs_figures() -> None:
    facts: list[Fact] = [RunStateChanged("running", "", BEGIN)]
    for lease in range(1, 8):
        facts += [replace(opened(lease), at=BEGIN + lease - 0.5), scored(lease, None, BEGIN + lease)]
    facts.insert(1, replace(opened(8), at=BEGIN))
    lines = [line.split("  ", 1)[1] for line in await plain_lines(facts, every=3) if " candidates" in line]
    assert [line.strip() for line in lines] == [
        "0:03  3 of 24 candidates · 60.0 a minute · no score yet · 0 groups trained · 1 in flight",
        "0:06  6 of 24 candidates · 60.0 a minute · no score yet · 0 groups trained · 1 in flight",
    ]


async def test_after_a_quiet_minute_the_figures_say_that_the_run_goes_on() -> None:
    buffer = io.StringIO()
    display = PlainDisplay(Output(buffer))
    view = fold_all(EMPTY, [RunStateChanged("running", "", BEGIN), seed_program(), replace(opened(1), at=BEGIN)])
    seen: list[int] = []
    for second in (1, 2, 59, 61, 62, 100, 121, 122, 183):
        await display.refresh(view, BEGIN + second)
        seen.append(buffer.getvalue().count("0 of 24 candidates"))
    await display.refresh(replace(view, ended_at=BEGIN + 184), BEGIN + 300)
    await display.close(view, BEGIN + 300)
    assert buffer.getvalue().count("0 of 24 candidates") == seen[-1]
    assert seen == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert "   1:01  0 of 24 candidates · best" in buffer.getvalue()


async def test_advice_is_printed_when_the_bottleneck_changes() -> None:
    paid = replace(EMPTY, stop=StopConfig(budget=2.0))
    facts: list[Fact] = [RunStateChanged("running", "", BEGIN), ImplementerCalled(1, "m", "ok", 1, 1, 0.5, 1.0, BEGIN)]
    for lease in range(1, 5):
        facts += [replace(opened(lease), at=BEGIN + lease), scored(lease, None, BEGIN + lease + 1.6)]
    untimed = [line for line in await plain_lines(facts, paid, every=2) if "would help" in line or "slowed by" in line]
    assert untimed == [], "no step was timed yet: the learner may be the limit"
    facts += [replace(shipped(1, (1, 2)), at=BEGIN + 4), replace(trained(1, (1, 2)), seconds=0.01, at=BEGIN + 4)]
    for lease in range(5, 7):
        facts += [replace(opened(lease), at=BEGIN + lease), scored(lease, None, BEGIN + lease + 1.6)]
    slow = replace(trained(2, (3, 4), update=1), seconds=60.0, at=BEGIN + 7)
    facts += [replace(shipped(2, (3, 4), update=1), at=BEGIN + 7), slow]
    for lease in range(7, 9):
        facts += [replace(opened(lease), at=BEGIN + lease), scored(lease, None, BEGIN + lease + 1.6)]
    lines = [line.strip() for line in await plain_lines(facts, paid, every=2)]
    advised = [line for line in lines if "would help" in line]
    assert advised == [
        "More threads would help, in a new run, up to 198 % more.",
        "The learner is the bottleneck: neither more threads nor a larger --max-staleness would help.",
    ]
    assert all("$0.50 of $2.00 spent" in line for line in lines if " candidates · " in line)


async def test_a_run_that_goes_on_says_from_where() -> None:
    view = fold_all(EMPTY, life(2))
    lines = await plain_lines([RunStateChanged("running", "", BEGIN + 5000)], view)
    assert "goes on from" in lines[1] and f"{view.candidates} of 24 candidates" in lines[1]


async def test_a_log_replaces_large_values_by_their_size(tmp_path: Path) -> None:
    advice = replace(advised(1), calls=(call("propose", 1, 2, tokens=9), call("select", tokens=3)))
    lines = [
        json.loads(event_line(event, BEGIN))
        for event in (advice, scored(1, 2.0, BEGIN), VersionPublished(1, 0.1, 0.1, {"a": "b", "c": "d"}, BEGIN))
    ]
    assert lines[0]["calls"] == [
        {"purpose": "propose", "prompt_tokens": 6, "completion_tokens": 9, "oldest_version": 1, "seconds": 0.5},
        {"purpose": "select", "prompt_tokens": 6, "completion_tokens": 3, "oldest_version": 0, "seconds": 0.5},
    ]
    assert lines[1]["program_chars"] == len("layout = 1\n") and "program" not in lines[1]
    assert lines[2]["receipt_tensors"] == 2 and "receipt" not in lines[2]


async def test_a_log_has_every_fact_in_order_with_its_time(tmp_path: Path) -> None:
    facts: list[Fact] = list(life(8))
    head, *lines = map(json.loads, (await log_of(tmp_path, facts)).read_text().splitlines())
    assert (head["event"], head["name"], head["stop"]["candidates"]) == ("RunHeader", HEADER.name, 24)
    assert [(line["event"], line["at"]) for line in lines] == [(type(fact).__name__, fact.at) for fact in facts]
    scores = [fact.score for fact in facts if isinstance(fact, Evaluated)]
    assert [line["score"] for line in lines if line["event"] == "Evaluated"] == scores


def test_numbers_that_json_cannot_hold_are_words() -> None:
    metrics = {"loss": math.nan, "grad_norm": math.inf, "low": -math.inf}
    ended = GroupEnded(1, 0, (1,), "skipped", "the loss is not a number", 0, None, metrics, 0.1, BEGIN)
    line = json.loads(event_line(ended, BEGIN), parse_constant=pytest.fail)
    assert line["metrics"] == {"loss": "nan", "grad_norm": "inf", "low": "-inf"}


async def test_a_log_goes_on_in_a_line_of_its_own_after_a_torn_one(tmp_path: Path) -> None:
    first, second = rollout(1), rollout(2, 2)
    path = await log_of(tmp_path, list(first))
    with path.open("a") as stream:
        stream.write('{"event":"Evaluated","at":17')
    await log_of(tmp_path, list(second), fold_all(EMPTY, first))
    lines = path.read_text().splitlines()
    torn = lines.pop(4)
    assert torn == '{"event":"Evaluated","at":17'
    run = ["RunHeader", "LeaseOpened", "Advised", "Evaluated"]
    assert [json.loads(line)["event"] for line in lines] == [*run, *run]


async def test_transient_events_are_logged_with_the_time_at_which_they_were_seen(tmp_path: Path) -> None:
    bus, path = Bus(EMPTY), tmp_path / "events.jsonl"
    with anyio.fail_after(20):
        async with observing(bus, [JsonlDisplay(path, clock=lambda: 17.5)]):
            bus.publish(StageChanged(1, 3, "evaluate"))
    line = json.loads(path.read_text().splitlines()[1])
    assert line == {"event": "StageChanged", "at": 17.5, "island": 1, "lease": 3, "stage": "evaluate"}


async def test_hostile_text_stays_inside_its_line(tmp_path: Path) -> None:
    advice = advised(1, experiment='"}\n{"event":"RunStateChanged"} \x1b[2J \ud800 \u2028')
    path = await log_of(tmp_path, [advice])
    assert len(path.read_text().splitlines()) == 2
    assert "\x1b" not in path.read_text()
    assert json.loads(path.read_text().splitlines()[1])["experiment"] == advice.experiment


async def test_a_log_that_cannot_be_written_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus(EMPTY)
    with anyio.fail_after(20):
        async with observing(bus, [JsonlDisplay(tmp_path / "missing" / "events.jsonl")]):
            bus.publish(seed_program())
    assert bus.view.seed_score == 0.9598
    assert (
        caplog.text.count("events.jsonl cannot be written (No such file or directory): its lines wait, the run goes on")
        == 1
    )


def test_the_summary_gives_the_result_its_place_and_the_next_commands() -> None:
    facts: list[Fact] = [RunStateChanged("running", "", 2900.0), seed_program(), *rollout(1), *rollout(2, 2, None)]
    facts += [shipped(1, (1, 2)), trained(1, (1, 2)), RunStateChanged("done", "candidates", 3500.0)]
    words = "\n".join(closing_words(fold_all(EMPTY, facts), Path("runs/my run"), 9999.0))
    assert words.startswith("Done after 10:00: stop rule candidates met.\n")
    assert "best        2.5000, candidate 1 of island 1; the seed program scored 0.9598" in words
    assert 'experiment  Change layout to "hex".' in words
    assert "candidates  2 complete (0.200 a minute), 1 scored, 1 timeout" in words
    assert "learning    1 group trained; version 0 published; staleness mean 0.00, at most 0 updates" in words
    assert "cost        $0.00 for 0 implementer calls; 0 faults of services or machine" in words
    assert "pace best 'runs/my run'" in words and "pace show 'runs/my run' 1" in words
    assert "pace db sql 'runs/my run' \"select * from leaderboard limit 5\"" in words
    assert "pace resume 'runs/my run' --candidates 48" in words


def called(outcome: str, usd: float, tokens: int = 9, role: Role = "implementer") -> ImplementerCalled:
    return ImplementerCalled(1, "m", outcome, tokens, tokens, usd, 1.0, BEGIN, role=role)


def cost_in_summary(config: dict[str, object], *calls: ImplementerCalled) -> str:
    view = fold_all(RunView(replace(HEADER, config=config), STOP), [RunStateChanged("running", "", BEGIN), *calls])
    lines = closing_words(replace(view, state="interrupted"), Path("runs/a"), 9999.0)
    return "\n".join(line for line in lines if line.startswith(("  cost", "  given up")))


def test_the_summary_explains_the_money_reserved_for_calls_without_an_answer() -> None:
    said = cost_in_summary({}, called("ok", 0.25), called(GIVEN_UP, 0.5, 0), called(GIVEN_UP, 0.25, 0))
    assert "cost        $1.00 for 3 implementer calls" in said
    assert said.endswith(
        "given up    $0.75 of this was reserved for 2 calls that had no answer when the run ended: the most that they "
        "can cost, because the provider may charge for them. It stays counted, also on resume; the provider's bill "
        "says what was charged"
    )
    assert "given up" not in cost_in_summary({}, called("ok", 0.25), called(GIVEN_UP, 0.0, 0))
    ended = [called(GIVEN_UP, 0.5, 0), RunStateChanged("running", "", BEGIN)]
    assert fold_all(EMPTY, ended).given_up_usd == 0.0  # those of an earlier process


def test_the_summary_says_unknown_for_a_model_without_a_price() -> None:
    free: dict[str, object] = {"implementer": {"price_per_million_in": 0.0, "price_per_million_out": 0.0}}
    assert "cost        USD unknown for 1 implementer call;" in cost_in_summary({}, called("ok", 0.0))
    assert "cost        $0.00 for 1 implementer call;" in cost_in_summary(free, called("ok", 0.0))
    assert "cost        $0.00 for 1 implementer call;" in cost_in_summary({}, called("ok", 0.0, tokens=0))
    both = cost_in_summary(free, called("ok", 0.0, role="advisor"), called("ok", 0.5))
    assert "$0.50 and USD unknown for 1 advisor call (USD unknown) and 1 implementer call ($0.50)" in both


def test_a_further_search_is_longer_than_the_one_before() -> None:
    view = fold_all(RunView(HEADER, StopConfig(candidates=1)), [seed_program(), *rollout(1), *rollout(2), *rollout(3)])
    words = closing_words(replace(view, state="done"), Path("runs/a"), 9999.0)
    assert any(line.endswith("pace resume runs/a --candidates 6") for line in words)


@pytest.mark.fault("Configuration and terminal", "the command that goes on raises every limit that is reached")
@pytest.mark.parametrize(
    ("stop", "state", "reason", "raised"),
    [
        (StopConfig(budget=0.5), "stopped_by_budget", "budget", " --budget 1.00"),
        (StopConfig(budget=0.5, candidates=2), "stopped_by_budget", "budget", " --candidates 4 --budget 1.00"),
        (StopConfig(updates=1), "done", "updates", " --updates 2"),
        (StopConfig(target=2.4), "done", "target", " --target SCORE"),
        (StopConfig(minutes=1), "done", "minutes", ""),
        (StopConfig(candidates=9), "interrupted", "interrupted", ""),
    ],
)
def test_the_next_command_raises_every_limit_that_is_reached(
    stop: StopConfig, state: str, reason: str, raised: str
) -> None:
    facts: list[Fact] = [RunStateChanged("running", "", 2900.0), seed_program(), *rollout(1), *rollout(2, 2, None)]
    facts += [shipped(1, (1, 2)), trained(1, (1, 2)), RunStateChanged(state, reason, 3500.0)]
    words = closing_words(fold_all(RunView(HEADER, stop), facts), Path("runs/a"), 9999.0)
    assert any(line.endswith(f"  pace resume runs/a{raised}") for line in words)


def test_where_a_call_costs_more_than_the_budget_the_next_command_pays_for_one_and_it_is_said() -> None:
    spent: list[Fact | TransientEvent] = [RunStateChanged("running", "", 2900.0), seed_program()]
    spent += [CallUnaffordable(0.066, 0.03), RunStateChanged("stopped_by_budget", "budget", 3500.0)]
    words = closing_words(fold_all(RunView(HEADER, StopConfig(budget=0.03)), spent), Path("runs/a"), 9999.0)
    assert any("the next may cost $0.07, $0.03 are left" in line for line in words)
    assert any(line.endswith("pace resume runs/a --budget 0.132") for line in words)


@pytest.mark.parametrize("columns", [20, 60])
def test_the_summary_wraps_between_words_and_never_inside_commands(columns: int) -> None:
    facts: list[Fact] = [RunStateChanged("running", "", 2900.0), seed_program(), *rollout(1), *rollout(2, 2, None)]
    view = fold_all(EMPTY, [*facts, RunStateChanged("done", "candidates", 3500.0)])
    whole, broken = (closing_words(view, Path("runs/a"), 9999.0, width) for width in (None, columns))
    assert " ".join("\n".join(broken).split()) == " ".join("\n".join(whole).split())
    at = broken.index("Next:")
    assert max(len(line) for line in broken[:at]) <= columns < max(len(line) for line in whole)
    assert broken[at:] == whole[whole.index("Next:") :]


def test_a_run_without_a_score_reports_it() -> None:
    interrupted = RunStateChanged("interrupted", "interrupted", 5.0)
    nothing = closing_words(fold_all(EMPTY, [RunStateChanged("running", "", 0.0), interrupted]), Path("runs/a"), 5.0)
    assert nothing[0] == "Interrupted after 0:05."
    assert any("no candidate got a score" in line for line in nothing)
    assert any("pace resume runs/a" in line for line in nothing)
    only_seed = closing_words(fold_all(EMPTY, [seed_program()]), Path("runs/a"), 5.0)
    assert any("0.9598, the seed program itself: no candidate was better" in line for line in only_seed)
    assert not any("pace show" in line for line in only_seed)


@pytest.mark.parametrize("seed", [0, 3])
async def test_the_view_of_a_resumed_run_is_the_view_of_an_uninterrupted_one(tmp_path: Path, seed: int) -> None:
    facts = list(life(seed))
    folded = fold_all(EMPTY, facts)
    async with Store.open(empty_population(tmp_path)) as store:
        await store.create_run(HEADER)
        for fact in facts:
            await store.commit(fact)
        found = await view_of(await store.load("demo"), STOP, store)
    kept = replace(
        folded,
        state="starting",
        started_at=None,
        last_at=0.0,
        finished_here=0,
        times=(),
        threads={},
        ledger=folded.ledger.resumed(folded.last_at),
        notes=(),
        latest=None,
    )
    assert found == kept


async def test_the_view_of_a_fresh_run_is_empty(tmp_path: Path) -> None:
    async with Store.open(empty_population(tmp_path)) as store:
        await store.create_run(HEADER)
        assert await view_of(await store.load("demo"), STOP, store) == EMPTY


async def test_a_picture_is_made_of_the_rows_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with Store.open(empty_population(tmp_path)) as store:
        await store.create_run(replace(HEADER, config={**HEADER.config, "stop": {"candidates": 24}}))
        await store.commit(*life(1))
    picture = tmp_path / "docs" / "run.svg"
    main = runpy.run_path(str(SCREENSHOT))["main"]
    main([str(tmp_path), "--output", str(picture), "--candidates", "6"])
    text = picture.read_text()
    assert text.startswith("<svg")
    assert "6&#160;of&#160;24&#160;candidates" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "6 candidates" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="ends after"):
        main([str(tmp_path), "--output", str(picture), "--candidates", "600"])
    with pytest.raises(SystemExit, match="no run"):
        main([str(tmp_path / "nowhere")])
