"""What a candidate sees and leaves in every sandbox tier: no secret, no answer, no file of another."""

import os
import sys
from pathlib import Path
from typing import cast

import psutil
import pytest

from pace_async.evaluate.sandbox import cgroup
from tests.evaluate.sandbox.tiers import (
    SANDBOXES,
    Sandbox,
    value_of,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
BORN_WITH = Path("/proc/self/environ").read_text(errors="replace").split("\0")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)


@pytest.mark.fault("Sandbox", "environment")
@pytest.mark.fault("Sandbox", "environment of process 1")
@each_sandbox
async def test_the_environment_of_this_process_is_seen_nowhere(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_CANARY_KEY", "canary-in-a-coal-mine")
    program = """
    import glob, os
    def f(x):
        seen = [str(dict(os.environ))]
        for path in glob.glob("/proc/*/environ"):
            try:
                seen.append(open(path, errors="replace").read())
            except OSError:
                pass
        return seen
    """
    seen = "".join(await value_of(sandbox, program))
    assert "canary" not in seen
    assert max(BORN_WITH, key=len) not in seen


@pytest.mark.fault("Sandbox", "answers, scorer and this package")
@each_sandbox
async def test_the_task_and_the_package_cannot_be_read(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "evaluator.py"
    secret.write_text("answer = 42")
    program = """
    def f(paths):
        read = []
        for path in paths:
            try:
                read.append(open(path).read())
            except OSError:
                pass
        return read
    """
    package = Path(cgroup.__file__).parent.parent
    paths = [str(secret), str(package / "errors.py"), "/etc/shadow", "/etc/passwd"]
    assert await value_of(sandbox, program, argument=paths, hidden=(tmp_path, package)) == []


@each_sandbox
async def test_a_hidden_folder_inside_the_installed_packages_cannot_be_read(sandbox: Sandbox) -> None:
    hidden = Path(pytest.__file__).parent
    program = """
    import numpy
    def f(path):
        try:
            return open(path).read()
        except OSError:
            return None
    """
    assert await value_of(sandbox, program, argument=pytest.__file__, hidden=(hidden,)) is None
    below = hidden / "__pycache__"  # as a task of the package lies below the package
    assert await value_of(sandbox, program, argument=pytest.__file__, hidden=(hidden, below)) is None
    assert await value_of(sandbox, program, argument=pytest.__file__) is not None


@each_sandbox
async def test_files_that_a_program_writes_are_gone_afterwards(sandbox: Sandbox, tmp_path: Path) -> None:
    program = """
    import os, tempfile
    def f(folders):
        mine = os.path.join(tempfile.gettempdir(), "left")
        open(mine, "w").write("x")
        written = [mine]
        for folder in folders:
            try:
                path = os.path.join(folder, "pace-left-behind")
                open(path, "w").write("x")
                written.append(path)
            except OSError:
                pass
        return written
    """
    folders = [str(tmp_path), "/usr/lib", "/etc", str(Path(psutil.__file__).parent), "/dev/shm"]
    written = cast("list[str]", await value_of(sandbox, program, argument=folders))
    assert written
    assert list(filter(os.path.lexists, written)) == []


@pytest.mark.fault("Sandbox", "fills its temporary folder")
@each_sandbox
async def test_the_disk_that_a_program_may_fill_is_bounded(sandbox: Sandbox) -> None:
    program = """
    import tempfile
    def f(x):
        written = 0
        with tempfile.TemporaryFile() as stream:
            try:
                while True:
                    written += stream.write(b"x" * (1 << 20))
                    stream.flush()
            except OSError:
                return written
    """
    assert await value_of(sandbox, program) <= 64 << 20


@each_sandbox
async def test_hashes_and_threads_are_pinned(sandbox: Sandbox) -> None:
    program = """
    import os
    def f(x):
        return [hash("text"), os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]]
    """
    first = await value_of(sandbox, program)
    assert first == await value_of(sandbox, program)
    assert first[1:] == ["1", "1"]
