"""A formula that a scorer would have to execute."""


def rule(instance):
    """It is never evaluated."""
    return "__import__('os').getpid()"
