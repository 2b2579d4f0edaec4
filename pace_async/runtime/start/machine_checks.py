"""What this machine can do, each with a remedy. Loads nothing heavy: a package is looked for, not imported."""

import sqlite3
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from pace_async.advise.engines.vllm_found import Missing, find_vllm
from pace_async.config import AdvisorConfig, EvaluationConfig, ImplementerConfig
from pace_async.durable import temporary_folder
from pace_async.errors import UsageError
from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.gpus import find_cards, in_words
from pace_async.implement.agent_presets import command_of, login_missing
from pace_async.implement.shares import models_of, parse_shares
from pace_async.installing import install_line
from pace_async.plan.driver import too_old
from pace_async.providers.base import ADVISOR
from pace_async.providers.preflight import ModelCheck, check_models
from pace_async.registry.advisors import advisor_of, asked_model
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.implementers import implementer_of
from pace_async.runtime.children.advisor_folder import advisor_folder

AGENT_S = 20.0
"""How long an agent may take to say its version."""
_TEMPORARY = "temporary folder"
SAFE_SQLITE = (3, 51, 3)
"""Earlier ones have a window in which a WAL reset with several writers corrupts; a run has one writer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `ok` None: missing, and only needed for some settings. `remedy` is empty if there is nothing to
    do."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


async def examine(
    implementer: ImplementerConfig | None = None,
    advisor: AdvisorConfig | None = None,
    evaluation: EvaluationConfig | None = None,
) -> list[Finding]:
    """Every check, in the order in which a run needs them. The models of `implementer`, and an advisor over the
    network, are asked a tiny question, and the machines of `evaluation` for their self-check."""
    findings = await advisors(advisor) if advisor is not None else []
    findings += await implementers(implementer) if implementer is not None else []
    findings += await evaluators(evaluation) if evaluation is not None else []
    return [
        _packages("engine embedded", "transformers"),
        _vllm(),
        _packages("learner", "trl"),
        _advisor(),
        _temporary(),
        await _sandbox(),
        _control_groups(),
        _cards(),
        _database(),
        *findings,
    ]


async def implementers(config: ImplementerConfig) -> list[Finding]:
    """The models of one setting, each asked a tiny question."""
    shares = parse_shares(config.model)
    kinds = [implementer_of(share.model) for share in shares]
    findings = [
        _agent(share.model) if kind.known_agent else Finding(f"implementer {kind.name}", True, kind.about)
        for share, kind in zip(shares, kinds, strict=True)
        if not kind.asks_a_model
    ]
    return findings + [_answers(checked) for checked in await check_models(models_of(config.model), config)]


async def advisors(config: AdvisorConfig) -> list[Finding]:
    """An advisor over the network, asked a tiny question, or the folder of one that an engine serves, if it has a
    model at all."""
    kind = advisor_of(config.model)
    if not kind.has_model:
        return [Finding(f"advisor {kind.name}", True, kind.about)]
    if kind.served:
        return [_advisor(config.model)]
    return [
        _answers(checked) for checked in await check_models([asked_model(config.model)], config.of_calls(), ADVISOR)
    ]


async def evaluators(config: EvaluationConfig) -> list[Finding]:
    """The machines on which programs would run, each by its self-check."""
    kind = EVALUATORS[config.evaluators]
    if kind.look is None:
        return [Finding(f"evaluators {kind.name}", True, kind.about)]
    try:
        nodes = await kind.look()(config)
    except UsageError as error:
        return [Finding(f"evaluators {kind.name}", False, str(error))]
    return [Finding(f"node {node.name}", node.fit, node.found, node.remedy) for node in nodes]


def _agent(name: str) -> Finding:
    """A coding agent: its own version, and whether it was logged in. It is asked nothing that costs money."""
    program = command_of(name, ImplementerConfig())[0]
    try:
        process = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=AGENT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            f"implementer {name}", False, f"{program} cannot be started ({type(error).__name__})", "install it"
        )
    version = next(iter((process.stdout or process.stderr).split("\n")), "").strip()
    missing = login_missing(name)
    description = f"{version or program}; {missing.found if missing else 'a login is there'}"
    return Finding(f"implementer {name}", missing is None, description, missing.remedy if missing else "")


def _answers(checked: ModelCheck) -> Finding:
    role, price = checked.caller.role, checked.price
    name, costs = f"{role} {checked.model}", "price not known" if price is None else price.in_words()
    if checked.failure is not None or checked.fact is None:
        return Finding(name, False, checked.reason, checked.remedy)
    priced = price is not None and not checked.is_listed_free
    remedy = "" if priced else f"give {role}.price_per_million_in and _out to use --budget"
    return Finding(name, True, f"answers in {checked.fact.seconds:.1f} s, {costs}", remedy)


def _vllm() -> Finding:
    """The defaults do not need it, so a missing installation is not a failure."""
    build = find_vllm()
    if isinstance(build, Missing):
        return Finding("engine vllm", False if build.broken else None, build.found, build.remedy)
    return Finding("engine vllm", True, f"{build.package} {build.version}, on the {build.device}")


def _packages(name: str, package: str) -> Finding:
    """A search without a trained advisor needs neither, so what is missing is no failure."""
    try:
        return Finding(name, True, f"torch {version('torch')}, {package} {version(package)}")
    except PackageNotFoundError as error:
        return Finding(name, None, f"{error.name} is not installed", install_line("learn"))


def _advisor(model: str = "tiny") -> Finding:
    name, kind = f"advisor {model}", advisor_of(model)
    try:
        folder = advisor_folder(model)
        where = f"{folder.name} in the package" if kind.packaged else str(folder)
        if find_spec("torch") is None:
            return Finding(name, None, f"{where}, and torch is not installed", install_line("learn"))
        return Finding(name, True, where)
    except UsageError as error:
        return Finding(name, False, str(error), "install the package again" if kind.packaged else "")


def _temporary() -> Finding:
    """Evaluations need one. `sandbox` fails without it."""
    try:
        return Finding(_TEMPORARY, True, str(temporary_folder()))
    except UsageError as error:
        return Finding(_TEMPORARY, False, str(error), "set TMPDIR to a folder that can be written")


async def _sandbox() -> Finding:
    try:
        tier = await pick_tier(False)
    except UsageError as error:
        remedy = "apt install bubblewrap" if _temporary().ok else _temporary().remedy
        return Finding("sandbox", False, str(error), remedy)
    remedy = tier.remedy
    return Finding("sandbox", True, tier.name, remedy)


def _control_groups() -> Finding:
    """Runs work without them. Each process then has its own memory limit."""
    hierarchy, name = cgroup.find(), "control groups"
    if hierarchy is None:
        explanation = "none can be made: memory is limited for each process, not for all of a candidate's together"
        remedy = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes pace run"
        return Finding(name, None, explanation, remedy)
    return Finding(
        name, True, f"version {hierarchy.version}: memory is limited for all of a candidate's processes together"
    )


def _cards() -> Finding:
    """Runs work without one. The cards are those that evaluations, the learner and an engine can have."""
    cards = find_cards()
    if not cards:
        return Finding("cards", None, in_words(cards))
    old = too_old()
    if old is None:
        return Finding("cards", True, in_words(cards))
    return Finding("cards", False, f"{in_words(cards)}, but {old.found}", old.remedy)


def _database() -> Finding:
    known = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info >= SAFE_SQLITE:
        return Finding("database", True, known)
    return Finding(
        "database", True, f"{known}: safe with one writer, as runs have", "let no second program write to it"
    )
