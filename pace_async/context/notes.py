"""The page of notes: what a model is told that writes it, and the page in its answer. Pure.

    Worked:                    (marks of Markdown before and around a heading do not matter)
    lines
    Failed:
    lines
    Open:
    lines, to the end of the answer

All from the last line on that is the first heading counts. What stands before is thinking.
"""

import re

from pace_async.context.figures import digits_for
from pace_async.context.questions import Prompts, Rendered, rendered
from pace_async.context.sections import Levels
from pace_async.context.texts import ideas_levels, notes_levels, results_levels, task_text
from pace_async.context.value import Context, context_of
from pace_async.errors import CandidateFault, PaceBug
from pace_async.outside import sound
from pace_async.state.run_state import RunState

HEADINGS = ("Worked", "Failed", "Open")
LONGEST = 1500
"""Characters of a page. The end of what is longer is left out, part by part."""
_HEADING = re.compile(r"(?:#+ *)?(?:\*\*|__)?(Worked|Failed|Open) ?(?:\*\*|__)?(?::(?:\*\*|__)? *(.*))?", re.IGNORECASE)


def notes_question(prompts: Prompts, state: RunState) -> Rendered:
    """What the model is asked that writes the next page. Raises PaceBug before the seed program has a score."""
    seed = state.seed_program
    if seed is None or not state.islands:
        raise PaceBug("notes are due before the search began")
    island = state.islands[min(state.islands)]
    return asked_for_notes(prompts, context_of(state, prompts.task.spec, island, seed, prompts.untried))


def asked_for_notes(prompts: Prompts, context: Context) -> Rendered:
    """The question in this context. Of the context it takes the results, the untried ideas and the last page."""
    levels: dict[str, Levels] = {
        "task": lambda level: task_text(prompts.task.spec) if level == 0 else None,
        "results": results_levels(context, digits_for(context.scores)),
        "ideas": ideas_levels(context),
        "notes": notes_levels(context.notes),
    }
    return rendered(prompts.templates, ("notes_system", "notes"), levels, prompts.budget, {"longest": LONGEST})


def page_in(answer: str) -> str:
    """The page in an answer, sound and of at most LONGEST characters. Raises CandidateFault("unparsed") if one of the
    parts is missing or all are empty."""
    lines = [_clean(line) for line in answer.splitlines()]
    named = [_HEADING.fullmatch(line.strip()) for line in lines]
    starts = [at for at, found in enumerate(named) if found is not None and found[1].capitalize() == HEADINGS[0]]
    parts: list[list[str]] = []
    for line, found in zip(lines[starts[-1] :], named[starts[-1] :], strict=True) if starts else ():
        if found is not None and found[1].capitalize() in HEADINGS[len(parts) : len(parts) + 1]:
            parts.append([found[2] or ""])
        else:
            parts[-1].append(line)
    if len(parts) < len(HEADINGS):
        raise CandidateFault("unparsed", f"the notes have no part {HEADINGS[len(parts)]!r}")
    texts = ["\n".join(line.rstrip() for line in part if line.strip()) for part in parts]
    if not any(texts):
        raise CandidateFault("unparsed", "the notes are empty")
    room = LONGEST - sum(len(heading) + len(":\n\n") for heading in HEADINGS)
    bounded = zip(HEADINGS, _bounded(texts, room), strict=True)
    return "\n".join(f"{heading}:\n{text or 'nothing'}" for heading, text in bounded)


def _clean(line: str) -> str:
    """The line with each character that cannot be printed replaced by a space."""
    return "".join(character if character.isprintable() else " " for character in sound(line))


def _bounded(texts: list[str], longest: int) -> list[str]:
    """The texts with at most `longest` characters together: the longer ones lose their ends, and none that is short
    loses anything for a long one."""
    left, cap = longest, longest
    for place, size in enumerate(sorted(map(len, texts))):
        cap = left // (len(texts) - place)
        if size > cap:
            break
        left -= size
    return [text if len(text) <= cap else f"{text[: cap - 3].rstrip()}..." for text in texts]
