"""A search over a repository of forty files with a stand-in agent, killed in the middle and resumed. Its population is
in a file, or on a server."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pace_async.population.checking import check_population
from pace_async.population.reading.reader import open_readonly
from pace_async.programs.fileset import Program
from pace_async.task import load_task
from tests.doubles import repository_agent
from tests.support.postgres import PostgresServer
from tests.support.real_runs import wait_for_candidates
from tests.support.repositories import advised, make_repository

PACE = str(Path(sys.executable).with_name("pace"))
CANDIDATES, SEEN = 24, 8

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("git") is None, reason="needs Git"),
]


def place_of(run: Path) -> str | Path:
    """Where the run's population is."""
    pointer = run / "population.url"
    return pointer.read_text().splitlines()[0] if pointer.exists() else run / "population.db"


def rows(run: Path, sql: str) -> list[tuple[Any, ...]]:
    """Answer of the run's database, wherever it is."""
    with open_readonly(place_of(run)) as reader:
        return [tuple(row.values()) for row in reader.query(sql)]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def ended(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path, Path]]:
    """(repository, task, run), after the run was killed, resumed, and had its candidates."""
    folder = tmp_path_factory.mktemp("files")
    server: PostgresServer | None = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    repository, task, run = make_repository(folder / "own"), folder / "task", folder / "run"
    made = [PACE, "task", "init", "own", "--folder", str(task), "--from", str(repository), "--maximize"]
    subprocess.run([*made, "--evaluate", "python bench.py", "--change", "src/**"], check=True, timeout=200)
    run.mkdir()
    (run / "events.jsonl").touch()
    agent = json.dumps([sys.executable, "-I", "-S", str(Path(repository_agent.__file__))])
    with advised() as (url, _):
        call = [PACE, "run", str(task), "--candidates", str(CANDIDATES), "--threads", "3", "--display", "none"]
        call += ["--advisor", "api:openai/local", "--set", f"advisor.api_base={url}", "--run-dir", str(run)]
        call += ["--implementer", "command", "--set", f"implementer.command={agent}"]
        call += ["--set", f"population.url={server.new()}"] if server is not None else []
        environment = {**os.environ, "OPENAI_API_KEY": "canary-0123456789"}
        with subprocess.Popen(call, env=environment) as process:
            wait_for_candidates(run, SEEN, process)
            process.send_signal(signal.SIGKILL)
        again = [PACE, "resume", str(run), "--display", "none"]
        done = subprocess.run(again, env=environment, capture_output=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr.decode()
    yield repository, task, run


def test_every_candidate_is_there_once_and_the_tables_are_those_of_the_journal(
    ended: tuple[Path, Path, Path],
) -> None:
    _, _, run = ended
    assert rows(run, "select count(*) from candidates where candidate > 0") == [(CANDIDATES,)]
    with open_readonly(place_of(run)) as reader:
        assert [line for check in check_population(reader) for line in check.wrong] == []
    assert rows(run, "select count(*) from leases where stage in ('admitted', 'advised') and state <> 'aborted'") == [
        (0,)
    ]
    checked = subprocess.run([PACE, "db", "check", str(run)], capture_output=True, timeout=200, check=False)
    assert checked.returncode == 0, checked.stdout.decode()


def test_a_file_that_did_not_change_is_kept_once(ended: tuple[Path, Path, Path]) -> None:
    _, task, run = ended
    programs = rows(run, "select program from candidates where program is not null")
    assert len(programs) > CANDIDATES // 2
    assert all(program.startswith("#!pace manifest\n") for (program,) in programs)
    named = {line.split(" ")[0] for (program,) in programs for line in program.splitlines()[1:]}
    entries = sum(len(program.splitlines()) - 1 for (program,) in programs)
    kept = rows(run, "select count(*) from blobs where digest in ({})".format(",".join(f"'{one}'" for one in named)))
    assert kept == [(len(named),)]
    seed = Program.of(load_task(str(task)).program)
    assert len(named) <= len(seed.files) + 2 * CANDIDATES < entries


def test_what_is_outside_the_globs_is_refused_by_name_and_asked_again(ended: tuple[Path, Path, Path]) -> None:
    _, _, run = ended
    refused = rows(run, "select lease, detail from implementer_tries where outcome = 'file_not_open'")
    assert {lease for lease, _ in refused} >= {7, 14, 21}
    assert all("'tests/test_values.py' may not change" in detail for _, detail in refused)
    mended = rows(run, "select count(*) from candidates where candidate in (7, 14, 21) and outcome = 'ok'")
    assert mended == [(3,)]


def test_the_best_program_is_a_folder_and_a_patch_that_the_repository_takes(
    ended: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    repository, _, run = ended
    before = subprocess.check_output(["git", "status", "--porcelain"], cwd=repository)
    found = json.loads(subprocess.check_output([PACE, "best", str(run), "--json"], timeout=100))
    assert found["path"] == str(run / "best")
    assert not any(name.endswith(".bin") for name in Program.of(found["program"]).files)
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", str(repository), str(copy)], check=True)
    subprocess.run(["git", "apply", str(run / "best.patch")], cwd=copy, check=True)
    for path, text in Program.of(found["program"]).files.items():
        assert (copy / path).read_text() == text == (run / "best" / path).read_text()
    printed = subprocess.check_output([sys.executable, "bench.py"], cwd=copy, text=True, timeout=100)
    assert float(printed.split()[-1]) == pytest.approx(found["score"])
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=repository) == before


def test_diff_show_report_and_export_take_sets_of_files(ended: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, _, run = ended
    best = json.loads(subprocess.check_output([PACE, "best", str(run), "--json"], timeout=100))
    difference = subprocess.check_output([PACE, "diff", str(run)], text=True, timeout=100)
    assert "+++ candidate" in difference
    assert ": src/" in difference
    assert "NOTES" not in difference
    shown = subprocess.check_output([PACE, "show", str(run), str(best["candidate"])], text=True, timeout=100)
    assert "this program: src/" in shown
    subprocess.run([PACE, "report", str(run), "--output", str(tmp_path / "r.html")], check=True, timeout=100)
    assert ": src/" in (tmp_path / "r.html").read_text()
    out = tmp_path / "programs"
    subprocess.run([PACE, "export", str(run), "--what", "programs", "-o", str(out)], check=True, timeout=100)
    assert (out / f"{best['candidate']:06d}" / "bench.py").is_file()
