"""Examples of other projects as tasks: reading their folders, and what their evaluators import.

`openevolve_path` and `shinka_path` are folders for an import path. They hold the interfaces that evaluators of these
projects import. They are our own code. Nothing of them is imported by pace. A copy of one goes into each imported task.
"""
