"""Best scores of several runs: python examples/comparing_runs.py RUN RUN…"""

import sys

import pace_async as pace

for name in sys.argv[1:]:
    run = pace.open(name)
    status = run.status()
    print(f"{run.name}\t{run.best['score']:.6g}\t{status['candidates']} candidates\t{status['groups_trained']} groups")
