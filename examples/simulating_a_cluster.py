"""How many nodes does a run need? python examples/simulating_a_cluster.py. It takes seconds and evaluates nothing.

Each evaluation takes ten minutes on average and has a node's slot to itself. A node dies every two days and is back
after an hour.
"""

import pace_async as pace


def main() -> None:
    print("nodes\tcandidates an hour\tlost with a node\twhat would help")
    for nodes in (1, 2, 4):
        found = pace.simulate_run(
            threads=4 * nodes,
            group_size=8,
            eval_mean=600,
            candidates=200,
            nodes=nodes,
            slots_per_node=4,
            node_mtbf="2d",
            node_repair="1h",
        )
        lost = found["nodes"]["lost_to_node_deaths"] if found["nodes"] is not None else 0
        print(f"{nodes}\t{found['candidates_per_hour']:.0f}\t{lost}\t{found['advice']}")


if __name__ == "__main__":
    main()
