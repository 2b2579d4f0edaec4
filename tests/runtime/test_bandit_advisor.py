"""An advisor without a model: what it tries, and that its knowledge follows from the rows alone."""

import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.advise.advisor import Sampling
from pace_async.advise.bandit import BanditAdvisor
from pace_async.advise.catalogue_wording import menu, present_values
from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.implement.catalogue import find_edit, load_catalogue
from pace_async.runtime.children.advisor_choice import in_words, served_by
from pace_async.runtime.children.catalogue_reading import chooser_for, options_of
from pace_async.runtime.start.refusals import look
from pace_async.search.draws import generator
from pace_async.search.edit_bandit import Arm, Tries, arm_in, with_try
from pace_async.search.state import Idea, Member, SearchContext
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.task import load_task
from tests.support.catalogues import config_with, with_sites, without_catalogue
from tests.support.command_line import PACE
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, SEARCH, Life, durations

COLUMNAR = load_task("columnar")
OPTIONS = options_of("bandit", COLUMNAR)
ADVISOR = BanditAdvisor(OPTIONS, COLUMNAR.spec.written_in)
SEED = Member(0, COLUMNAR.program, 0.0)
SAMPLING = Sampling(seed=5)


def context(ideas: tuple[Idea, ...] = ()) -> SearchContext:
    return SearchContext(SEED, SEED, ideas, len(ideas) + 1)


def test_it_tries_an_edit_of_the_menu_that_a_prompt_of_its_lease_would_offer() -> None:
    catalogue, present = load_catalogue(COLUMNAR.folder / "catalogue.yaml"), present_values(OPTIONS, SEED.program)
    for lease in range(1, 40):
        advice = ADVISOR.choose(context(), {}, lease=lease, sampling=SAMPLING)
        assert advice.experiment is not None
        edit = find_edit(catalogue, advice.experiment)
        offers = menu(OPTIONS, present, generator(SAMPLING.seed, lease, "propose", "menu"))
        assert (edit.site, str(edit.option)) in [
            (offer.name.split()[0], option) for offer in offers for option in offer.options
        ]
        assert advice.experiment.endswith(f"from {present[f'{edit.site} {edit.mechanism}']}.")
        assert advice.calls == ()
        assert [note.known for note in advice.notes] == [False]
        assert advice == ADVISOR.choose(context(), {}, lease=lease, sampling=SAMPLING)


def test_an_idea_that_is_in_the_pool_is_recognised_and_not_listed_twice() -> None:
    first = ADVISOR.choose(context(), {}, lease=1, sampling=SAMPLING)
    again = ADVISOR.choose(context(first.pool), {}, lease=1, sampling=SAMPLING)
    assert again.idea == first.idea == 1
    assert again.pool == first.pool
    assert [note.known for note in again.notes] == [True]


def test_it_tries_what_gained_in_the_record() -> None:
    results: dict[Arm, Tries] = {
        arm: Tries(0, 30) for arm in {arm_in(f"{t} to {o} from x.") or ("", "") for t in OPTIONS for o in OPTIONS[t]}
    }
    for arm in [arm for arm in results if arm[1] in ("bz2", "lzma")]:
        results[arm] = Tries(30, 0)
    tried = [
        ADVISOR.choose(context(), results, lease=lease, sampling=SAMPLING).experiment or "" for lease in range(1, 60)
    ]
    offering = [
        lease
        for lease in range(1, 60)
        if any(
            {"bz2", "lzma"} & {*offer.options}
            for offer in menu(OPTIONS, present_values(OPTIONS, SEED.program), generator(5, lease, "propose", "menu"))
        )
    ]
    assert len(offering) > 30
    assert all(" to bz2 " in tried[lease - 1] or " to lzma " in tried[lease - 1] for lease in offering)


def test_a_parent_that_assigns_nothing_of_the_catalogue_gives_no_experiment() -> None:
    bare = Member(1, "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n", 0.0)
    advice = ADVISOR.choose(replace(context(), parent=bare), {}, lease=1, sampling=SAMPLING)
    assert advice.experiment is None
    assert advice.unparsed == "the parent assigns nothing of the catalogue"


def life(folder: Path, threads: int = 8) -> Life:
    config = settings(**SEARCH, seed=3, stop__candidates=40, advisor__model="bandit", search__threads=threads)
    faults = SimulatedFaults(lost=frozenset({11, 17}), reach=REACH)
    return Life(folder, config, World(seed=3, durations=durations(3), reattaches=True), faults, with_sites(folder))


