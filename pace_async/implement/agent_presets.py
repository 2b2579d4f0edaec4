"""Coding agents that are known by name: how each is started, what it prints about its cost, and where its login is.

Flags and output are as these versions are documented; they were not run from here. `NAME:MODEL` names the agent's model
as the agent does. What stands in `implementer.command` follows the agent's own words, as further flags. Of a command of
the user's, the last line of its standard output that is a JSON object names the cost, as `cost_usd` or
`total_cost_usd`. Pure, but for the look for a login.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pace_async.config import ImplementerConfig

MILLION = 1_000_000
NAMES = ("cost_usd", "total_cost_usd")
MOST_USD = 10_000.0
"""A call does not cost more. A larger number is a mistake."""
LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """`usd` is the cost, None if no valid one was reported. `mistake` says what is wrong with an invalid one."""

    usd: float | None = None
    mistake: str = ""


NOT_REPORTED = ReportedCost()


def reported_cost(output: str) -> ReportedCost:
    """The cost in the last JSON line of `output`."""
    lines = list(json_lines(output))
    last = lines[-1] if lines else {}
    name = next((name for name in NAMES if name in last), None)
    return NOT_REPORTED if name is None else _cost(name, last[name])


def json_lines(output: str) -> Iterator[dict[str, Any]]:
    """The lines that are a JSON object, in order."""
    for line in output.splitlines():
        if (event := _object(line)) is not None:
            yield event


def _object(line: str) -> dict[str, Any] | None:
    line = line.strip()
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _cost(name: str, value: object) -> ReportedCost:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_USD:
        return ReportedCost(float(value))
    printable = (
        value if isinstance(value, float) and not math.isfinite(value) else json.dumps(value, ensure_ascii=False)
    )
    text = str(printable)
    text = text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
    return ReportedCost(None, f"{name} is {text}, and not a number of USD from 0 to {MOST_USD:g}")


@dataclass(frozen=True, slots=True)
class AgentPreset:
    """`command` reads the message from its standard input and may edit the files of its folder. `budget` is the flag
    for the most USD of a call, if there is one. `cost` reads the output. `why` is what the output says of a failure.
    `login` are variables and files, any of which lets the agent in, and `log_in` the command that makes the file."""

    command: tuple[str, ...]
    documented: str
    cost: Callable[[str, ImplementerConfig], ReportedCost]
    why: Callable[[str], str]
    login: tuple[str, ...]
    log_in: str
    model: str = "--model"
    budget: str = ""
    last: tuple[str, ...] = ()

    def words(self, model: str, config: ImplementerConfig) -> tuple[str, ...]:
        """The whole command."""
        chosen = (self.model, model) if model else ()
        price = config.price_per_call
        limit = (self.budget, f"{price:g}") if self.budget and price else ()
        return (*self.command, *chosen, *limit, *config.command, *self.last)


def command_of(name: str, config: ImplementerConfig) -> tuple[str, ...]:
    """The command of an implementer that runs one: the user's, or that of a known agent."""
    agent, _, model = name.partition(":")
    preset = PRESETS.get(agent)
    return config.command if preset is None else preset.words(model, config)


def cost_of(name: str, output: str, config: ImplementerConfig) -> ReportedCost:
    """What the output of a call says about its cost."""
    preset = PRESETS.get(name.partition(":")[0])
    return reported_cost(output) if preset is None else preset.cost(output, config)


def failure_of(name: str, output: str) -> str:
    """What the output says about a failure, in the agent's words. Empty if nothing is known of its form."""
    preset = PRESETS.get(name.partition(":")[0])
    return "" if preset is None else preset.why(output).strip()


@dataclass(frozen=True, slots=True)
class NoLogin:
    """No login of an agent was found."""

    found: str
    remedy: str


def login_missing(name: str, environment: Mapping[str, str] = os.environ) -> NoLogin | None:
    """What is missing where no login of a known agent is found. No key chain is looked into, so it may be there all the
    same."""
    preset = PRESETS.get(name.partition(":")[0])
    if preset is None or any(
        Path(place).expanduser().exists() if "/" in place else environment.get(place) for place in preset.login
    ):
        return None
    return NoLogin(f"no login was found in {', '.join(preset.login)}", preset.log_in)


def _of_codex(output: str, config: ImplementerConfig) -> ReportedCost:
    """Codex counts tokens, and no USD: they cost what the settings say. What came from its cache counts in full, so the
    sum is the most that it can be."""
    counts = [_mapping(event.get("usage")) for event in json_lines(output) if event.get("type") == "turn.completed"]
    price_in, price_out = config.price_per_million_in, config.price_per_million_out
    if not counts or price_in is None or price_out is None:
        return NOT_REPORTED
    input_tokens = sum(_number(count.get("input_tokens")) for count in counts)
    output_tokens = sum(_number(count.get("output_tokens")) for count in counts)
    return ReportedCost((input_tokens * price_in + output_tokens * price_out) / MILLION)


def _of_opencode(output: str, config: ImplementerConfig) -> ReportedCost:
    """OpenCode prints the USD of each step."""
    steps = [_mapping(event.get("part")) for event in json_lines(output) if event.get("type") == "step_finish"]
    costs = [step["cost"] for step in steps if "cost" in step]
    return ReportedCost(sum(map(_number, costs))) if costs else NOT_REPORTED


def _claude_failed(output: str) -> str:
    lines = list(json_lines(output))
    last = lines[-1] if lines else {}
    return str(last.get("result") or last.get("subtype") or "")


def _codex_failed(output: str) -> str:
    errors = [event for event in json_lines(output) if event.get("type") in ("turn.failed", "error")]
    last: dict[str, Any] = errors[-1] if errors else {}
    return str(last.get("message") or _mapping(last.get("error")).get("message") or "")


def _opencode_failed(output: str) -> str:
    errors = [_mapping(event.get("error")) for event in json_lines(output) if event.get("type") == "error"]
    last: dict[str, Any] = errors[-1] if errors else {}
    return str(_mapping(last.get("data")).get("message") or last.get("name") or "")


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else 0.0


PRESETS: Mapping[str, AgentPreset] = {
    "claude": AgentPreset(
        ("claude", "-p", "--output-format", "json", "--permission-mode", "acceptEdits", "--max-turns", "50"),
        "Claude Code 2.1",
        lambda output, _: reported_cost(output),
        _claude_failed,
        ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "~/.claude/.credentials.json"),
        "claude /login",
        budget="--max-budget-usd",
    ),
    "codex": AgentPreset(
        ("codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "workspace-write"),
        "Codex CLI 0.107",
        _of_codex,
        _codex_failed,
        ("CODEX_API_KEY", "OPENAI_API_KEY", "~/.codex/auth.json"),
        "codex login",
        last=("-",),
    ),
    "opencode": AgentPreset(
        ("opencode", "run", "--format", "json"),
        "OpenCode 1.18",
        _of_opencode,
        _opencode_failed,
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "~/.local/share/opencode/auth.json"),
        "opencode auth login",
    ),
}
