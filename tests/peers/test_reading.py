"""Examples of other projects are read without being run: what they say is taken over, and what has no counterpart is
named."""

import ast
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.peers.constants import UNKNOWN, value_of
from pace_async.peers.example import Example, ImportOptions
from pace_async.peers.openevolve import OpenEvolve
from pace_async.peers.seed import with_one_block
from pace_async.peers.shinka import Shinka
from pace_async.peers.write import drafted, name_of, task_yaml
from tests.support.examples import OPENEVOLVE, REPOSITORY, SHINKA, example

ANY = ImportOptions()


def words(found: Example) -> list[str]:
    """The command that evaluates a program of the example."""
    return list(found.fields["evaluate"])


def test_an_openevolve_example_gives_prompt_limits_language_and_stages(tmp_path: Path) -> None:
    found = OpenEvolve().read(example(tmp_path / "a", OPENEVOLVE), ANY)
    assert (found.evaluator, found.program, found.language) == ("evaluator.py", "initial_program.py", "python")
    assert (found.background, found.timeout_s, found.stages) == ("Make the answer large.", 20, (("stage1", 0.5),))
    assert words(found)[-4:] == ["--functions", "evaluate_stage1,evaluate_stage2", "--most", "200"]
    assert [line.split(" ")[0] for line in found.left] == [
        *("max_iterations", "llm.primary_model", "llm.temperature", "database.num_islands"),
    ]
    assert "use --threads" in found.left[-1]


@pytest.mark.parametrize(
    ("settings", "stages", "functions"),
    [
        ("evaluator: {cascade_evaluation: false}", (), "evaluate"),
        ("evaluator: {cascade_evaluation: true}", (("stage1", 0.5),), "evaluate_stage1,evaluate_stage2"),
        ("evaluator: {cascade_thresholds: []}", (), "evaluate_stage1"),
        ("", (("stage1", 0.5),), "evaluate_stage1,evaluate_stage2"),
    ],
)
def test_stages_are_those_that_openevolve_would_run(
    tmp_path: Path, settings: str, stages: tuple[object, ...], functions: str
) -> None:
    found = OpenEvolve().read(example(tmp_path / "a", OPENEVOLVE, config__yaml=settings), ANY)
    assert (found.stages, words(found)[words(found).index("--functions") + 1]) == (stages, functions)


def test_further_arguments_of_evaluate_are_taken_over_where_evaluate_is_called(tmp_path: Path) -> None:
    settings = "evaluator: {cascade_evaluation: %s, evaluator_args: {times: 3, name: a b}}"
    found = OpenEvolve().read(example(tmp_path / "a", OPENEVOLVE, config__yaml=settings % "false"), ANY)
    assert words(found)[-2:] == ["--arguments", '{"times": 3, "name": "a b"}']
    assert "arguments of evaluate: times, name (evaluator.evaluator_args)" in found.taken
    staged = OpenEvolve().read(example(tmp_path / "b", OPENEVOLVE, config__yaml=settings % "true"), ANY)
    assert "--arguments" not in words(staged)


def test_an_example_without_settings_has_the_defaults_and_its_readme(tmp_path: Path) -> None:
    folder = example(
        tmp_path / "a", OPENEVOLVE, config__yaml=None, README__md="# Sums\n\nFind a *large*\nanswer.\n\nMore."
    )
    found = OpenEvolve().read(folder, ANY)
    assert (found.background, found.timeout_s) == ("Find a *large* answer.", 300)


def test_a_prompt_may_be_a_file_of_the_folder_of_templates(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE, config__yaml="prompt: {template_dir: texts, system_message: expert}")
    (folder / "texts").mkdir()
    (folder / "texts" / "expert.txt").write_text("You are an expert.")
    assert OpenEvolve().read(folder, ANY).background == "You are an expert."
    (tmp_path / "expert.txt").write_text("A note of mine.")
    (folder / "config.yaml").write_text("prompt: {template_dir: .., system_message: expert}")
    assert "note" not in OpenEvolve().read(folder, ANY).background


