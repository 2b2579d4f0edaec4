"""`pace web --write`: what a form puts into the inbox, whose forms are taken, and what is shown of a bad one."""

import html
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from pace_async.cli.web_actions import ACTIONS
from pace_async.events.people import GIVEN
from pace_async.population.reading.reader import open_readonly
from pace_async.web.app import MOST_BYTES, application
from pace_async.web.guard import HEADERS
from pace_async.web.inbox import Writing
from pace_async.web.runs import OpenRun
from tests.support.finished_runs import make_run
from tests.support.hostile_texts import HOSTILE_TEXTS

HERE = {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}
INBOX = "/run/a run/inbox"
WRITING = Writing("may write", ACTIONS, {})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose advisor reads words."""
    folder = make_run(tmp_path / "run")
    with closing(sqlite3.connect(folder / "population.db")) as database, database:
        (config,) = database.execute("select config from runs").fetchone()
        changed = json.loads(config) | {"search": {"memory": "run"}}
        database.execute("update runs set config = ?", (json.dumps(changed),))
    return folder


@pytest.fixture
def client(run: Path) -> Iterator[TestClient]:
    """A browser that has opened nothing yet."""
    with open_readonly(run / "population.db") as reader:
        writing = Writing(WRITING.token, ACTIONS, {"a run": str(run)})
        hosts = frozenset(("testserver",))
        app = application(
            {"a run": OpenRun(reader)}, token="looks", hosts=hosts, stopping=anyio.Event(), writing=writing
        )
        yield TestClient(app, follow_redirects=False)


@pytest.fixture
def writer(client: TestClient) -> TestClient:
    """One that has opened the address for writing."""
    assert client.get(f"{INBOX}?token={WRITING.token}").headers["location"] == "/run/a%20run/inbox"
    return client


def sent(client: TestClient, action: str, fields: Mapping[str, str], headers: Mapping[str, str] = HERE) -> Any:
    given = {"form": WRITING.form, "action": action, **fields}
    return client.post(INBOX, data=given, headers=headers)


def rows(run: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(run / "population.db")) as database:
        return database.execute("select entry, text, program, subject, number from inbox order by entry").fetchall()


def test_each_form_puts_in_what_the_command_of_its_name_does_and_shows_it(writer: TestClient, run: Path) -> None:
    program = "def place():\r\n    return [1, 2]\r\n"
    for action, fields in (
        ("idea", {"text": "rings around\r\nthe middle"}),
        ("mark", {"numbers": f"{GIVEN + 1}", "word": "pin"}),
        ("mark", {"numbers": f" {GIVEN + 1}, ", "word": "pin undo"}),
        ("program", {"about": "ours", "program": program}),
        ("program", {"about": "", "program": "/etc/passwd"}),  # a text, never the name of a file
        ("candidates", {"numbers": "2", "word": "ban"}),
        ("candidates", {"numbers": "2", "word": "ban undo"}),
        ("note", {"text": "Ask for symmetry.\r\nNot twice."}),
        ("note", {"text": ""}),
    ):
        answer = sent(writer, action, fields)
        assert (answer.status_code, answer.headers["location"]) == (303, "/run/a%20run/inbox?done"), answer.text
    assert rows(run) == [
        (1, "rings around the middle", None, None, None),
        (2, "pin", None, "idea", GIVEN + 1),
        (3, "", None, "idea", GIVEN + 1),
        (4, "ours", program.replace("\r\n", "\n"), None, None),
        (5, "", "/etc/passwd\n", None, None),
        (6, "ban", None, "candidate", 2),
        (7, "", None, "candidate", 2),
        (8, "Ask for symmetry.\nNot twice.", None, "note", None),
        (9, "", None, "note", None),
    ]
    page = writer.get(f"{INBOX}?done").text
    assert "It is in the inbox" in page and page.count("<td>waits</td>") == 9
    assert f"<td>idea {GIVEN + 1}</td><td>pinned</td>" in page and "the word taken back" in page


def test_an_entry_that_was_taken_in_names_its_candidate(writer: TestClient, run: Path) -> None:
    sent(writer, "idea", {"text": "rings"})
    sent(writer, "program", {"about": "", "program": "x = 1"})
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("insert into given_ideas values (1, 1, 9000001, 'rings', 6, 1.0)")
        database.execute("insert into given_programs values (1, 2, 7, '', 1.0)")
    page = writer.get(INBOX).text
    assert "from candidate 7 on" in page and '<a href="/run/a%20run/candidate/7">candidate 7</a>' in page
    assert "waits</td>" not in page


@pytest.mark.parametrize(
    ("action", "fields", "why"),
    [
        ("idea", {"text": " \n"}, "What to try, as you would tell a colleague: this is empty."),
        ("idea", {}, "this is empty"),
        ("idea", {"text": "x" * 2001}, "An idea may have 2,000 characters at most."),
        ("mark", {"numbers": "123456789", "word": "veto"}, "The run has no idea 123456789."),
        ("mark", {"numbers": "1 -2", "word": "veto"}, "Name up to 100 by their numbers"),
        ("mark", {"numbers": ", ,", "word": "veto"}, "Name up to 100 by their numbers"),
        ("mark", {"numbers": "9" * 5000, "word": "veto"}, "Name up to 100 by their numbers"),
        ("mark", {"numbers": "1 " * 101, "word": "veto"}, "Name up to 100 by their numbers"),
        ("mark", {"numbers": "1", "word": "ban"}, "From now on they are: this is empty."),
        ("mark", {"numbers": "1", "word": "veto undo"}, "Idea 1 is not ruled out."),
        ("candidates", {"numbers": "0", "word": "ban"}, "the task's own program, which cannot be banned"),
        ("candidates", {"numbers": "999", "word": "pin"}, "999"),
        ("note", {"text": "x" * 20_001}, "A note may have"),
        ("program", {"about": "of mine", "program": "x" * 262_145}, "the program is longer than 262144 characters"),
    ],
)
def test_bad_input_is_one_sentence_and_what_was_typed_is_kept(
    writer: TestClient, run: Path, action: str, fields: dict[str, str], why: str
) -> None:
    answer = sent(writer, action, fields)
    assert answer.status_code == 400 and rows(run) == []
    (said,) = re.findall(r'<p role="alert"[^>]*>([^<]*)</p>', answer.text)
    assert why in html.unescape(said)
    for name, typed in fields.items():
        kept = (f'value="{typed}"', f"\n{typed}</textarea>", f'<option value="{typed}" selected="">')
        assert typed == "ban" or any(one in answer.text for one in kept), name


def test_a_run_without_words_refuses_ideas_in_the_words_of_the_command(writer: TestClient, run: Path) -> None:
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("update runs set config = '{}'")
    assert "reads no ideas in words" in sent(writer, "idea", {"text": "rings"}).text
    assert sent(writer, "program", {"about": "", "program": "x = 1"}).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://testserver.evil.example"},
        {"Origin": "http://testserver:81"},
        {"Origin": "http://testserver", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_of_another_page_is_refused(writer: TestClient, run: Path, headers: dict[str, str]) -> None:
    assert sent(writer, "idea", {"text": "rings"}, headers).status_code == 403
    assert rows(run) == []


def test_a_form_without_its_own_token_is_refused(writer: TestClient, run: Path) -> None:
    for form in ("", WRITING.token, WRITING.form[:-1], f"{WRITING.form}0", "\ud800"):
        given = {"form": form.encode(errors="replace"), "action": "idea", "text": "rings"}
        assert writer.post(INBOX, data=given, headers=HERE).status_code == 403
    for body in (b"", b"&" * 1000, b"\xff\xfe%", f"form={WRITING.form}&action=nothing".encode()):
        assert writer.post(INBOX, content=body, headers=HERE).status_code == 403
    assert rows(run) == []


def test_who_may_only_look_sees_no_form_and_sends_none(client: TestClient, run: Path) -> None:
    for opened in ("", "?token=looks"):
        client.get(f"{INBOX}{opened}")
        assert sent(client, "idea", {"text": "rings"}).status_code == 403
        assert client.post(f"{INBOX}?token={WRITING.token}", headers=HERE).status_code == 403
    page = client.get(INBOX)
    assert page.status_code == 200 and "<form" not in page.text and WRITING.form not in page.text
    assert {name: page.headers[name] for name in HEADERS} == HEADERS
    assert rows(run) == []


def test_the_bearer_of_the_second_token_may_look_and_send_and_no_page_tells_it(writer: TestClient) -> None:
    page = writer.get(INBOX)
    assert page.text.count("<form") == len(ACTIONS) and WRITING.form in page.text
    assert page.headers["Referrer-Policy"] == "same-origin", "else a browser says of no form where it is from"
    assert WRITING.token not in page.text and "looks" not in writer.cookies.values()
    assert writer.get("/run/a run").status_code == 200
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert writer.request(method, INBOX, headers=HERE).status_code == 405
    assert writer.post("/run/a run", headers=HERE).status_code == 405
    assert writer.post("/run/other/inbox", headers=HERE).status_code == 404


def test_without_writing_no_form_is_drawn_and_every_post_is_refused(run: Path) -> None:
    with open_readonly(run / "population.db") as reader:
        runs = {"a run": OpenRun(reader)}
        client = TestClient(application(runs, token=None, hosts=frozenset(("testserver",)), stopping=anyio.Event()))
        assert client.post(INBOX, data={"form": WRITING.form}, headers=HERE).status_code == 405
        page = client.get(INBOX)
        assert page.status_code == 200 and "<form" not in page.text
    assert rows(run) == []


def test_a_form_that_is_too_long_is_refused_in_a_sentence(writer: TestClient, run: Path) -> None:
    said = "A form may have 4 MiB. `pace candidate add` takes larger programs."
    answer = sent(writer, "program", {"about": "", "program": "x" * MOST_BYTES})
    assert (answer.status_code, said in answer.text) == (413, True)
    assert rows(run) == []


@pytest.mark.long
@pytest.mark.nightly
def test_hostile_words_are_data_on_the_page_and_in_the_form_again(writer: TestClient) -> None:
    for text in HOSTILE_TEXTS:
        fits = " ".join(text.split())[:2000] or "x"
        sent(writer, "idea", {"text": fits})
        refused = sent(writer, "mark", {"numbers": text[:5000], "word": text[:100]}).text
        refused += sent(writer, "idea", {"text": text + "x" * 2001}).text
        assert "<script>" not in refused and "<img" not in refused and refused.count("</textarea>") == 6
    page = writer.get(INBOX).text
    assert not re.search(r"<(img|script(?! src)|svg|iframe|object)", page) and "\u202e" not in page
