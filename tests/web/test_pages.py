"""The pages that `pace web` serves: each is there, sorted and filtered by its address, and inert."""

import csv
import html
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pace_async.population.reading.browse import Page, Selection
from pace_async.population.reading.money import money_of
from pace_async.population.reading.reader import open_readonly
from pace_async.programs.fileset import Program
from pace_async.report.markup import text
from pace_async.report.syntax import coloured
from pace_async.web.app import Asker, application, without_prompts
from pace_async.web.candidate import candidate_page
from pace_async.web.candidates import View, as_csv
from pace_async.web.guard import HEADERS
from pace_async.web.runs import OpenRun
from tests.support.finished_runs import make_run, poison
from tests.support.pages import OF_A_RUN


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("web") / "run")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with open_readonly(folder / "population.db") as reader:
        yield _client(reader)


def _client(reader: object, token: str | None = None, asker: Asker = without_prompts) -> TestClient:
    runs = {"a run": OpenRun(reader)}  # type: ignore[arg-type]
    app = application(runs, token=token, hosts=frozenset(("testserver",)), stopping=anyio.Event(), asker=asker)
    return TestClient(app)


class Tags(HTMLParser):
    """Elements and event attributes that a page consists of, as a browser's parser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


class Text(HTMLParser):
    """What a reader of the page reads."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.said = ""
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.said += data


@pytest.mark.parametrize("path", OF_A_RUN)
def test_each_page_is_there_and_names_the_others(client: TestClient, path: str) -> None:
    answer = client.get(f"/run/a run{path}")
    assert answer.status_code == 200, answer.text
    assert all(f'href="/run/a%20run{part}"' in answer.text for part in ("", "/candidates", "/tree", "/learner"))
    assert "/run/a%20run" in client.get("/").text


def test_a_missing_page_or_run_is_named_in_one_sentence(client: TestClient) -> None:
    for path, said in (
        ("/run/other", "This server shows no run &#x27;other&#x27;."),
        ("/run/a run/candidate/999999", "The run has no candidate 999999; the newest is "),
        ("/elsewhere", "There is no such page."),
        ("/assets/app.py", "There is no such page."),
    ):
        answer = client.get(path)
        assert (answer.status_code, said in answer.text) == (404, True), (path, answer.text)


def test_the_table_is_sorted_and_filtered_by_its_address(client: TestClient, folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        rows = reader.query("select candidate, score from candidates where score is not null and island = 1")
    asked = "where=score is not null and island = 1&sort=score&down=1&column=candidate&column=score"
    answer = client.get(f"/run/a run/candidates.csv?{asked}")
    found = list(csv.DictReader(io.StringIO(answer.text)))
    assert [float(row["score"]) for row in found] == sorted((row["score"] for row in rows), reverse=True)
    assert {int(row["candidate"]) for row in found} == {row["candidate"] for row in rows} != set()
    page = client.get(f"/run/a run/candidates?{asked}").text
    assert f"{len(rows)} candidate" in page and 'aria-sort="descending"' in page


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("score >", "syntax error"),
        ("absent = 1", "no such column"),
        ("1); drop table runs; select (1", ""),
        ("(select count(*) from candidates a, candidates b, candidates c, candidates d, candidates e) > 0", "longer"),
        ("instr(zeroblob(100000), zeroblob(50000) || x'01') = 0 and score is not null", "longer"),
        ("length(zeroblob(300000000)) > 0", "too big"),
    ],
)
def test_a_condition_that_cannot_be_used_is_refused_and_changes_nothing(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, where: str, why: str
) -> None:
    if why == "longer":  # far less than the fastest machine needs
        monkeypatch.setattr("pace_async.population.reading.browse.PAGE_S", 0.01)
    answer = client.get("/run/a run/candidates", params={"where": where})
    monkeypatch.undo()
    assert answer.status_code == 400 and "That condition cannot be used: " in answer.text and why in answer.text
    assert client.get("/run/a run/candidates").status_code == 200


