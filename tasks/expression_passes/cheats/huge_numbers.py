"""Numbers in place of names, beyond every list."""


def orders(instance):
    """None of them is the number of a pass."""
    return {name: [10**400] * 3 for name in instance["functions"]}
