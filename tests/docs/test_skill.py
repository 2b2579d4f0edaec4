"""The skill file for agents: what it says to type works, in its order, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.finished_runs import pace

SKILL = Path(__file__).parents[2] / "skills" / "pace" / "SKILL.md"
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```bash\n(.*?)```", SKILL.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.nightly
def test_every_command_of_the_skill_works_in_its_order(tmp_path: Path) -> None:
    assert len(COMMANDS) == 11
    for command in COMMANDS:
        done = pace(*command[1:], cwd=tmp_path)
        assert (command[0], done.returncode) == ("pace", 0), (command, done.stderr)
    assert (tmp_path / "runs" / "my_task-1" / "best.py").is_file()
