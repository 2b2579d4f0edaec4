"""Binds a task's catalogue to an advisor that reads catalogues.

Such an advisor's tokenizer has spare entries: NAMES for mechanisms' names, VALUES for options. A run renames those that
it needs to its catalogue's words, once, in the advisor's folder of its own. So each word is one token for the whole
run, and what learning teaches about a word stays with it. Entries that stay spare are silenced: their rows of the
output head become that of the padding token, which training made unlikely everywhere. The folder says by the file
MARKER that its model reads catalogues and how many spare entries there are. A word that is both a name and an option
takes an entry of a name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.weights import Stored, contents, write_atomically

MARKER = "reads_catalogue.json"
_TOKENIZER = "tokenizer.json"
_HEAD, _PADDING = "lm_head.weight", "<pad>"

Options = Mapping[str, tuple[str, ...]]
"""The words of each mechanism's options, by the mechanism's name."""


@dataclass(frozen=True, slots=True)
class Spare:
    """How many spare entries there are for names and for options."""

    names: int
    values: int


def spare_name(index: int) -> str:
    """The word of a spare entry for a mechanism's name."""
    return f"name_{index}"


def spare_value(index: int) -> str:
    """The word of a spare entry for an option."""
    return f"value_{index}"


def spare_entries(folder: Path) -> Spare | None:
    """Those of an advisor that reads catalogues, else None. Raises UsageError for a damaged marker."""
    file = folder / MARKER
    if not file.is_file():
        return None
    try:
        return Spare(**json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{file} is damaged: it must hold how many names and values the advisor reads.") from None


def bound_folder(given: Path, options: Options, folder: Path) -> Path:
    """Make `folder` the advisor's folder of one run, unless it exists: links to the files of `given`, a tokenizer that
    knows the catalogue's words, and weights that write no spare entry. Raises UsageError for a catalogue that the
    advisor cannot read."""
    text = bound_tokenizer(given, options)
    head = next(one for one in contents(given.resolve()) if one.name == _HEAD)
    folder.parent.mkdir(parents=True, exist_ok=True)

    def write(target: Path) -> None:
        for file in given.resolve().iterdir():
            if file.is_file() and file.name not in (_TOKENIZER, head.file.name):
                (target / file.name).symlink_to(file)
        (target / _TOKENIZER).write_text(text, "utf-8")
        (target / head.file.name).write_bytes(_silenced(head, text, given))

    write_atomically(folder, write)
    return folder


def bound_tokenizer(given: Path, options: Options) -> str:
    """The text of tokenizer.json in which spare entries are renamed to the catalogue's words. Raises UsageError."""
    tree = cast("dict[str, Any]", json.loads((given / _TOKENIZER).read_text("utf-8")))
    vocabulary = cast("dict[str, int]", tree["model"]["vocab"])
    renamed = {_entry(spare): _entry(word) for word, spare in _spares(given, options).items()}
    taken = vocabulary.keys() - renamed.keys()
    for word, spare in _spares(given, options).items():
        if _entry(word) in taken or _entry(spare) not in vocabulary:
            raise UsageError(f"The advisor cannot read the catalogue: its prompts use the word {word} themselves.")
    tree["model"]["vocab"] = {renamed.get(entry, entry): number for entry, number in vocabulary.items()}
    text = json.dumps(tree, ensure_ascii=False)
    _refuse_unless_whole(text, options)
    return text


def _silenced(head: Stored, tokenizer: str, given: Path) -> bytes:
    """The file of the output head, with the padding token's row in place of each entry that is still spare."""
    vocabulary = cast("dict[str, int]", json.loads(tokenizer)["model"]["vocab"])
    spare = spare_entries(given) or Spare(0, 0)
    words = [*map(spare_name, range(spare.names)), *map(spare_value, range(spare.values))]
    data, width = bytearray(head.file.read_bytes()), head.length // head.shape[0]

    def row(entry: str) -> slice:
        return slice(head.start + vocabulary[entry] * width, head.start + (vocabulary[entry] + 1) * width)

    for entry in map(_entry, words):
        if entry in vocabulary:
            data[row(entry)] = data[row(_PADDING)]
    return bytes(data)


def _spares(given: Path, options: Options) -> dict[str, str]:
    """The spare word for each word of the catalogue. Raises UsageError where there are not enough."""
    spare = spare_entries(given) or Spare(0, 0)
    names = list(options)
    values = list(dict.fromkeys(word for words in options.values() for word in words))
    values = [word for word in values if word not in options]
    if len(names) > spare.names or len(values) > spare.values:
        raise UsageError(
            f"The advisor reads catalogues of at most {spare.names} mechanisms and {spare.values} different options; "
            f"this one has {len(names)} and {len(values)}: take another --advisor, or a smaller catalogue."
        )
    return {word: spare_name(i) for i, word in enumerate(names)} | {
        word: spare_value(i) for i, word in enumerate(values)
    }


def _refuse_unless_whole(tokenizer: str, options: Options) -> None:
    """Whether each word is one token where a prompt has it. Raises UsageError."""
    from tokenizers import Tokenizer

    reader = cast("Any", Tokenizer).from_str(tokenizer)
    for name, words in options.items():
        for word in words:
            pieces = [f" {name}", " to", f" {word}", " from", f" {word}", "."]
            if len(reader.encode("".join(pieces), add_special_tokens=False).ids) != len(pieces):
                raise UsageError(
                    f"The advisor cannot read the catalogue: {name} or its option {word} is no plain word; a word has "
                    "letters, digits and _ . + -, and ends in a letter, a digit or _."
                )


def _entry(word: str) -> str:
    """A word with the space before it, as a byte-level vocabulary spells it."""
    from tokenizers import pre_tokenizers

    spelling = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(text for text, _ in spelling.pre_tokenize_str(f" {word}"))
