"""For every test: how long one example takes says nothing on a machine that is shared."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
