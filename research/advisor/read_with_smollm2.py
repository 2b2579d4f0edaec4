"""Make an advisor of SmolLM2-135M that reads a task's catalogue in its prompt and proposes one idea, and measure it.

    python research/advisor/read_with_smollm2.py                  training on random catalogues, figures
    python research/advisor/read_with_smollm2.py --measure-only   only the figures of an existing advisor

Needs the published model, which `python research/advisor/warm_start.py --checkpoint-only` makes. The advisor stands
beside it as smollm2-135m-reader. Interrupted training goes on where it stopped. A run takes it with
`advisor.calls: one`: `configs/smollm2_columnar.yaml`. Exit code 1 if a figure misses its mark.
"""

import argparse
import os
import random
import sys
from pathlib import Path

from pace_async.runtime.children.advisor_folder import MADE_HERE
from research.advisor.warm_start import PUBLISHED

READER = "smollm2-135m-reader"
MARKS = {"answers that parse": 0.9, "ideas that change the parent": 0.9}


def main() -> int:
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    torch.set_num_threads(options.threads)
    if not options.measure_only and not _train(options):
        return 0
    from research.advisor.catalogue_reader.measure import bundled_options, first_ideas, sites_options

    rng = random.Random(f"unseen {options.seed}")
    kinds = {
        "sites 24 x 4 x 14": [sites_options(rng) for _ in range(4)],
        "columnar": [bundled_options("columnar")],
    }
    missed = False
    for kind, catalogues in kinds.items():
        each = max(1, options.questions // len(catalogues))
        shares = first_ideas(options.folder / READER, catalogues, each, options.seed)
        missed |= any(shares[name] < mark for name, mark in MARKS.items())
        print(f"{kind:20s}" + "  ".join(f"{name} {share:.3f}" for name, share in shares.items()), flush=True)
    return int(missed)


def _train(options: argparse.Namespace) -> bool:
    """Whether the training is done and the advisor is written."""
    from pace_async.weights import is_complete, write_atomically
    from research.advisor.catalogue_reader import tokenizer, training
    from research.advisor.smollm2.reading import freeze_below, only_idea, with_vocabulary

    published, advisor, leg = (options.folder / name for name in (PUBLISHED, READER, f"{READER}.training.pt"))
    if is_complete(advisor):
        return True
    tokens = tokenizer.build()
    model = with_vocabulary(published, tokens, options.seed)
    freeze_below(model, options.layers)
    recipe = training.Recipe(
        steps=options.steps,
        seed=options.seed,
        batch=options.batch,
        learning_rate=options.rate,
        warmup=10,
        growing=0.0,
        told_every=5,
        example=only_idea,
    )
    if not training.train(model, tokens, recipe, leg, lambda line: print(line, flush=True), pause=20):
        return False

    def write(folder: Path) -> None:
        model.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]
        tokenizer.save(tokens, folder)

    write_atomically(advisor, write)
    leg.unlink()
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=MADE_HERE.expanduser(), help="where the models are")
    parser.add_argument("--steps", type=int, default=240, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=4, help="prompts of a step")
    parser.add_argument("--layers", type=int, default=15, help="upper layers that are trained")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--questions", type=int, default=80, help="questions for the figures of each kind")
    parser.add_argument("--measure-only", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
