"""Prompts within a limit, with summaries: none is over it, and a resumed run asks what an uninterrupted one does."""

from pathlib import Path

from pace_async.config import Config
from pace_async.population.blobs import unpack_ids
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults
from pace_async.simulate.stages import World
from tests.support.simulated_runs import settings
from tests.support.straight_line import straight_line
from tests.support.virtual_runs import ROLLOUTS, Life, durations

PROMPTS = "select prompt_tokens, prompt_ids from advisor_calls order by lease, ordinal"


def shape(limit: int | None) -> Config:
    return settings(
        search__threads=4,
        search__summary_from=2,
        learner__group_size=4,
        learner__k=2,
        stop__candidates=32,
        staleness__mode="sync",
        seed=6,
        advisor__max_prompt_tokens=limit,
    )


def life(folder: Path, limit: int | None) -> Life:
    return Life(folder, shape(limit), World(seed=6, durations=durations(6)))


def prompts(run: Life) -> list[str]:
    return [bytes(unpack_ids(ids, count)).decode() for count, ids in run.rows(PROMPTS)]


def test_no_prompt_is_over_the_limit_and_a_resumed_run_asks_the_same(tmp_path: Path) -> None:
    free = prompts(life(tmp_path, None).live())
    longest = max(map(len, free))
    assert any("(tried 2, " in prompt for prompt in free)
    assert not any("left out" in prompt for prompt in free)

    limit = longest - 60
    whole = life(tmp_path, limit).live()
    asked = prompts(whole)
    assert whole.state == "done"
    assert max(map(len, asked)) <= limit
    assert 0 < sum("left out." in prompt for prompt in asked) < len(asked)
    assert whole.rows(ROLLOUTS) == straight_line(shape(limit), TINY_TASK, SimulatedFaults()).rollouts
    for last in (whole.commits // 3, whole.commits // 2):
        broken = life(tmp_path, limit).live(last)
        assert broken.state == "interrupted"
        assert prompts(broken.live()) == asked
        assert broken.rows(ROLLOUTS) == whole.rows(ROLLOUTS)
