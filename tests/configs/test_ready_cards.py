"""The ready configs of models that need a card: what each promises in its header, and what its runs have in common."""

import json
import re
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.configure import resolve
from research.benchmarks.paper_costs import cost_of
from tests.support.command_line import Shell

FOLDER = Path(__file__).parents[2] / "configs"
FILES = sorted(
    file for file in FOLDER.glob("*.yaml") if re.search(r"^  model: models/", file.read_text("utf-8"), re.MULTILINE)
)


def header(file: Path) -> str:
    """The comment on top, without the plan."""
    return file.read_text("utf-8").partition("# What it needs")[0]


def configured(file: Path) -> Config:
    return resolve(file, environment={})


def test_there_is_one_for_each_kind_of_machine() -> None:
    assert {file.stem for file in FILES} == {
        "qwen3.5_4b_h200",
        "qwen3.5_4b_h200_lora",
        "qwen3.5_4b_h100_lora",
        "qwen3.5_4b_two_24gb",
        "deepseek_8b_h200_lora",
        "deepseek_8b_two_gpus",
        "deepseek_8b_eight_h100",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_header_names_an_implementer_its_limit_and_what_it_makes_and_costs(file: Path) -> None:
    said = " ".join(header(file).replace("#", " ").split())
    assert re.search(rf"pace run --config configs/{re.escape(file.name)} --implementer \S+ --budget \d+", said)
    assert re.search(r"\d+ candidates an hour", said)
    assert re.search(r"0\.\d+ USD a candidate", said)
    assert "hf download" in said or "is downloaded as configs/" in said


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_has_room_for_thoughts(file: Path) -> None:
    config = configured(file)
    assert config.advisor.thinking is not False
    lengths = (config.learner.max_length, config.advisor.longest("propose"), config.advisor.longest("select"))
    assert lengths == (12288, 8192, 4096)
    assert config.learner.micro_tokens == config.learner.max_length, "one longest call a pass"


def test_with_these_lengths_the_longest_bundled_program_is_shown_whole(shell: Shell) -> None:
    file = FOLDER / "qwen3.5_4b_h200.yaml"
    shown = ["prompts", "show", "kuairec", "--config", str(file)]
    with_room = shell.pace(*shown, "--set", "prompts.tokens=100000").out
    assert shell.pace(*shown).out == with_room
    config = configured(file)
    assert config.learner.max_length is not None
    for call in ("propose", "assess", "select"):
        question = with_room.split(f"== {call}: ")[1].split("\n== ")[0]
        assert "def recommend(" in question
        assert len(question) / 3 < config.learner.max_length - config.advisor.longest(call), "three characters a token"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_has_the_threads_and_the_staleness_that_the_simulator_prefers(file: Path) -> None:
    config = configured(file)
    assert (config.search.threads, config.bound) == (24, 4)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_without_card_and_vllm_a_dry_run_says_the_hours_and_usd_of_the_header_and_all_that_is_missing(
    bare_shell: Shell, file: Path
) -> None:
    said = " ".join(header(file).replace("#", " ").split())
    command = re.search(r"pace run --config configs/\S+ (.*?) (?:Up to|At most|About)", said)
    assert command is not None
    answer = bare_shell.pace("run", "--config", str(file), *command[1].split(), "--dry-run", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    plan, missing = found["plan"], " ".join(found["missing"])
    assert "vLLM is not installed" in missing and "has no weights" in missing and "GEMINI_API_KEY" in missing
    hours = re.search(r"([\d.]+) to ([\d.]+) hours and (\d+) USD for the (\d+) groups of a run", said)
    assert hours is not None
    low, high, usd, groups = map(float, hours.groups())
    assert cost_of(plan).hours == (low, high)
    a_candidate = re.search(r"a candidate, ([\d.]+) USD", plan["bill"])
    assert a_candidate is not None
    assert usd == pytest.approx(groups * 8 * float(a_candidate[1]), abs=1)
    assert plan["stops"].startswith(f"at {groups:.0f} groups")
    assert bare_shell.files() == ["models"]
