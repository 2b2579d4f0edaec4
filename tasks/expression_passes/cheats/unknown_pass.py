"""The name of a pass that does not exist."""


def orders(instance):
    """It would erase what is computed."""
    return {name: ["erase", "none", "none"] for name in instance["functions"]}
