"""The question put to an implementer, as chat messages.

Order: who it is and the answer's format (the same for a whole run, so that a provider may cache it), the task, the
parent program, what is to be tried. The program and the advisor's words are data: the program stands between fences
longer than any in it, the advisor's words on one line each. The wording is our own. Pure.
"""

import re
from collections.abc import Mapping

from pace_async.implement.base import Experiment
from pace_async.implement.edits import DIVIDER, REPLACE, SEARCH
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
    """System and user message."""
    spec = task.spec
    goal = "Higher is better." if spec.direction == "maximize" else "Lower is better."
    fence = fence_for(parent.program)
    ending = "" if parent.program.endswith("\n") else "\n"
    user = (
        f"Task: {spec.background.strip()}\n\n"
        f"Requirements: {spec.coding_requirements.strip()} The function `{spec.entry}` is called once for each "
        f"instance; it has {spec.timeout_s:g} s and {spec.memory_mb} MiB in all. {goal}\n\n"
        f"The program, whose score is {parent.score:.10g}:\n{fence}python\n{parent.program}{ending}{fence}\n\n"
        f"Idea: {one_line(experiment.idea)}\n"
        f"Experiment: {one_line(experiment.description)}\n\n"
        "Carry out the experiment."
    )
    return ({"role": "system", "content": _SYSTEM}, {"role": "user", "content": user})


def fence_for(text: str) -> str:
    """Back-quotes, at least three and more than any run of them in `text`."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def one_line(text: str) -> str:
    """The text with every run of white space made one space."""
    return " ".join(text.split())
