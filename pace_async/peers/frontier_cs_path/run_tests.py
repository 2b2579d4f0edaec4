# Starts a program once for each test: SECONDS COMMAND… A test is a line {"input": text}. Its answer is a line
# {"output": text, "why": text}, and `why` says what stopped the program, if anything did. SECONDS are processor time,
# so that other work on the machine costs a program nothing. One that waits is stopped later.
import json
import math
import resource
import subprocess
import sys

limit, command = float(sys.argv[1]), sys.argv[2:]


def used() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def bound() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit) + 1, math.ceil(limit) + 1))


for line in sys.stdin:
    before, output, why = used(), b"", ""
    try:
        done = subprocess.run(
            command,
            input=json.loads(line)["input"].encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=5 * limit + 5,
            preexec_fn=bound,
            check=False,
        )
        output = done.stdout
        why = f"exit code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = "time limit"
    if used() - before > limit:
        why = "time limit"
    print(json.dumps({"output": output.decode("utf-8", "replace"), "why": why}), flush=True)
