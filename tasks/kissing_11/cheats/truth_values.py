"""Truth values, which are whole numbers for Python."""


def arrange(instance):
    """The axes, many times."""
    return [[i == k for k in range(11)] for i in range(11) for _ in range(40)]
