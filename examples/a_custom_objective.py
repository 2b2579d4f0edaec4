"""Train with an objective of one's own: pip install examples/our_objective, python examples/a_custom_objective.py.

The objective is examples/our_objective/rank_objective.py. The package names it by an entry point. Nothing of pace is
changed. It needs no GPU and no key, and trains twice.
"""

import pace_async as pace

SETTINGS = {
    "learner.objective": "rank",
    "learner.group_size": 4,
    "learner.k": 2,
    "search.threads": 2,
    "stop.candidates": 10,
}


def main() -> None:
    run = pace.run("circle_packing", SETTINGS)
    for group in run.sql("select group_number, state, reason from groups order by group_number"):
        print(f"group {group['group_number']}: {group['state']} {group['reason']}".rstrip())
        of_group = f"where group_number = {group['group_number']} and advantage is not null order by group_reward"
        for row in run.sql(f"select group_reward, advantage from leases {of_group}"):
            print(f"  reward {row['group_reward']:+.3f} has advantage {row['advantage']:+.3f}")


if __name__ == "__main__":
    main()
