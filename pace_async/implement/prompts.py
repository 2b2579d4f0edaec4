"""The implementer's prompt, as chat messages. Pure.

Order: role and answer format (equal for a whole run, so that a provider may cache it), the task, the parent program,
the experiment. The program and the advisor's texts are data. The program is between fences longer than any inside it,
and each of the advisor's texts is on one line. A repeated try gets the same messages, with the last try's program and
its error. The wording is our own.
"""

import re
from collections.abc import Mapping, Sequence

from pace_async.events import ImplementerTry
from pace_async.implement.base import Experiment
from pace_async.implement.complaint import complaint
from pace_async.implement.edits import DIVIDER, REPLACE, SEARCH
from pace_async.implement.repair import program_to_change
from pace_async.search.state import Member
from pace_async.task import BLOCK_END, BLOCK_START, Task

Messages = tuple[Mapping[str, str], ...]

_SYSTEM = f"""\
You change one Python program so that it carries out one experiment, as it is described and nothing else.

Only the lines between `{BLOCK_START}` and `{BLOCK_END}` may change; the rest of the program stays as it is, and \
these two lines are not part of the block. Answer in one of two ways.

1. One or more edits, each of this form:
{SEARCH}
lines of the block, copied exactly, that stand there once
{DIVIDER}
the lines that take their place
{REPLACE}
Edits must not overlap; each is applied to the block as it is shown.

2. The whole new content of the block, in exactly one fenced code block:
```python
the block, without its two marker lines
```

An answer in another form, with both forms, with a syntax error, or that changes nothing is a failure. Short \
explanations outside the code are allowed.
"""


def messages_for(task: Task, parent: Member, experiment: Experiment) -> Messages:
    """System and user message. After a failed try they ask the model to mend the program of that try, or, if it made
    none, to give a usable answer."""
    spec = task.spec
    goal = "Higher is better." if spec.direction == "maximize" else "Lower is better."
    program = program_to_change(parent.program, experiment.tries)
    begun = program != parent.program
    what = "in which the experiment was begun" if begun else f"whose score is {parent.score:.10g}"
    ending = "" if program.endswith("\n") else "\n"
    fence = fence_for(program)
    request = _after(experiment.tries, program, spec.entry) if experiment.tries else "Carry out the experiment."
    user = (
        f"Task: {spec.background.strip()}\n\n"
        f"Requirements: {spec.coding_requirements.strip()} The function `{spec.entry}` is called once for each "
        f"instance; it has {spec.timeout_s:g} s and {spec.memory_mb} MiB in all. {goal}\n\n"
        f"The program, {what}:\n{fence}python\n{program}{ending}{fence}\n\n"
        f"Idea: {one_line(experiment.idea)}\n"
        f"Experiment: {one_line(experiment.description)}\n\n"
        f"{request}"
    )
    return ({"role": "system", "content": _SYSTEM}, {"role": "user", "content": user})


def _after(tries: Sequence[ImplementerTry], program: str, entry: str) -> str:
    """The error of the last try, and the new request."""
    last = tries[-1]
    if last.evaluation is not None:
        wrong = f"This program was tried out. {complaint(last.evaluation, last.evaluation_detail, program, entry)}"
        return f"{wrong}\n\nMend the error, so that the program carries out the experiment."
    if last.program is not None:
        wrong = f"This program does not compile: {one_line(last.detail)}, counted from the first line of the program."
        return f"{wrong}\n\nMend the error, so that the program carries out the experiment."
    shown = ""
    if last.answer is not None:
        fence = fence_for(last.answer)
        shown = f" It was, or began:\n{fence}text\n{last.answer}\n{fence}"
    wrong = f"Your last answer could not be used ({last.outcome}): {one_line(last.detail)}.{shown}"
    return f"{wrong}\n\nCarry out the experiment on the program above, in an answer of the form asked for."


def fence_for(text: str) -> str:
    """Backticks: at least three, and more than any run of them in `text`."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def one_line(text: str) -> str:
    """The text with each run of white space replaced by one space."""
    return " ".join(text.split())
