"""Make an advisor of SmolLM2-135M that answers in the required format, and print its figures.

    python research/advisor/warm_start.py                   checkpoint, training, figures; existing folders are kept
    python research/advisor/warm_start.py --checkpoint-only  only the published model, as the start of training
    python research/advisor/warm_start.py --measure-only     only the figures of an existing advisor

Needs two further packages, and says how to install them. Both models stand in one folder, by default ~/.cache/pace:
smollm2-135m as published, smollm2-135m-advisor warm-started. Interrupted training goes on where it stopped. Exit code 1
if a figure misses its mark, 2 if something is missing.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace_async.errors import UsageError
from pace_async.runtime.children.advisor_folder import MADE_HERE

if TYPE_CHECKING:
    from research.advisor.smollm2.training import Recipe
    from research.advisor.tiny_advisor.worlds import World

PUBLISHED, ADVISOR = "smollm2-135m", "smollm2-135m-advisor"
MARK = "proposals that parse"
WANTED = 0.30
SHOWN = (
    MARK,
    "whole chains that parse",
    "ideas that name a mechanism and an option",
    "ideas that would change the parent",
    "ideas that name the parent's setting",
    "proposals with three distinct ideas",
    "mechanisms that occur",
    "share of the commonest mechanism",
    "experiments right in both",
)
_OURS = ("config.json", "generation_config.json", "COMPLETE")


def main() -> int:
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        return _make(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2


def _make(options: argparse.Namespace) -> int:
    from research.advisor.smollm2.checkpoint import SHA256, find_gguf, make_checkpoint

    published, advisor = options.folder / PUBLISHED, options.folder / ADVISOR
    if not options.measure_only:
        make_checkpoint(find_gguf(), published, SHA256)
        print(f"{published}: the model as published", flush=True)
    if options.checkpoint_only:
        return 0

    import torch

    from research.advisor.smollm2.training import Recipe
    from research.advisor.tiny_advisor.measure import measure, summary
    from research.advisor.tiny_advisor.worlds import real_worlds

    torch.set_num_threads(options.threads)
    worlds = real_worlds()
    if not options.measure_only:
        recipe = Recipe()
        _warm_start(published, advisor, worlds, replace(recipe, steps=options.steps or recipe.steps))
        print(f"{advisor}: warm-started", flush=True)
    figures = measure(advisor, worlds, options.chains, options.seed, batch=8)
    shares = summary(figures, worlds)
    if options.json:
        print(json.dumps(shares))
    else:
        for name in SHOWN:
            print(f"{shares[name]:9.3f}  {name}" + (f"  (mark: at least {WANTED:g})" if name == MARK else ""))
    return 0 if shares[MARK] >= WANTED else 1


def _warm_start(published: Path, advisor: Path, worlds: "list[World]", recipe: "Recipe") -> None:
    """Train and write `advisor`, unless the same recipe made it. Raises UsageError if another advisor is there."""
    from pace_async.weights import COMPLETE, is_complete, write_atomically

    mark = json.dumps(asdict(recipe))
    if is_complete(advisor):
        if (advisor / COMPLETE).read_text() != mark:
            raise UsageError(f"{advisor} was made by another recipe: remove it, or name another folder.")
        return
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from research.advisor.smollm2.training import train

    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(published, local_files_only=True)
    names: Any = AutoTokenizer
    end_token: str = names.from_pretrained(published, local_files_only=True).eos_token
    tokenizer = Tokenizer.from_file(str(published / "tokenizer.json"))
    state = advisor.with_name(f"{advisor.name}.training.pt")
    spent = train(model, tokenizer, end_token, worlds, recipe, state, lambda line: print(line, flush=True))
    print(
        f"{spent.steps} steps, {spent.tokens} tokens, {spent.wall_s / 60:.1f} minutes, "
        f"{spent.processor_s / 60:.1f} of processor time"
    )

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        for file in published.iterdir():
            if file.name not in _OURS and file.suffix != ".safetensors":
                shutil.copyfile(file, folder / file.name)

    advisor.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(advisor, write, mark)
    state.unlink()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=MADE_HERE.expanduser(), help="where the models are")
    parser.add_argument("--steps", type=int, default=None, help="optimizer steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chains", type=int, default=40, help="chains sampled for the figures")
    parser.add_argument("--checkpoint-only", action="store_true")
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
