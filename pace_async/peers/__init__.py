"""Examples of other projects as tasks: reading their folders, and what their evaluators import.

`openevolve_path` and `shinka_path` are folders for an import path. They hold the interfaces that evaluators of these
projects import. A copy of one goes into each imported task. `frontier_cs_path` holds an evaluator, and what starts a
program for each test. All are our own code, and nothing of them is imported by pace.
"""
