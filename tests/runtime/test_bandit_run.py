"""The bandit over implementers within a run: what it chooses is recorded, asked, and the same after a crash."""

from collections import Counter
from pathlib import Path

import pytest

from tests.doubles.implementers import ScriptedChat
from tests.support.scripted_runs import Run, block, configured

CHEAP, DEAR = "openai/cheap", "openai/dear"
CHOICES = "select lease, kind, model, rate, usd from implementer_choices order by lease"


def models(*, cheap_works: bool = True) -> tuple[ScriptedChat, ScriptedChat]:
    def works(_question: str, number: int) -> str:
        return block(f"start = {number}")

    def fails(_question: str, _number: int) -> str:
        return "I would rather not."

    return ScriptedChat(works if cheap_works else fails, CHEAP, 0.001), ScriptedChat(works, DEAR, 0.004)


def chosen(run: Run) -> Counter[str]:
    return Counter(model for _, _, model, *_ in run.rows(CHOICES))


def test_the_chosen_model_is_recorded_with_the_experiment_and_asked(tmp_path: Path) -> None:
    run = Run(tmp_path, configured(implementer__choice="bandit", stop__candidates=30), *models()).live()
    assert run.state == "done"
    assert sum(chosen(run).values()) == run.rows("select count(*) from experiments where description is not null")[0][0]
    assert set(chosen(run)) == {CHEAP, DEAR}
    wrong = "select count(*) from implementer_choices h join implementer_calls c using (run_id, lease)"
    assert run.rows(f"{wrong} where h.model <> c.model")[0][0] == 0


def test_a_model_without_gains_is_chosen_less_and_less_though_it_is_cheap(tmp_path: Path) -> None:
    """Gains are rare, so some hundred rollouts are needed to tell which of two working models is better. A model that
    never gains is found sooner."""
    run = Run(
        tmp_path,
        configured(implementer__choice="bandit", implementer__cost_weight=0.0, stop__candidates=90),
        *models(cheap_works=False),
    ).live()
    order = [model for _, _, model, *_ in run.rows(CHOICES)]
    assert order[60:].count(CHEAP) < 10 < order[60:].count(DEAR)


@pytest.mark.parametrize("choice", ["weights", "bandit"])
def test_one_model_or_a_draw_by_weight_records_no_choice(tmp_path: Path, choice: str) -> None:
    all_models = models()
    run = Run(
        tmp_path,
        configured(implementer__choice=choice, stop__candidates=6),
        *(all_models[:1] if choice == "bandit" else all_models),
    ).live()
    assert run.rows(CHOICES) == []


@pytest.mark.long
def test_a_resumed_run_chooses_models_like_the_uninterrupted_one(tmp_path: Path) -> None:
    few = {"search__threads": 2, "learner__group_size": 2, "learner__k": 1}
    config = configured(implementer__choice="bandit", stop__candidates=16, **few)
    whole = Run(tmp_path, config, *models()).live()
    expected = whole.dump()
    assert set(chosen(whole)) == {CHEAP, DEAR}
    compared = 0
    for last in range(10, whole.commits, 11):
        broken = Run(tmp_path, config, *models()).live(last)
        if broken.was_cut_off_in_a_call:
            continue
        compared += 1
        assert broken.live().state == "done"
        assert broken.dump() == expected, f"commit {last}"
    assert compared > 2
