"""Texts in place of numbers."""


def rule(instance):
    """They can be compared too."""
    return [["best"] * 101 for _ in range(101)]
