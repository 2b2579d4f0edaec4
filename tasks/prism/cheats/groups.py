"""A list of models for each GPU, in which a model can stand nowhere."""


def place(instance):
    """Not the GPU of each model."""
    return [[number] for number in range(instance["gpus"])]
