"""What a task asks of the machine: processors, memory, a prefix, variables."""

import json
import os
import venv
from pathlib import Path
from textwrap import dedent

import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import evaluate_file, open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Limits, Needs
from pace_async.evaluate.resources import processors_of, resources_of
from pace_async.evaluate.sandbox.environment import find_environment
from pace_async.task import Task, load_task
from tests.support.command_tasks import make_command_task, make_python_task
from tests.support.evaluate_tasks import make_task
from tests.support.process_tasks import make_process_task

HERE = EvaluationConfig(slots=1, warm=False, retries=0)
PACKAGE = "ANSWER = 41\n"
SAYS_WHERE = """
    import json, os, sys
    def evaluate(path):
        import only_in_the_prefix
        try:
            import pydantic
        except ImportError:
            pydantic = None
        return {
            "combined_score": only_in_the_prefix.ANSWER,
            "own": sys.prefix == os.environ["VIRTUAL_ENV"],
            "of_pace": pydantic is not None,
        }
"""
PYTHON_LINES = """
import json, sys
# EVOLVE-BLOCK-START
import only_in_the_prefix
# EVOLVE-BLOCK-END
for line in sys.stdin:
    json.loads(line)
    print(only_in_the_prefix.ANSWER, flush=True)
"""
FIRST = """
def instances(seed):
    return [seed]
def score(instances, outputs):
    return {"score": outputs[0]}
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with one package that this Python does not have."""
    made = tmp_path_factory.mktemp("environments") / "own"
    venv.create(made, symlinks=True, with_pip=False)
    packages = next(made.glob("lib/python*/site-packages"))
    (packages / "only_in_the_prefix.py").write_text(PACKAGE)
    return made


async def scored(task: Task) -> Evaluation:
    return await evaluate_file(task, task.program, HERE)


