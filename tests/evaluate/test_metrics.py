"""What an evaluator of the user's leaves becomes a score, or one sentence that says why not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.evaluate.metrics import (
    LONGEST_FEEDBACK,
    LONGEST_FILE,
    EvaluatorOutput,
    Reading,
    read,
    result_files,
    shorten_feedback,
)
from pace_async.task import TaskSpec


def spec(**more: object) -> TaskSpec:
    return TaskSpec.model_validate(
        {
            **{"name": "t", "background": "b", "coding_requirements": "c", "direction": "maximize"},
            **{"bounds": {"lower": 0, "upper": 1}, "timeout_s": 1, "memory_mb": 1, "deterministic": True},
            **{
                "kind": "command",
                "evaluate": ["sh", "{program}"],
                "program": "initial.sh",
                "feedback": True,
                "language": "shell",
            },
            **more,
        }
    )


def reading(metrics: object, files: dict[str, str | int] | None = None, **more: object) -> Reading:
    text = metrics if isinstance(metrics, str | int) else json.dumps(metrics)
    return read(spec(**more), EvaluatorOutput({"metrics.json": text, **(files or {})}, b""))


NOT_PRINTED = (
    "the evaluator printed no JSON object and its last line is no number: let it print the score last, as in 0.5 or "
    '{"combined_score": 0.5}'
)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("", "the evaluator's metrics.json is empty"),
        ('{"combined_score": 1', "the evaluator's metrics.json is not JSON, or only half of it"),
        ("[" * 100_000, "the evaluator's metrics.json is nested deeper than 32"),
        (LONGEST_FILE + 1, "the evaluator's metrics.json is too long: 131073 bytes, and 131072 are read"),
        ([1], "the evaluator's metrics.json holds a list, not an object with metrics"),
        (
            {"loss": 1},
            'the metric combined_score is missing; there are: loss; print {"combined_score": NUMBER}, or say in '
            "task.yaml which metric is the score, as in score: loss",
        ),
        ({"combined_score": "0.5"}, "the metric combined_score is a text, not a number"),
        ({"combined_score": True}, "the metric combined_score is true, not a number"),
        ({"combined_score": float("nan")}, "the metric combined_score is not finite (nan)"),
        ({"combined_score": float("-inf")}, "the metric combined_score is not finite (-inf)"),
        ('{"combined_score": 1' + 400 * "0" + "}", "the metric combined_score is not finite (inf)"),
    ],
)
def test_each_kind_of_invalid_metrics_has_its_own_sentence(metrics: object, words: str) -> None:
    found = reading(metrics)
    assert (found.score, found.wrong) == (None, words)


def test_a_missing_file_is_distinguished_from_a_missing_metric() -> None:
    assert read(spec(), EvaluatorOutput({}, b"")).wrong == (
        "the evaluator left no metrics.json; if it prints the score, say metrics: printed in task.yaml"
    )


@pytest.mark.parametrize(
    ("score", "expected"),
    [("public.score", 4.0), (["none", "b"], 2.0), ("mean", 1.5), (["combined_score", "mean"], 1.5)],
)
def test_the_score_is_the_first_metric_that_is_there(score: object, expected: float) -> None:
    found = reading({"a": 1, "b": 2, "ok": True, "public": {"score": 4.0, "text": "x"}}, score=score)
    assert (found.score, found.wrong) == (expected, "")
    assert found.metrics == {"a": 1.0, "b": 2.0, "ok": 1.0, "public.score": 4.0}


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        ('log\n{"combined_score": 1}\n{"combined_score": 2}\nbye\n', 2.0),
        ('{"combined_score": 1}\n{"combined_sc', "the last line of standard output begins a JSON object and does not"),
        ("hello\n[1]\n7\n", 7.0),
        ('{"combined_score": 2}\n7\n', 2.0),
        ("hello 7\n", NOT_PRINTED),
        ("", NOT_PRINTED),
        ("nan\n", "the metric combined_score is not finite (nan)"),
    ],
)
def test_metrics_of_the_last_line_are_the_last_whole_object(stdout: str, expected: float | str) -> None:
    found = read(spec(metrics="last_line"), EvaluatorOutput({}, stdout.encode()))
    if isinstance(expected, str):
        assert found.wrong.startswith(expected)
    else:
        assert found.score == expected


@pytest.mark.parametrize(
    ("valid", "correct", "words"),
    [
        ("correct", {"correct": True}, ""),
        ("correct", {"correct": 1}, ""),
        ("correct", {"correct": False}, "the evaluator says that the program is not valid"),
        ("correct", {}, "correct, which says whether the program is valid, is missing"),
        ("correct", {"correct": "yes"}, "correct, which says whether the program is valid, is a text"),
    ],
)
def test_what_is_not_valid_has_no_score(valid: str, correct: dict[str, object], words: str) -> None:
    assert reading({"combined_score": 1, **correct}, valid=valid).wrong == words
    elsewhere = reading({"combined_score": 1}, {"correct.json": json.dumps(correct)}, valid=f"correct.json:{valid}")
    assert elsewhere.wrong.removeprefix("correct.json:") == words


@pytest.mark.parametrize("digits", [300, 400, 4000])
def test_a_whole_number_of_any_length_ends_in_a_mean_or_in_a_sentence(digits: int) -> None:
    long = int("9" * digits)
    found = reading({"a": long, "b": 1.5}, score=["combined_score", "mean"])
    assert found.score is not None if digits < 308 else found.wrong == "the metric mean is not finite (inf)"


def test_what_can_be_read_but_not_written_again_is_refused_at_once() -> None:
    """Python reads some depths that it cannot write. A RecursionError here would end the run."""
    for depth in (33, 500, *range(960, 1000), 5000):
        deep = "[" * depth + "]" * depth
        found = reading(f'{{"correct": false, "error": {deep}}}', {"artifacts.json": f'{{"worst": {deep}}}'})
        assert found.wrong == "the evaluator's metrics.json is nested deeper than 32", depth
        assert len(found.feedback) < LONGEST_FEEDBACK + 60


def test_an_error_text_beside_what_is_not_valid_is_the_detail() -> None:
    files = {"correct.json": json.dumps({"correct": False, "error": "two circles overlap"})}
    found = reading({"combined_score": 1}, dict(files), valid="correct.json:correct")
    assert found.wrong == "the evaluator says that the program is not valid: two circles overlap"


def test_feedback_is_what_the_evaluator_means_for_the_author_and_only_where_the_task_allows_it() -> None:
    metrics = {"combined_score": 1, "text_feedback": "too slow", "artifacts": {"log": "12 of 30"}}
    files: dict[str, str | int] = {"artifacts.json": '{"worst": [1, 2]}', "feedback.txt": "try 4\n"}
    told = reading(metrics, files).feedback
    assert told.split("\n\n") == ["text_feedback:\ntoo slow", "log:\n12 of 30", "worst:\n[1, 2]", "try 4"]
    assert reading(metrics, files, feedback=False).feedback == ""
    assert result_files(spec(feedback=False)) == ("metrics.json",)


def test_long_feedback_loses_its_middle_and_control_characters() -> None:
    told = shorten_feedback("begin" + "\x1b[31m" + "x" * 20_000 + "end")
    assert told.startswith("begin [31m")
    assert told.endswith("end")
    assert "characters left out" in told
    assert len(told) < LONGEST_FEEDBACK + 60


@settings(max_examples=60)
@given(
    st.text(max_size=60)
    | (st.none() | st.booleans() | st.floats() | st.dictionaries(st.text(), st.floats())).map(json.dumps)
)
def test_nothing_that_an_evaluator_leaves_raises(text: str) -> None:
    found = read(spec(score=["a", "mean"]), EvaluatorOutput({"metrics.json": text, "artifacts.json": text}, b""))
    assert (found.score is None) == bool(found.wrong)


REFUSED: dict[str, dict[str, Any]] = {
    "evaluate is missing": {"evaluate": []},
    "exclude each other": {"metrics": {"python": "evaluate"}},
    "must be a file in the folder of results": {"metrics": "../metrics.json"},
    "must be a folder of the task's folder": {"path": ["/usr"]},
    "has no entry, build or run": {"entry": "run"},
    "only for tasks that say kind: command": {"kind": "function", "entry": "run"},
    "let a word of evaluate contain {stage}": {"cascade": [{"name": "few", "threshold": 0}]},
    "names no function": {"evaluate": [], "metrics": {"python": "f"}, "cascade": [{"name": "few", "threshold": 0}]},
    "score must name a metric": {"score": []},
}


@pytest.mark.parametrize("words", REFUSED)
def test_fields_that_do_not_fit_are_refused_in_a_sentence(words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spec(**REFUSED[words])


def test_a_program_in_another_language_than_python_names_it() -> None:
    with pytest.raises(ValueError, match=r"initial\.sh is not a Python file: name its language, as in language: shell"):
        spec(language="python")
