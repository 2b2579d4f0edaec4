"""A run as pages and rows for people: differences, exports, one self-contained HTML report.

Reads only the population and writes no rows. Text from a model or a program is escaped before a terminal or a
browser gets it.
"""
