"""YAML as people mean it: one loader for settings, tasks, catalogues and the examples of others."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.cli.options import settings_of_evaluator
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.implement.catalogue import load_catalogue
from pace_async.runtime.start.new_task import make_task
from pace_async.task import load_task
from pace_async.yaml_text import dumped, parsed, read_mapping, value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("-2e+6", -2e6),
        ("1.5e3", 1500.0),
        (".5e-1", 0.05),
        ("+1.", 1.0),
        ("1_000e1", 10_000.0),
        ("-.inf", float("-inf")),
        ("0x1f", 31),
        ("12", 12),
        ("695e0514", "695e0514"),  # a revision
        ("1:30", "1:30"),
        ("1.2.3", "1.2.3"),
        ("e5", "e5"),
        (".", "."),
        ("'1e-3'", "1e-3"),
        ("-", [None]),
    ],
)
def test_a_number_is_what_a_person_means_by_one(text: str, value: object) -> None:
    assert parsed(text) == value and type(parsed(text)) is type(value)
    assert parsed(f"a: [{text}]")["a"][0] == value or text == "-"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_what_is_written_is_read_back(value: object) -> None:
    assert parsed(dumped(value)) == value


@given(st.from_regex(r"[-+0-9._eE:]{1,9}", fullmatch=True))
def test_a_text_that_looks_like_a_number_is_read_back_as_a_text(text: str) -> None:
    assert parsed(dumped({"a": text})) == {"a": text}


@pytest.mark.parametrize("text", ["a: 1\nb: {c: 1, c: 2}", "a: 1\na: 1", "1: a\n1.0: b", "<<: {}\n<<: {}"])
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="stands twice"):
        parsed(text)


def test_what_another_mapping_has_may_be_taken_over_and_changed() -> None:
    assert parsed("base: &b {x: 1, y: 2}\nmine: {<<: *b, y: 3}")["mine"] == {"x": 1, "y": 3}


def test_a_key_that_stands_twice_is_refused_in_every_file_and_flag(tmp_path: Path) -> None:
    make_task("mine", tmp_path / "mine")

    def catalogue(at: str) -> object:
        return load_catalogue(Path(at) / "catalogue.yaml")

    loaders: tuple[tuple[str, Callable[[str], object]], ...] = (("task.yaml", load_task), ("catalogue.yaml", catalogue))
    for name, load in loaders:
        again = tmp_path / name.split(".")[0]
        shutil.copytree(tmp_path / "mine", again)
        file = again / name
        first = file.read_text(encoding="utf-8")
        key = next(line.partition(":")[0] for line in first.splitlines() if line[:1].isalpha())
        file.write_text(f"{first.rstrip()}\n{key}: other\n", encoding="utf-8")
        with pytest.raises(UsageError, match=rf"{name}: Key '{key}' stands twice"):
            load(str(again))
    with pytest.raises(UsageError, match=r"--set implementer\.options: .* stands twice"):
        value_of("{a: 1, a: 2}", "--set implementer.options")
    (tmp_path / "theirs.yaml").write_text("evaluator: {timeout: 1, timeout: 2}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"theirs\.yaml: Key 'timeout' stands twice"):
        read_mapping(tmp_path / "theirs.yaml")


def test_a_number_in_a_tasks_settings_and_in_the_environment_is_a_number(tmp_path: Path) -> None:
    make_task("mine", tmp_path / "mine")
    file = tmp_path / "mine" / "task.yaml"
    file.write_text(f"{file.read_text(encoding='utf-8').rstrip()}\nsettings: {{tolerance: 1e-3}}\n", encoding="utf-8")
    assert load_task(str(tmp_path / "mine")).spec.settings == {"tolerance": 1e-3}
    config = resolve(None, {}, {"PACE_IMPLEMENTER__OPTIONS": "{temperature: 1e-1}"})
    assert config.implementer.options == {"temperature": 0.1}


def test_a_number_that_is_given_to_an_evaluator_is_a_number() -> None:
    assert settings_of_evaluator(["tolerance=1e-4"]) == {"evaluation.settings.tolerance": 1e-4}


@pytest.mark.fault("Mended and imported", "an import of an example made to take for ever, or all memory")
@pytest.mark.parametrize(
    "lines",
    [
        ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))],
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 4)}]}}" for n in range(1, 40))],
        ["a: &a [*a]"],
        ["a: &a {b: {c: *a}}"],
    ],
    ids=["lists", "merges", "a list in itself", "a mapping in itself"],
)
def test_aliases_that_make_a_huge_value_are_refused_before_it_is_made(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="Its aliases make more than 1,000,000 values"):
        parsed("\n".join(lines))


def test_aliases_and_merges_of_ordinary_size_are_read() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]\n"
    assert parsed(text) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": [{"x": 1, "y": 2}] * 2}
