"""Everything that can go wrong, named.

    PaceError                 something a person can act on: `str()` is one sentence that says what to do
    ├── UsageError            a flag, key, task or file is wrong            (ValueError)    exit 2
    │   └── NotHere               this machine lacks what the run needs                         exit 2
    ├── RunLocked             another live process drives this run         (RuntimeError)  exit 4
    ├── BudgetReached         the next call would cost more than is left     (RuntimeError)  exit 3
    ├── SeedProgramFails      the task's own initial program fails          (RuntimeError)  exit 5
    ├── Interrupted           Ctrl-C before or after the search             (RuntimeError)  exit 130
    ├── GaveUp                an outside service was down beyond patience    (RuntimeError)  exit 6
    └── StageFault            one candidate's stage ended badly
        ├── CandidateFault        a bad idea, bad code, or no change: reward -1, recorded, trained on
        └── InfrastructureFault   the service or machine failed: retried, never scored, never trained on
    PaceBug                   our own mistake: crash loudly                (AssertionError)

The three outcomes CandidateFault, InfrastructureFault and PaceBug must never be confused. The first becomes a reward,
the second never does, and the third ends the run.
"""


class PaceError(Exception):
    """An error that a person can act on."""

    exit_code = 1


class UsageError(PaceError, ValueError):
    """A flag, a configuration key, a task or a file is wrong."""

    exit_code = 2


class NotHere(UsageError):
    """This machine lacks what the run needs: software, a file of the model, data, a card or a key. A run refuses, and
    a dry run names all that is missing."""


class RunLocked(PaceError, RuntimeError):
    """Another live process drives this run."""

    exit_code = 4


class BudgetReached(PaceError, RuntimeError):
    """The next implementer call may cost `usd`, and the budget has only `left_usd`."""

    exit_code = 3

    def __init__(self, usd: float, left_usd: float) -> None:
        super().__init__(f"The next call may cost {usd:.4f} USD and {left_usd:.4f} USD are left.")
        self.usd, self.left_usd = usd, left_usd


class SeedProgramFails(PaceError, RuntimeError):
    """The task's own initial program does not pass its evaluator."""

    exit_code = 5


class Interrupted(PaceError, RuntimeError):
    """Ctrl-C before or after the search. While it goes on, a Ctrl-C drains the run."""

    exit_code = 130


class GaveUp(PaceError, RuntimeError):
    """An outside service stayed down beyond the patience set."""

    exit_code = 6


class StageFault(PaceError):
    """One stage of one candidate ended badly. `kind` is a short snake_case word that goes into the row."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.detail = detail


class CandidateFault(StageFault):
    """The candidate's own fault: reward -1, recorded, trained on."""


class InfrastructureFault(StageFault):
    """The fault of a service or machine: retried, never scored, never trained on. One that ends a command, such as an
    engine that does not start, has the exit code of GaveUp."""

    exit_code = GaveUp.exit_code


class PaceBug(AssertionError):
    """An invariant of pace itself is broken."""
