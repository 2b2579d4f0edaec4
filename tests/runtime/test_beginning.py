"""What a run begins with: the best programs of an earlier run, and a person's own."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import SearchConfig
from pace_async.errors import UsageError
from pace_async.interface.beginning import Asked, document_of, read
from pace_async.population.checking import check_population
from pace_async.population.reading.inbox import untaken
from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import upgrade
from pace_async.population.store import Store
from pace_async.programs.fileset import Program
from pace_async.runtime.start.beginning import begun_with
from pace_async.task import load_task
from tests.support.command_line import search
from tests.support.finished_runs import make_run
from tests.support.population_facts import HEADER

TASK = load_task("circle_packing")


def asked(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "population.db")) as database:
        return database.execute(sql).fetchall()


def distinct_best(folder: Path) -> list[tuple[object, ...]]:
    columns, order = "candidate, program, program_hash", "score desc, candidate"
    ranked = f"select {columns} from candidates where score is not null order by {order}"
    seen, found = set[object](), list[tuple[object, ...]]()
    for candidate, program, digest in asked(folder, ranked):
        if digest not in seen:
            found.append((candidate, program))
        seen.add(digest)
    return found


@pytest.mark.long
def test_the_best_program_takes_the_place_of_the_tasks_own_and_the_others_come_in_order(tmp_path: Path) -> None:
    run = make_run(tmp_path / "before")
    best = distinct_best(run)
    task, others = begun_with(SearchConfig(start_from=f"{run}@best:3"), TASK)
    assert task == replace(TASK, program=str(best[0][1]))
    assert [program for program, _ in others] == [program for _, program in best[1:3]]
    assert others[0][1].startswith(f"candidate {best[1][0]} of run ") and ", where it scored " in others[0][1]
    assert begun_with(SearchConfig(start_from=str(run)), TASK)[1] == ()
    assert len(begun_with(SearchConfig(start_from=f"{run}@all"), TASK)[1]) == len(best) - 1
    assert begun_with(SearchConfig(), TASK) == (TASK, ())


def test_programs_of_ones_own_are_files_or_folders_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("b.py", "a.py"):
        (folder / name).write_text(TASK.program + f"\n# {name}\n")
    (folder / "notes.txt").write_text("not a program")
    alone = tmp_path / "alone.py"
    alone.write_text(TASK.program + "\n# alone\n")
    task, others = begun_with(SearchConfig(start_with=(str(folder), str(alone))), TASK)
    assert task == TASK and [about for _, about in others] == ["a.py", "b.py", "alone.py"]
    assert others[0][0].endswith("# a.py\n")


def written(folder: Path, program: str) -> Path:
    """A folder with the files of a program, each of which names itself in its first line."""
    folder.mkdir(parents=True)
    for name, text in Program.of(program).files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_of_a_task_of_folders_each_folder_in_a_folder_is_a_program(tmp_path: Path) -> None:
    seed = Program.of_files({"src/a.py": "a = 1\n", "src/b.py": "b = 1\n"})
    spec = TASK.spec.model_copy(update={"program": "seed/", "change": ("src/**",), "entry": None})
    assert spec.has_folder
    task = replace(TASK, spec=spec, program=seed.text)
    for number, name in ((2, "second"), (3, "first")):
        written(tmp_path / "mine" / name, Program.of_files({**seed.files, "src/a.py": f"a = {number}\n"}).text)
    (tmp_path / "mine" / "notes").mkdir()
    _, others = begun_with(SearchConfig(start_with=(str(tmp_path / "mine"),)), task)
    assert [about for _, about in others] == ["first", "second"]
    assert "a = 3" in others[0].program and "a = 2" in others[1].program
    _, alone = begun_with(SearchConfig(start_with=(str(tmp_path / "mine" / "second"),)), task)
    assert [about for _, about in alone] == ["second"]
    with pytest.raises(UsageError, match="has no file of a program of 'circle_packing', and no folder that has one"):
        begun_with(SearchConfig(start_with=(str(tmp_path / "mine" / "notes"),)), task)


def test_of_a_task_of_several_files_each_folder_in_a_folder_is_a_program_too(tmp_path: Path) -> None:
    task = replace(TASK, spec=TASK.spec.model_copy(update={"files": ("other.py",)}))
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / TASK.spec.program).write_text(f"x = '{name}'\n")
        (tmp_path / name / "other.py").write_text("y = 1\n")
    for place, names in ((tmp_path, ["a", "b"]), (tmp_path / "b", ["b"])):
        _, others = begun_with(SearchConfig(start_with=(str(place),)), task)
        assert [about for _, about in others] == names
        assert all(f"x = '{name}'" in program and "y = 1" in program for program, name in others)


def test_a_folder_as_seeds_begins_one_run_with_its_programs_and_a_number_is_a_series(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
    begun = Asked(settings={"search.start_with": [str(other)]}, seeds=str(mine))
    assert begun.config.search.start_with == (str(other), str(mine)) and begun.runs is None
    again = read(document_of(begun))
    assert isinstance(again, Asked) and again.config == begun.config
    assert Asked(settings={}, seeds="3").runs == Asked(settings={}, seeds=3).runs == 3
    for wrong, why in (("0", "at least one run"), ("-2", "at least one run"), (str(tmp_path / "no"), "is neither")):
        with pytest.raises(UsageError, match=why):
            Asked(settings={}, seeds=wrong)


@pytest.mark.long
def test_the_command_evaluates_each_program_of_the_folder_first(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("b.py", "a.py"):
        (mine / name).write_text(f"{TASK.program}\n# {name}\n")
    begins = [
        "run",
        "circle_packing",
        "--advisor",
        "bandit",
        "--candidates",
        "5",
        "--run-dir",
        "run",
        "--seeds",
        "mine",
    ]
    said = search(tmp_path, [*begins, "--display", "none"])
    assert said.code == 0, said.err
    given = "select about, outcome, score is not null from given_programs g join candidates c on c.candidate = g.lease"
    assert sorted(asked(tmp_path / "run", given)) == [("a.py", "ok", 1), ("b.py", "ok", 1)]


def test_what_a_run_cannot_begin_with_is_refused_in_one_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path / "before")
    with pytest.raises(UsageError, match="is of the task 'circle_packing', and a run of 'eplb' cannot start from it"):
        begun_with(SearchConfig(start_from=str(run)), load_task("eplb"))
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("update candidates set score = null, merit = null, outcome = 'timeout'")
    with pytest.raises(UsageError, match="has no program with a score yet"):
        begun_with(SearchConfig(start_from=str(run)), TASK)
    with pytest.raises(UsageError, match=r"has no file that ends in \.py"):
        begun_with(SearchConfig(start_with=(str(tmp_path),)), TASK)
    (tmp_path / "long.py").write_text("x" * 300_000)
    with pytest.raises(UsageError, match="is no program of 'circle_packing': the program is longer than"):
        begun_with(SearchConfig(start_with=(str(tmp_path / "long.py"),)), TASK)
    with pytest.raises(UsageError, match=r"names no run: it is RUN, RUN@best, RUN@best:K or RUN@all"):
        begun_with(SearchConfig(start_from=f"{run}@best:0"), TASK)
    with pytest.raises(UsageError, match="There is no run"):
        begun_with(SearchConfig(start_from="nowhere@best:2"), TASK)


@pytest.mark.long
@pytest.mark.nightly
def test_a_run_that_starts_from_another_begins_with_its_best_program_and_goes_on_after_its_end(tmp_path: Path) -> None:
    before = make_run(tmp_path / "before")
    ((program,),) = asked(before, "select program from candidates order by score desc, candidate limit 1")
    begins = ["run", "circle_packing", "--advisor", "bandit", "--candidates", "6", "--run-dir", "after"]
    said = search(tmp_path, [*begins, "--start-from", "before@best:3", "--display", "none"])
    assert said.code == 0, said.err
    after = tmp_path / "after"
    first = asked(after, "select program, score from candidates where candidate = 0")[0]
    assert first[0] == program and asked(after, "select count(*) from given_programs") == [(2,)]
    said = search(tmp_path, ["resume", "after", "--candidates", "9", "--display", "none"])
    assert said.code == 0, said.err
    assert isinstance(first[1], float), "scored anew: the scores of the run before are made up"
    assert asked(after, "select count(*) from candidates") == [(10,)]
    with open_readonly(after / "population.db") as reader:
        assert not [line for check in check_population(reader) for line in check.wrong]


async def test_what_a_run_begins_with_is_there_as_soon_as_there_is_a_run(tmp_path: Path) -> None:
    upgrade(tmp_path / "population.db")
    async with Store.open(tmp_path / "population.db") as store:
        await store.create_run(HEADER, programs=(("x = 1", "ours"), ("x = 2", "theirs")))
        (entry,) = await store.read(lambda connection: untaken(connection, HEADER.name))
        (other,) = await store.read(lambda connection: untaken(connection, HEADER.name, 1))
    assert [(each.entry, each.program, each.text) for each in (entry, other)] == [
        (1, "x = 1", "ours"),
        (2, "x = 2", "theirs"),
    ]


def test_the_same_program_is_begun_with_once(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(TASK.program + "\n# mine\n")
    (tmp_path / "c.py").write_text(TASK.program)
    _, others = begun_with(SearchConfig(start_with=(str(tmp_path), str(tmp_path))), TASK)
    assert [about for _, about in others] == ["a.py"]
