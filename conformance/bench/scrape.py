"""Measures what a scrape of many sessions and shares does to a load that runs: `python3 -m conformance.bench.scrape --help`.

A server with 200 shares has 1,000 sessions, each with some requests, and one client that reads 4 KiB at a time. It does so in turns while somebody scrapes the
metrics each second and while nobody does. Told are how long scrapes took and the 99th percentile of the client's latency, medians over the turns.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import packages  # noqa: E402
from conformance.bench.run import line, machine, raise_open_files  # noqa: E402
from conformance.limited import Client, Load  # noqa: E402
from conformance.prometheus import Told  # noqa: E402
from conformance.py_smbprotocol import REQUIREMENTS  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SCRAPE_EVERY = 1.0
# What is wanted of the median scrape, in seconds.
SCRAPE_MAX = 0.050


def main():
    arguments = parsed()
    packages.go_on_with(*REQUIREMENTS, module="conformance.bench.scrape")
    raise_open_files()
    shares = tuple(f"projects-{number:03}" for number in range(arguments.shares))
    with serving(Told, Wanted(ram_shares=shares)) as server, contextlib.ExitStack() as held:
        os.environ.update(server.environment())
        sign_in(arguments.sessions, shares, held)
        load = Load(share=shares[0], files=1, depth=1)
        Client(server, load, 1).measured()
        took, quiet, scraped = [], [], []
        for _ in range(arguments.turns):
            quiet.append(Client(server, load, arguments.seconds).measured().p99_ms)
            with scrapes(server, took):
                scraped.append(Client(server, load, arguments.seconds).measured().p99_ms)
    ratios = [busy / alone for alone, busy in zip(quiet, scraped)]
    took.sort()
    print(f"Machine: {machine()}. {arguments.sessions} sessions, {arguments.shares} shares, {arguments.turns} turns of {arguments.seconds} seconds.\n")
    print(line(["", "median", "from", "to"]))
    print(line(["---", "---:", "---:", "---:"]))
    for name, values, form in (("a scrape, ms", [second * 1000 for second in took], ".1f"), ("p99 alone, ms", quiet, ".3f"),
                               ("p99 while scraped, ms", scraped, ".3f"), ("of each turn: scraped / alone", ratios, ".2f")):
        print(line([name, *(f"{value:{form}}" for value in (statistics.median(values), min(values), max(values)))]))
    return int(statistics.median(took) > SCRAPE_MAX)


def sign_in(sessions, shares, held):
    """So many sessions, which stay."""
    from conformance.hostile.client import ECHO, ECHO_BODY, Raw

    for number in range(sessions):
        client = held.enter_context(Raw())
        client.negotiate()
        client.login()
        client.tree_connect(shares[number % len(shares)])
        client.call(ECHO, ECHO_BODY)


@contextlib.contextmanager
def scrapes(server, took):
    """Somebody scrapes as long as this lasts."""
    over = threading.Event()

    def scrape():
        while not over.wait(SCRAPE_EVERY):
            began = time.monotonic()
            server.text("application/openmetrics-text")
            took.append(time.monotonic() - began)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        yield
    finally:
        over.set()
        scraper.join()


def parsed():
    parser = argparse.ArgumentParser(prog="conformance.bench.scrape", description=__doc__.split("\n\n")[0])
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--shares", type=int, default=200)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
