"""Programs that must not get a score in any task: `pace task check` tries each, and a run would refuse each.

Programs that cheat the evaluator of one task stand in that task's folder `cheats`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

from pace_async.events import Outcome


@dataclass(frozen=True, slots=True)
class Cheat:
    """A program that must not get a score. `body` is the body of the entry function, with `instance`. `outcomes` are
    the allowed outcomes, any except ok if there are none. In `remedy`, {evaluator} stands for the task's."""

    name: str
    body: str
    remedy: str
    outcomes: tuple[Outcome, ...] = ()

    def program(self, entry: str) -> str:
        """Its text, for a task whose function is called `entry`."""
        return f"def {entry}(instance):\n{indent(self.body.strip(), '    ')}\n"


STRICT = "let score() in {evaluator} raise ValueError for it"
_DOCTOR = "check that the sandbox works: pace doctor"
_FORGED = """
import os, sys
driver = sys._getframe(1).f_locals  # which has called this function
os.write(driver["result"], f"pace {driver['nonce']} result 3\\n1e9".encode())
return 1e9
"""
_FROZEN = """
import time
for name in ("time", "monotonic", "perf_counter", "process_time"):
    setattr(time, name, lambda: 0.0)
while time.monotonic() < 1.0:
    time.sleep(0.01)
"""
CHEATS: Sequence[Cheat] = (
    Cheat("NaN gets no score", "return float('nan')", STRICT),
    Cheat("infinity gets no score", "return float('inf')", STRICT),
    Cheat("None gets no score", "return None", STRICT),
    Cheat("an empty list gets no score", "return []", STRICT),
    Cheat("a word gets no score", "return 'best'", STRICT),
    Cheat("True gets no score", "return True", STRICT),
    Cheat("a forged result gets no score", _FORGED, _DOCTOR, ("suspicious",)),
    Cheat("an error is the candidate's", "raise RuntimeError('on purpose')", _DOCTOR, ("candidate_error",)),
)
ENDLESS: Sequence[Cheat] = (
    Cheat("a hanging program is stopped", "while True: pass", _DOCTOR, ("timeout",)),
    Cheat("a program that stops its clock is stopped", _FROZEN, _DOCTOR, ("timeout",)),
)
"""Those that end at the time limit and not before."""
