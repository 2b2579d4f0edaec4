"""Check a finished run's database against the given figures. Every figure is read with plain sqlite3.

python scripts/checks/verify_run.py runs/circle_packing-1 --candidates 160 --groups 15 --max-staleness 2 --best 2.55
"""

import argparse
import sqlite3
import sys
from pathlib import Path


def main() -> int:
    """Print each figure; exit status 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--candidates", type=int, default=1)
    parser.add_argument("--groups", type=int, default=0)
    parser.add_argument("--max-staleness", type=int, default=2)
    parser.add_argument("--best", type=float, default=None)
    parser.add_argument("--k3", type=float, default=None, help="probe_k3 of every version published must be below this")
    wanted = parser.parse_args()
    database = sqlite3.connect(f"file:{wanted.run / 'population.db'}?mode=ro", uri=True)

    def one(sql: str) -> float:
        value = database.execute(sql).fetchone()[0]
        return 0 if value is None else value

    candidates = one("select count(*) from candidates where lease is not null")
    trained = one("select count(*) from groups where state = 'trained'")
    published = one("select count(*) from versions where state = 'published' and version > 0")
    used = one("select count(distinct oldest_version) from advisor_calls where oldest_version > 0")
    stalest = one("select max(staleness) from leases where state = 'trained'")
    leases = one("select max(lease) from leases")
    closed = sum(
        one(f"select count(*) from leases where state = '{state}'")
        for state in ("trained", "skipped", "aborted", "expired", "open")
    )
    in_groups = one("select count(*) from leases where state = 'trained' and group_number is not null")
    trained_leases = trained * one("select group_size from runs")
    twice = one("select count(*) - count(distinct update_number) from groups where state = 'trained'")
    best = one("select max(score) from candidates")  # circle packing is maximised
    unproven = one("select count(*) from versions where state = 'published' and (receipt is null or receipt = 'null')")
    unprobed = one("select count(*) from versions where state = 'published' and probe_k3 is null")
    furthest = one("select max(probe_k3) from versions where state = 'published'")
    checks = [
        ("candidates", candidates, candidates >= wanted.candidates),
        ("groups trained", trained, trained >= wanted.groups),
        ("versions published", published, published == trained),
        ("later versions that sampled", used, used >= min(1, wanted.groups)),
        ("stalest trained", stalest, stalest <= wanted.max_staleness),
        ("admitted = trained + skipped + aborted + expired + open", leases, leases == closed),
        ("rollouts trained, all in whole groups", in_groups, in_groups == trained_leases),
        ("versions trained twice", twice, twice == 0),
        ("best score", best, wanted.best is None or best >= wanted.best),
        ("published without a receipt", unproven, unproven == 0),
        ("published without a probe", unprobed, wanted.k3 is None or unprobed == 0),
        ("worst probe_k3", furthest, wanted.k3 is None or furthest < wanted.k3),
    ]
    for name, value, holds in checks:
        sys.stdout.write(f"{'ok ' if holds else 'BAD'}  {name}: {value:g}\n")
    return 0 if all(holds for _, _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