def test_the_settings_with_an_api_key_are_not_copied(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE, config__yaml="llm: {models: [{name: m, api_key: sk-very-secret}]}")
    draft = drafted("a", OpenEvolve().read(folder, ANY))
    assert "config.yaml" in draft.skipped
    assert "config.yaml" not in draft.files
    assert "very-secret" not in task_yaml(draft, (0, 1), ())


def test_a_shinka_example_gives_what_its_script_and_its_yaml_say(tmp_path: Path) -> None:
    found = Shinka().read(example(tmp_path / "a", SHINKA), ANY)
    assert (found.evaluator, found.program, found.language) == ("evaluate.py", "initial.py", "python")
    assert (found.background, found.timeout_s) == ("You make numbers large.\nTwice.", 90)
    assert words(found)[-2:] == ["--times", "3"]
    assert found.fields["valid"] == "correct.json:correct"
    named = {line.split(" ")[0] for line in found.left}
    assert {"evo_config.num_generations", "evo_config.llm_models", "db_config.num_islands"} <= named
    assert {"db_config.archive_size", "runner.max_evaluation_jobs"} <= named


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a' 'b'", "ab"),
        ('("a" + "b").strip()', "ab"),
        ('f"{NAME}!"', "x!"),
        ("dict(a=1, b=[2, 3])", {"a": 1, "b": [2, 3]}),
        ('os.path.join(here, "evaluate.py")', "evaluate.py"),
        ('Path("prompt.txt").read_text()', "from a file"),
        ('open("prompt.txt", encoding="utf-8").read()', "from a file"),
        ('open("../secret.txt").read()', UNKNOWN),
        ("os.environ['X']", UNKNOWN),
        ("__import__('os').system('false')", UNKNOWN),
        ("-2 * 3.5", -7.0),
    ],
)
def test_constants_are_read_and_nothing_is_run(tmp_path: Path, text: str, value: object) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "prompt.txt").write_text("from a file")
    (tmp_path / "secret.txt").write_text("no")
    assert value_of(ast.parse(text, mode="eval").body, {"NAME": "x"}, inside) == value


def test_a_prompt_of_a_module_beside_the_script_is_found(tmp_path: Path) -> None:
    script = (
        "from prompt import MESSAGE\nfrom shinka.core import EvolutionConfig\nEvolutionConfig(task_sys_msg=MESSAGE)\n"
    )
    folder = example(tmp_path / "a", SHINKA, run_evo__py=script, small__yaml=None, prompt__py="MESSAGE = 'Grow.'\n")
    assert Shinka().read(folder, ANY).background == "Grow."


def test_a_prompt_of_which_only_a_run_knows_a_part_is_taken_with_the_name_of_that_part(tmp_path: Path) -> None:
    script = (
        "from shinka.core import EvolutionConfig\nimport bench\nstatement = bench.start().statement\nTIMES = 3\n"
        'my_sys_msg = f"Solve {statement} in {TIMES} steps."\nEvolutionConfig(task_sys_msg=my_sys_msg)\n'
    )
    found = Shinka().read(example(tmp_path / "a", SHINKA, run_evo__py=script, small__yaml=None), ANY)
    assert found.background == "Solve {statement} in 3 steps."
    assert any("complete it in task.yaml" in line for line in found.taken)


def test_an_example_without_any_text_does_not_say_that_it_has_a_readme(tmp_path: Path) -> None:
    found = OpenEvolve().read(example(tmp_path / "a", OPENEVOLVE, config__yaml=None), ANY)
    assert "background: none (there is no system message and no README)" in found.taken


def test_the_seed_program_may_lie_in_a_folder_of_the_example(tmp_path: Path) -> None:
    script = (
        "import argparse\nfrom shinka.core import EvolutionConfig\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--problem_id", default="two")\nproblem_id = parser.parse_args().problem_id\n'
        'EvolutionConfig(init_program_path=f"best/{problem_id}.py")\n'
    )
    folder = example(tmp_path / "a", SHINKA, run_evo__py=script, small__yaml=None)
    (folder / "best").mkdir()
    (folder / "best" / "two.py").write_text("BASE = 2\n")
    found = Shinka().read(folder, ANY)
    assert (found.source, found.program) == ("best/two.py", "two.py")
    assert drafted("a", found).seed == "BASE = 2\n"
    assert Shinka().read(folder, ImportOptions(program="./best/../initial.py")).source == "initial.py"
    (tmp_path / "secret.py").write_text("no\n")
    with pytest.raises(UsageError, match="must lie in"):
        Shinka().read(folder, ImportOptions(program="../secret.py"))


