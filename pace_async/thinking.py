"""Separates a model's answer from the reasoning before it. Pure.

Servers pass reasoning on in several ways: between two marks, with the first one missing because the template wrote it,
or without an end because the answer was cut off. A program that names such a mark keeps it:

- An opening mark counts at the beginning of the text, and again where reasoning has just ended. The reasoning then ends
  at the first closing mark. One that is never closed leaves no answer.
- A closing mark without an opening one counts outside code, quotes and sentences, the last such mark. Inside a code
  block or an edit it belongs to the program, unless another one begins before this one ends: then reasoning was broken
  off in it.
"""

import re

PAIRS = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "reasoning", "seed:think")),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<unused94>thought", "<unused95>"),
    ("Here is my thought process:", "Here is my response:"),
)
"""Marks around reasoning, as the templates of several families write them."""
_AROUND = (("<|START_RESPONSE|>", "<|END_RESPONSE|>"), ("<response>", "</response>"), ("<answer>", "</answer>"))
"""Marks around the answer itself, which count only after reasoning."""
_CLOSING = re.compile("|".join(re.escape(closing) for _, closing in PAIRS))
_CODE = re.compile(r"(?P<fence>`{3,}|~{3,})[^`]*|<<<<<<< SEARCH\s*")
_NAMED = re.compile(r"[`~]+[ \t]*\w|<")
"""A line that can only begin code. A fence without a language may also end it."""
_GOES_ON = re.compile(r"[\s.,;:)]+[^\s`]")
_CHANNEL = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>(?!final\b)")
_FINAL = re.compile(r"<\|channel\|>final\b[^<]*<\|message\|>")
_ENDS = ("<|return|>", "<|end|>")


def answer_proper(text: str) -> str:
    """The text without the reasoning before it. Empty if the reasoning does not end."""
    if _CHANNEL.match(text) or _FINAL.match(text.lstrip()):
        return _of_channels(text)
    answer = text
    while (pair := next((pair for pair in PAIRS if answer.lstrip().startswith(pair[0])), None)) is not None:
        answer = answer.partition(pair[1])[2]
    answer = answer[_end_outside_code(answer) :]
    return text if len(answer) == len(text) else _unwrapped(answer.lstrip(" \t"))


def _end_outside_code(text: str) -> int:
    """Where the last closing mark ends that stands outside code, 0 without one."""
    if _CLOSING.search(text) is None:  # as in most answers, which need not be read line by line
        return 0
    at = last = inside = 0
    closing = ""  # what ends the code: a fence, or the last line of an edit
    for line in text.split("\n"):
        end = _end_in_line(line)
        begun = _CODE.fullmatch(line, end)
        if closing and _closes(line, closing):
            closing, inside = "", 0
        elif begun is not None and not (closing and not _NAMED.match(line, end)):
            last, inside = at + end if end else inside or last, 0
            closing = begun["fence"] or ">>>>>>> REPLACE"
        elif end and closing:
            inside = at + end
        elif end:
            last = at + end
        at += len(line) + 1
    return inside or last


def _end_in_line(line: str) -> int:
    """Where the last closing mark of a line ends that is not named there, in quotes or in a sentence, 0 without one."""
    last = 0
    for mark in _CLOSING.finditer(line):
        before, after = line[max(0, mark.start() - 1) : mark.start()], line[mark.end() : mark.end() + 3]
        quoted = before and before in "`'\"" and after.startswith(before) and after != "```"
        if not quoted and not (line[: mark.start()].strip() and _GOES_ON.match(line, mark.end())):
            last = mark.end()
    return last


def _closes(line: str, closing: str) -> bool:
    mark = line.strip()
    return mark == closing or (mark.startswith(closing) and set(mark) == {closing[0]})


def _unwrapped(answer: str) -> str:
    """The answer without marks around it."""
    for opening, closing in _AROUND:
        if answer.lstrip().startswith(opening):
            return answer.lstrip().removeprefix(opening).rstrip().removesuffix(closing)
    return answer


def _of_channels(text: str) -> str:
    """What stands in the last channel `final`, empty without one."""
    matches = list(_FINAL.finditer(text))
    answer = text[matches[-1].end() :] if matches else ""
    for end in _ENDS:
        answer = answer.removesuffix(end)
    return answer
