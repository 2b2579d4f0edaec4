"""The report: whole, inert, readable in a browser."""

import base64
import hashlib
import html
import json
import re
import shlex
import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.baseline import Baseline, BaselineComparison
from pace_async.config import StopConfig
from pace_async.configure import resolve
from pace_async.events import RunStateChanged
from pace_async.observe.model import RunView
from pace_async.population.reading.account import CompletedCandidate
from pace_async.population.reading.reader import open_readonly
from pace_async.report.axes import labelled, spread, ticks
from pace_async.report.facts import gather
from pace_async.report.markup import Markup, tag, text
from pace_async.report.page import page
from pace_async.report.reproduce import command
from pace_async.report.tree import place
from pace_async.report.visible import visible
from pace_async.task import reference_of
from pace_async.yaml_text import value_of
from tests.support.browsers import look, opened, shades
from tests.support.finished_runs import copy_run, make_run, pace, poison
from tests.support.fitness import UP
from tests.support.observe_facts import fold_all
from tests.support.population_facts import HEADER, fresh


class Elements(HTMLParser):
    """What a page consists of, as a browser's parser finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.headings: list[str] = []
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._in = tag

    def handle_data(self, data: str) -> None:
        if self._in == "h2" and data.strip():
            self.headings.append(data)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("report") / "run")


@pytest.fixture(scope="module")
def reported(finished: Path) -> str:
    with open_readonly(finished / "population.db") as reader:
        return page(gather(reader))


@pytest.fixture
def poisoned(finished: Path, tmp_path: Path) -> Path:
    run = copy_run(finished, tmp_path)
    poison(run)
    with open_readonly(run / "population.db") as reader:
        (run / "report.html").write_text(page(gather(reader)), encoding="utf-8")
    return run / "report.html"


def test_without_training_no_staleness_is_shown(finished: Path, reported: str) -> None:
    assert re.search(r"<b>\d of 2</b><span>worst staleness", reported)
    with open_readonly(finished / "population.db") as reader:
        facts = gather(reader)
    untrained = replace(facts, status={**facts.status, "trained": 0, "max_trained_staleness": 0})
    assert "<b>– of 2</b><span>worst staleness" in page(untrained)


def test_the_report_has_all_its_sections(reported: str, finished: Path) -> None:
    elements = Elements()
    elements.feed(reported)
    assert elements.headings == [
        "Best score so far",
        "How the best program came to be",
        "Tree of lineage",
        "Candidates",
        "Islands",
        "Learning",
        "Outcomes, faults and spend",
        "The best program against the seed program",
        "To repeat this run",
    ]
    for title in ("Staleness", "Rewards of each group", "Entropy", "Gradient norm", "Loss", "Alpha", "Spend"):
        assert title in reported
    database = sqlite3.connect(finished / "population.db")
    total, best = database.execute("select count(*), max(score) from candidates").fetchone()
    scored = database.execute("select count(score) from candidates").fetchone()[0]
    database.close()
    assert f"{best:.4f}" in reported
    assert reported.count('class="dot"') == scored
    assert 'class="dot gained"' in reported
    assert total > scored
    assert 'class="failed"' in reported
    assert 'class="added"' in reported


async def _driven_twice(folder: Path, states: Sequence[RunStateChanged]) -> str:
    async with fresh(folder) as store:
        for changed in states:
            await store.commit(changed)
        with open_readonly(store.place) as reader:
            return page(gather(reader))


def test_the_report_counts_the_time_of_a_run_as_its_screen_does(tmp_path: Path) -> None:
    """Each process counts from the beginning of its search to its end, the drain included. The pause between two
    processes does not count."""
    first = (RunStateChanged("running", "", 5000.0), RunStateChanged("interrupted", "", 5065.0))
    second = (
        RunStateChanged("running", "", 9000.0),
        RunStateChanged("draining", "", 9020.0),
        RunStateChanged("done", "", 9031.0),
    )
    shown = [fold_all(RunView(header=HEADER, stop=StopConfig()), process).elapsed(10**6) for process in (first, second)]
    assert shown == [65.0, 31.0]
    assert "<b>1:36</b><span>of search, pauses" in anyio.run(_driven_twice, tmp_path, (*first, *second))


def test_the_report_loads_nothing_and_allows_its_own_script_alone(reported: str) -> None:
    elements = Elements()
    elements.feed(reported)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(elements.tags)
    names = {name for name, _ in elements.attributes}
    assert not {"src", "srcset", "style"} & names
    assert not [name for name in names if name.startswith("on")]
    assert all((value or "").startswith("#") for name, value in elements.attributes if name == "href")
    assert "url(" not in reported
    [script] = re.findall("<script>(.*?)</script>", reported, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(value for name, value in elements.attributes if name == "content" and value and "src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert f"script-src 'sha256-{digest}';" in policy and "unsafe" not in policy and "self" not in policy
    assert "prefers-color-scheme: dark" in reported


def test_each_candidate_has_a_row_and_each_ancestor_of_the_best_its_step(reported: str, finished: Path) -> None:
    with open_readonly(finished / "population.db") as reader:
        facts = gather(reader)
    assert re.findall(r'<tr id="c(\d+)">', reported) == [str(row.candidate) for row in facts.account.candidates]
    assert reported.count('aria-label="Step to candidate') == len(facts.lineage) - 1
    assert set(re.findall(r'href="#c(\d+)"', reported)) <= set(re.findall(r'id="c(\d+)"', reported))


def test_the_command_of_a_report_resolves_the_same_configuration(finished: Path, reported: str) -> None:
    with open_readonly(finished / "population.db") as reader:
        header = reader.header()
    config = {**header.config, "task": reference_of(header)}
    words = shlex.split(command(config))
    assert words[:3] == ["pace", "run", str(config["task"])] and set(words[3::2]) <= {"--set"}
    pairs = [word.partition("=") for word in words[4::2]]
    again = resolve(None, {key: value_of(said, key) for key, _, said in pairs}, environment={})
    assert again.model_dump(mode="json") | {"task": "", "population": {}} == {**config, "task": "", "population": {}}
    assert text(command(config)) in reported and "torch " in reported


@pytest.mark.parametrize("state", ["gave_up", "crashed"])
def test_a_failed_run_says_so_in_its_first_line(finished: Path, state: str) -> None:
    with open_readonly(finished / "population.db") as reader:
        facts = gather(reader)
    failed = replace(facts, status={**facts.status, "state": state, "reason": "no model answers"})
    first = page(failed).partition("<body>\n")[2].partition("\n")[0]
    assert first.startswith('<p class="alert" role="alert">This run failed: ')
    assert "This run failed" not in page(facts)
    assert "no program has a score" in page(replace(facts, best=None))


def test_the_target_is_a_line_and_one_far_away_is_not(finished: Path) -> None:
    with open_readonly(finished / "population.db") as reader:
        facts = gather(reader)
    assert facts.best is not None

    def drawn(target: float) -> str:
        config = {**facts.header.config, "stop": {"target": target}}
        return page(replace(facts, header=replace(facts.header, config=config)))

    named = re.compile(f'halo end">[^<]*target {facts.best["score"]:g}')
    assert named.search(drawn(facts.best["score"]))
    assert not re.search('halo end">[^<]*target', drawn(1e6))
    close = replace(facts.header, upper=facts.best["score"], config={**facts.header.config, "stop": {"target": 1e6}})
    known = page(replace(facts, header=close, best_known=facts.best["score"]))
    assert f">upper bound {facts.best['score']:g}, best known {facts.best['score']:g}</text>" in known


@pytest.mark.fault("Configuration and terminal", "hostile text is inert in the report")
def test_hostile_text_adds_no_element_and_no_control_character(poisoned: Path, reported: str) -> None:
    found = poisoned.read_text(encoding="utf-8")
    assert "owned" in found
    hostile, plain = Elements(), Elements()
    hostile.feed(found)
    plain.feed(reported)
    assert set(hostile.tags) == set(plain.tags)
    assert {name for name, _ in hostile.attributes} == {name for name, _ in plain.attributes}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]", found)


@pytest.mark.long
@pytest.mark.fault("Configuration and terminal", "hostile text is inert in the report")
@pytest.mark.timeout(120)
def test_a_browser_draws_the_report_and_runs_no_planted_script(poisoned: Path, tmp_path: Path) -> None:
    picture = tmp_path / "shot.png"
    seen = look(poisoned, tmp_path, "--window-size=1000,1400", f"--screenshot={picture}", "--dump-dom")
    width, height, distinct = shades(picture)
    assert (width, height) == (1000, 1400)
    assert distinct > 60
    dom = seen.stdout.decode()
    elements = Elements()
    elements.feed(dom)
    assert elements.tags.count("script") == 1
    assert dom.count('<th class="number"><button type="button">candidate</button>') == 1
    title = re.search("<title>(.*?)</title>", dom, re.DOTALL)
    assert title is not None
    assert title[1].startswith("&lt;/pre&gt;")
    assert title[1].endswith("a run of circle_packing")


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_no_wider_than_its_window(poisoned: Path, tmp_path: Path, width: int) -> None:
    database = sqlite3.connect(poisoned.with_name("population.db"))
    with database:
        database.execute("update runs set config = json_set(config, '$.advisor.model', ?)", ("models/" + "long" * 100,))
        database.execute("update candidates set metrics = ?", (json.dumps({"metric" * 20: 1.0}),))
    database.close()
    with open_readonly(poisoned.with_name("population.db")) as reader:
        (tmp_path / "report.html").write_text(page(gather(reader)), encoding="utf-8")
    with opened() as browser:
        there = browser.new_page(viewport={"width": width, "height": 800})
        there.goto((tmp_path / "report.html").as_uri())
        assert there.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.long
@pytest.mark.timeout(120)
def test_the_browser_check_would_see_a_script_that_ran_and_a_blank_page(tmp_path: Path) -> None:
    blank = tmp_path / "page.html"
    blank.write_text("<!doctype html><title>before</title><script>document.title='owned'</script>")
    picture = tmp_path / "blank.png"
    seen = look(blank, tmp_path, "--window-size=1000,1400", f"--screenshot={picture}", "--dump-dom")
    assert b"<title>owned</title>" in seen.stdout
    assert shades(picture)[2] < 20


@pytest.mark.long
def test_a_run_without_a_score_or_a_group_still_has_a_report(finished: Path, tmp_path: Path) -> None:
    run = copy_run(finished, tmp_path)
    database = sqlite3.connect(run / "population.db")
    with database:
        for table in ("experiments", "proposals", "ideas", "advisor_calls", "implementer_calls", "candidates"):
            database.execute(f"delete from {table}")
        for table in ("versions", "leases", "groups", "faults"):
            database.execute(f"delete from {table}")
    database.close()
    done = pace("report", "circle_packing-1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Nothing has a score yet." in Path(tmp_path / json.loads(done.stdout)["path"]).read_text()


@pytest.mark.long
def test_the_report_overwrites_only_a_report(finished: Path, tmp_path: Path) -> None:
    copy_run(finished, tmp_path)
    for _ in range(2):
        done = pace("report", "circle_packing-1", "-o", "mine.html", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    (tmp_path / "notes.html").write_text("mine")
    done = pace("report", "circle_packing-1", "-o", "notes.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a report" in done.stderr
    assert (tmp_path / "notes.html").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.html", "notes.html", "runs"]


def test_only_markup_goes_into_a_page_unescaped() -> None:
    assert text("<b> & \"'") == "&lt;b&gt; &amp; &quot;&#x27;"
    assert tag("p", "<i>", Markup("<b>"), title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;i&gt;<b></p>'
    )


@given(st.text(st.characters() | st.sampled_from("&<>\"' \t\n\x7f\u202e")))
def test_text_that_is_its_own_markup_is_left_alone_and_all_other_is_escaped(value: str) -> None:
    assert text(value) == html.escape(visible(value, keep="\n\t"), quote=True)


@pytest.mark.fault("Size", "a report looks at each kind of character once")
def test_a_report_looks_up_each_kind_of_character_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    category = unicodedata.category

    def watched(character: str) -> str:
        looked_at.append(character)
        return category(character)

    monkeypatch.setattr(unicodedata, "category", watched)
    for number in range(100):
        assert text(f"candidate {number}: 0.5 · naïve") == f"candidate {number}: 0.5 · naïve"
    assert len(looked_at) == len(set(looked_at))


def test_edges_and_ticks_survive_odd_values() -> None:
    assert spread([None, float("nan"), float("inf")]) == (0.0, 1.0)
    low, high = spread([2.0, 2.0])
    assert low < 2.0 < high
    assert ticks(0.0, 10.0) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert all(-3.0 <= tick <= 7.0 for tick in ticks(-3.0, 7.0))
    assert ticks(0.0, 2.0, about=9, whole=True) == [0.0, 1.0, 2.0]
    assert ticks(1.0, 1.0) == [1.0]


@given(middle=st.floats(-1e6, 1e6), width=st.floats(1e-6, 10))
def test_the_labels_of_an_axis_are_distinct(middle: float, width: float) -> None:
    labels = [label for _, label in labelled(ticks(middle, middle + width))]
    assert len(set(labels)) == len(labels)


def test_labels_are_as_short_as_they_can_be() -> None:
    assert [label for _, label in labelled([0.0, 0.5, 1.0])] == ["0", "0.5", "1"]
    assert [label for _, label in labelled([1.00001, 1.00002])] == ["1.00001", "1.00002"]


def test_a_child_stands_right_of_its_parent_and_the_best_line_on_top() -> None:
    parents = {0: None, 1: 0, 2: 0, 3: 2, 4: 1}
    scores = {0: 1.0, 1: 1.5, 2: 1.2, 3: 9.0, 4: None}
    rows = {c: CompletedCandidate(c + 1, c, "ok", scores[c], None, p, None, None, None) for c, p in parents.items()}
    nodes = place(rows, UP)
    assert {c: node.depth for c, node in nodes.items()} == {0: 0, 1: 1, 2: 1, 3: 2, 4: 2}
    assert [nodes[c].line for c in (0, 2, 3)] == [0.0, 0.0, 0.0]
    assert len({(node.depth, node.line) for node in nodes.values()}) == len(nodes)


def test_recorded_runs_are_a_band_with_their_command_and_a_run_that_differs_has_none(finished: Path) -> None:
    recorded = Baseline.model_validate(
        {
            "what": "without learning",
            "command": "pace run --seed SEED",
            "date": "2026-11-25",
            "seeds": [1, 2],
            "settings": {},
            "step": 1,
            "curves": [[0.9, 1.0, 1.4], [0.9, 1.1, 1.2]],
        }
    )
    with open_readonly(finished / "population.db") as reader:
        facts = gather(reader)
    assert 'class="recorded"' not in page(facts)
    compared = page(replace(facts, beside=BaselineComparison(recorded, UP)))
    assert 'class="recorded"' in compared and 'class="recorded-median"' in compared
    assert "Band: 2 recorded runs without learning (pace run --seed SEED; seeds 1, 2; 2026-11-25)" in compared
    other = page(replace(facts, beside=BaselineComparison(recorded, UP, "search.threads is 12, and they have 8")))
    assert 'class="recorded"' not in other
    assert "are not shown, because search.threads is 12, and they have 8" in other
