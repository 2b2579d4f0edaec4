"""The file of recorded runs."""

import json
from pathlib import Path

from pace_async.baseline import Baseline, load_baseline
from research.trials.record_baseline import as_text

MADE = Baseline.model_validate(
    {
        "what": "without learning",
        "command": "pace run --seed SEED",
        "date": "2026-11-25",
        "seeds": [1, 2],
        "settings": {"search.threads": 8, "evaluation.settings": {}},
        "step": 5,
        "curves": [[-0.0049226785690451745, 0.12345678, 0.5], [-0.0049226785690451745, 0.2, 0.25]],
    }
)


def test_what_is_written_is_read_again_and_the_seed_programs_score_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    file.write_text(as_text(MADE))
    read = load_baseline(str(file))
    assert read.model_copy(update={"curves": ()}) == MADE.model_copy(update={"curves": ()})
    assert [curve[0] for curve in read.curves] == [curve[0] for curve in MADE.curves]
    assert read.curves[0][1:] == (0.123457, 0.5)
    assert len([line for line in as_text(MADE).splitlines() if line.startswith("  [")]) == len(MADE.curves)
    assert json.loads(as_text(MADE))["seeds"] == [1, 2]
