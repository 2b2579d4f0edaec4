"""What a model is told of an error of its program, in words that cannot carry the hidden instances out. Pure.

A program sees the hidden instances, and what it raises is its own text: a message can hold an instance, and so can the
name of an exception. So nothing of it is passed on as it stands. The line of the error is shown as the program has it;
of the exception only a name that Python has; of its message only which of Python's own sentences it is, with the names
in it that stand in the program too, and no number or other value. What the task's evaluator says of an output may quote
the output, so it is not passed on at all. What is left to a program that wants to tell is the choice of a line, an
exception, a sentence and a few of its own names: some tens of bits for each evaluation.

Invariant: every character of a complaint is ours, Python's, or the program's own text.
"""

import builtins
import re
from dataclasses import dataclass

from pace_async.events import Outcome

LONGEST_LINE = 160
LONGEST_READ = 4096
"""Characters of a line of a program among which its beginning is looked for."""
_ERROR = re.compile(r"([A-Za-z_]\w*)(?:: (.*?))?(?: \(line (\d{1,6})\))?", re.DOTALL)
_NO_FUNCTION = re.compile(r"the program defines no function \w+")
_TYPES = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type)) | {
    *("NoneType", "function", "method", "module", "generator", "builtin_function_or_method"),
    *("numpy", "numpy.ndarray", "numpy.float64", "numpy.int64", "numpy.random", "numpy.linalg"),
}
_NAMES = frozenset(name for name in _TYPES if name.endswith(("Error", "Exception", "Iteration"))) | {"LinAlgError"}
_REACHING = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, OSError | SystemExit | KeyboardInterrupt)
)
_UNNAMED = ("<locals>", "<lambda>")
_ASKED = {
    "#": r"([-+\d.e]+)",
    "@": r"'([\w.]{1,60})'",
    "~": r"'?([\w.]{1,60})'?",
    "^": r"([\w.<>]{1,60})\(\)",
    "*": r"(.*?)",
}
"""What stands for a number, a name in quotes, a type, a function and any other value in a sentence."""
_SENTENCES = """\
name @ is not defined
cannot access local variable @ where it is not associated with a value
cannot access free variable @ where it is not associated with a value in enclosing scope
No module named @
cannot import name @ from *
~ object has no attribute @
module @ has no attribute @
~ object is not callable
~ object is not iterable
~ object is not subscriptable
~ object cannot be interpreted as an integer
~ object does not support item assignment
cannot unpack non-iterable ~ object
unsupported operand type(s) for *: ~ and ~
object of type ~ has no len()
unhashable type: ~
must be real number, not ~
list indices must be integers or slices, not ~
^ missing # required positional argument*: *
^ takes # positional arguments but # * given
^ takes # positional argument but # * given
^ got an unexpected keyword argument @
list index out of range
tuple index out of range
string index out of range
pop from empty list
division by zero
float division by zero
math domain error
math range error
not enough values to unpack (expected *, got #)
too many values to unpack (expected *)
maximum recursion depth exceeded
dictionary changed size during iteration
index # is out of bounds for axis # with size #
operands could not be broadcast together with shapes *
shapes * not aligned: *
could not convert string to float: *
invalid literal for int() with base #: *
setting an array element with a sequence*
The truth value of an array with more than one element is ambiguous*
Singular matrix"""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """`pieces` are words and marks by turns."""

    pieces: tuple[str, ...]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, line: str) -> "_Sentence":
        pieces = tuple(re.split(r"([#@~^*])", line))
        return cls(pieces, re.compile("".join(_ASKED.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL))

    def said(self, values: tuple[str, ...], program: str) -> str:
        """The sentence with those of its names that stand in the program."""
        rest = iter(values)
        return "".join(_shown(piece, next(rest), program) if piece in _ASKED else piece for piece in self.pieces)


def is_error_in_code(detail: str) -> bool:
    """Whether a candidate_error is an exception raised at a line of the program, or the want of its function: not the
    end of its process, nor an error of the system, which is what a program gets that reaches out of the sandbox."""
    found = _ERROR.fullmatch(detail)
    raised = found is not None and found[3] is not None and found[1] not in _REACHING
    return raised or bool(_NO_FUNCTION.fullmatch(detail))


def complaint(outcome: Outcome, detail: str, program: str, entry: str) -> str:
    """What is said of a program that was evaluated so. Only for what is repairable."""
    if outcome == "invalid_score":
        no_value = detail.startswith(f"{entry} returned no JSON value")
        asked = "made of numbers, texts, lists and mappings only" if no_value else "what the requirements ask for"
        return f"It ran, but what `{entry}` returned is not {asked}."
    if _NO_FUNCTION.fullmatch(detail):
        return f"It defines no function `{entry}`."
    found = _ERROR.fullmatch(detail)
    if found is None:
        return "It ended with an error."
    name = found[1] if found[1] in _NAMES else "an exception"
    message = _message(found[2] or "", program)
    return f"It ended with {name}{': ' if message else ''}{message}{_place(int(found[3] or 0), program)}"


def _message(message: str, program: str) -> str:
    """The sentence of Python that `message` is, without its values; "" where it is none."""
    for sentence in _all_sentences:
        if found := sentence.pattern.fullmatch(message):
            return sentence.said(found.groups(), program)
    return ""


def _shown(mark: str, value: str, program: str) -> str:
    known = mark in "@~^" and (
        value in _TYPES or all(name in _UNNAMED or _stands(name, program) for name in value.split("."))
    )
    name = value if known else "…"
    return f"`{name}`" if mark in "@~" else f"{name}()" if mark == "^" else "…" if value else ""


def _stands(name: str, program: str) -> bool:
    """Whether it is a word of the program. Looks for it alone: a program may have a hundred thousand others."""
    return re.fullmatch(r"\w+", name) is not None and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", program) is not None


def _place(number: int, program: str) -> str:
    lines = program.split("\n", number)
    if not 1 <= number <= len(lines):
        return "."
    line = lines[number - 1][:LONGEST_READ].strip()[: LONGEST_LINE + 1]
    line = "".join(character if character.isprintable() else "�" for character in line)
    shown = line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
    return f", raised at line {number} of the whole program:\n    {shown}"


_all_sentences = tuple(_Sentence.of(line) for line in _SENTENCES.split("\n"))
