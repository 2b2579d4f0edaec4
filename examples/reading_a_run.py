"""Read a run: python examples/reading_a_run.py [RUN]. It may still be going on."""

import sys

import pace_async as pace

run = pace.open(sys.argv[1] if len(sys.argv) > 1 else None)
status, best = run.status(), run.best
spent = "USD unknown" if status["spend_usd"] is None else f"{status['spend_usd']:.2f} USD"
print(f"{run.name}: {status['state']}, {status['candidates']} candidates, {spent}")
print(f"best score {best['score']:.6g}, candidate {best['candidate']}")

scored = [row for row in run.rows("candidates") if row["score"] is not None]
print(f"{len(scored)} candidates have a score")
for row in run.sql("select outcome, count(*) as number from candidates group by outcome order by outcome"):
    print(f"  {row['outcome']}: {row['number']}")
