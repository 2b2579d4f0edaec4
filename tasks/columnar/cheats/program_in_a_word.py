"""A step that a scorer would have to execute."""


def pipelines(instance):
    """It is never evaluated."""
    return dict.fromkeys(instance["columns"], "__import__('os').abort() none wide zlib")
