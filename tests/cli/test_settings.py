"""pace config validate and schema, and the pages that are written from the code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pace_async.configure import known_keys, resolve
from tests.support.command_line import Shell

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_every_mistake_of_a_file_is_one_sentence(shell: Shell) -> None:
    (shell.folder / "bad.yaml").write_text(
        "task: 3\nlearnr: {k: 1}\nlearner: {k: 0, kk: 2}\nstop: {candidates: none}\n"
    )
    said = shell.pace("config", "validate", "bad.yaml")
    assert said.code == 2
    lines = said.err.strip().splitlines()
    assert len(lines) == 5
    assert any("'learnr': did you mean 'learner'?" in line for line in lines)
    assert any("'learner.kk': did you mean 'learner.k'?" in line for line in lines)
    assert any(line.startswith("pace: stop.candidates: ") for line in lines)
    found = json.loads(shell.pace("config", "validate", "bad.yaml", "--json").out)
    assert (found["valid"], len(found["mistakes"])) == (False, 5)


@pytest.mark.fault("Configuration and terminal", "a key twice", only="stands twice")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "must be a mapping"),
        ("seed: 1\nseed: 2", "stands twice"),
        ("staleness: {mode: sync}\nsearch: {threads: 3}", "as many threads as a group has rollouts"),
        ("learner: {k: 9}", "must not exceed"),
    ],
)
def test_a_mistake_between_settings_is_reported_too(shell: Shell, text: str, says: str) -> None:
    (shell.folder / "bad.yaml").write_text(text)
    said = shell.pace("config", "validate", "bad.yaml")
    assert said.code == 2
    assert says in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_a_bound_is_refused_beside_the_barrier_that_has_none(shell: Shell) -> None:
    said = shell.pace("run", "--sync", "--max-staleness", "3")
    assert (said.code, said.err) == (
        2,
        "pace: --sync trains nothing stale: --max-staleness 3 goes with --async.\n",
    )
    assert shell.pace("run", "--sync", "--max-staleness", "0", "--dry-run").code == 0


def test_the_output_of_a_dry_run_is_a_valid_file_of_settings(shell: Shell) -> None:
    said = shell.pace("run", "--dry-run", "--verbose", "--max-staleness", "3", "--target", "2.5", "--minutes", "4")
    assert said.code == 0
    assert "# stops        at 4 minutes, or a score at least as good as 2.5" in said.out
    assert "# writes       runs/circle_packing-1/" in said.out
    assert shell.files() == []
    (shell.folder / "run.yaml").write_text(said.out)
    assert shell.pace("config", "validate", "run.yaml").out == "run.yaml is valid\n"
    assert resolve(shell.folder / "run.yaml", environment={}).bound == 3


def test_a_dry_run_refuses_what_a_run_would(shell: Shell) -> None:
    (shell.folder / "here").mkdir()
    (shell.folder / "here" / "population.db").touch()
    for arguments in (["--run-dir", "here"], ["nosuch"], ["--advisor", "nowhere"]):
        said = shell.pace("run", "--dry-run", *arguments)
        assert (said.code, said.out) == (2, "")


def test_the_schema_names_every_setting(shell: Shell) -> None:
    schema = json.loads(shell.pace("config", "schema").out)
    for key in known_keys():
        node = schema
        for part in key.split("."):
            inner = node["properties"][part]
            node = schema["$defs"][inner["$ref"].split("/")[-1]] if "$ref" in inner else inner
        assert node["description"], key


@pytest.mark.parametrize("script", ["docs_choices.py", "docs_configuration.py", "docs_commands.py"])
def test_a_page_written_from_the_code_is_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "documentation" / script), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_doctor_chooses_the_advisor_as_a_run_does(shell: Shell) -> None:
    (shell.folder / "mine.yaml").write_text("task: circle_packing\nstop: {candidates: 16}\n")
    looked = json.loads(shell.pace("doctor", "--config", "mine.yaml", "--json").out)
    assert {finding["ok"] for finding in looked if finding["check"] == "advisor tiny"} == {True}


def test_the_doctor_looks_at_what_a_file_of_settings_names(shell: Shell) -> None:
    (shell.folder / "mine.yaml").write_text("advisor: {model: nowhere}\n")
    (shell.folder / "later.yaml").write_text("advisor: {model: bandit}\n")
    mistaken = json.loads(shell.pace("doctor", "--config", "mine.yaml", "--json").out)
    [advisor] = [finding for finding in mistaken if finding["check"] == "advisor nowhere"]
    assert advisor["ok"] is False
    corrected = json.loads(shell.pace("doctor", "--config", "mine.yaml", "--config", "later.yaml", "--json").out)
    asked = {finding["check"]: finding["ok"] for finding in corrected}
    assert (asked["advisor bandit"], asked["implementer catalog"], asked["evaluators local"]) == (True, True, True)
