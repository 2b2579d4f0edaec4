"""What the text part of a model is as a model of its own: `python -m pace_async.advise.text_names MODEL_DIR` prints it
as the JSON of `text_part.TextModel`. Runs in a separate process, because it loads torch. Reads no weights.
"""

import json
import sys
from pathlib import Path
from typing import Any, cast


def text_model(model: Path) -> dict[str, Any]:
    """Raises OSError or ValueError for a model that transformers does not know."""
    import torch
    import transformers

    whole = cast("Any", transformers.AutoConfig).from_pretrained(model, local_files_only=True)
    text = whole.get_text_config()
    text.tie_word_embeddings = bool(whole.tie_word_embeddings or text.tie_word_embeddings)
    with torch.device("meta"):
        skeleton: Any = cast("Any", transformers.AutoModelForCausalLM).from_config(text)
    config = json.loads(skeleton.config.to_json_string())
    kind = text.dtype or whole.dtype
    config |= {"architectures": [type(skeleton).__name__], "dtype": str(kind or torch.float32).removeprefix("torch.")}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if config.get(name) is None and getattr(whole, name, None) is not None:
            config[name] = getattr(whole, name)
    shapes = {name: list(tensor.shape) for name, tensor in skeleton.state_dict().items()}
    return {"config": config, "shapes": shapes, "tied": list(skeleton.all_tied_weights_keys)}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(text_model(Path(sys.argv[1]))))
    except (OSError, ValueError) as error:
        sys.exit(str(error).partition("\n")[0])
