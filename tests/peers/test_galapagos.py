"""Tasks of Galapagos: what their cards say, and the packages that they need."""

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from pace_async.errors import NotHere, UsageError
from pace_async.peers import galapagos
from pace_async.peers.example import ImportOptions
from pace_async.peers.galapagos import Galapagos
from pace_async.peers.packages import missing_of, packages_of
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.examples import GALAPAGOS, example

needs_package = pytest.mark.skipif(find_spec("galapagos") is None, reason="pip install '.[galapagos]'")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two tasks of its own, and one that needs something else, in place of the installed one."""
    folder = tmp_path / "packages" / "galapagos"
    for name in ("sums", "sums_of_two"):
        example(folder / "tasks" / name, GALAPAGOS)
    away = example(folder / "tasks" / "far_away", GALAPAGOS)
    (away / "card.yaml").write_text((away / "card.yaml").read_text() + "status: external\n")
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    galapagos._folders.cache_clear()
    return folder


def test_a_card_gives_background_direction_target_limits_and_source(tmp_path: Path) -> None:
    found = Galapagos().read(example(tmp_path / "a", GALAPAGOS), ImportOptions())
    assert found.background == (
        "Return a large whole number, at most 8.\n\n"
        "The score: The number divided by the best known one. Computed as: value / 8"
    )
    assert (found.direction, found.target, found.timeout_s, found.packages) == ("maximize", 1.0, 50, ("numpy",))
    assert (found.fields["score"], found.left) == (["combined_score"], ("constraint.network: none",))
    assert "- source: https://example.org/sums" in found.about and "- found_by: Ada" in found.about
    resource = "{name: cost.csv, uri: 'https://example.org/cost.csv', path: data/cost.csv}"
    more = f"external_resources: [{resource}]\nodd: 1\n"
    (found.folder / "card.yaml").write_text((found.folder / "card.yaml").read_text() + more)
    assert Galapagos().read(found.folder, ImportOptions()).left == (
        *("odd", "external_resources: https://example.org/cost.csv (get it, and put it at example/data/cost.csv)"),
        "constraint.network: none",
    )
    card = GALAPAGOS["card.yaml"].replace("network: none", "gpu: CUDA")
    assert Galapagos().read(example(tmp_path / "b", GALAPAGOS, card__yaml=card), ImportOptions()).fields["gpus"] == 1
    assert "gpus" not in found.fields


@pytest.mark.parametrize(
    ("described", "best", "target", "upper"),
    [
        ("Ratio to the best known side", 3.2, 1.0, None),
        ("0 if invalid, else 3.2 / side", 3.2, 1.0, None),
        ("Whatever it is", 1.0, 1.0, None),
        ("Whatever it is", 3.2, None, None),
        ("Whatever it is", None, None, None),
        ("0.7*correctness + 0.2*performance + 0.1*reliability", 256.1, None, 1.0),
    ],
)
def test_the_best_known_value_is_a_target_only_where_the_score_is_a_ratio_to_it(
    tmp_path: Path, described: str, best: float | None, target: float | None, upper: float | None
) -> None:
    card = f"metrics: [{{metric_name: combined_score, metric_description: '{described}'}}]\n" + (
        f"references: {{best_known: {best}}}\n" if best is not None else ""
    )
    found = Galapagos().read(example(tmp_path / "a", GALAPAGOS, card__yaml=card), ImportOptions())
    assert (found.target, found.upper) == (target, upper)


def test_a_target_that_the_seed_program_has_reached_is_left_out(shell: Shell) -> None:
    program = GALAPAGOS["initial_program.py"].replace("return 2", "return 8")
    example(shell.folder / "theirs", GALAPAGOS, initial_program__py=program)
    said = shell.pace("task", "import", "galapagos", "theirs", "--to", "mine")
    assert "target: none, because the seed program scores 1, no worse than 1" in said.out
    spec = load_task(str(shell.folder / "mine")).spec
    assert (spec.target, spec.bounds.lower, spec.bounds.upper) == (None, 1.0, 3.0)


def test_a_task_for_a_gpu_is_imported_where_there_is_none(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    card = GALAPAGOS["card.yaml"].replace("network: none", "gpu: CUDA")
    example(shell.folder / "theirs", GALAPAGOS, card__yaml=card)
    said = shell.pace("task", "import", "galapagos", "theirs", "--to", "mine")
    assert (said.code, "has no score yet" in said.out and "GPU" in said.out) == (0, True), said.err
    assert load_task(str(shell.folder / "mine")).spec.gpus == 1


def test_stages_have_the_thresholds_of_galapagos_and_a_score_may_be_minimized(tmp_path: Path) -> None:
    card = "metrics: [{metric_name: cost, metric_direction: minimize}]\n"
    stages = "".join(f"def evaluate{name}(path): ...\n" for name in ("", "_stage1", "_stage2"))
    found = Galapagos().read(example(tmp_path / "a", GALAPAGOS, card__yaml=card, evaluator__py=stages), ImportOptions())
    assert (found.stages, found.direction) == ((("stage1", 0.3),), "minimize")
    assert found.fields["score"] == ["cost", "combined_score"]


def test_packages_are_those_of_the_card_and_of_the_imports_that_are_needed(tmp_path: Path) -> None:
    evaluator = """\
        import os, sklearn.svm
        from helper import x
        from nowhere_at_all.part import y
        try:
            import optional_thing
        except ImportError:
            optional_thing = None
        """
    folder = example(tmp_path / "a", GALAPAGOS, evaluator__py=evaluator, helper__py="x = 1\n")
    found = packages_of(folder, ("evaluator.py",), ("numpy", "--upgrade", "python-sat"))
    assert found == ("numpy", "python-sat", "scikit-learn", "nowhere_at_all")
    assert "nowhere_at_all" in missing_of(found) and "numpy" not in missing_of(found)


def test_the_tasks_of_the_package_are_listed_without_importing_it(shell: Shell, package: Path) -> None:
    said = shell.pace("task", "import", "galapagos", "--list")
    assert (said.code, said.out.split()) == (0, ["sums", "sums_of_two"])
    assert json.loads(shell.pace("task", "import", "galapagos", "--list", "--json").out) == ["sums", "sums_of_two"]
    assert Galapagos().folder_of("far_away") == package / "tasks" / "far_away"
    with pytest.raises(UsageError, match=r"no task 'sum': did you mean sums"):
        Galapagos().folder_of("sum")
    assert shell.pace("task", "import", "galapagos", "sums", "--no-try").code == 0
    again = shell.pace("task", "import", "galapagos", "sums", "--no-try")
    assert again.err.strip() == "pace: sums is there already: name another folder with --to, or remove it."


def test_all_tasks_are_imported_once_and_one_that_cannot_be_is_named(shell: Shell, package: Path) -> None:
    (package / "tasks" / "sums_of_two" / "initial_program.py").unlink()
    said = shell.pace("task", "import", "galapagos", "--all", "--to", "mine", "--no-try", "--json")
    document = json.loads(said.out)
    assert (said.code, [one["task"] for one in document["imported"]], document["failed"]) == (
        *(2, ["sums"], ["sums_of_two"]),
    )
    again = shell.pace("task", "import", "galapagos", "--all", "--to", "mine", "--no-try")
    assert again.out.rstrip().endswith("0 imported into mine, 1 not")
    assert shell.pace("task", "import", "galapagos", "sums", "--all").code == 2
    assert shell.pace("task", "import", "openevolve", "--all").err.strip() == (
        "pace: Examples of openevolve have no names: name the folder of one."
    )


def test_without_the_package_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(galapagos, "find_spec", nothing)
    galapagos._folders.cache_clear()
    with pytest.raises(NotHere, match=r"open-galapagos, which is not installed: pip install .*\[galapagos\]"):
        Galapagos().folder_of("circle_packing")


def wheel_of(folder: Path, name: str) -> None:
    """A package with one module, as an installer takes it."""
    folder.mkdir()
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "VALUE = 6\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.long
@pytest.mark.nightly
def test_packages_that_are_missing_are_named_and_go_into_an_environment_of_the_task(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import sums_of_ours\n# EVOLVE-BLOCK-START\ndef answer():\n    return sums_of_ours.VALUE\n# EVOLVE-BLOCK-END\n"
    )
    card = GALAPAGOS["card.yaml"].replace("[numpy]", "[sums_of_ours]")
    example(shell.folder / "theirs", GALAPAGOS, card__yaml=card, initial_program__py=program)
    said = shell.pace("task", "import", "galapagos", "theirs", "--to", "without")
    assert "packages: sums_of_ours not installed here: --install makes an environment with them" in said.out
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shell.folder / "wheels"))
    refused = shell.pace("task", "import", "galapagos", "theirs", "--to", "mine", "--install")
    assert refused.code != 0 and "sums_of_ours cannot be installed into mine_environment" in refused.err
    wheel_of(shell.folder / "wheels", "sums_of_ours")
    assert shell.pace("task", "import", "galapagos", "theirs", "--to", "mine", "--install").code == 0
    spec = load_task(str(shell.folder / "mine")).spec
    assert (spec.environment.prefix, spec.bounds.lower) == ("../mine_environment", 0.75)


@needs_package
def test_the_package_has_its_local_tasks_and_each_can_be_read() -> None:
    galapagos._folders.cache_clear()
    importer = Galapagos()
    names = importer.names()
    assert len(names) == 399
    for name in names[::40]:
        found = importer.read(importer.folder_of(name), ImportOptions())
        assert found.background and (found.folder / found.source).is_file(), name
