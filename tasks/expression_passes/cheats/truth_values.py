"""Truth values, which are numbers to most comparisons."""


def orders(instance):
    """They are no names."""
    return {name: [True, False, True] for name in instance["functions"]}
