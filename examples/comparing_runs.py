"""Several runs of one task side by side: python examples/comparing_runs.py RUN RUN…"""

import sys

import pace_async as pace

for name in sys.argv[1:]:
    print(pace.open(name).name)
print(pace.compare(*sys.argv[1:], by="hours"))
