"""Values and failures that once ended a run for good, in every tier of the sandbox and on both databases: the run ends
well, and a resume goes on. As another user the tests are run by scripts/checks/faults_everywhere.sh."""

import sys
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.evaluate.base import Evaluator
from pace_async.evaluate.sandbox.inside import calls
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.implement.model_maker import ModelMaker
from pace_async.implement.pool import ImplementerPool, Maker
from pace_async.implement.shares import parse_shares
from pace_async.outside import sound
from pace_async.population.checking import check_population
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.runtime.run.recorder import BudgetLedger
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import FAULTLESS, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.task import Task
from tests.doubles.clocks import Impatient
from tests.doubles.evaluators import Judge
from tests.doubles.implementers import MODEL, ScriptedChat
from tests.evaluate.sandbox.plain_user import TIERS
from tests.support.changed_stages import change_stages
from tests.support.clumsy_implementers import UNEVEN, UNPAID, Failing, clumsy
from tests.support.command_tasks import make_python_task
from tests.support.evaluating import evaluating
from tests.support.population_facts import empty_place
from tests.support.scripted_runs import block, configured

pytestmark = [
    pytest.mark.usefixtures("both"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux"),
]
EVALUATOR = """
    import runpy

    def evaluate(program):
        return runpy.run_path(program)["answer"]()
"""
GOOD = "def answer():\n    return {'combined_score': 1.0}"
RETURNED = {
    "{'combined_score': 1.5e308}": "invalid_score",
    "{'combined_score': -1e308}": "invalid_score",
    "{'combined_score': 10**400}": "invalid_score",
    "{'combined_score': 10**5000}": "invalid_score",
    "{'combined_score': float('nan')}": "invalid_score",
    "{'combined_score': True}": "invalid_score",
    "{'combined_score': '1.0'}": "invalid_score",
    "{'combined_score': __import__('decimal').Decimal('1e999999')}": "invalid_score",
    "{'combined_score': -0.0}": "ok",
    "{'combined_score': 5e-324, 'small': 5e-324, 'none': -0.0}": "ok",
    "{'combined_score': 1.0, 'huge': 1.5e308, 'whole': 10**400}": "ok",
    "{'combined_score': 1.0, 'a\\0b': 1.0, '\\ud83d': 2.0, '': 3.0, 'x' * 1000: 4.0}": "ok",
    "{'combined_score': 1.0, **{str(n): 1.0 for n in range(5000)}}": "ok",
    "{'combined_score': 1.0, **{str(n): 1.0 for n in range(100000)}}": "invalid_score",
    "{'combined_score': 1.0, 'feedback': '\\x1b]0;owned\\x07\\ud83d\\0'}": "ok",
}
PROGRAMS = {
    **{f"def answer():\n    return {value}": outcome for value, outcome in RETURNED.items()},
    sound("# half of a sign: \ud83d\ndef answer():\n    return {'combined_score': 2.0}"): "ok",
    "def answer():\n    raise ValueError('\\x1b]0;owned\\x07\\ud83d\\0')": "candidate_error",
}
"""What a program of a command task leaves, and the outcome. Its evaluator passes on whatever it is given. Answers are
made sound where a provider's come in."""


async def live(
    place: Place, folder: Path, config: Config, chat: ScriptedChat, world: World, task: Task, evaluator: Evaluator
) -> str:
    """One process of a run with scripted models on simulated stages. Returns its final state."""
    async with Store.open(place) as store:
        if not await store.query("select 1 from runs"):
            await store.create_run(header_of(config, task))
            await store.commit(seed_program(task))
        record = await store.load()
        served = record.run_state.served
        world.serve(served, folder / "versions" / f"{served:06d}" if served else None)
        core = SimulatedRun(config, task, Impatient(), world, folder, FAULTLESS, Bytes()).core(record, store)
        ledger = BudgetLedger(core.recorder, core.stages.clock, 100.0)
        makers: dict[str, Maker] = {chat.model: ModelMaker(chat, ledger, 1000)}
        shares = parse_shares(config.implementer.model)
        pool = ImplementerPool(shares, makers, ledger, config.seed, config.implementer, config.faults)
        change_stages(core, implementer=pool, evaluator=evaluator)
        return await drive(core)


@pytest.mark.fault("Programs as weapons", "every value of a hostile program, in every tier and on every database")
@pytest.mark.long
@pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor")
@pytest.mark.parametrize(
    "tier",
    [
        pytest.param(tier, id=name, marks=[pytest.mark.nightly] if name == "rlimits" else [])
        for name, tier in TIERS.items()
    ],
)
async def test_no_value_of_a_program_ends_a_run_and_a_resume_goes_on(tier: Tier, tmp_path: Path) -> None:
    programs, place = list(PROGRAMS), empty_place(tmp_path)
    seed = f"# EVOLVE-BLOCK-START\n{GOOD}\n# EVOLVE-BLOCK-END\n"
    task = make_python_task(tmp_path / "any", EVALUATOR, seed, feedback=True)
    few = {"implementer__model": MODEL, "implementer__repair__evaluate_tries": 1, "evaluation__fresh_seeds": 0}
    runs = [configured(stop__candidates=len(programs) + more, **few) for more in (0, 3)]
    asked = iter(programs)
    chat = ScriptedChat(lambda _question, number: block(next(asked, f"{GOOD}  # {number}")))
    async with evaluating(task, tier) as evaluator:
        for config in runs:
            assert await live(place, tmp_path, config, chat, World(seed=1), task, evaluator) == "done"
    with open_readonly(place) as reader:
        assert [line for check in check_population(reader) for line in check.wrong] == []
        rows = reader.query("select outcome, program from candidates where candidate > 0")
    for program, outcome in PROGRAMS.items():
        assert [row["outcome"] for row in rows if program in row["program"]] == [outcome], program
    assert len(rows) == len(programs) + 3


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "a stage that fails after a committed fact, and is tried again")
async def test_a_service_that_fails_between_two_answers_is_asked_for_the_second_one(tmp_path: Path) -> None:
    """As in `test_retried`, on the databases that runs have."""
    place, task = empty_place(tmp_path), make_python_task(tmp_path / "any", EVALUATOR, GOOD)
    chat = Failing(clumsy, fails=frozenset({1, 2, 3, 5}))
    for candidates in (6, 8):
        config = configured(implementer__model=MODEL, stop__candidates=candidates)
        assert await live(place, tmp_path, config, chat, World(seed=1), task, Judge()) == "done"
    with open_readonly(place) as reader:
        assert reader.query(UNEVEN) == []
        assert [tuple(row.values()) for row in reader.query(UNPAID)] == [(0,)]
        assert reader.query("select kind from faults where kind = 'stage_paused'")
        assert [line for check in check_population(reader) for line in check.wrong] == []
