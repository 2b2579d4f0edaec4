"""Binds a task's catalogue to an advisor that reads catalogues.

Such an advisor's tokenizer has spare entries: NAMES for mechanisms and sites, VALUES for options. A run renames those
that it needs to its catalogue's words, once, in the advisor's folder of its own. So each word is one token for the
whole run, and what the model learns about a word stays with that word. Entries that stay spare are never sampled: their
rows of the output head become that of the padding token, which training made unlikely everywhere. The folder says by
the file MARKER that its model reads catalogues and how many spare entries there are. A word that is both a name and an
option takes an entry of a name.

A catalogue may have more words than there are entries. Then several words share an entry, the same for the whole run,
and the entry keeps its spare name. In prompts the spare name stands for one of its words, so a prompt never holds two
words of one entry. If the sites are many, the mechanisms keep entries of their own.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.weights import StoredTensor, contents, write_atomically

MARKER = "reads_catalogue.json"
_TOKENIZER = "tokenizer.json"
_HEAD, _PADDING = "lm_head.weight", "<pad>"

_PLAIN = re.compile(r"[\w.+-]*\w")

Options = Mapping[str, tuple[str, ...]]
"""The words of the options of each target. A target is a mechanism's name, or a site and a mechanism's name."""


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
    """The spare entries of an advisor that reads catalogues, else None. Raises UsageError for a damaged marker."""
    file = folder / MARKER
    if not file.is_file():
        return None
    try:
        return Spare(**json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{file} is damaged: it must hold how many names and values the advisor reads.") from None


@dataclass(frozen=True, slots=True)
class TokenSlots:
    """The spare word for each word of a catalogue: `own` ones are renamed, `shared` ones stand for several words."""

    own: Mapping[str, str]
    shared: Mapping[str, str]


def slots_of(folder: Path, options: Options) -> TokenSlots:
    """Which spare entry stands for which word. Equal catalogues have equal slots."""
    spare = spare_entries(folder) or Spare(0, 0)
    mechanisms = list(dict.fromkeys(target.split()[-1] for target in options))
    sites = list(dict.fromkeys(word for target in options for word in target.split()[:-1]))
    names = {*mechanisms, *sites}
    values = [word for word in dict.fromkeys(word for words in options.values() for word in words) if word not in names]
    first = len(mechanisms) if sites and len(mechanisms) <= spare.names // 2 else 0
    name_slots = _dealt([*mechanisms, *sites], spare.names, first, spare_name)
    valued = _dealt(values, spare.values, 0, spare_value)
    return TokenSlots({**name_slots.own, **valued.own}, {**name_slots.shared, **valued.shared})


def bound_folder(source: Path, options: Options, folder: Path) -> Path:
    """Make `folder` the advisor's folder of one run, unless it exists: links to the files of `source`, a tokenizer that
    knows the catalogue's words, and weights that write no spare entry. Raises UsageError for a catalogue that the
    advisor cannot read."""
    text = bound_tokenizer(source, options)
    head = next(tensor for tensor in contents(source.resolve()) if tensor.name == _HEAD)
    shared = set(slots_of(source, options).shared.values())
    folder.parent.mkdir(parents=True, exist_ok=True)

    def write(target: Path) -> None:
        for file in source.resolve().iterdir():
            if file.is_file() and file.name not in (_TOKENIZER, head.file.name):
                (target / file.name).symlink_to(file)
        (target / _TOKENIZER).write_text(text, "utf-8")
        (target / head.file.name).write_bytes(_silenced(head, text, source, shared))

    write_atomically(folder, write)
    return folder


def bound_tokenizer(folder: Path, options: Options) -> str:
    """The text of tokenizer.json in which spare entries are renamed to the catalogue's words. Raises UsageError."""
    tree = cast("dict[str, Any]", json.loads((folder / _TOKENIZER).read_text("utf-8")))
    vocabulary = cast("dict[str, int]", tree["model"]["vocab"])
    slots = slots_of(folder, options)
    renamed = {_entry(spare): _entry(word) for word, spare in slots.own.items()}
    taken = vocabulary.keys() - renamed.keys()
    for word in (*slots.own, *slots.shared):
        if _entry(word) in taken:
            raise UsageError(f"The advisor cannot read the catalogue: its prompts use the word {word} themselves.")
        if not _PLAIN.fullmatch(word):
            raise UsageError(
                f"The advisor cannot read the catalogue: {word} is not a plain word; a word has letters, digits and "
                "_ . + -, and ends in a letter, a digit or _."
            )
    tree["model"]["vocab"] = {renamed.get(entry, entry): number for entry, number in vocabulary.items()}
    return json.dumps(tree, ensure_ascii=False)


def _silenced(head: StoredTensor, tokenizer: str, folder: Path, shared: Collection[str]) -> bytes:
    """The file of the output head, with the padding token's row in place of each entry that stands for no word."""
    vocabulary = cast("dict[str, int]", json.loads(tokenizer)["model"]["vocab"])
    spare = spare_entries(folder) or Spare(0, 0)
    words = [*map(spare_name, range(spare.names)), *map(spare_value, range(spare.values))]
    data, width = bytearray(head.file.read_bytes()), head.length // head.shape[0]

    def row(entry: str) -> slice:
        return slice(head.start + vocabulary[entry] * width, head.start + (vocabulary[entry] + 1) * width)

    for word in words:
        if _entry(word) in vocabulary and word not in shared:
            data[row(_entry(word))] = data[row(_PADDING)]
    return bytes(data)


def _dealt(words: Sequence[str], count: int, first: int, spare: Callable[[int], str]) -> TokenSlots:
    """`count` entries dealt to words. If these are too many, the `first` ones have their own, and the others share."""
    if len(words) <= count:
        return TokenSlots({word: spare(i) for i, word in enumerate(words)}, {})
    own = {word: spare(i) for i, word in enumerate(words[:first])}
    return TokenSlots(own, {word: spare(first + i % (count - first)) for i, word in enumerate(words[first:])})


@lru_cache(maxsize=100_000)
def _entry(word: str) -> str:
    """A word with the space before it, as a byte-level vocabulary spells it."""
    from tokenizers import pre_tokenizers

    spelling = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(text for text, _ in spelling.pre_tokenize_str(f" {word}"))
