"""A function more, which is said to have been improved."""


def orders(instance):
    """There is no such function."""
    return {name: ["none"] * 3 for name in [*instance["functions"], "module9_nothing"]}
