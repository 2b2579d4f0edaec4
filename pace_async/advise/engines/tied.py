"""Which tensors of a model are tied: `python -m pace_async.advise.engines.tied MODEL_DIR` prints {tied name: [name of
the tensor that it repeats, its shape]}, by the names of the model's class. Prints {} if the configuration ties nothing.

A checkpoint may use other names than the class: transformers renames some tensors when it loads. Runs in a separate
process, because it loads torch. Reads no weights.
"""

import json
import sys
from pathlib import Path
from typing import Any, cast


def tied_tensors(model: Path) -> dict[str, tuple[str, list[int]]]:
    """Raises OSError or ValueError for a model that transformers does not know."""
    import torch
    import transformers

    config = cast("Any", transformers.AutoConfig).from_pretrained(model, local_files_only=True)
    known = [kind for name in config.architectures or () if (kind := getattr(transformers, name, None)) is not None]
    with torch.device("meta"):
        skeleton: Any = (
            known[0]._from_config(config)
            if known
            else cast("Any", transformers.AutoModelForCausalLM).from_config(config)
        )
    ties: dict[str, str] = skeleton.all_tied_weights_keys
    return {name: (other, list(skeleton.get_parameter(other).shape)) for name, other in ties.items()}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(tied_tensors(Path(sys.argv[1]))))
    except (OSError, ValueError) as error:
        sys.exit(str(error).partition("\n")[0])
