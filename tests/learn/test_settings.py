"""The learner's share of a configuration, and what the runtime must not load to hand it over."""

import subprocess
import sys

import pytest

from pace_async.configure import resolve
from pace_async.learn.settings import TrainerConfig


def test_the_packaged_advisor_has_a_learning_rate_of_its_own() -> None:
    config = resolve(environment={})
    assert TrainerConfig.of(config).learning_rate == config.learner.tiny_learning_rate
    other = resolve(overrides={"advisor.model": "some/directory"}, environment={})
    assert TrainerConfig.of(other).learning_rate == config.learner.learning_rate


def test_settings_survive_json_and_unknown_ones_are_refused() -> None:
    settings = TrainerConfig.of(
        resolve(overrides={"learner.betas": [0.8, 0.9], "learner.micro_tokens": 3}, environment={})
    )
    assert TrainerConfig.from_json(settings.to_json()) == settings
    assert settings.betas == (0.8, 0.9)
    with pytest.raises(ValueError, match="unknown learner settings: rate"):
        TrainerConfig.from_json('{"rate": 1}')


def test_the_runtimes_side_of_the_learner_loads_no_torch() -> None:
    code = "import sys, pace_async.learn.client, pace_async.replay.groupfile; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
