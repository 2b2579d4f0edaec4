"""The reader's tokenizer: wordings are whole entries, catalogue words are spare entries, and all else is bytes.

The spare entries are words that no catalogue holds (`name_7`, `value_12`). Training writes its catalogues with them.
A run renames those that it needs to its task's words, so that each of these is one token.
"""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pace_async.advise.binding import MARKER, spare_name, spare_value
from pace_async.advise.catalogue_prompts import NUMBERS, STATUSES, UNKNOWN

BEGIN, END, PAD = "<s>", "</s>", "<pad>"
NAMES, VALUES = 32, 80
"""How many spare entries there are for mechanisms and sites, and for options. Together they are fewer than the model is
wide, so that their vectors need not disturb each other. With more of them, answers are less even and less exact."""
PIECES = "|".join(
    [
        r"Catalogue:",
        r"\nIdeas:",
        r"\n   (?= \w)",
        r"\n    \([a-z]+\):",
        r"\n\n[A-Z][a-z ]+\.\n",
        r"\n?Idea [1-9]\nHypothesis:",
        r" helps\.\nReasoning: untested here\.",
        r"Compared:\n",
        r"Proposal [1-9]: (?:new|known [1-9])",
        r"Experiments:",
        r"\n\([a-z]+\):\n",
        r"Idea ID: [1-9]\nExperiment description:",
        r" \(other\)",
        r" =",
        r" ?[\w.+-]*\w",
        r"\s",
        r"[^\w\s]",
    ]
)


def wordings() -> list[str]:
    """All entries that are neither catalogue words nor bytes."""
    known = [f"known {k}" for k in range(1, NUMBERS + 1)]
    return [
        "Catalogue:",
        "\nIdeas:",
        "\n   ",
        *(f"\n    ({status}):" for status in STATUSES),
        "\n\nPropose three ideas.\n",
        "\n\nRepeat the verdicts.\n",
        "\n\nChoose one experiment.\n",
        "Idea 1\nHypothesis:",
        *(f"\nIdea {k}\nHypothesis:" for k in (2, 3)),
        " helps.\nReasoning: untested here.",
        "Compared:\n",
        *(f"Proposal {k}: {verdict}" for k in (1, 2, 3) for verdict in ("new", *known)),
        "Experiments:",
        *(f"\n({status}):\n" for status in STATUSES),
        *(f"Idea ID: {k}\nExperiment description:" for k in range(1, NUMBERS + 1)),
        f" {UNKNOWN}",
        " =",
        " to",
        " from",
    ]


def build() -> Tokenizer:
    """The tokenizer with unbound spare entries."""
    spare = [f" {spare_name(i)}" for i in range(NAMES)] + [f" {spare_value(i)}" for i in range(VALUES)]
    entries = [BEGIN, END, PAD, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    entries += [as_entry(piece) for piece in (*wordings(), *spare)]
    vocabulary = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BEGIN, END, PAD])  # pyright: ignore[reportUnknownMemberType]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, vocabulary[BEGIN])]
    )
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json, what transformers needs beside it, and the marker of an advisor that reads catalogues."""
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, pad_token=PAD, model_max_length=2048
    )
    wrapped.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]
    (folder / MARKER).write_text(json.dumps({"names": NAMES, "values": VALUES}) + "\n")


def as_entry(piece: str) -> str:
    """The piece as the byte-level alphabet spells it."""
    return "".join(text for text, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(piece))
