"""Numbers, durations and events as short text, the same on every display and in the closing summary.

Pure. Text from a model, a program or a library is made safe to show. Invariant: `clean` returns one line of visible
characters without combining marks. It cannot move the cursor, colour, reverse or overprint anything, or break an
alignment. Put it into rich's `Text`, which reads no markup. Not for storage: the population keeps the original text.
"""

import math
import re
import unicodedata
from collections.abc import Mapping

from rich.cells import cell_len, set_cell_size

from pace_async.events import (
    Evaluated,
    FaultSeen,
    GroupEnded,
    GroupShipped,
    IdeaGiven,
    LeaseAborted,
    MeasuredAgain,
    NodesSeen,
    ProgramGiven,
    RunStateChanged,
    Stalled,
    Steered,
)
from pace_async.observe.roofline import Roofline
from pace_async.registry.advisors import advisor_of
from pace_async.registry.objectives import objective_of
from pace_async.registry.staleness_policies import policy_of
from pace_async.state.stop_rules import STOP_RULES

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]?"  # the rest
)
_LONGEST = 4000


def clean(text: str, limit: int | None = None) -> str:
    """One printable line: escape sequences, control, format (bidi), surrogate, private-use, unassigned and combining
    characters are removed, runs of white space become one space. Cut to `limit` terminal cells if given."""
    line = " ".join(text[:_LONGEST].split())
    if not (line.isascii() and line.isprintable()):  # most is, and characters are slow one by one
        visible = unicodedata.normalize("NFC", _ANSI.sub("", text[:_LONGEST]))
        characters = "".join(" " if character.isspace() else character for character in visible if _shows(character))
        line = " ".join(characters.split())
    return line if limit is None else cut_to_cells(line, limit)


def cut_to_cells(line: str, cells: int) -> str:
    """`line` in at most `cells` terminal cells, with … in place of the cut end."""
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, cells - 1).rstrip() + "…" if cells > 0 else ""


def _shows(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] not in "CM"


OUTCOMES: Mapping[str, str] = {
    "ok": "scored",
    "candidate_error": "raised an error",
    "timeout": "ran out of time",
    "out_of_memory": "ran out of memory",
    "output_overflow": "printed too much",
    "invalid_score": "gave no valid score",
    "suspicious": "was suspicious",
    "infrastructure_error": "met a machine error",
    "unparsed": "could not be parsed",
    "not_implemented": "could not be implemented",
    "unchanged": "changed nothing",
    "below_threshold": "was stopped by a cheap stage",
    "pruned": "was stopped early",
    "banned": "was banned by a person",
}
COLLAPSED = " branch collapsed"
"""End of the reason of a group in which a branch of the advantage did not vary. Its name stands before it."""
SHARED_TRUST = "shared trust"
SHARED_MEANS = "the evaluator runs in the sandbox of its programs, so a program can write its own score"
STATES: Mapping[str, str] = {
    "starting": "starting",
    "running": "running",
    "draining": "draining: finishing what is in flight",
    "done": "done",
    "stopped_by_budget": "stopped by its budget",
    "interrupted": "interrupted",
    "gave_up": "gave up",
    "crashed": "crashed",
}


def score(value: float) -> str:
    """A score with four decimals, or with six significant digits if it is very small or very large."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 100_000 else f"{value:.6g}"


def number(value: float | None, digits: int = 3) -> str:
    """A measure with `digits` significant digits, a dash if there is none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return text if "e" in text and not 1e-3 <= abs(value) < 1e6 else f"{value:.{decimals}f}"