def test_a_repository_has_one_file_that_changes_or_is_the_program(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", REPOSITORY)
    found = Shinka().read(folder, ANY)
    assert (found.source, found.background) == ("seed/src/answers.py", "Grow.")
    assert words(found)[-3:] == ["--in-repository", "seed", "src/answers.py"]
    assert [line.split(" ")[0] for line in found.left] == ["db_config.num_islands"]
    (folder / "seed" / "src" / "more.py").write_text("x = 1\n")
    found = Shinka().read(folder, ANY)
    assert (found.source, found.program, found.language) == ("seed", "example/seed", "python")
    assert {name: found.fields[name] for name in ("change", "hide")} == {
        "change": ["src", "notes.md"],
        "hide": ["**/test_*.py"],
    }
    assert "{program}/../evaluate.py" in words(found)
    assert {"change: src, notes.md", "hide: **/test_*.py"} < set(found.taken)
    assert Shinka().read(folder, ImportOptions(program="seed/src/more.py")).source == "seed/src/more.py"
    with pytest.raises(
        UsageError, match=r"'bonus.txt' is not a file of .* that may change: src/answers.py, src/more.py"
    ):
        Shinka().read(folder, ImportOptions(program="bonus.txt"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("evo: {seed_repo_path: nowhere}", "no folder 'nowhere', which its settings name as seed_repo_path"),
        ("evo: {seed_repo_path: ..}", "no folder '..', which its settings name"),
        ("evo: {seed_repo_path: seed, mutable_paths: [notes.md]}", "No file of .* may change: see mutable_paths"),
        ("job: {time: '00:01:00'}", "no seed program"),
    ],
)
def test_a_repository_that_cannot_be_read_gets_one_sentence(tmp_path: Path, settings: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Shinka().read(example(tmp_path / "a", REPOSITORY, shinka__yaml=settings), ANY)


def test_an_evaluator_of_files_and_a_repository_do_not_fit_together(tmp_path: Path) -> None:
    evaluator = SHINKA["evaluate.py"]
    with pytest.raises(UsageError, match=r"called with --program_path, --results_dir, and .* name a repository"):
        Shinka().read(example(tmp_path / "a", REPOSITORY, evaluate__py=evaluator), ANY)
    with pytest.raises(UsageError, match=r"called with --repo_path, --results_dir, and .* name no repository"):
        Shinka().read(example(tmp_path / "b", SHINKA, evaluate__py=REPOSITORY["evaluate.py"]), ANY)


def test_settings_may_lie_outside_the_example_and_be_written_for_hydra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "mine.yaml").write_text(
        "evaluate_function:\n  _target_: examples.mine.evaluate.main\n  results_dir: ???\n"
        "distributed_job_config: {_target_: shinka.launch.SlurmCondaJobConfig, time: '00:10:00', mem: 8G}\n"
        "evo_config: {task_sys_msg: Grow., init_program_path: examples/mine/initial.py}\n"
    )
    monkeypatch.chdir(tmp_path)
    folder = example(tmp_path / "a", SHINKA, run_evo__py=None, small__yaml=None)
    found = Shinka().read(folder, ImportOptions(config="task/mine.yaml"))
    assert (found.background, found.timeout_s, found.memory_mb) == ("Grow.", 600, 8192)
    assert found.left == ("runner.evaluate_function (its further arguments have their defaults)",)
    for importer in (Shinka(), OpenEvolve()):
        with pytest.raises(UsageError, match=r"has no file 'task/none.yaml', and there is none of this name here"):
            importer.read(
                example(tmp_path / importer.project, {**SHINKA, **OPENEVOLVE}), ImportOptions(config="task/none.yaml")
            )


def test_several_seed_programs_are_refused_until_one_is_named(tmp_path: Path) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE, initial_program__rs="fn main() {}\n")
    with pytest.raises(UsageError, match=r"several seed programs.*--program"):
        OpenEvolve().read(folder, ANY)
    assert OpenEvolve().read(folder, ImportOptions(program="initial_program.rs")).language == "rust"


