"""Stands in for a coding agent that is known by name, under that name on the PATH: takes its flags, does what the
experiment says, and prints what the agent is documented to print. Not one of them was tried.

KNOWN_AGENT_FAILS in the environment makes it end as where nobody has logged in.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

NAME = Path(sys.argv[0]).name
FAILURE = "Not logged in"
VERSIONS = {"claude": "2.1.263 (Claude Code)", "codex": "codex-cli 0.107.0", "opencode": "1.18.29"}

Event = dict[str, Any]
USAGE = {"input_tokens": 20_000, "cached_input_tokens": 15_000, "output_tokens": 1_000}
ENDED: dict[str, list[Event]] = {
    "claude": [
        {
            **{"type": "result", "subtype": "success", "is_error": False, "num_turns": 4, "session_id": "s"},
            **{"result": "Done.", "total_cost_usd": 0.0125, "usage": {"input_tokens": 900, "output_tokens": 300}},
        }
    ],
    "codex": [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": USAGE},
    ],
    "opencode": [
        {"type": "step_start", "part": {"type": "step-start"}},
        {"type": "step_finish", "part": {"type": "step-finish", "reason": "tool-calls", "cost": 0.01}},
        {"type": "step_finish", "part": {"type": "step-finish", "reason": "stop", "cost": 0.0025}},
    ],
}
FAILED: dict[str, list[Event]] = {
    "claude": [{"type": "result", "subtype": "error_during_execution", "is_error": True, "result": FAILURE}],
    "codex": [{"type": "turn.failed", "error": {"message": FAILURE}}],
    "opencode": [{"type": "error", "error": {"name": "ProviderAuthError", "data": {"message": FAILURE}}}],
}


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(VERSIONS[NAME])
        return
    Path("ARGUMENTS.json").write_text(json.dumps(sys.argv[1:]))
    failed = "KNOWN_AGENT_FAILS" in os.environ
    if not failed and "Set layout" in sys.stdin.read():
        program = Path("initial.py")
        program.write_text(program.read_text().replace('layout = "rings"', 'layout = "hex"'))
    for event in (FAILED if failed else ENDED)[NAME]:
        print(json.dumps(event))
    sys.exit(failed)


main()
