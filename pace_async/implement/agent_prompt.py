"""What an agent is told: the files of its folder, and the message that `{prompt}` stands for. Pure.

The wording is our own. The advisor's texts are data: each is on one line, and cut where it is very long. A repeated try
gets the same message with the failure of the last one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pace_async.context.files import may_change_text
from pace_async.context.practice import practice_text
from pace_async.context.texts import fenced, resources
from pace_async.events import ImplementerTry
from pace_async.implement.agent_tree import TEXTS
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import Messages, failure_of, one_line, said_of
from pace_async.implement.repair import program_to_change
from pace_async.programs.fileset import Program
from pace_async.programs.text import is_marked, join_files, marks, parted
from pace_async.search.state import Member
from pace_async.task import Task, TaskSpec

PROMPT, TASK, EXPERIMENT, FEEDBACK, VALUES = "PROMPT.md", "TASK.md", "EXPERIMENT.md", "FEEDBACK.md", "experiment.json"
BRIEFING = "BRIEFING.md"
"""Where the run has a context: why, the programs that the experiment names, and what failed before."""
LONGEST = 16_000
"""Characters of one of the advisor's texts. A command line has a limit."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Why the last try failed: the kind, and a text for the agent."""

    outcome: str
    text: str


def program_files(spec: TaskSpec, program: str) -> dict[str, str]:
    """The program's files by name, the first one first."""
    if not spec.files:
        return {file_of(spec): program}
    return {name: text.partition("\n")[2] for name, text in parted(program)}


def program_of_files(spec: TaskSpec, files: Mapping[str, str]) -> str:
    """The opposite of `program_files`."""
    return join_files(files) if spec.files else files[file_of(spec)]


def file_of(spec: TaskSpec) -> str:
    """The name of the program's first file in the folder."""
    return spec.program.rpartition("/")[2]


def files_for(task: Task, parent: Member, experiment: Experiment) -> dict[str, str]:
    """Every file that the folder of a try begins with: the program of the last try, or the parent, and the texts. Of a
    program of several files only the texts, which have a folder of their own."""
    spec, tries = task.spec, experiment.tries
    feedback = feedback_of(tries, parent.program, spec)
    program = program_to_change(parent.program, tries)
    values: dict[str, object] = {
        "lease": experiment.lease,
        "try": len(tries) + 1,
        "task": spec.name,
        "language": spec.language,
        "program": "." if spec.has_folder else file_of(spec),
        "files": list(Program.of(program).files) if spec.has_folder else list(spec.files),
        **({"change": list(spec.change)} if spec.has_folder else {}),
        "idea": experiment.idea,
        "experiment": experiment.description,
        "direction": spec.direction,
        "parent_score": parent.score,
        "feedback": asdict(feedback) if feedback is not None else None,
    }
    return {
        PROMPT: prompt_for(task, parent, experiment),
        TASK: task_text(spec),
        EXPERIMENT: f"# Idea\n\n{_line(experiment.idea)}\n\n# Experiment\n\n{_described(experiment)}\n",
        **({BRIEFING: experiment.briefing.page(parent)} if experiment.briefing is not None else {}),
        VALUES: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
        **({FEEDBACK: f"{feedback.text}\n"} if feedback is not None else {}),
        **({} if spec.has_folder else program_files(spec, program)),
    }


def task_text(spec: TaskSpec) -> str:
    goal, longest = spec.fitness.told, spec.longest_program
    most = f" The whole program may have at most {longest} characters." if longest is not None else ""
    return (
        f"# Task\n\n{spec.background.strip()}\n\n# Requirements\n\n{spec.coding_requirements.strip()}\n\n"
        f"{spec.of_kind.contract(spec)}; it has {resources(spec)} in all. {goal}{most}\n"
    )


def _described(experiment: Experiment) -> str:
    """The experiment on one line, or with its lines where it is a specification."""
    if experiment.briefing is None:
        return _line(experiment.description)
    return fenced(experiment.description[:LONGEST], "text")


def prompt_for(task: Task, parent: Member, experiment: Experiment) -> str:
    """The message to the agent."""
    spec = task.spec
    names = ", ".join((file_of(spec), *spec.files))
    saved = "Save the result in the same file. Only the program is taken"
    if spec.has_folder:
        names, saved = "its files are committed in Git", "Only files of the program are taken"
    place = f"{TEXTS}/" if spec.has_folder else ""
    feedback = feedback_of(experiment.tries, parent.program, spec)
    again = f"\n\nYour last try failed. {feedback.text}" if feedback is not None else ""
    untouched = program_to_change(parent.program, experiment.tries) == parent.program
    remarks = f"\n\n{said_of(parent.feedback)}" if untouched and parent.feedback else ""
    practice = practice_text(parent.practice) if untouched else ""
    remarks += f"\n\n{practice}" if practice else ""
    more = (
        f" {place}{EXPERIMENT} has the experiment line by line. {place}{BRIEFING} says why, and holds the programs "
        "that it names."
    )
    more = more if experiment.briefing is not None else ""
    return (
        f"Change the {spec.written_in.title} program in this folder ({names}) so that it carries out one experiment, "
        f"as it is described and nothing else. {_bounds(spec, parent.program)} {saved} "
        f"from this folder. {place}{TASK} says what the program is for and what it must respect.{more}\n\n"
        f"Idea: {_line(experiment.idea)}\n"
        f"Experiment: {_line(experiment.description)}{remarks}{again}\n"
    )


def _bounds(spec: TaskSpec, program: str) -> str:
    """What may change."""
    start, end = marks(spec.written_in.comment)
    block = f"the lines between `{start}` and `{end}`"
    if spec.has_folder:
        return may_change_text(spec, program)
    if is_marked(program):
        return f"Change only {block}. Keep these two lines, and every character outside them."
    return "The whole program may change."


def messages_for(task: Task, parent: Member, experiment: Experiment) -> Messages:
    """The message to the agent, as `pace show --prompts` prints it."""
    return ({"role": "user", "content": prompt_for(task, parent, experiment)},)


def feedback_of(tries: Sequence[ImplementerTry], parent: str, spec: TaskSpec) -> Feedback | None:
    """Why the last try failed. None before the first try."""
    if not tries:
        return None
    last = tries[-1]
    if last.evaluation is not None:
        program = program_to_change(parent, tries)
        wrong = f"The program was tried out. {failure_of(last, last.evaluation, program, spec)}"
        return Feedback(last.evaluation, f"{wrong}\n\nMend the error, so that the program carries out the experiment.")
    if last.program is not None:
        counted = "" if spec.has_folder else ", counted from its first line"
        wrong = f"The program does not compile: {one_line(last.detail)}{counted}."
        return Feedback(last.outcome, f"{wrong}\n\nMend the error, so that the program carries out the experiment.")
    wrong = f"What you left could not be used ({last.outcome}): {one_line(last.detail)}."
    return Feedback(last.outcome, f"{wrong}\n\nThe program stands as it was before. Carry out the experiment on it.")


def _line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
