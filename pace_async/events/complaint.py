"""Error messages for a model's prompts that cannot leak hidden instances. Pure.

A program sees the hidden instances and controls its own error text. A message can contain an instance, and so can the
name of an exception, so no error text is passed on unchanged. A complaint shows the failing line of the program. It
names an exception only if Python defines it, and gives a message only as one of Python's own sentences. Names in that
sentence are kept if the program contains them. Numbers and other values are removed. The evaluator's message about an
output may quote the output, so it is never passed on. A hostile program can still choose a line, an exception, a
sentence and a few of its own names: some tens of bits per evaluation.

An evaluator that runs beside the program (`of_evaluator`) hides nothing from it. Its messages are passed on only where
its task allows it, and by the caller, as data.

A compiler never sees an instance, so its messages about a program are passed on unchanged.

Invariant: every character of a complaint comes from this module, from Python, from a compiler that was given nothing
but the program, or from the program's own text.
"""

import builtins
import re
from dataclasses import dataclass

from pace_async.events.literals import Outcome
from pace_async.programs.languages import BUILD_FAILED, EVALUATOR_ENDED, PROGRAM_ENDED

LONGEST_LINE = 160
LONGEST_READ = 4096
"""Characters read of a program's line. Leading white space counts."""
_ERROR = re.compile(r"([A-Za-z_]\w*)(?:: (.*?))?(?: \(line (\d{1,6})\))?", re.DOTALL)
_ENDED = re.compile(
    rf"{PROGRAM_ENDED}(?P<half> in the middle of a line)? \((?P<how>exit code \d{{1,3}}|SIG[A-Z]+)\).*", re.DOTALL
)
_OF_EVALUATOR = re.compile(rf"{EVALUATOR_ENDED}(exit code \d{{1,3}}|SIG[A-Z]+)")
_ENDED_ITSELF = re.compile(r"ended without a result \((?:exit code \d{1,3}|SIG[A-Z]+)\)")
_OWN_WORDS = (
    "unparsed",
    "not_implemented",
    "unchanged",
    "below_threshold",
    "pruned",
    "timeout",
    "out_of_memory",
    "output_overflow",
)
"""Outcomes whose details come from this package, or from a model's answer, and never from a program that ran."""
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGFPE", "SIGBUS", "SIGILL", "SIGTRAP")
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
_PATTERNS = {
    "#": r"([-+\d.e]+)",
    "@": r"'([\w.]{1,60})'",
    "~": r"'?([\w.]{1,60})'?",
    "^": r"([\w.<>]{1,60})\(\)",
    "*": r"(.*?)",
}
"""Patterns of the marks in a sentence: a number, a quoted name, a type, a function, any other value."""
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
    """One of Python's error messages. `pieces` alternate between text and marks."""

    pieces: tuple[str, ...]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, line: str) -> "_Sentence":
        pieces = tuple(re.split(r"([#@~^*])", line))
        return cls(pieces, re.compile("".join(_PATTERNS.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL))

    def filled(self, values: tuple[str, ...], program: str) -> str:
        """The sentence with those names filled in that the program contains."""
        rest = iter(values)
        return "".join(_piece(piece, next(rest), program) if piece in _PATTERNS else piece for piece in self.pieces)


def is_error_in_code(detail: str) -> bool:
    """Whether a candidate_error is an exception raised at a line of the program, a missing function, a failed build, or
    the end of a program of its own, by itself. False for the end of a function's process, and for system errors, which
    a program gets when it tries to leave the sandbox."""
    if detail.startswith((BUILD_FAILED, EVALUATOR_ENDED)):
        return True
    if (ended := _ENDED.fullmatch(detail)) is not None:
        return ended["how"] in _CRASHES or ended["how"].startswith("exit code")
    match = _ERROR.fullmatch(detail)
    raised = match is not None and match[3] is not None and match[1] not in _REACHING
    return raised or bool(_NO_FUNCTION.fullmatch(detail))


def complaint(outcome: Outcome, detail: str, program: str, entry: str) -> str:
    """The complaint about an evaluated program, which is one of its own where there is no `entry`. Only for repairable
    outcomes."""
    if not entry:
        return _of_a_process(outcome, detail)
    if outcome == "invalid_score":
        no_value = detail.startswith(f"{entry} returned no JSON value")
        expected = "made of numbers, texts, lists and mappings only" if no_value else "what the requirements ask for"
        return f"It ran, but what `{entry}` returned is not {expected}."
    if _NO_FUNCTION.fullmatch(detail):
        return f"It defines no function `{entry}`."
    match = _ERROR.fullmatch(detail)
    if match is None:
        return "It ended with an error."
    name = match[1] if match[1] in _NAMES else "an exception"
    message = _message(match[2] or "", program)
    return f"It ended with {name}{': ' if message else ''}{message}{_place(int(match[3] or 0), program)}"


def in_short(outcome: Outcome, detail: str, program: str) -> str:
    """What a context says of any failed program in one line, empty if nothing but the outcome. The same rule as for a
    complaint. A score on fresh instances, which may stand in the detail of a suspicious program, is not said either."""
    if outcome in _OWN_WORDS or detail.startswith(BUILD_FAILED):
        return detail
    if outcome != "candidate_error":
        return ""
    if (ended := _ENDED.fullmatch(detail)) is not None:
        return f"{PROGRAM_ENDED}{ended['half'] or ''} ({ended['how']})"
    if (ended := _ENDED_ITSELF.match(detail)) is not None:
        return ended[0]
    if (ended := _OF_EVALUATOR.match(detail)) is not None:
        return ended[0]
    match = _ERROR.fullmatch(detail)
    if match is None:
        return ""
    name = match[1] if match[1] in _NAMES else "an exception"
    message, line = _message(match[2] or "", program), int(match[3] or 0)
    where = f" (line {line})" if 1 <= line <= program.count("\n") + 1 else ""
    return f"{name}{': ' if message else ''}{message}{where}"


def of_evaluator(outcome: Outcome, detail: str) -> str:
    """The complaint about a program whose evaluator ran beside it. Only for repairable outcomes."""
    if outcome == "invalid_score":
        return "Its evaluator ran, and gave it no valid score."
    ended = _OF_EVALUATOR.match(detail)
    return f"Its evaluator ended with {ended[1]}." if ended else "Its evaluator ended with an error."


def _of_a_process(outcome: Outcome, detail: str) -> str:
    if outcome == "invalid_score":
        return (
            "It ran, but what it wrote for an instance is not one line of JSON, or not what the requirements ask for."
        )
    if detail.startswith(BUILD_FAILED):
        return f"It could not be built: {detail.removeprefix(BUILD_FAILED)}"
    match = _ENDED.fullmatch(detail)
    if match is None:
        return "It ended with an error."
    return f"It ended before its last answer{match['half'] or ''}, with {match['how']}."


def _message(message: str, program: str) -> str:
    """The matching sentence of Python without its values, or "" if none matches."""
    for sentence in _all_sentences:
        if match := sentence.pattern.fullmatch(message):
            return sentence.filled(match.groups(), program)
    return ""


def _piece(mark: str, value: str, program: str) -> str:
    known = mark in "@~^" and (
        value in _TYPES or all(name in _UNNAMED or _stands(name, program) for name in value.split("."))
    )
    name = value if known else "…"
    return f"`{name}`" if mark in "@~" else f"{name}()" if mark == "^" else "…" if value else ""


def _stands(name: str, program: str) -> bool:
    """Whether `name` is a word of the program. Searches for this word only: a program may have 100,000 words."""
    return re.fullmatch(r"\w+", name) is not None and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", program) is not None


def _place(number: int, program: str) -> str:
    lines = program.split("\n", number)
    if not 1 <= number <= len(lines):
        return "."
    line = lines[number - 1][:LONGEST_READ].strip()[: LONGEST_LINE + 1]
    line = "".join(character if character.isprintable() else "�" for character in line)
    excerpt = line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
    return f", raised at line {number} of the whole program:\n    {excerpt}"


_all_sentences = tuple(_Sentence.of(line) for line in _SENTENCES.split("\n"))
