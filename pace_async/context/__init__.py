"""What a model is told: made once for a rollout from the state of the run, and rendered for advisor and implementer.

    value        `Context`: what may be known, as a value. Equal states give equal contexts
    sections     the context as texts by section, each with its share of the budget
    templates    Jinja2 files that put the sections into questions. A task or a user may replace each of them
    questions    the advisor's questions of one rollout
    briefing     what the implementer gets

All of it is pure but for reading the template files. What comes from models and programs is data: it stands in code
blocks whose fence is longer than any inside, or on one line after words of our own.
"""
