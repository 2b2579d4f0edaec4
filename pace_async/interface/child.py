"""The process of a run that Python started: reads what was asked on standard input, and drives it to its end.

What it refuses stands on standard error, and its exit code is that of the command line.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    """Drive the run, and exit."""
    from pace_async.durable import refusal_of
    from pace_async.errors import Interrupted, PaceError
    from pace_async.gc_freeze import rare_collections

    try:
        with rare_collections():  # imports make many objects, and nearly all of them stay
            sys.exit(_driven())
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)
    except PaceError as error:
        refused = error
    except OSError as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        refused = refusal
    from pace_async.outside import indented

    notes = [indented(note) for note in getattr(refused, "__notes__", ())]
    sys.stderr.write("\n".join((indented(str(refused), 0), *notes, "")))
    sys.exit(refused.exit_code)


def _driven() -> int:
    from pace_async.interface.beginning import Asked, begin, go_on, read

    request = read(sys.stdin.read())
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())  # what the run starts reads nothing
    return (begin(request) if isinstance(request, Asked) else go_on(request)).code


if __name__ == "__main__":
    main()
