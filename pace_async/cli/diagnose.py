"""pace doctor: what this machine can do, each with a remedy."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.options import CONFIG_OPTION, overrides_of
from pace_async.cli.output import JSON_OPTION, print_json, print_table
from pace_async.registry.evaluators import EVALUATORS

if TYPE_CHECKING:
    from pace_async.cli.documents import Finding

_WORDS = {True: "yes", False: "NO", None: "not here"}


def doctor(
    implementer: str | None = typer.Option(
        None, "--implementer", help="Also ask this model, or several, one tiny question each.", metavar="MODEL"
    ),
    advisor: str | None = typer.Option(
        None, "--advisor", help="Also ask this advisor one tiny question.", metavar="api:MODEL"
    ),
    evaluators: str | None = typer.Option(
        None,
        "--evaluators",
        help="Also ask the machines on which programs would run for their self-check.",
        metavar=EVALUATORS.metavar(),
    ),
    files: list[Path] | None = CONFIG_OPTION,
    sets: list[str] | None = typer.Option(
        None, "--set", help="A setting, such as implementer.api_base=URL.", metavar="KEY=VALUE"
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """What this machine can do: engine, learner, sandbox tier, database, implementer. Each problem has a remedy.

    With --config the implementer, the advisor and the evaluators of these settings are asked, too.

    Example: pace doctor --implementer catalog

    Example: pace doctor --config run.yaml
    """
    import anyio

    from pace_async.configure import resolve
    from pace_async.registry.advisors import advisor_of
    from pace_async.runtime.children.advisor_choice import with_advisor
    from pace_async.runtime.start.machine_checks import examine
    from pace_async.task import load_task

    flags: dict[str, object] = {
        "implementer.model": implementer,
        "advisor.model": advisor,
        "evaluation.evaluators": evaluators,
    }
    config = resolve(files, overrides_of(sets, flags))
    if files and advisor_of(config.advisor.model).chosen_for_task:
        config = with_advisor(config, load_task(config.task))
    findings = anyio.run(
        examine,
        config.implementer if files or implementer is not None else None,
        config.advisor if files or advisor is not None else None,
        config.evaluation if files or evaluators is not None else None,
    )
    if as_json:
        document: list[Finding] = [
            {"check": finding.name, "ok": finding.ok, "found": finding.found, "remedy": finding.remedy}
            for finding in findings
        ]
        print_json(document)
    else:
        print_table(
            [
                {
                    "check": finding.name,
                    "ok": _WORDS[finding.ok],
                    "found": finding.found,
                    "remedy": finding.remedy or None,
                }
                for finding in findings
            ]
        )
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(1)