def duration(seconds: float) -> str:
    """m:ss, or h:mm:ss from one hour on."""
    whole = max(0, int(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def count(amount: int, one: str, many: str | None = None) -> str:
    """`1 group`, `2 groups`."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def usd(amount: float) -> str:
    """Money in dollars, with four decimals below one cent."""
    if 0 < amount < 0.0001:
        return "<$0.0001"
    return f"${amount:,.2f}" if amount == 0 or amount >= 0.01 else f"${amount:.4f}"


def candidate_done(event: Evaluated, improved: bool, experiment: str, chosen_by: float | None = None) -> str:
    """One candidate's outcome, and its experiment as the advisor wrote it. `chosen_by` is the score of the second
    evaluation where the best is chosen by that."""
    again = f" ({score(chosen_by)} when evaluated again)" if chosen_by is not None else ""
    verdict = OUTCOMES[event.outcome] if event.score is None else f"scored {score(event.score)}"
    best = f", the best so far{again}" if improved else ""
    description = clean(experiment)
    return f"candidate {event.lease} (island {event.island}) {verdict}{best}" + (
        f": {description}" if description else ""
    )


def seed_program(event: Evaluated) -> str:
    """The outcome of the task's own program."""
    return (
        f"seed program {OUTCOMES[event.outcome]}"
        if event.score is None
        else f"seed program scored {score(event.score)}"
    )


def savings(share: float | None) -> str:
    """The share of the seconds of evaluations that early ends saved, empty if none ended early."""
    return "" if share is None else f"about {100 * share:.0f} % of evaluation time"


def bound_in_words(policy: str, most: int) -> str:
    """What the staleness bound limits: under `soft` not the age itself."""
    return f"{'at most' if policy_of(policy).bounds_maximum else 'mean at most'} {most}"


def group_ended(ended: GroupEnded, shipped: GroupShipped | None, objective: str) -> str:
    """One group's outcome. Alpha appears only where the objective has one."""
    if ended.closing != "trained":
        cause = clean(ended.reason) or "no reason given"
        if cause.endswith(COLLAPSED):
            same = f"{cause.removesuffix(COLLAPSED)} values do not vary{_all_alike(shipped)}"
            cause = f"nothing tells its rollouts apart, so there is nothing to learn ({same})"
        return f"group {ended.number} {ended.closing}: {cause}"
    words = f"group {ended.number} trained version {ended.version}"
    if (scale := ended.metrics.get("step_scale", 1.0)) < 1.0:
        words += f" by a step shortened to 1/{1 / scale:.0f}"
    if ended.metrics.get("limits_off"):
        words += " without the limits on its movement that cannot be told from rounding"
    if shipped is not None and shipped.number == ended.number:
        mean = sum(shipped.rewards) / len(shipped.rewards)
        alpha = f", alpha {shipped.alpha:.2f}" if objective_of(objective).uses_alpha else ""
        words += f": mean reward {mean:.2f}{alpha}, staleness {staleness(shipped.staleness)}"
    return words


def went_back(times: int) -> str:
    """How often the advisor was replaced by an earlier version of itself."""
    return f"went back to a good version {'once' if times == 1 else f'{times} times'}"


def _all_alike(shipped: GroupShipped | None) -> str:
    """The clause for a group without a signal whose rewards are all 0, empty otherwise."""
    if shipped is None or any(shipped.rewards):
        return ""
    return "; every reward is 0: no program got beyond the bound at which progress begins"


def staleness(values: tuple[int, ...]) -> str:
    """`0 to 2 (mean 0.9)`, in updates."""
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high} (mean {sum(values) / len(values):.1f})"


def ledger(busy: float | None, limits: Roofline | None) -> str:
    """How busy the threads are, and the run's bottleneck, empty before anything was timed."""
    if busy is None or limits is None:
        return ""
    return f"threads {100 * busy:.0f} % busy" + ("" if limits.idle else f", slowed by: {limits.binding}")


def fault(event: FaultSeen) -> str:
    """A failure of a service or the machine."""
    lease = "" if event.lease is None else f" (candidate {event.lease})"
    detail = clean(event.detail)
    return f"fault in {clean(event.where)}{lease}: {clean(event.kind)}" + (f": {detail}" if detail else "")


def aborted(event: LeaseAborted) -> str:
    """A rollout that ended by an infrastructure fault."""
    detail = clean(event.detail)
    return f"candidate {event.lease} (island {event.island}) aborted: {clean(event.kind)}" + (
        f": {detail}" if detail else ""
    )


def failing(stages: Mapping[str, str]) -> str:
    """The stages that fail at every try, empty if there are none."""
    return " and ".join(f"{clean(stage)} fails at every try" for stage in stages)


def stalled(event: Stalled) -> str:
    """The pause while a write fails."""
    return f"paused: {clean(event.reason)}; the run goes on by itself when it can write again"


def nodes(event: NodesSeen) -> str:
    """The machines of a cluster that evaluate, and their slots."""
    return f"{count(event.nodes, 'node')}, {event.busy} of {count(event.slots, 'slot')} busy"


def idea_given(event: IdeaGiven) -> str:
    """A person's idea that the run has taken in."""
    return f"a person's idea {event.number}: {clean(event.text, 240)}"


def program_given(event: ProgramGiven) -> str:
    """A given program that the run has taken in."""
    return f"candidate {event.lease} is a program that was given to the run" + (
        f": {clean(event.about, 240)}" if event.about else ""
    )


def measured(event: MeasuredAgain) -> str:
    """A parent that was measured again."""
    score = event.score
    outcome = (
        f"fails now: {clean(event.outcome)}" if score is None else f"{score:.10g} of {len(event.scores)} evaluations"
    )
    return f"candidate {event.candidate}, measured again as a parent: {outcome}"


def steered(event: Steered) -> str:
    """A person's word that the run has taken in."""
    if event.subject == "note":
        return f"a person's page: {clean(event.text, 240)}" if event.text else "a person's page is taken away"
    phrases = {"pin": "is pinned", "veto": "is ruled out", "ban": "is banned"}
    return f"by a person's word {event.subject} {event.number} {phrases.get(event.text, 'is as any other again')}"


def state(event: RunStateChanged) -> str:
    """The run's state and its reason."""
    cause = reason(event.state, event.reason)
    return STATES.get(event.state, clean(event.state)) + (f": {cause}" if cause else "")


def reason(state: str, cause: str) -> str:
    """The reason of the run's state, empty if the state needs none."""
    if (state, cause) == ("stopped_by_budget", "budget"):
        return ""
    if cause in STOP_RULES:
        because = STOP_RULES[cause].because
        return f"stop rule {cause} met" + (f", because {because}" if because else "")
    return "" if cause == state else clean(cause)


def learns_nothing(advisor: str) -> str:
    """What a run learns that trains nothing, and why."""
    return f"none: {why_untrained(advisor)}"


def why_untrained(advisor: str) -> str:
    """Why a run trains nothing."""
    cause = advisor_of(advisor).why_untrained
    return f"an advisor that {cause} learns nothing" if cause else "the advisor stays as it was given"
