"""A text that is another one each time it is read: one pipeline to be counted, another to be decoded."""


class Word(str):
    """Splits into other words at each call."""

    calls = 0

    def split(self, *_):  # pyright: ignore[reportIncompatibleMethodOverride]
        """First what is short, then what is right."""
        Word.calls += 1
        return ["mode", "none", "escape", "store"] if Word.calls % 2 else ["none", "none", "wide", "store"]


def pipelines(instance):
    """It is a plain text once it has left the program."""
    return {name: Word("none none wide store") for name in instance["columns"]}
