"""Texts in place of numbers, and one that says infinity."""


def heights(instance):
    """They can be converted."""
    return ["1", "2", "inf", "1"]
