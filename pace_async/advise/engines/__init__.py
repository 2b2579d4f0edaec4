"""What serves the advisor's tokens: the embedded engine (a child process) and its managed start.

Only `embedded` and the modules it loads (`server`, `batcher`, `slots`, `sampling`, `load`) import torch; the runtime
imports `managed` and `wire`.
"""
