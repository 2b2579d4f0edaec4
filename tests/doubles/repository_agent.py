"""A stand-in for a coding agent that changes a program of several files in its Git work tree. It imports nothing of the
project.

By the number of its lease it raises VALUE of one module, adds a module, removes one, commits, leaves an ignored file,
or changes a test, which no task allows.
"""

import json
import subprocess
from pathlib import Path

PACKAGES = ("alpha", "beta", "gamma")


def main() -> None:
    """Change the program in the working folder."""
    values = json.loads(Path(".pace/experiment.json").read_text())
    lease, tried = int(values["lease"]), int(values["try"])
    package = PACKAGES[lease % 3]
    module = Path("src") / package / f"m{1 + lease % 9}.py"
    module.write_text(f"VALUE = {1 + lease / 100}\n\n\ndef value():\n    return VALUE\n")
    if lease % 4 == 0:
        (Path("src") / package / f"new_{lease}.py").write_text(f"ADDED = {lease}\n")
    if lease % 5 == 0:
        (Path("src") / "gamma" / "unused.py").unlink(missing_ok=True)
    if lease % 6 == 0:
        Path("build").mkdir(exist_ok=True)
        Path("build/out.bin").write_bytes(b"\xff\xfe")
    if lease % 7 == 0 and tried == 1:
        Path("tests/test_values.py").write_text("def test_nothing():\n    pass\n")
    if lease % 3 == 0:
        author = ("-c", "user.name=agent", "-c", "user.email=agent@localhost")
        subprocess.run(["git", "add", "-A"], check=True)
        subprocess.run(["git", *author, "commit", "-qm", "mine"], check=True)


if __name__ == "__main__":
    main()
