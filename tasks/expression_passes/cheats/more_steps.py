"""More passes than there are steps."""


def orders(instance):
    """All passes, five times."""
    return dict.fromkeys(instance["functions"], instance["passes"] * 5)
