"""The advisor that a run chooses for its task, and what is said about an advisor that does not fit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.implement.assemble import refuse_missing_mechanisms
from pace_async.implement.catalogue import load_catalogue
from pace_async.learn.settings import TrainerConfig
from pace_async.runtime.children.advisor_choice import (
    KNOWN,
    Serving,
    choose,
    in_words,
    knows,
    served_by,
    serving_of,
    with_advisor,
)
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.runtime.start.resolved import prepare
from pace_async.task import Task, load_task, task_folders
from tests.support.catalogues import TASK, config_with, with_catalogue, with_unread_catalogue, without_catalogue

EXAMPLE = Path(__file__).parents[2] / "configs" / "new_task" / "catalogue.yaml"


def chosen(task: Task, **settings: dict[str, str]) -> str:
    return with_advisor(Config.model_validate(settings), task).advisor.model


def in_c(task: Task) -> Task:
    changed = {"kind": "process", "language": "c++", "run": ("./program",), "entry": ""}
    return replace(task, spec=task.spec.model_copy(update=changed))


def test_a_task_whose_catalogue_tiny_knows_is_served_by_tiny_and_every_other_by_the_reader(tmp_path: Path) -> None:
    assert [chosen(load_task(name)) for name in ("circle_packing", "eplb", "txn_scheduling")] == ["tiny"] * 3
    assert chosen(load_task("multi_evolve")) == "reader"
    assert chosen(with_catalogue(tmp_path, 3, 4)) == "reader"
    assert chosen(in_c(TASK)) == "reader"  # tiny was trained on programs in Python


def test_what_a_user_names_is_never_replaced() -> None:
    config = config_with("tiny")
    assert with_advisor(config, load_task("multi_evolve")) is config


def test_where_no_advisor_of_the_package_reads_the_task_the_implementers_model_advises(tmp_path: Path) -> None:
    paid = {"model": "openai/any", "api_base": "http://127.0.0.1:9/v1", "options": {"seed": 1}, "timeout_s": 7.0}
    config = Config.model_validate({"implementer": paid, "advisor": {"timeout_s": 5.0}})
    found = with_advisor(config, without_catalogue())
    assert found.advisor.model == "api:openai/any"
    assert (found.advisor.api_base, found.advisor.options) == (paid["api_base"], paid["options"])
    assert found.advisor.timeout_s == 5.0  # what the user gave the advisor stays
    assert found.learner.objective == "none"
    said = in_words(found, without_catalogue(), chosen=True)
    assert said == "openai/any, the implementer's model, asked over the network; it learns nothing"
    assert chosen(with_unread_catalogue(tmp_path), implementer={"model": "catalog,openai/any"}) == "api:openai/any"


def test_an_advisor_of_the_package_that_would_send_noise_to_a_model_or_an_agent_is_refused_in_one_sentence() -> None:
    catalogued, none = load_task("multi_evolve"), without_catalogue()
    for task, why in ((catalogued, "has another"), (none, "has none")):
        config = Config.model_validate({"advisor": {"model": "tiny"}, "implementer": {"model": "openai/any"}})
        with pytest.raises(UsageError, match=rf"--advisor tiny knows only.*{why}: leave --advisor out") as raised:
            with_advisor(config, task)
        assert "\n" not in str(raised.value)
        assert not served_by(config, task)[0].ok
    agent = Config.model_validate({"implementer": {"model": "command", "command": ["agent", "{prompt}"]}})
    with pytest.raises(UsageError, match=r"No advisor of the package reads task.*name a language model"):
        with_advisor(agent, none)
    paid = Config.model_validate({"advisor": {"model": "tiny"}, "implementer": {"model": "openai/any"}})
    assert with_advisor(paid, TASK) is paid  # its catalogue is known


def test_an_implementers_model_that_cannot_advise_is_refused_with_the_reason() -> None:
    for settings, why in (
        ({"learner": {"objective": "pace"}}, "leave --objective pace out"),
        ({"advisor": {"engine": "vllm"}}, "leave --engine out"),
    ):
        config = Config.model_validate({"implementer": {"model": "openai/any"}, **settings})
        with pytest.raises(UsageError, match=f"(?s)No advisor of the package reads this task.*{why}.*--advisor"):
            with_advisor(config, without_catalogue())


def test_a_server_that_runs_already_is_served_by_tiny(tmp_path: Path) -> None:
    assert chosen(with_catalogue(tmp_path, 3, 4), advisor={"engine": "http://127.0.0.1:9"}) == "tiny"


def test_a_catalogue_that_no_advisor_reads_is_refused_where_all_programs_are_edits_by_it(tmp_path: Path) -> None:
    unread = with_unread_catalogue(tmp_path)
    with pytest.raises(UsageError, match=r"its prompts use the word to themselves"):
        chosen(unread)


def test_the_choice_does_not_look_further_once_an_advisor_knows_the_catalogue() -> None:
    def servings():
        yield Serving("reads", "reads", "")
        yield Serving("knows", "knows", "")
        raise AssertionError("looked further")

    assert choose(servings(), edits_only=True).model == "knows"
    lacking = [Serving("a", "lacks", ""), Serving("b", "reads", ""), Serving("c", "reads", "")]
    assert choose(lacking, edits_only=True).model == "b"


def test_the_list_of_known_catalogues_is_that_of_the_tasks() -> None:
    known = json.loads((TINY / KNOWN).read_text("utf-8"))
    files = {name: load_task(name).catalogue_path for name in ("circle_packing", "eplb", "txn_scheduling")}
    for name, file in {**files, "new_task": EXAMPLE}.items():
        assert file is not None
        options = {one.name: [str(option) for option in one.options] for one in load_catalogue(file).mechanisms}
        assert known["catalogues"][name] == options
        assert knows(known, options, "python")
        assert not knows(known, options, "rust")
        first = next(iter(options))
        assert not knows(known, {**options, first: options[first][1:]}, "python")


def test_the_advisor_and_how_it_serves_the_task_are_said_in_one_line(tmp_path: Path) -> None:
    task = with_catalogue(tmp_path, 3, 4)
    reader = with_advisor(Config(), task)
    assert in_words(reader, task, chosen=True) == (
        "reader, chosen for this task, served by embedded; it reads the catalogue: 3 mechanisms, 12 options: each "
        "prompt lists every alternative"
    )
    assert in_words(config_with("tiny"), task, chosen=False) == (
        "tiny, served by embedded; it was trained on other catalogues, and most of its experiments will fail: leave "
        "--advisor out"
    )
    assert serving_of("tiny", without_catalogue()).bad
    assert not serving_of("tiny", TASK).bad


def test_all_advisors_of_the_package_learn_at_the_rate_of_small_models() -> None:
    for name in ("auto", "tiny", "reader"):
        assert TrainerConfig.of(config_with(name)).learning_rate == Config().learner.tiny_learning_rate
    assert TrainerConfig.of(config_with("some/directory")).learning_rate == Config().learner.learning_rate


def with_missing_mechanism(folder: Path) -> Task:
    """The whole task, with a catalogue that names something its seed program does not assign."""
    shutil.copytree(TASK.folder, folder / "task")
    with (folder / "task" / "catalogue.yaml").open("a") as catalogue:
        catalogue.write("  - {name: not_there, about: nothing, options: [1, 2]}\n")
    return load_task(str(folder / "task"))


def test_a_catalogue_that_names_what_the_seed_program_lacks_is_refused_before_a_run_by_the_catalog_implementer(
    tmp_path: Path,
) -> None:
    task = with_missing_mechanism(tmp_path)
    with pytest.raises(UsageError, match=r"not_there.*assigns 0 times instead of once.*pace task check") as raised:
        prepare(config_with("tiny"), task, tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()
    refuse_missing_mechanisms("openai/any", task)
    for name in task_folders():
        refuse_missing_mechanisms("catalog", load_task(name))


def test_a_general_model_with_the_catalog_implementer_is_told_what_can_be_implemented(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    for name in (str(model), "api:openai/any"):
        asked = config_with(name)
        assert "it does not see the catalogue" in in_words(asked, TASK, chosen=False)
        free = Config.model_validate({"advisor": {"model": name}, "implementer": {"model": "openai/any"}})
        assert "catalogue" not in in_words(free, TASK, chosen=False)
        assert [(one.ok, one.doubtful) for one in served_by(asked, TASK)] == [(True, True), (True, False)]
        assert [(one.ok, one.doubtful) for one in served_by(free, TASK)] == [(True, False), (True, False)]


def test_advisor_and_implementer_named_by_flag_are_checked_against_the_task(tmp_path: Path) -> None:
    assert [one.ok for one in served_by(config_with("tiny"), TASK)] == [True, True]
    other = served_by(config_with("tiny"), load_task("multi_evolve"))  # a run begins, and says it at its start
    assert [(one.ok, one.doubtful) for one in other] == [(True, True), (True, False)]
    none = served_by(config_with("auto"), without_catalogue())
    assert [(one.ok, one.doubtful) for one in none] == [(True, True), (False, False)]
    advisor, implementer = served_by(config_with(str(tmp_path)), with_missing_mechanism(tmp_path))
    assert not advisor.ok and "is not a model directory" in advisor.found
    assert not implementer.ok and "not_there" in implementer.found
