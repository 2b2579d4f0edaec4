"""Separates a model's answer from the reasoning before it. Pure.

Servers pass reasoning on in several ways: between two marks, with the first one missing because the template wrote it,
or without an end because the answer was cut off. Only marks that stand where a model's template puts them count, so a
program that names such a mark keeps it:

- An opening mark counts at the beginning of the text. The reasoning then ends at the first closing mark.
- A closing mark without an opening one counts on a line of its own, the last such line.
- An opening mark that is never closed leaves no answer.
"""

import re

PAIRS = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "reasoning", "seed:think")),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<unused94>thought", "<unused95>"),
    ("Here is my thought process:", "Here is my response:"),
)
"""Marks around reasoning, as the templates of several families write them."""
_CLOSINGS = "|".join(re.escape(closing) for _, closing in PAIRS)
_ALONE = re.compile(rf"^[ \t]*(?:{_CLOSINGS})[ \t]*$", re.MULTILINE)
_CHANNEL = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>(?!final\b)")
_FINAL = re.compile(r"<\|channel\|>final\b[^<]*<\|message\|>")
_ENDS = ("<|return|>", "<|end|>")


def answer_proper(text: str) -> str:
    """The text without the reasoning before it. Empty if the reasoning does not end."""
    if _CHANNEL.match(text) or _FINAL.match(text.lstrip()):
        return _of_channels(text)
    begun = text.lstrip()
    for opening, closing in PAIRS:
        if begun.startswith(opening):
            return begun.partition(closing)[2]
    alone = list(_ALONE.finditer(text))
    return text[alone[-1].end() :] if alone else text


def _of_channels(text: str) -> str:
    """What stands in the last channel `final`, empty without one."""
    found = list(_FINAL.finditer(text))
    answer = text[found[-1].end() :] if found else ""
    for end in _ENDS:
        answer = answer.removesuffix(end)
    return answer
