"""What every implementer must do: the catalogue's own, a pool of it, and the simulated one."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from pace_async.errors import CandidateFault
from pace_async.implement.base import Experiment, ImplementedProgram, Implementer
from pace_async.implement.catalogue import CatalogImplementer, MechanismEdit, apply_edit, load_catalogue
from pace_async.simulate.stages import SimulatedImplementer, World
from pace_async.task import split_block
from tests.support.implementing import PARENT, TASK, implementing
from tests.support.simulated_runs import settings


@pytest.fixture(params=["catalogue", "pool", "simulated"])
async def implementer(request: pytest.FixtureRequest) -> AsyncGenerator[Implementer]:
    if request.param == "pool":
        async with implementing(settings(implementer__model="catalog")) as (pool, _):
            yield pool
    else:
        yield CatalogImplementer(TASK) if request.param == "catalogue" else SimulatedImplementer(World())


def experiments() -> list[Experiment]:
    """Each sets another mechanism to another value, the last word of its description a number."""
    assert TASK.catalogue_path is not None
    block = split_block(TASK.program)[1]
    edits = [
        MechanismEdit(mechanism.name, option)
        for mechanism in load_catalogue(TASK.catalogue_path).mechanisms
        for option in mechanism.options
        if not isinstance(option, str) and apply_edit(block, MechanismEdit(mechanism.name, option)) != block
    ]
    return [
        Experiment(lease, "another value", f"Set {edit.mechanism} to {edit.option}")
        for lease, edit in enumerate(edits[:6], 1)
    ]


async def test_an_experiment_becomes_a_whole_program_that_compiles_and_is_not_the_parent(
    implementer: Implementer,
) -> None:
    for experiment in experiments():
        made = await implementer.implement(TASK, PARENT, experiment)
        compile(made.program, "candidate", "exec")
        assert made.program != PARENT.program
        assert made.mechanism is not None


async def test_an_experiment_gives_the_same_program_again_alone_or_concurrently(implementer: Implementer) -> None:
    alone = [await implementer.implement(TASK, PARENT, experiment) for experiment in experiments()]
    together: dict[int, ImplementedProgram] = {}

    async def keep(experiment: Experiment) -> None:
        together[experiment.lease] = await implementer.implement(TASK, PARENT, experiment)

    async with anyio.create_task_group() as tasks:
        for experiment in experiments():
            tasks.start_soon(keep, experiment)
    assert [together[experiment.lease].program for experiment in experiments()] == [made.program for made in alone]
    assert len({made.program for made in alone}) == len(alone)


@pytest.mark.parametrize("text", ["", "Make it better."])
async def test_an_experiment_that_cannot_become_a_program_is_the_candidates_fault(
    implementer: Implementer, text: str
) -> None:
    with pytest.raises(CandidateFault) as fault:
        await implementer.implement(TASK, PARENT, Experiment(1, "", text))
    assert fault.value.kind == "not_implemented"