@pytest.mark.fault("Configuration and terminal", "one call of a function that never returns is ended")
@pytest.mark.parametrize(
    "where",
    [
        f"'{'a' * 40}' regexp '(a+)+b'",
        "trim(printf('%.*c', 2000000, 'x'), printf('%.*c', 2000000, 'y') || 'x') = ''",
    ],
)
def test_a_condition_whose_function_never_returns_is_ended_and_the_server_goes_on(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("pace_async.population.reading.browse.PAGE_S", 0.3)
    answer = client.get("/run/a run/candidates", params={"where": where})
    monkeypatch.undo()
    assert answer.status_code == 400 and "it took longer than 0.3 s" in answer.text
    assert client.get("/run/a run/candidates", params={"where": "experiment regexp 'a|e'"}).status_code == 200


@pytest.mark.fault("Configuration and terminal", "hostile text is no formula in a spreadsheet")
def test_a_text_in_the_csv_is_no_formula_and_a_number_stays_one() -> None:
    view = View(Selection(), ("candidate", "reward", "experiment"), 1)
    rows = ({"candidate": 1, "reward": -1.0, "experiment": "=1+1"}, {"candidate": 2, "reward": None, "experiment": "a"})
    assert as_csv(view, Page(rows, 2)) == "candidate,reward,experiment\n1,-1.0,'=1+1\n2,,a\n"


def test_odd_addresses_give_the_default_table(client: TestClient) -> None:
    for query in ("page=0", "page=-3", "page=9999999999", "page=²", "sort=program", "column=nothing", "down=x"):
        assert client.get(f"/run/a run/candidates?{query}").status_code == 200, query


def test_the_tree_has_every_candidate_below_its_parent(client: TestClient, folder: Path) -> None:
    tree = json.loads(client.get("/run/a run/tree.json").text)
    with open_readonly(folder / "population.db") as reader:
        parents = {row["candidate"]: row["parent"] for row in reader.query("select candidate, parent from candidates")}
        best = reader.best()["candidate"]
    assert dict(zip(tree["id"], tree["parent"], strict=True)) == parents
    assert tree["all"] == len(parents) and not any(tree["hidden"])
    assert tree["best"][-1] == best
    assert [parents[child] for child in tree["best"][1:]] == tree["best"][:-1]


def test_hostile_text_adds_no_element_to_any_page(folder: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    poison(run)
    with open_readonly(run / "population.db") as reader:
        client = _client(reader)
        best = reader.best()["candidate"]
        for path in (*OF_A_RUN, f"/candidate/{best}"):
            answer = client.get(f"/run/a run{path}")
            tags = Tags(answer.text)
            assert "owned" in answer.text or path in (
                "/learner",
                "/machines",
                "/inbox",
                "/candidate/0",
                "/candidate/1",
            ), path
            assert set(tags.scripts) <= {"/assets/live.js", "/assets/tree.js"} and not tags.handlers, path
            assert "\x1b" not in answer.text and "\u202e" not in answer.text, path


def test_the_page_of_faults_shows_when_they_were_where_there_were_any(client: TestClient, tmp_path: Path) -> None:
    assert "Faults over time" not in client.get("/run/a run/spend").text
    run = make_run(tmp_path / "run")
    poison(run)
    with open_readonly(run / "population.db") as reader:
        page = _client(reader).get("/run/a run/spend").text
    assert "Faults over time" in page and 'class="fault"' in page


def test_every_answer_carries_the_policy_and_only_questions_are_answered(client: TestClient) -> None:
    for path in ("/", "/run/a run", "/assets/live.js", "/run/a run/tree.json", "/elsewhere"):
        answer = client.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/run/a run").status_code == 405


def test_a_foreign_name_of_the_server_is_refused(client: TestClient) -> None:
    for host in ("evil.example", "testserver.evil.example", "", "127.0.0.1.evil.example:80"):
        assert client.get("/", headers={"Host": host}).status_code == 421
    assert client.get("/", headers={"Host": "testserver:8642"}).status_code == 200


def test_without_the_token_nothing_is_shown_and_with_it_a_cookie_is_kept(folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        client = _client(reader, token="a secret")
        for path in ("/", "/run/a run", "/assets/live.js", "/?token=a", "/?token=", "/elsewhere"):
            answer = client.get(path)
            assert answer.status_code == 403 and "a secret" not in answer.text
        given = client.get("/run/a run/candidates?token=a secret&sort=score", follow_redirects=False)
        assert (given.status_code, given.headers["location"]) == (303, "/run/a%20run/candidates?sort=score")
        assert "HttpOnly" in given.headers["set-cookie"] and "SameSite=strict" in given.headers["set-cookie"]
        assert client.get("/run/a run").status_code == 200


def test_the_learner_is_shown_over_the_axis_that_the_address_names(client: TestClient) -> None:
    for asked, label in (("", "candidates complete"), ("?by=hours", "seconds"), ("?by=x", "candidates complete")):
        page = client.get(f"/run/a run/learner{asked}").text
        assert f">{label}</text>" in page and page.count('aria-current="true"') == 1


def test_a_tree_of_twelve_nodes_holds_the_best_program_with_its_line(client: TestClient, folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        best = reader.best()["candidate"]
    tree = client.get("/run/a run/tree.json?most=12").json()
    # Fewer than twelve where the next candidate and its ancestors do not fit together.
    assert tree["all"] > 12 >= len(tree["id"]) > 1
    assert {0, best} <= set(tree["id"])


def test_a_programs_words_are_coloured_and_none_is_lost(client: TestClient, folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        best = reader.best()
    page = client.get(f"/run/a run/candidate/{best['candidate']}").text
    shown = Text(page.rpartition("The program</h2>")[2].partition("</pre>")[0]).said
    assert shown == best["program"] and '<i class="keyword">def</i>' in page


@given(st.text("ab1 #/\"'\\<&\n;=def\u202e"))
def test_the_text_of_coloured_words_is_the_text_that_was_given(program: str) -> None:
    assert html.unescape(re.sub("</?i[^>]*>", "", coloured(program))) == html.unescape(text(program))


def test_a_program_of_several_files_has_a_box_for_each_the_changed_ones_first(folder: Path) -> None:
    def of(**files: str) -> str:
        return Program.of_files({f"src/{name}.py": said for name, said in files.items()}).text

    with open_readonly(folder / "population.db") as reader:
        row = reader.show(1) | {"program": of(a="one = 1\n", b="two = '<b>'\n", new="three = 3\n")}
    parent = row | {"candidate": 0, "program": of(a="one = 1\n", b="two = 2\n", old="four = 4\n")}
    page = candidate_page("run", row, parent, None).rpartition("The program</h2>")[2]
    assert re.findall(r'aria-label="(src/[^"]*)"', page) == ["src/b.py", "src/new.py", "src/a.py"]
    assert "<h3>src/b.py</h3>" in page and "<h3>src/new.py</h3>" in page
    assert "Removed: src/old.py." in page and "<details><summary>src/a.py</summary>" in page
    said = Text(page).said
    assert all(text in said for text in ("one = 1\n", "two = '<b>'\n", "three = 3\n"))
    assert "pace files" not in said and "== src" not in said
    first = candidate_page("run", parent, None, None).rpartition("The program</h2>")[2]
    assert first.count("<h3>src/") == 3 and "<details" not in first


def test_each_token_is_shown_with_the_version_that_sampled_it(tmp_path: Path) -> None:
    call = {"purpose": "propose", "text": "x", "prompt_tokens": 5, "completion_tokens": 40}
    with open_readonly(make_run(tmp_path / "run") / "population.db") as reader:
        row = reader.show(1) | {"staleness": 2, "policy_version": 3}
    row["calls"] = [{**call, "versions": [[3, 0, 10], [4, 10, 40]]}]
    page = candidate_page("run", row, None, None)
    assert "tokens 1 to 10 by version 3, 2 updates old when trained on" in page
    assert "tokens 11 to 40 by version 4, 1 update old when trained on" in page
    assert 'class="age2"' in page and 'width="150"' in page


def test_prompts_are_shown_word_for_word_and_a_run_without_them_says_why(folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        address = "/run/a run/candidate/1/prompts"
        assert "cannot be read here" in _client(reader).get(address).text
        client = _client(reader, asker=lambda run, number: [(f"{run} {number}", "what <b>now</b>")])
        page = client.get(address).text
    assert "<h2>a run 1</h2>" in page and "what &lt;b&gt;now&lt;/b&gt;" in page


def test_the_pages_of_several_runs_follow_all_of_them_and_the_others_their_own(client: TestClient) -> None:
    assert 'data-live="/events"' in client.get("/").text
    assert 'data-live="/events"' in client.get("/compare").text
    assert 'data-live="/run/a%20run/events"' in client.get("/run/a run/machines").text
    assert "data-live" not in client.get("/elsewhere").text


def test_what_each_improvement_had_cost_is_shown(client: TestClient, folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        paid = reader.query("select sum(cost_usd) as usd from implementer_calls")[0]["usd"] or 0.0
        better = reader.ask(money_of).improvements
    costs = [usd for _, usd in better if usd is not None]
    assert len(costs) == len(better) and costs == sorted(costs) and costs[-1] <= paid + 1e-12
    page = client.get("/run/a run/spend").text
    assert f'<td class="number">{costs[-1]:,.4f}</td>' in page


def test_the_ways_to_a_candidate_are_links_and_each_page_names_its_run(client: TestClient, folder: Path) -> None:
    with open_readonly(folder / "population.db") as reader:
        best, ended = reader.best(), reader.status()["outcomes"]
    for path in ("", "/tree"):
        page = client.get(f"/run/a run{path}").text
        for number, said in ((0, "seed"), (best["candidate"], f"#{best['candidate']}")):
            assert f'<a href="/run/a%20run/candidate/{number}">{said}</a>' in page, path
    for path in OF_A_RUN[1:]:
        assert '<b class="named">a run</b>' in client.get(f"/run/a run{path}").text, path
    spend = client.get("/run/a run/spend").text
    for outcome, number in ended.items():
        [there] = {one for one in re.findall(r'href="([^"]*where=[^"]*)"', spend) if f"%27{outcome}%27" in one}
        assert f"{number} candidate" in client.get(html.unescape(there)).text


def test_a_page_that_damaged_rows_break_is_a_sentence_and_the_others_stand(tmp_path: Path) -> None:
    file = make_run(tmp_path / "run") / "population.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("update candidates set at = 9e18 where candidate = 3")
        database.execute("update candidates set at = -9e18, metrics = '{no json' where candidate = 4")
    with open_readonly(file) as reader:
        client = TestClient(_client(reader).app, raise_server_exceptions=False)
        page = client.get("/run/a run/candidates").text
        assert "9e+18" in page and "-9e+18" in page
        answer = client.get("/run/a run/candidate/4")
        assert (answer.status_code, "cannot be made of the run&#x27;s rows" in answer.text) == (500, True)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert client.get("/run/a run/candidate/3").status_code == 200
