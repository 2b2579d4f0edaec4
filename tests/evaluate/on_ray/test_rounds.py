"""Random rounds of faults on a real cluster. `scripts/checks/cluster_rounds.py --rounds 50` makes more of them."""

import pytest

from scripts.checks.cluster_rounds import CANDIDATES, rounds
from tests.support.ray_nodes import NEEDS_RAY

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.fault("Machines", "nodes and evaluators killed and stopped at random: nothing lost, nothing counted twice")
@pytest.mark.nightly
async def test_five_rounds_lose_no_evaluation_count_none_twice_and_reward_no_failure_of_a_machine() -> None:
    made = await rounds(5, 1)
    assert [one.wrong for one in made] == [[]] * 5
    assert all(len(one.done) == CANDIDATES for one in made)
    assert sum(one.lost for one in made) > 0  # the faults hit something
