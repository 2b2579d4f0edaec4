"""A run as pages and rows for people: differences, exports, one self-contained HTML report.

Reads the population and nothing else; writes no rows. Text that came from a model or a program is data here: it is made
visible before a terminal or a browser sees it.
"""
