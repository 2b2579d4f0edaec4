"""A stand-in for a coding agent: a program that changes a program in the folder where it is started.

    python agents.py WAY …     each WAY is a function below; the first one alone applies the experiment

It reads what an agent reads, and can do what a bad agent may do. It imports nothing of the project.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

VALUES: dict[str, Any] = json.loads(Path("experiment.json").read_text()) if Path("experiment.json").is_file() else {}
PROGRAM = Path(VALUES.get("program", "none"))


def apply(cost: str = "") -> None:
    """Set the assignment that the experiment names, and report a cost."""
    text = str(VALUES["experiment"])
    name, value = re.findall(r'(\w+) to "?([\w.+-]*\w)"?', text)[0]
    written = value if re.fullmatch(r"[-+\d.e]+", value) else f'"{value}"'
    pattern = re.compile(rf"^(\s*(?:const int )?{name}\s*=\s*)([^#\n;]*?)(\s*(?:;.*|#.*)?)$", re.MULTILINE)
    PROGRAM.write_text(pattern.sub(lambda line: f"{line[1]}{written}{line[3]}", PROGRAM.read_text()))
    print("done: ", text)
    if cost:
        print(f'{{"cost_usd": {cost}}}')


def nothing() -> None:
    """Leave the program as it is."""


def delete() -> None:
    """Delete the program."""
    PROGRAM.unlink()


def folder() -> None:
    """Make a folder of it."""
    PROGRAM.unlink()
    PROGRAM.mkdir()


def link(target: str) -> None:
    """Put a link to another file in its place."""
    PROGRAM.unlink()
    PROGRAM.symlink_to(target)


def hard_link(target: str) -> None:
    """Make it a second name of another file."""
    PROGRAM.unlink()
    PROGRAM.hardlink_to(target)


def pipe() -> None:
    """Put a pipe in its place, which nobody writes."""
    PROGRAM.unlink()
    os.mkfifo(PROGRAM)


def sparse() -> None:
    """Make it 10 GB long, without a byte on the disk."""
    os.truncate(PROGRAM, 10 << 30)


def apply_with_rights() -> None:
    """Apply the experiment, and let whoever starts the program be its owner."""
    apply()
    PROGRAM.chmod(0o6755)


def folder_link(target: str) -> None:
    """Put a link in the place of the whole folder."""
    here = Path.cwd()
    here.rename(here.with_name("elsewhere"))
    here.symlink_to(target)


def write(text: str) -> None:
    """Replace the evolve block."""
    lines = PROGRAM.read_text().splitlines(keepends=True)
    start, end = (next(n for n, line in enumerate(lines) if mark in line) for mark in ("BLOCK-START", "BLOCK-END"))
    before, after = "".join(lines[: start + 1]), "".join(lines[end:])
    PROGRAM.write_text(before + text + "\n" + after)


def too_long() -> None:
    """Write more than a program may have."""
    write("x = 1\n" * 100_000)


def huge() -> None:
    """Write more than is read."""
    PROGRAM.write_bytes(b"#" * 3_000_000)


def outside() -> None:
    """Change what stands outside the evolve block."""
    PROGRAM.write_text("import os\n" + PROGRAM.read_text())


def marks() -> None:
    """Remove a mark."""
    PROGRAM.write_text(PROGRAM.read_text().replace("EVOLVE-BLOCK-END", "END"))


def broken() -> None:
    """Leave a program that does not compile."""
    write("def (:")


def binary() -> None:
    """Leave no text."""
    PROGRAM.write_bytes(b"\xff\xfe\x00\x01")


def secret(name: str) -> None:
    """Write the value of a variable into the program."""
    write(f"LAYOUT = {os.environ[name]!r}")


def fails(word: str = "no credit left") -> None:
    """End as an agent whose service failed."""
    sys.stderr.write(f"{word}\n")
    sys.exit(7)


def loud() -> None:
    """Print a lot, the cost last."""
    for _ in range(200):
        print("x" * 10_000)
    apply("0.5")


def mends() -> None:
    """Break the program first, and apply the experiment once it is told that it is broken."""
    if Path("FEEDBACK.md").exists():
        Path("seen").write_text(Path("FEEDBACK.md").read_text() + Path("notes").read_text())
        PROGRAM.write_text(Path("kept").read_text())
        apply()
    else:
        Path("notes").write_text("a note of the first call")
        Path("kept").write_text(PROGRAM.read_text())
        broken()


def hangs(fifo: str) -> None:
    """Start a process in a separate session, print both pids, and never end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True) as other:
        Path(fifo).write_text(f"{os.getpid()} {other.pid}\n")
        while True:
            signal.pause()


def leaves(file: str) -> None:
    """Apply the experiment, and leave a process in a separate session that holds the output open."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    Path(file).write_text(str(process.pid))
    apply()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
