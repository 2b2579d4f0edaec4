"""Empty pipelines: a block of no bytes."""


def pipelines(instance):
    """No step, no layout, no coder."""
    return dict.fromkeys(instance["columns"], "")
