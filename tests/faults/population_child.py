"""A process that writes rollouts until it is killed: `python -m tests.faults.population_child DATABASE [LIMIT]`.

It prints the id of each pair of leases once their commit is acknowledged, so the reader knows which rows must exist.
With a LIMIT in bytes none of its files may grow beyond it, which acts like a full disk on the database. It then prints
the sentence that a user would see.
"""

import resource
import sys

import anyio

from pace_async.errors import GaveUp
from pace_async.population.store import Store
from pace_async.population.writing.outage import ignore_news
from tests.support.population_facts import rollout


async def main(database: str, limit: int | None) -> None:
    async with Store.open(database, create=False) as store:
        lease = (await store.load()).run_state.last_lease + 1
        store.be_patient(0.0, ignore_news)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        while True:
            try:
                await store.commit(*rollout(lease, lease % 4), *rollout(lease + 1, (lease + 1) % 4))
            except GaveUp as error:
                print(error, flush=True)
                return
            print(lease, flush=True)
            lease += 2


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
