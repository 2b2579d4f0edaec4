"""Text that a scorer would have to execute."""


def orders(instance):
    """It is never evaluated."""
    return {name: ["__import__('os').getpid()"] * 3 for name in instance["functions"]}
