"""The tiny advisor's tokenizer: byte-level, any text encodes, and each text to be copied is one token everywhere.

A name, a quoted value or a number is one piece with the space before it, so that a setting has the same tokens in
code, in an idea and in an experiment. Names and options of the bundled catalogues, an idea's places and the words of
the prompts are single entries of the vocabulary. All other text becomes merged bytes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BEGIN, END, PAD = "<s>", "</s>", "<pad>"
PIECES = "|".join(
    [
        r' ?"[^"\s]{1,32}"',
        r" ?-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?",
        r"[ \n]?[^\W\d]\w*:?",
        r"\n+ *(?= \S)",
        r" ?[^\w\s]+",
        r"\s+?(?=\s)",
        r"\s+",
    ]
)
PLACES = 60
SIZE = 800


def build(texts: Sequence[str], whole: Iterable[str], merges: int = 180) -> Tokenizer:
    """A tokenizer with at most SIZE entries, in which each piece in `whole` is one, as are the commonest pieces of
    `texts` as far as there is room."""
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts = Counter(piece for text in texts for piece, _ in split.pre_tokenize_str(text))
    wanted = [_bytes(piece) for piece in dict.fromkeys([*whole, *(f" {k}" for k in range(PLACES))])]
    trained = _merges(split, texts, merges)
    vocabulary = dict(trained[0])
    commonest = [piece for piece, count in counts.most_common() if count >= len(texts) / 100]
    for piece in [*wanted, *commonest]:
        if piece not in vocabulary and len(vocabulary) < SIZE:
            vocabulary[piece] = len(vocabulary)
    missing = [piece for piece in wanted if piece not in vocabulary]
    if missing:
        raise ValueError(f"no room in the vocabulary for {missing}")
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=trained[1], ignore_merges=True))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BEGIN, END, PAD])  # pyright: ignore[reportUnknownMemberType]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, vocabulary[BEGIN])]
    )
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and the further files for transformers."""
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, pad_token=PAD, model_max_length=2048
    )
    wrapped.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]


def _merges(
    split: pre_tokenizers.Sequence, texts: Sequence[str], merges: int
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    trainer = trainers.BpeTrainer(
        vocab_size=3 + 256 + merges,
        special_tokens=[BEGIN, END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [(pair[0], pair[1]) for pair in model["merges"]]


def _bytes(piece: str) -> str:
    """The piece as the byte-level alphabet spells it."""
    return "".join(text for text, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(piece))