def test_what_it_knows_is_what_the_rows_of_closed_leases_say(tmp_path: Path) -> None:
    run = life(tmp_path).live()
    rows = run.rows(
        "select e.description, c.score, p.score as before from candidates c "
        "join candidates p on p.candidate = c.parent "
        "join experiments e on e.lease = c.lease join leases l on l.lease = c.lease where l.state = 'skipped'"
    )
    random.Random(0).shuffle(rows)
    expected: dict[Arm, Tries] = {}
    for experiment, score, parent in rows:
        arm = arm_in(experiment)
        assert arm is not None
        expected = with_try(expected, arm, gained=score is not None and score > parent)
    assert run.population.load().run_state.visible.edits == expected
    assert sum(tries.gains + tries.others for tries in expected.values()) == len(rows) == 40
    assert {kind for kind, _ in expected} == {"low step", "high step", "alone"}
    assert sum(tries.gains for tries in expected.values()) > 3
    assert run.rows("select count(*) from advisor_calls") == [(0,)]


@pytest.mark.long
@pytest.mark.parametrize("before", [False, True], ids=["after", "just before"])
def test_a_run_interrupted_at_any_commit_and_resumed_tries_the_same_edits(tmp_path: Path, before: bool) -> None:
    whole = life(tmp_path).live()
    expected = whole.dump(times=False, tables=["run_states", "faults"])
    for last in range(2 if before else 1, whole.commits, 11):
        broken = life(tmp_path).live(last, before=before)
        assert broken.state == "interrupted"
        assert broken.live().state == "done"
        assert broken.dump(times=False, tables=["run_states", "faults"]) == expected, f"commit {last}"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"learner.objective": "pace"}, r"--advisor bandit has no model and cannot learn: leave --objective pace out"),
        ({"advisor.engine": "vllm"}, r"serves a model of your own, and --advisor bandit has no model: leave --engine"),
        ({"advisor.max_prompt_tokens": 99}, r"counts tokens of a served model, and --advisor bandit has no model"),
    ],
)
def test_what_needs_a_model_is_refused_in_one_sentence(changed: dict[str, object], said: str) -> None:
    assert resolve(None, {"advisor.model": "bandit"}, environment={}).learner.objective == "none"
    with pytest.raises(UsageError, match=said) as raised:
        resolve(None, {"advisor.model": "bandit", **changed}, environment={})
    assert "\n" not in str(raised.value)


def test_a_task_without_a_catalogue_is_refused_in_one_sentence() -> None:
    said = r"^Task 'circle_packing' has no catalogue, which --advisor bandit reads: name another advisor"
    with pytest.raises(UsageError, match=said) as raised:
        chooser_for(config_with("bandit"), without_catalogue())
    assert "\n" not in str(raised.value)
    advisor, _ = served_by(config_with("bandit"), without_catalogue())
    assert not advisor.ok
    assert advisor.found == str(raised.value)


def test_a_start_and_a_check_say_what_it_chooses_among() -> None:
    config = Config.model_validate({"advisor": {"model": "bandit"}, "task": "columnar"})
    said = in_words(config, look(config, None), chosen=False)
    assert said == (
        "bandit, without a model; nothing is trained; it reads the catalogue: 96 mechanisms (96 of them at sites), "
        "1344 options: each lease lists a random menu, 8 mechanisms with 4 alternatives each"
    )
    assert [(one.ok, one.doubtful) for one in served_by(config, COLUMNAR)] == [(True, False), (True, False)]


@pytest.mark.long
@pytest.mark.nightly
def test_a_real_run_starts_no_model_and_a_resume_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shape = ["--threads", "4", "--display", "none", "--run-dir", str(folder)]
    subprocess.run(
        [PACE, "run", "columnar", "--advisor", "bandit", "--candidates", "8", *shape], check=True, timeout=200
    )
    resumed = [PACE, "resume", str(folder), "--candidates", "16", "--display", "none"]
    subprocess.run(resumed, check=True, timeout=200)
    status = json.loads(subprocess.check_output([PACE, "status", str(folder), "--json"], timeout=60))
    assert status["candidates"] == status["scored"] == 16
    assert not [file.name for file in (folder / "logs").iterdir() if file.name in ("engine.log", "learner.log")]
    sql = "select count(distinct lease) as leases, count(*) as ideas from proposals"
    assert json.loads(subprocess.check_output([PACE, "db", "sql", str(folder), sql, "--json"], timeout=60)) == [
        {"leases": 16, "ideas": 16}
    ]
    shutil.rmtree(folder)
