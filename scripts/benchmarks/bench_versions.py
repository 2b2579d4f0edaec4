"""What a version costs to write and to read, in float32 and in the served type, for each GB of float32.

    python scripts/benchmarks/bench_versions.py [--layers 30] [--times 3]

The model has SmolLM2-135M's shape, with random weights in bfloat16. The learner writes it as it writes a version:
checks, file and digests. The server's part reads the tensors, checks and digests them, in one thread and in several.
Each line has the fewest seconds by the clock, and processor seconds, which other work on the machine changes less.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scripts.benchmarks.bench_publish import make


def least(times: int, work: Callable[[int], object]) -> tuple[float, float]:
    """Seconds by the clock and of the processor of the fastest of so many runs."""
    found: list[tuple[float, float]] = []
    for at in range(times):
        clock, processor = time.perf_counter(), time.process_time()
        work(at)
        found.append((time.perf_counter() - clock, time.process_time() - processor))
    return min(wall for wall, _ in found), min(used for _, used in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the checkpoints lie")
    options = parser.parse_args()

    from pace_async.advise.engines.load import digest_of, digested, read_tensors, refuse_unless_servable
    from pace_async.learn.settings import TrainerConfig, half_the_cores
    from pace_async.learn.store import LearnerStore, StepRecord
    from pace_async.learn.trainer import load_trainer

    with tempfile.TemporaryDirectory(prefix="pace-versions-", dir=options.folder) as name:
        folder = Path(name)
        given = make(folder / "model", 0, options.layers)
        settings = TrainerConfig(threads=half_the_cores())
        trainer = load_trainer(given, settings, folder / "out")
        size = sum(4e-9 * weight.numel() for weight in trainer.policy.parameters())
        sys.stdout.write(f"{size:.3f} GB in float32; seconds a GB of it: clock, processor\n")
        for served in (False, True):
            trainer.settings = replace(settings, served_type=served)
            store = LearnerStore(given, folder / f"served-{served}")

            def write(at: int, store: LearnerStore = store) -> None:
                store.save_version(trainer, StepRecord(at + 1, "", {}, 0.0))

            kind = "served type" if served else "float32"
            _say(f"written in {kind}", least(options.times, write), size)
            version = store.weights(1)

            def alone(_: int, version: Path = version) -> None:
                for tensor_name, tensor in read_tensors(version):
                    refuse_unless_servable(version, tensor_name, tensor)
                    digest_of(tensor)

            def together(_: int, version: Path = version) -> None:
                digested(version, dict(read_tensors(version)))

            _say(f"read in {kind}, one thread", least(options.times, alone), size)
            _say(f"read in {kind}, threads", least(options.times, together), size)
            shutil.rmtree(store.weights(1).parent)


def _say(what: str, took: tuple[float, float], size: float) -> None:
    sys.stdout.write(f"{what:<32}{took[0] / size:>8.2f}{took[1] / size:>8.2f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
