"""A pipeline of a million steps, to exhaust the scorer."""


def pipelines(instance):
    """More steps than are allowed."""
    return dict.fromkeys(instance["columns"], "ranks " * 1000000 + "wide zlib")
