"""Measures what busy polling buys: one 4-KiB read at a time, `python3 -m conformance.bench.latency --help`.

Our server with `--busy-poll auto` and with a time, and Samba, take turns with the same client, which sleeps while it waits. Each turn is a server that
has just started; told are the medians over the turns. First the machine has nothing else to do, then other programs want all its cores.
"""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import multilane, packages, samba  # noqa: E402
from conformance.bench.run import line, machine  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SHARE = "latency"
# An idle machine: at least so many times Samba's reads a second. In contention: no fewer.
IDLE_MIN, CONTENDED_MIN = 3.0, 1.0


class Polling(multilane.Multilane):
    """Our server, which polls so."""

    def __init__(self, wanted, busy_poll):
        super().__init__(wanted)
        self.busy_poll = busy_poll

    def command(self):
        return [*super().command(), "--busy-poll", self.busy_poll]


def main():
    arguments = parsed_arguments()
    client = packages.rust_program("bench-client", "bench-client")
    kinds = {"samba": samba.Samba, **{f"busy-poll {time}": functools.partial(Polling, busy_poll=time) for time in ("auto", arguments.busy_poll)}}
    print(f"Machine: {machine()}. {arguments.turns} turns of {arguments.seconds} seconds each.\n")
    print(line(["machine", "server", "reads/s", "slowest turn", "fastest turn", "of Samba's"]))
    print(line(["---", "---"] + ["---:"] * 4), flush=True)
    missed = []
    for what, others, wanted in (("idle", 0, IDLE_MIN), ("in contention", os.cpu_count(), CONTENDED_MIN)):
        with contended(others):
            found = {name: [] for name in kinds}
            for _ in range(arguments.turns):
                for name, kind in kinds.items():
                    found[name].append(reads(kind, client, arguments.seconds))
        of_samba = statistics.median(found["samba"])
        for name, turns in found.items():
            rate = statistics.median(turns)
            print(line([what, name, *(f"{value:,.0f}" for value in (rate, min(turns), max(turns))), f"{rate / of_samba:.2f}"]), flush=True)
        ratio = statistics.median(found[f"busy-poll {arguments.busy_poll}"]) / of_samba
        if ratio < wanted:
            missed.append(f"{what}: {ratio:.2f} times Samba's reads, {wanted:.0f} are wanted")
    print("\n".join(missed))
    return 1 if missed else 0


def reads(kind, client, seconds):
    """Reads a second, one after the other."""
    with serving(kind, Wanted(shares=(SHARE,), on_tmpfs=True)) as server:
        command = [client, "--mode", "read", "--block", "4096", "--depth", "1", "--connections", "1", "--file-mib", "16", "--seconds", str(seconds)]
        result = subprocess.run(command, env=dict(server.environment(), SMB_SHARE=SHARE), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                text=True, timeout=60 + seconds, check=True)
    told = json.loads(result.stdout.splitlines()[-1])
    assert not told["errors"], told
    return told["ops"] / told["seconds"]


@contextlib.contextmanager
def contended(count):
    """So many programs that always want a core."""
    others = [subprocess.Popen(["sha256sum", "/dev/zero"], stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def parsed_arguments():
    parser = argparse.ArgumentParser(prog="conformance.bench.latency", description=__doc__.split("\n\n")[0])
    parser.add_argument("--busy-poll", default="200us", metavar="TIME", help="beside auto (200us)")
    parser.add_argument("--turns", type=int, default=9, help="of each server (9)")
    parser.add_argument("--seconds", type=int, default=2, help="of each turn (2)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
