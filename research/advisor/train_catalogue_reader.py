"""Rebuild the advisor that reads catalogues from nothing, in parts that can be resumed, and print what it does.

    python research/advisor/train_catalogue_reader.py                   train, save into the package, measure
    python research/advisor/train_catalogue_reader.py --measure-only    measure what is there

A training that is stopped goes on from its last checkpoint. Exit code 1 if a figure misses its mark.
"""

import argparse
import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKS = {
    "proposals that parse": 0.95,
    "ideas that exist": 0.95,
    "good chains": 0.90,
    "entropy over mechanisms": 0.95,
}
UNSEEN = 12
"""Unseen catalogues of each kind."""


def main() -> int:
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    import torch

    torch.set_num_threads(options.threads)
    if not options.measure_only and not _build(options):
        return 0
    found = _measured(options)
    missed = [(kind, name) for kind, shares in found.items() for name, mark in MARKS.items() if shares[name] < mark]
    if options.json:
        print(json.dumps(found))
    else:
        for kind, shares in found.items():
            print(f"{kind:24s}" + "  ".join(f"{name} {share:.3f}" for name, share in shares.items()))
    for kind, name in missed:
        print(f"missed: {kind}: {name} is {found[kind][name]:.3f}, its mark {MARKS[name]:g}", file=sys.stderr)
    return 1 if missed else 0


def _measured(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    from research.advisor.catalogue_reader.measure import (
        BUNDLED,
        bundled_options,
        many_options,
        measure,
        sites_options,
        unseen_options,
    )

    rng = random.Random(f"unseen {options.seed}")
    kinds = {
        "unseen, 3 to 6": [unseen_options(rng, rng.randint(3, 6)) for _ in range(UNSEEN)],
        "unseen, 7 to 14": [unseen_options(rng, rng.randint(7, 14)) for _ in range(UNSEEN)],
        "unseen, 20 to 60": [unseen_options(rng, rng.randint(20, 60)) for _ in range(UNSEEN)],
        "sites 24 x 4 x 14": [sites_options(rng) for _ in range(UNSEEN)],
        "sites 1000 x 4 x 14": [sites_options(rng, 1000) for _ in range(UNSEEN // 4)],
        "10,000 options": [many_options(rng) for _ in range(UNSEEN // 4)],
        **{task: [bundled_options(task)] for task in BUNDLED},
    }
    each = max(1, options.chains // UNSEEN)
    return {
        kind: measure(
            options.folder, catalogues, each if len(catalogues) > 1 else options.chains, options.seed
        ).shares()
        for kind, catalogues in kinds.items()
    }


def _build(options: argparse.Namespace) -> bool:
    """Whether the training is done and its weights are saved."""
    import torch

    from research.advisor.catalogue_reader import tokenizer, training
    from research.advisor.catalogue_reader.architecture import first_model, trained_model
    from research.advisor.catalogue_reader.ordering import Order

    tokens = tokenizer.build()
    model = trained_model(options.go_on_from, tokens) if options.go_on_from else first_model(tokens, options.seed)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M weights, {tokens.get_vocab_size()} tokens")
    recipe = training.Recipe(steps=options.steps, seed=options.seed)
    if options.go_on_from:
        recipe = replace(recipe, learning_rate=options.rate, growing=0.0)
    options.leg.parent.mkdir(parents=True, exist_ok=True)
    if not training.train(
        model, tokens, recipe, options.leg, lambda line: print(line, flush=True), pause=50, until=options.until
    ):
        return False
    order = Order(model, tokens, options.seed)
    order.apply(order.find())
    with torch.no_grad():
        model.lm_head.weight.mul_(options.sharpness)
    options.folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(options.folder)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.save(tokens, options.folder)
    for file in options.folder.iterdir():
        file.chmod(0o644)
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "pace_async/advise/reader", help="where the weights are")
    parser.add_argument("--leg", type=Path, default=ROOT / ".training/reader.pt", help="checkpoint between parts")
    parser.add_argument("--go-on-from", type=Path, default=None, help="trained weights to begin with")
    parser.add_argument("--rate", type=float, default=1.2e-3, help="learning rate of a training that goes on")
    parser.add_argument("--until", type=int, default=None, help="end this part after this step")
    parser.add_argument("--steps", type=int, default=2750, help="optimizer steps")
    parser.add_argument("--sharpness", type=float, default=1.2, help="factor of the trained logits at temperature 1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chains", type=int, default=600, help="chains sampled for each kind of catalogue")
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
