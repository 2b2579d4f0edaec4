"""Leaves out the columns that are hard to compress."""


def pipelines(instance):
    """Only the first column is coded."""
    return {instance["columns"][0]: "lag1 zigzag sevens zlib"}
