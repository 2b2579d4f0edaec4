"""Search a little and watch it: python examples/running_a_search.py. It needs no model and no key."""

import anyio

import pace_async as pace

SETTINGS = {"stop.candidates": 4, "search.threads": 2, "learner.objective": "none"}


async def main() -> None:
    async with pace.start("circle_packing", SETTINGS) as going:
        async for event in going.events():
            if event["event"] == "Evaluated":
                print(f"{event['outcome']}: {event['score']}")
    print(f"best score {going.run.best['score']:.6g} in {going.run.name}")


if __name__ == "__main__":
    anyio.run(main)
