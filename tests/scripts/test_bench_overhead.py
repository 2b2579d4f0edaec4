"""What the benchmark of the runtime's overhead starts is there."""

from scripts.benchmarks.bench_overhead import PEER, SERVER


def test_the_server_and_the_peer_that_it_starts_are_files() -> None:
    assert SERVER.is_file()
    assert PEER.is_file()
