"""No model, but the least that one must beat: for every user the items in the order of how often all watched."""

import base64

import numpy as np


def recommend(instance):
    items = np.frombuffer(base64.b64decode(instance["items"]), "<u2")
    users = len(base64.b64decode(instance["lengths"])) // 2
    watched = np.bincount(items, minlength=instance["catalogue"] + 1)[1:]
    order = np.unique(watched, return_inverse=True)[1]  # equally often stays equal; half precision holds 2,048 of them
    return base64.b64encode(np.tile((order - order.max()).astype("<f2"), users)).decode()
