"""pace note: a page of one's own that a run's advisor reads."""

from pathlib import Path

import typer

from pace_async.cli.output import JSON_OPTION, NAMED_RUN, print_json, tell

SHOW = "show"


def note(
    run: str = NAMED_RUN,
    text: str | None = typer.Argument(None, help="What the models are told; `show` prints it.", metavar="[TEXT]"),
    file: Path | None = typer.Option(None, "--file", help="Take the page from a file.", metavar="FILE"),
    clear: bool = typer.Option(False, "--clear", help="Take the page away."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write a page for the advisor of a run, which may be going on in another terminal: what you know or want of the
    search. Each of its questions has it from the next candidate on, as data, in place of an earlier page. Without a
    text the page is printed.

    Example: pace note eplb-1 "Ties are broken by index today. Better balance matters more than speed."
    """
    from pace_async.errors import UsageError
    from pace_async.interface.steering import note_of, write_note
    from pace_async.programs.reading import text_of

    if (text is not None) + (file is not None) + clear > 1:
        raise UsageError("Give a text, --file or --clear, and only one of them.")
    if not clear and file is None and text in (None, SHOW):
        document = note_of(run)
        if as_json:
            print_json(document)
        elif document["text"]:
            group = document["from_group"]
            validity = "not taken in yet" if document["after"] is None else f"from candidate {document['after'] + 1} on"
            tell(validity if group is None else f"{validity}, and the end of group {group}")
            tell(document["text"])
        else:
            tell("nobody has written a page for this run: `pace note RUN TEXT`")
        return
    page = "" if clear else text_of(file) if file is not None else text or ""
    if not clear and not page:
        raise UsageError("A note must say something: --clear takes it away.")
    goes_on = write_note(run, page)
    if as_json:
        print_json(note_of(run))
    else:
        when = "from the next candidate on" if goes_on else "when the run, which has ended, is resumed"
        tell(f"the models are {'not shown it any more' if clear else 'shown it'} {when}")
