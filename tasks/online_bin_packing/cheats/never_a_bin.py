"""A rule that gives no priority to an empty bin, so that no bin would ever be opened."""


def rule(instance):
    """The last column is missing."""
    return [[-level for level in range(100)] for _ in range(101)]
