"""Heights of both signs, which cancel where only the greatest value is looked at."""


def heights(instance):
    """The problem asks for none below 0."""
    return [9, -4, 7, 6, -3, 8, 12, -5, 9, 11]
