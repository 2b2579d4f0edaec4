"""pace optimize: a program, a command and a model are enough, and nothing of the user's is changed."""

import json
import re
import subprocess
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import pace_async
from pace_async.errors import UsageError
from tests.support.command_line import Shell, search

PROGRAM = '"""A number that is as large as possible."""\n\n\ndef number():\n    return 1\n'
SCORER = """\
import importlib.util, sys
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print("the number is", min(module.number(), 100))
"""
EVALUATE = "python score.py {program}"
IDEA = "Idea A (refine): a larger number\nChoice: A\nReasoning: larger\nSpecification:\nreturn 42\n"


class Model(BaseHTTPRequestHandler):
    """A chat model that has one idea and carries it out."""

    protocol_version = "HTTP/1.1"
    code = "<<<<<<< SEARCH\n    return 1\n=======\n    return 1 + 41\n>>>>>>> REPLACE\n"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = json.dumps(body["messages"])
        said = self.code if "<<<<<<< SEARCH" in asked else IDEA if "Specification" in asked else "ok"
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        whole = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"], "usage": usage}
        text = json.dumps({**whole, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def address() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "score.py").write_text(SCORER)
    return tmp_path


@pytest.mark.long
def test_three_lines_lead_to_a_better_program_and_its_difference(folder: Path, address: str) -> None:
    model = ("--implementer", "openai/m", "--set", f"implementer.api_base={address}", "--budget", "1")
    prices = [f"--set=implementer.price_per_million_{way}=1" for way in ("in", "out")]
    short = ("--candidates", "3", "--threads", "1")
    said = search(folder, ["optimize", "program.py", "--evaluate", EVALUATE, "--maximize", *model, *prices, *short])
    assert said.code == 0, said.err
    assert "score     1 (twice the same)" in said.out
    assert re.search(r"2 calls, about \d+ tokens in and \d+ out a candidate, .* 3 candidates: .* USD", said.err)
    assert (folder / "program.py").read_text() == PROGRAM
    run = folder / "runs" / "program-1"
    assert (run / "best.py").read_text() == PROGRAM.replace("return 1", "return 1 + 41")
    assert "runs/program-1/best.diff` applies it" in said.out
    assert "propose (100 tokens in, 10 out)" in search(folder, ["show"]).out.splitlines()
    subprocess.run(["patch", "-p1", "-i", str(run / "best.diff")], cwd=folder, check=True, capture_output=True)
    assert (folder / "program.py").read_text() == (run / "best.py").read_text()


@pytest.mark.long
@pytest.mark.nightly
def test_a_program_with_the_line_ends_of_windows_gets_a_difference_that_applies(folder: Path, address: str) -> None:
    (folder / "program.py").write_bytes(PROGRAM.replace("\n", "\r\n").encode())
    model = ("--implementer", "openai/m", "--set", f"implementer.api_base={address}", "--threads", "1")
    search(folder, ["optimize", "program.py", "--evaluate", EVALUATE, "--maximize", *model, "--candidates", "2"])
    run = folder / "runs" / "program-1"
    subprocess.run(["patch", "-p1", "-i", str(run / "best.diff")], cwd=folder, check=True, capture_output=True)
    better = PROGRAM.replace("return 1", "return 1 + 41").replace("\n", "\r\n").encode()
    assert (folder / "program.py").read_bytes() == (run / "best.py").read_bytes() == better


@pytest.mark.long
@pytest.mark.nightly
def test_a_resumed_run_writes_the_difference_to_its_new_best_program(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ("--implementer", "openai/m", "--set", f"implementer.api_base={address}", "--threads", "1")
    flags = ("--maximize", *model, "--candidates", "2")
    search(folder, ["optimize", "program.py", "--evaluate", EVALUATE, *flags])
    run = folder / "runs" / "program-1"
    assert "+    return 1 + 41" in (run / "best.diff").read_text()
    monkeypatch.setattr(Model, "code", f"```python\n{PROGRAM.replace('return 1', 'return 77')}```\n")
    said = search(folder, ["resume", "runs/program-1", "--candidates", "6"])
    assert "runs/program-1/best.diff` applies it" in said.out
    assert (run / "best.py").read_text() == PROGRAM.replace("return 1", "return 77")
    subprocess.run(["patch", "-p1", "-i", str(run / "best.diff")], cwd=folder, check=True, capture_output=True)
    assert (folder / "program.py").read_text() == (run / "best.py").read_text()


@pytest.mark.long
@pytest.mark.nightly
def test_python_does_the_same(folder: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    settings = {"implementer.model": "openai/m", "implementer.api_base": address, "stop.candidates": 2}
    found = pace_async.optimize("program.py", EVALUATE, direction="maximize", settings=settings)
    assert found.best["score"] == 42.0
    assert "+    return 1 + 41" in (folder / "runs" / "program-1" / "best.diff").read_text()


@pytest.mark.long
def test_a_refused_run_leaves_nothing_from_python_either(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    before = sorted(folder.iterdir())
    settings = {"implementer.model": "openai/m", "implementer.api_base": address, "stop.budget": 2}
    with pytest.raises(UsageError, match="needs to know what openai/m costs"):
        pace_async.optimize("program.py", EVALUATE, direction="maximize", settings=settings)
    assert sorted(folder.iterdir()) == before


@pytest.fixture
def shell(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    return Shell(folder, monkeypatch, capsys)


def test_a_dry_run_scores_the_program_and_leaves_nothing(shell: Shell) -> None:
    before = shell.files()
    said = shell.pace(
        *("optimize", "program.py", "--evaluate", EVALUATE, "--maximize", "--implementer", "openai/m", "--dry-run")
    )
    assert said.code == 0, said.err
    assert "score     1 (twice the same)" in said.out
    assert "openai/m, the implementer's model" in said.out
    assert "progress  measured from 0.5 to 2, a guess: 2 may be out of reach (--bounds LOW,HIGH)" in said.out
    assert re.search(
        r"bill +2 calls, about \d+ tokens in and \d+ out a candidate, USD unknown \(advice \d+ in", said.out
    )
    assert "implementer  openai/m" in said.out
    assert said.out.index("bill  ") < said.out.index("implementer  ")
    assert shell.files() == before


@pytest.mark.parametrize(
    ("flags", "code", "why"),
    [
        (("--maximize",), 2, "Name a model that writes the code"),
        (("--implementer", "openai/m"), 2, "Say whether a lower score is better"),
        (("--implementer", "openai/m", "--maximize", "--minimize"), 2, "exclude each other"),
        (("--implementer", "openai/m", "--maximize", "--bounds", "2,1"), 2, "two numbers, the lower one first"),
        (("--implementer", "gemini/g", "--maximize"), 2, "missing key"),
    ],
)
def test_a_mistake_is_said_before_anything_is_scored(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], code: int, why: str
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    before = shell.files()
    said = shell.pace("optimize", "program.py", "--evaluate", EVALUATE, *flags)
    assert (said.code, "scoring" in said.out) == (code, False)
    assert why in said.err
    assert shell.files() == before


def test_scores_that_differ_are_printed_with_how_far_they_are_apart(shell: Shell, folder: Path) -> None:
    score = "import time; print(7.5 + 1e-9 * time.perf_counter_ns())"
    (folder / "score.py").write_text(score)
    said = shell.pace(
        *("optimize", "program.py", "--evaluate", EVALUATE, "--minimize", "--implementer", "openai/m", "--dry-run")
    )
    found = re.search(r"score     (\S+) \((\S+) the second time, (\S+) apart, so scores are noisy\)", said.out)
    assert found is not None
    first, second, apart = map(float, found.groups())
    assert apart == pytest.approx(abs(second - first), rel=0.01, abs=1e-6)


@pytest.mark.parametrize("command", ["optimize", "run"])
def test_a_dry_run_refuses_a_budget_without_a_price_as_a_run_does(shell: Shell, command: str) -> None:
    flags = ("--implementer", "openai/m", "--budget", "5", "--dry-run")
    own = ("program.py", "--evaluate", EVALUATE, "--maximize") if command == "optimize" else ("circle_packing",)
    said = shell.pace(command, *own, *flags)
    assert said.code == 2
    assert "--budget needs to know what openai/m costs, and no price is listed for that name" in said.err
    assert "--set implementer.price_per_million_in=USD --set implementer.price_per_million_out=USD" in said.err
    assert "scoring" not in said.out
    prices = [f"--set=implementer.price_per_million_{way}=1" for way in ("in", "out")]
    assert "5 USD" in shell.pace(command, *own, *flags, *prices).out


def test_a_task_of_a_program_and_its_scorer_passes_its_check_at_once(shell: Shell) -> None:
    own = ("--program", "program.py", "--evaluate", EVALUATE)
    before = shell.files()
    assert "--minimize" in shell.pace("task", "init", "mine", *own).err
    assert "go together" in shell.pace("task", "init", "mine", "--program", "program.py").err
    assert "missing.py" in shell.pace("task", "init", "mine", *own[:3], "python missing.py {program}", "--maximize").err
    assert shell.files() == before
    said = shell.pace("task", "init", "mine", *own, "--maximize")
    assert said.code == 0, said.err
    assert "pace run ./mine --implementer MODEL" in said.out
    assert "sound: " in shell.pace("task", "check", "./mine").out
    assert "mine is there already" in shell.pace("task", "init", "mine", *own, "--maximize").err


def test_a_program_that_takes_too_long_is_told_the_flag_that_gives_it_longer(shell: Shell, folder: Path) -> None:
    (folder / "score.py").write_text("import time; time.sleep(600)")
    model = ("--implementer", "openai/m", "--timeout", "1")
    said = shell.pace("optimize", "program.py", "--evaluate", EVALUATE, "--maximize", *model)
    assert said.code == 5
    assert re.search(r"timeout: stopped after \d+\.\d s; --timeout SECONDS gives it longer\.", said.err), said.err


def test_a_program_without_a_score_is_refused_with_the_evaluators_words(shell: Shell) -> None:
    before = shell.files()
    said = shell.pace(
        *("optimize", "program.py", "--evaluate", "python missing.py {program}"),
        *("--maximize", "--implementer", "openai/m"),
    )
    assert said.code == 5
    assert "missing.py" in said.err
    assert "--include takes further files along" in said.err
    assert shell.files() == before


def test_bounds_that_do_not_hold_the_program_s_score_are_refused(shell: Shell) -> None:
    before = shell.files()
    said = shell.pace(
        *("optimize", "program.py", "--evaluate", EVALUATE, "--maximize", "--implementer", "openai/m"),
        *("--bounds", "2,5", "--dry-run"),
    )
    assert said.code == 2
    assert "program.py scores 1, which is not between the bounds 2 and 5" in said.err
    assert shell.files() == before


def test_an_agent_alone_is_refused_before_the_program_is_scored(shell: Shell) -> None:
    said = shell.pace("optimize", "program.py", "--evaluate", EVALUATE, "--maximize", "--implementer", "claude")
    assert said.code == 2
    assert "claude writes the code, and something has to decide what to try" in said.err
    assert "scoring" not in said.out + said.err
