"""Measures our server beside an older build of it, in turns: `python3 -m conformance.bench.before --help`.

The loads are those of `conformance.bench.run`, with files on tmpfs, on the server's own RAM disk and on the file system of the
machine's temporary folder. Each turn gives one ratio of CPU time for each operation, new by old. Where its memory lies is a server's luck, and stays so
until it is started again: so both are started several times, and the table shows the median of all turns, the middle half of them, and the medians
of the starts, from the lowest to the highest. "own" is the ratio of the medians without what the kernel did. What lies within the spread of a build beside itself (`--before` the same binary) is chance.

Over loopback client and server share a socket's lock in the kernel, and who spins for it pays for the other. `--one-core` has all of them run on one core, where
nobody does: what is left is what the server itself takes.
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
    if arguments.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    raise_open_files()
    clients = Clients()
    chosen = [load for load in LOADS if re.search(arguments.loads, load.name)]
    cores = ", all on one core" if arguments.one_core else ""
    print(f"Machine: {machine()}{cores}. {arguments.starts} starts, {arguments.rounds} turns of {arguments.seconds} seconds each. The disk is "
          f"{arguments.disk} on {file_system(arguments.disk)}.\n")
    heads = ["load", "files on", "before, us/op", "now, us/op", "now / before", "middle half", "starts", "own"]
    print(line([*heads, *(["Samba, us/op"] if arguments.samba else [])]))
    print(line(["---", "---"] + ["---:"] * (len(heads) - 2 + arguments.samba)), flush=True)
    for place in arguments.places:
        starts = [started(place, chosen, clients, arguments) for _ in range(arguments.starts)]
        for number, load in enumerate(chosen):
            print(row(load, place, [start[number] for start in starts]), flush=True)


def started(place, loads, clients, arguments):
    """Starts the servers, and gives for each load what each server took, turn by turn."""
    with contextlib.ExitStack() as stack:
        turns = [functools.partial(clients.run, server=server, share=RAM_SHARE if place == RAM else SHARE)
                 for server in servers(stack, place, arguments)]
        return [in_turns(load, turns, arguments) for load in loads]


def servers(stack, place, arguments):
    """The old one, the new one and, where it is asked for and can have such files, Samba."""
    wanted = Wanted(shares=(SHARE,), ram_shares=(RAM_SHARE,) if place == RAM else (), on_tmpfs=place != DISK)
    limits = ("--iops-max", "10000000", "--mibps-max", "1000000", "--user-iops-max", "10000000", "--user-mibps-max", "1000000")
    audited = ("--audit", arguments.audited) if arguments.audited else ()
    options = ((), (limits if arguments.limited else ()) + audited)
    ours = [functools.partial(multilane.Multilane, program=program, share_options=option)
            for program, option in zip((arguments.before, arguments.now), options)]
    return [stack.enter_context(serving(kind, wanted)) for kind in ours + [samba.Samba] * (arguments.samba and place != RAM)]


def in_turns(load, turns, arguments):
    runs = [[] for _ in turns]
    for number in range(arguments.rounds):
        # Who comes first takes turns, too.
        order = list(enumerate(turns))[:: 1 if number % 2 else -1]
        for which, run in order:
            runs[which].append(run(load, seconds=arguments.seconds))
    return runs


def row(load, place, starts):
    """`starts`: what each server took, turn by turn, after each start."""
    ratios = [[now.microseconds_each / before.microseconds_each for before, now in zip(runs[0], runs[1])] for runs in starts]
    low, middle, high = statistics.quantiles([ratio for start in ratios for ratio in start], n=4)
    medians = [statistics.median(start) for start in ratios]
    runs = [[run for start in starts for run in start[which]] for which in range(len(starts[0]))]
    taken = [f"{statistics.median(run.microseconds_each for run in of_server):.2f}" for of_server in runs]
    own = [statistics.median(run.own_microseconds_each for run in of_server) for of_server in runs]
    cells = [load.name, place, *taken[:2], f"{middle:.2f}", f"{low:.2f} to {high:.2f}", f"{min(medians):.2f} to {max(medians):.2f}",
             f"{own[1] / own[0]:.2f}"]
    return line(cells + taken[2:])


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
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="turns after each start")
    parser.add_argument("--seconds", type=int, default=1, help="of each run")
    parser.add_argument("--one-core", action="store_true", help="servers and clients run on one core")
    parser.add_argument("--limited", action="store_true", help="the newer one's shares have limits that nobody reaches")
    parser.add_argument("--audited", metavar="CLASSES", help="the newer one's shares are audited so, such as read,write")
    parser.add_argument("--samba", action="store_true", help="Samba too")
    arguments = parser.parse_args()
    arguments.before, arguments.now = arguments.before.resolve(), arguments.now.resolve()
    arguments.disk = str(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).resolve())
    return arguments


if __name__ == "__main__":
    main()