def with_fields(task: Task, **fields: object) -> Task:
    """The task with further fields in its task.yaml."""
    path = task.folder / "task.yaml"
    text = path.read_text()
    if text.startswith("{"):
        path.write_text(json.dumps({**json.loads(text), **fields}))
    else:
        path.write_text(text + "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items()))
    return load_task(str(task.folder))


async def test_a_command_task_uses_the_python_and_the_packages_of_its_prefix(tmp_path: Path, prefix: Path) -> None:
    task = make_python_task(tmp_path / "sums", SAYS_WHERE, "x = 1\n", environment={"prefix": str(prefix)})
    found = await scored(task)
    assert found.outcome == "ok", found
    assert found.score == 41
    assert found.metrics == {"own": 1, "of_pace": 0, "combined_score": 41}


async def test_a_process_task_is_run_by_the_python_of_its_prefix(tmp_path: Path, prefix: Path) -> None:
    task = make_process_task(
        tmp_path / "lines", PYTHON_LINES, language="python", build=(), run=["python", "initial.py"], evaluator=FIRST
    )
    found = await scored(with_fields(task, environment={"prefix": str(prefix)}))
    assert (found.outcome, found.score) == ("ok", 41), found


async def test_nobody_writes_into_the_prefix(tmp_path: Path, prefix: Path) -> None:
    evaluator = f"""
        echo x > {prefix}/bin/written && exit 9
        echo '{{"combined_score": 1}}' > "$2/metrics.json"
    """
    found = await scored(
        make_command_task(tmp_path / "writes", evaluator, more={"environment": {"prefix": str(prefix)}})
    )
    assert (found.outcome, found.score) == ("ok", 1), found
    assert not (prefix / "bin" / "written").exists()


async def test_a_task_without_a_prefix_does_not_see_it(tmp_path: Path, prefix: Path) -> None:
    evaluator = f"""
        [ -e {prefix}/pyvenv.cfg ] && exit 9
        echo '{{"combined_score": 1}}' > "$2/metrics.json"
    """
    found = await scored(make_command_task(tmp_path / "sees", evaluator))
    assert (found.outcome, found.score) == ("ok", 1), found


async def test_each_kind_of_task_gets_its_variables_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTOR", "6")
    monkeypatch.setenv("NOT_NAMED", "7")
    named = {"variables": ["FACTOR"]}
    shell = 'echo "{\\"combined_score\\": ${NOT_NAMED-$FACTOR}}" > "$2/metrics.json"\n'
    command = make_command_task(tmp_path / "command", shell, more={"environment": named})
    program = """
        import os
        # EVOLVE-BLOCK-START
        # EVOLVE-BLOCK-END
        def f(value):
            return int(os.environ.get("NOT_NAMED", os.environ["FACTOR"]))
    """
    function = make_task(tmp_path / "function", FIRST)
    (function.folder / "initial.py").write_text(dedent(program))
    lines = "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\nimport os, sys\nfor line in sys.stdin:\n"
    lines += "    print(os.environ.get('NOT_NAMED', os.environ['FACTOR']), flush=True)\n"
    process = make_process_task(
        tmp_path / "process", lines, language="python", build=(), run=["python3", "initial.py"], evaluator=FIRST
    )
    for task in (command, with_fields(function, environment=named), with_fields(process, environment=named)):
        found = await scored(task)
        assert (found.outcome, found.score) == ("ok", 6), (task.name, found)


async def test_an_evaluation_runs_on_as_many_processors_as_it_asks_for(tmp_path: Path) -> None:
    evaluator = """
        python3 - "$2" <<'END'
        import json, os, sys
        own = len(os.sched_getaffinity(0))
        try:
            os.sched_setaffinity(0, range(os.cpu_count()))
        except OSError:
            pass
        after = len(os.sched_getaffinity(0))
        threads = int(os.environ["OMP_NUM_THREADS"])
        json.dump({"combined_score": own, "after": after, "threads": threads}, open(f"{sys.argv[1]}/metrics.json", "w"))
        END
    """
    found = await scored(make_command_task(tmp_path / "pinned", evaluator, more={"cpus": 1}))
    assert found.metrics == {"combined_score": 1, "after": 1, "threads": 1}, found


async def test_a_command_that_takes_more_memory_than_it_may_runs_out_of_it(tmp_path: Path) -> None:
    evaluator = "python3 -c 'x = b\"1\" * (900 << 20)'\n"
    found = await scored(make_command_task(tmp_path / "large", evaluator))
    assert found.score is None
    assert found.outcome in ("out_of_memory", "candidate_error"), found


def test_slots_own_different_processors_and_there_are_no_more_than_have_some(tmp_path: Path) -> None:
    task = make_command_task(tmp_path / "two", more={"cpus": 2})
    assert processors_of(task, 4, [0, 1, 4, 5, 9]) == [(0, 1), (4, 5)]
    assert processors_of(task, 1, [0, 1, 4, 5, 9]) == [(0, 1)]


def test_processor_time_grows_with_the_processors(tmp_path: Path) -> None:
    spec = make_command_task(tmp_path / "two", more={"cpus": 2}).spec
    assert Limits.of(spec).processor_limit_s == 62
    request = EvaluationRequest.of(spec, EvaluationId("run", 1), "", 0)
    assert request.needs == Needs(cpus=2.0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cpus": 10_000}, "wants 10000 processors for each evaluation, and this machine lets pace use"),
        ({"environment": {"prefix": "/nowhere/at/all"}}, "names /nowhere/at/all, which does not exist"),
        ({"environment": {"prefix": "/etc"}}, "is not an environment of conda or of venv"),
        ({"environment": {"prefix": "."}}, "has no folder bin"),
        ({"environment": {"prefix": "/"}}, "holds your home or the task"),
        ({"environment": {"variables": ["SURELY_NOT_SET"]}}, "the variable SURELY_NOT_SET on, which is not set"),
        ({"environment": {"variables": ["MY_API_KEY"]}}, "MY_API_KEY on, which looks like a secret"),
        ({"environment": {"variables": ["PLAIN"]}}, "PLAIN on, which looks like a secret"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_sentence_without_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], said: str
) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    monkeypatch.setenv("PLAIN", "Bearer correct-horse-battery")
    task = make_command_task(tmp_path / "bad", more=fields)
    with pytest.raises(UsageError, match=said) as refused:
        resources_of(task, HERE)
    assert "correct-horse" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cpus": 0}, "cpus: "),
        ({"gpus": 1.5}, "1.5 is neither a whole number of cards nor a share of one"),
        ({"gpus_required": False}, "gpus_required has no effect without gpus"),
        ({"environment": {"variables": ["PATH"]}}, "PATH cannot be passed on, because pace sets it"),
        ({"environment": {"variables": ["A=secret"]}}, "'A' is not a name of a variable"),
        ({"environment": {"variables": ["A", "A"]}}, "each variable may be named once"),
        ({"environment": {"prefx": "x"}}, "unknown field 'environment.prefx'"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused_when_the_task_is_loaded(
    tmp_path: Path, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make_command_task(tmp_path / "bad", more=fields)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_function_task_has_no_prefix(tmp_path: Path) -> None:
    task = make_task(tmp_path / "function", FIRST)
    with pytest.raises(UsageError, match=r"environment\.prefix is for tasks that say kind: process or kind: command"):
        with_fields(task, environment={"prefix": "/usr"})


async def test_a_task_that_scores_time_has_one_processor(tmp_path: Path) -> None:
    timed = "def instances(seed):\n    return [1]\ndef score(instances, outputs, seconds):\n    return {'score': 1}\n"
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    task = with_fields(make_task(tmp_path / "timed", timed, deterministic=False), cpus=2)
    with pytest.raises(UsageError, match="scores time, so its programs have one thread"):
        async with open_evaluator(task, HERE):
            pass


def test_another_value_package_or_number_is_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: Path
) -> None:
    monkeypatch.setenv("FACTOR", "6")
    asked = {"prefix": str(prefix), "variables": ["FACTOR"]}
    task = make_command_task(tmp_path / "same", more={"environment": asked, "cpus": 1})
    first = resources_of(task, HERE).identity
    assert first == resources_of(task, HERE).identity
    assert "FACTOR" not in first
    installed = next(prefix.glob("lib/python*/site-packages")) / "more-1.0.dist-info"
    installed.mkdir()
    other = find_environment(task).identity
    installed.rmdir()
    monkeypatch.setenv("FACTOR", "7")
    assert len({find_environment(task).identity, other, first}) == 3
    assert resources_of(make_command_task(tmp_path / "plain"), HERE).identity == ""
