"""A function, which could look at items and bins while they are packed."""


def rule(instance):
    """Only a table can be handed over."""
    return lambda item, bins: max(range(len(bins)), key=lambda i: (bins[i] >= item, -bins[i]))
