"""pace: evolutionary program search that learns what to try, without ever waiting for its learner."""

__version__ = "0.2.0"
