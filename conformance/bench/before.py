"""Measures our server beside an older build of it, in turns: `python3 -m conformance.bench.before --help`.

The loads are those of `conformance.bench.run`, with files on tmpfs, on the server's own RAM disk and on the file system of the
machine's temporary folder. Each turn gives one ratio of CPU time for each operation, new by old; the table shows their median and the
middle half of them. What lies within the spread of a build beside itself (`--before` the same binary) is chance.
"""

import argparse
import contextlib
import functools
import os
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import multilane, samba  # noqa: E402
from conformance.bench.loads import LOADS, Clients  # noqa: E402
from conformance.bench.run import line, machine, raise_open_files  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SHARE, RAM_SHARE = "bench", "bench-ram"
MEMORY, RAM, DISK = "tmpfs", "RAM disk", "disk"


def main():
    arguments = parsed()
    raise_open_files()
    clients = Clients()
    chosen = [load for load in LOADS if re.search(arguments.loads, load.name)]
    print(f"Machine: {machine()}. {arguments.rounds} turns of {arguments.seconds} seconds. The disk is {arguments.disk} on "
          f"{file_system(arguments.disk)}.\n")
    heads = ["load", "files on", "before, us/op", "now, us/op", "now / before", "middle half"]
    print(line([*heads, *(["Samba, us/op"] if arguments.samba else [])]))
    print(line(["---", "---"] + ["---:"] * (len(heads) - 2 + arguments.samba)), flush=True)
    for place in arguments.places:
        with contextlib.ExitStack() as stack:
            turns = [functools.partial(clients.run, server=server, share=RAM_SHARE if place == RAM else SHARE)
                     for server in servers(stack, place, arguments)]
            for load in chosen:
                print(row(load, place, turns, arguments), flush=True)


def servers(stack, place, arguments):
    """The old one, the new one and, where it is asked for and can have such files, Samba."""
    wanted = Wanted(shares=(SHARE,), ram_shares=(RAM_SHARE,) if place == RAM else (), on_tmpfs=place != DISK)
    ours = [functools.partial(multilane.Multilane, program=program) for program in (arguments.before, arguments.now)]
    return [stack.enter_context(serving(kind, wanted)) for kind in ours + [samba.Samba] * (arguments.samba and place != RAM)]


def row(load, place, turns, arguments):
    runs = [[] for _ in turns]
    for number in range(arguments.rounds):
        # Who comes first takes turns, too.
        order = list(enumerate(turns))[:: 1 if number % 2 else -1]
        for which, run in order:
            runs[which].append(run(load, seconds=arguments.seconds).microseconds_each)
    ratios = [now / before for before, now in zip(runs[0], runs[1])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    cells = [load.name, place, *(f"{statistics.median(run):.2f}" for run in runs[:2]), f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
    beside = [f"{statistics.median(run):.2f}" for run in runs[2:]] or [""] * arguments.samba
    return line(cells + beside)


def file_system(folder):
    """The type of the file system that has a folder."""
    mounts = [words.split() for words in pathlib.Path("/proc/mounts").read_text().splitlines()]
    above = [mount for mount in mounts if os.path.commonpath([mount[1], folder]) == mount[1]]
    return max(above, key=lambda mount: len(mount[1]))[2]


def parsed():
    parser = argparse.ArgumentParser(prog="conformance.bench.before", description=__doc__.split("\n\n")[0])
    parser.add_argument("--before", type=pathlib.Path, required=True, help="the older binary")
    parser.add_argument("--now", type=pathlib.Path, default=multilane.binary(), help="otherwise $MULTILANE_BINARY or target/release/multilane")
    parser.add_argument("--places", nargs="+", choices=(MEMORY, RAM, DISK), default=[MEMORY, RAM, DISK])
    parser.add_argument("--loads", default=".", metavar="REGEX", help="only the loads whose name matches")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1, help="of each run")
    parser.add_argument("--samba", action="store_true", help="Samba too")
    arguments = parser.parse_args()
    arguments.before, arguments.now = arguments.before.resolve(), arguments.now.resolve()
    arguments.disk = str(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).resolve())
    return arguments


if __name__ == "__main__":
    main()
