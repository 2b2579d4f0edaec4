"""A GPU for each model: more than there are."""


def place(instance):
    """Hardly any pressure, on GPUs that do not exist."""
    return list(range(len(instance["models"])))
