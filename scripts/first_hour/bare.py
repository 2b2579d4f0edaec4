"""What torch alone can measure on a card: `python -m scripts.first_hour.bare [PART ...]`, or `first_hour.sh --bare`.

    steps    memory of a step over what `pace plan` counts, and tokens a second, at two lengths of a 4B shape
    repeats  whether a gradient of full length comes out equal twice, and how long that check takes
    shared   seconds in which another process opens and copies 8 GiB of the learner's memory
    limits   what steps of a small trained model move, and what rounding alone does, in both precisions
    learns   whether the same model learns to write a letter more often, in float32 and in bfloat16, with the limits

Each part is a process of its own. It prints one line of JSON for each figure, and a part that fails says why, while
the others go on. The exit code is then 1. No vLLM is needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("steps", "repeats", "shared", "limits", "learns")


def figures_of(part: str, given: argparse.Namespace, room: Path) -> Iterator[dict[str, object]]:
    """What the part measures, in this process. Models are written in `room`."""
    from scripts.first_hour import bare_parts  # imports torch and TRL, which takes seconds

    match part:
        case "steps":
            return bare_parts.steps(given.shape, room, given.lengths)
        case "repeats":
            return bare_parts.repeated(given.shape, room, given.lengths[-1])
        case "shared":
            return bare_parts.shared(given.gib)
        case "limits":
            return bare_parts.limits(room, given.seconds)
        case _:
            return bare_parts.learns(room, given.seconds, given.updates)


def _lengths(text: str) -> tuple[int, int]:
    tokens, answers = text.split("/")
    return int(tokens), int(answers)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/first_hour.sh --bare", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    shape = ROOT / "scripts" / "documentation" / "shapes" / "models" / "qwen3.5-4b"
    parser.add_argument("--shape", type=Path, default=shape, help="a folder with the config.json of a model")
    parser.add_argument("--lengths", type=_lengths, nargs="+", default=[(4096, 1024), (12288, 8192)])
    parser.add_argument("--gib", type=float, default=8.0, help="size of the shared version")
    parser.add_argument("--seconds", type=float, default=120.0, help="for which the small model is trained")
    parser.add_argument("--updates", type=int, default=40, help="of the part `learns`")
    parser.add_argument("--room", type=Path, default=Path(tempfile.gettempdir()), help="where models are written")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if given.here:
        with tempfile.TemporaryDirectory(dir=given.room) as room:
            for figure in figures_of(given.parts[0], given, Path(room)):
                sys.stdout.write(json.dumps(figure) + "\n")
                sys.stdout.flush()
        return 0
    rest = sys.argv[1 + len(given.parts) :] if given.parts else sys.argv[1:]
    failed = False
    for part in given.parts or PARTS:
        command = [sys.executable, "-m", "scripts.first_hour.bare", part, *rest, "--here"]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            failed = True
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            sys.stdout.write(json.dumps({"part": part, "failed": last[:500]}) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
