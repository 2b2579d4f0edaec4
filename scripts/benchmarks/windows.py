"""Windows on a run without a browser: each holds a stream of `pace web`, and asks for its page again as a browser does.

    python -m scripts.benchmarks.windows ADDRESS NUMBER  # until its standard input ends; then prints the answers it got

Not a browser: nothing is drawn. What a window asks of the server, and when, is what the page's script asks.
"""

import sys
from urllib.parse import urlsplit

import anyio
import httpx

PARTS = ("", "/candidates", "/learner", "/spend", "/islands", "/machines", "/tree.json", "/tree.json?most=300")


async def watch(client: httpx.AsyncClient, run: str, number: int, answers: list[int]) -> None:
    """Renew one page after each commit, at most as often as the server says."""
    page = run + PARTS[number % len(PARTS)]
    news = anyio.Event()

    async def listen() -> None:
        nonlocal news
        async with client.stream("GET", f"{run}/events") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    news.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        while True:
            await news.wait()
            news = anyio.Event()
            answer = (await client.get(page)).raise_for_status()
            answers.append(len(answer.content))
            await anyio.sleep(max(0.2, float(answer.headers.get("X-Pace-Again", 0))))


async def main(address: str, number: int) -> None:
    """Open the windows, and close them when standard input ends."""
    answers: list[int] = []
    run = urlsplit(address).path
    limits = httpx.Limits(max_connections=None)
    base = address.partition("/run")[0]
    async with httpx.AsyncClient(base_url=base, timeout=60.0, limits=limits, follow_redirects=True) as client:
        (await client.get(address)).raise_for_status()  # the token becomes a cookie
        async with anyio.create_task_group() as tasks:
            for window in range(number):
                tasks.start_soon(watch, client, run, window, answers)
            await anyio.to_thread.run_sync(sys.stdin.read)
            tasks.cancel_scope.cancel()
    print(len(answers), sum(answers))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))
