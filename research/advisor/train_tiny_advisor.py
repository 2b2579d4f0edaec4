"""Rebuild the advisor in the package from nothing and print its figures.

    python research/advisor/train_tiny_advisor.py                   train, save into pace_async/advise/tiny, measure
    python research/advisor/train_tiny_advisor.py --measure-only    measure the existing one

Exit code 1 if a figure misses its mark.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from research.advisor.tiny_advisor.measure import Figures
    from research.advisor.tiny_advisor.worlds import World

ROOT = Path(__file__).resolve().parents[2]
MARKS = {
    "proposals that parse": (0.95, 1.0),
    "mechanisms that occur": (1.0, 1.0),
    "share of the commonest mechanism": (0.0, 0.5),
    "experiments right in both": (0.9, 1.0),
    "edits that change nothing": (0.0, 0.1),
}


def main() -> int:
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    from research.advisor.tiny_advisor.worlds import real_worlds

    torch.set_num_threads(options.threads)
    worlds = real_worlds()
    began = time.monotonic()
    if not options.measure_only:
        _build(options, worlds)
    from research.advisor.tiny_advisor.measure import entropies, measure, summary

    figures = measure(options.folder, worlds, options.chains, options.seed)
    shares = summary(figures, worlds)
    if options.json:
        print(json.dumps({"figures": shares, "entropy": entropies(figures), "ideas": figures.mechanisms}))
    else:
        _show(figures, shares, entropies(figures))
        print(f"{(time.monotonic() - began) / 60:.1f} minutes in all")
    missed = [name for name, (low, high) in MARKS.items() if not low <= shares[name] <= high]
    for name in missed:
        print(f"missed: {name} is {shares[name]:.3f}, not within {MARKS[name]}", file=sys.stderr)
    return 1 if missed else 0


def _build(options: argparse.Namespace, worlds: "list[World]") -> None:
    from research.advisor.tiny_advisor import corpus, tokenizer, training
    from research.advisor.tiny_advisor.architecture import first_model

    rng = random.Random(f"tokenizer {options.seed}")
    states = [corpus.random_state(corpus.random_world(worlds, rng, 0.2, 14), rng) for _ in range(3000)]
    examples = [corpus.example(state, rng) for state in states]
    texts = [f"{example.prompt}\n{answer.text}" for example in examples for answer in example.answers]
    whole = [f" {word}" for world in worlds for name, values in world.options.items() for word in (name, *values)]
    tokens = tokenizer.build(texts, whole)
    model = first_model(tokens, options.seed)
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M weights, {tokens.get_vocab_size()} tokens",
        flush=True,
    )
    recipe = training.Recipe(steps=options.steps, seed=options.seed)
    training.train(model, tokens, worlds, recipe, lambda line: print(line, flush=True), options.minutes)
    options.folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(options.folder)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.save(tokens, options.folder)
    for file in options.folder.iterdir():
        file.chmod(0o644)


def _show(figures: "Figures", shares: dict[str, float], entropy: dict[str, tuple[float, float]]) -> None:
    for name, value in shares.items():
        mark = MARKS.get(name)
        print(f"{value:9.3f}  {name}" + (f"  (mark: {mark[0]:g} to {mark[1]:g})" if mark else ""))
    print("\nideas by mechanism:", ", ".join(f"{name} {n}" for name, n in figures.mechanisms.most_common()))
    print("experiments by mechanism:", ", ".join(f"{name} {n}" for name, n in figures.chosen.most_common()))
    lengths = {purpose: sum(n) / len(n) for purpose, n in figures.tokens.items()}
    print("mean tokens of an answer:", ", ".join(f"{purpose} {n:.0f}" for purpose, n in lengths.items()))
    print("\nentropy: nats a token, share of all")
    for kind, (mean, share) in entropy.items():
        print(f"{mean:9.3f} {share:7.1%}  {kind}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "pace_async/advise/tiny", help="where the weights are")
    parser.add_argument("--steps", type=int, default=5000, help="optimizer steps")
    parser.add_argument("--minutes", type=float, default=27.0, help="end the schedule by then, however slow it is")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chains", type=int, default=1000, help="chains sampled for the figures")
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
