"""`python -m tests.doubles.bounded_data BYTES …`: a learner's process to which the kernel gives so many bytes beyond
those that it has once its libraries are loaded."""

import re
import resource
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    from pace_async.learn.process import main

    for name in ("trl", "pace_async.learn.trainer"):
        import_module(name)

    given = re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert given is not None
    bound = int(given[1]) * 1024 + int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    main()