@pytest.mark.parametrize(
    ("name", "language"), [("initial.cu", "cuda"), ("initial.cpp", "c++"), ("initial.R", "r"), ("initial.lean", "lean")]
)
def test_the_language_comes_from_the_suffix(tmp_path: Path, name: str, language: str) -> None:
    folder = example(tmp_path / "a", {**SHINKA, name: "code\n"}, initial__py=None, run_evo__py=None, small__yaml=None)
    assert Shinka().read(folder, ANY).language == language


@pytest.mark.fault("Mended and imported", "an import of a folder that is no such example")
def test_a_folder_of_neither_kind_gets_a_sentence_that_names_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not an OpenEvolve example: looked for evaluator\.py"):
        OpenEvolve().read(tmp_path, ANY)
    with pytest.raises(UsageError, match=r"not a ShinkaEvolve example: looked for evaluate\.py"):
        Shinka().read(tmp_path, ANY)


@pytest.mark.fault("Mended and imported", "an import of an example with broken settings")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("evaluator: {timeout", "not valid YAML"),
        ("- a list", "no mapping of settings"),
        ("\0", "not valid YAML"),
        ("a: &a [*a]", "or one that holds itself"),
        ("b: !!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_broken_settings_get_a_sentence_that_names_their_file(tmp_path: Path, settings: str, said: str) -> None:
    folder = example(tmp_path / "a", OPENEVOLVE, config__yaml=settings)
    with pytest.raises(UsageError, match=rf"config\.yaml.*{said}"):
        OpenEvolve().read(folder, ANY)


@pytest.mark.fault("Mended and imported", "an import of an example with a file that cannot be read")
@pytest.mark.parametrize("name", ["config.yaml", "evaluator.py", "initial_program.py", "README.md"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    no_settings = {"config__yaml": None} if name == "README.md" else {}
    folder = example(tmp_path / "a", OPENEVOLVE, **no_settings)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("/proc/self/mem")  # a file whose reading fails, for root too
    with pytest.raises(UsageError, match=rf"^Cannot read .*{name}: Input/output error"):
        drafted("a", OpenEvolve().read(folder, ANY))


@pytest.mark.parametrize(
    ("text", "language", "kept", "said"),
    [
        ("# EVOLVE-BLOCK-START\nx\n# EVOLVE-BLOCK-END\n", "python", None, ""),
        (
            *("/* EVOLVE-BLOCK-START */\nx\n/* EVOLVE-BLOCK-END */\n", "c"),
            *("// EVOLVE-BLOCK-START\nx\n// EVOLVE-BLOCK-END\n", "as pace"),
        ),
        (
            *("#EVOLVE-BLOCK-START: here\nx\n#EVOLVE-BLOCK-END\n", "python"),
            *("# EVOLVE-BLOCK-START\nx\n# EVOLVE-BLOCK-END\n", "as pace"),
        ),
        (
            "# EVOLVE-BLOCK-START\nx\n# EVOLVE-BLOCK-END\ny\n# EVOLVE-BLOCK-START\nz\n# EVOLVE-BLOCK-END\n",
            "python",
            "# EVOLVE-BLOCK-START\nx\n\ny\n\nz\n# EVOLVE-BLOCK-END\n",
            "several",
        ),
        ("// EVOLVE-BLOCK-START\nx\n", "go", "\nx\n", "left out"),
        ("<!-- EVOLVE-BLOCK-START -->\nx\n<!-- EVOLVE-BLOCK-END -->\n", "markdown", None, "whole program"),
        ("x\n", "python", None, "whole program"),
    ],
)
def test_evolve_marks_become_one_block(text: str, language: str, kept: str | None, said: str) -> None:
    program, note = with_one_block(text, language)
    assert program == (text if kept is None else kept)
    assert said in note


@pytest.mark.parametrize(
    ("folder", "name"), [("Circle-Packing 2", "circle_packing_2"), ("2048", "task_2048"), ("a", "a")]
)
def test_a_task_is_named_after_the_folder(tmp_path: Path, folder: str, name: str) -> None:
    assert name_of(tmp_path / folder) == name
