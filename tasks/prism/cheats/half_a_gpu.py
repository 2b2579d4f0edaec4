"""GPUs between two others."""


def place(instance):
    """Each looks like a GPU of its own."""
    return [number / 2 for number in range(len(instance["models"]))]
