"""Pipelines without a coder, so that nothing would be stored."""


def pipelines(instance):
    """Steps and a layout alone."""
    return dict.fromkeys(instance["columns"], "lag1 wide")
