"""Measures what Azure Files' REST interface gives beside SMB: `python3 -m conformance.bench.rest --help`.

Downloads take turns: SMB over one channel and REST in ranges of 4 MiB, by our own client and by published ones, go-smb2 and azfile. Then an idle
REST listener is looked for in what SMB's small reads cost: two servers take turns that differ in nothing else.
"""

import argparse
import contextlib
import os
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import multilane, packages  # noqa: E402
from conformance.bench.loads import Clients, Load, huge, small  # noqa: E402
from conformance.bench.run import line, machine  # noqa: E402
from conformance.rest import WithRest  # noqa: E402
from conformance.rest_trees import account_sas  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SHARE, NAME = "bench", "download"
# What our client reads by SMB it makes there.
PREPARED = "bench-0"
RANGE_BYTES = 4 << 20
IN_FLIGHT = 4
# Of what SMB gives over one channel, a download by REST is to give so much.
DOWNLOAD_LEAST = 0.5
# An idle listener costs nothing: what is more than this is no longer chance.
IDLE_MOST = 1.05


class Quiet(WithRest):
    """The server with its REST interface as people run it: it does not log what it is asked."""

    def command(self):
        return [*multilane.Multilane.command(self), "--rest", str(self.rest_port)]


class RestClients(Clients):
    """Those of SMB, and the downloads by REST."""

    def command(self, load, seconds):
        if load.client == "azfile":
            program = packages.go_program("rest-go", "bench")
            return [program, NAME, str(load.block_bytes), str(load.depth), str(seconds)]
        return super().command(load, seconds)

    def between(self, load, server, share, seconds, look):
        rest = server.rest_environment()
        signature = account_sas(rest["REST_ACCOUNT"], rest["REST_KEY"])
        os.environ.update({name: value for name, value in rest.items() if name.startswith(("REST_", "LOCAL_"))})
        os.environ["REST_FILE_URL"] = f"{rest['REST_URL']}/{share}/{PREPARED}?{signature}"
        return super().between(load, server, share, seconds, look)


def loads(mib):
    """SMB's and REST's, ours and published ones."""
    return {"ours": (huge("read", name="SMB, one channel, bench-client", file_mib=mib), huge("rest", name="REST, bench-client", connections=IN_FLIGHT, file_mib=mib)),
            "published": (Load("SMB, one channel, go-smb2", "go", "read", RANGE_BYTES, IN_FLIGHT, file_mib=mib), Load("REST, azfile", "azfile", "read", RANGE_BYTES, IN_FLIGHT, file_mib=mib))}


def main():
    arguments = parsed()
    clients = RestClients()
    print(f"Machine: {machine()}. A file of {arguments.mib} MiB, {RANGE_BYTES >> 20} MiB at a time, {IN_FLIGHT} at once; medians of {arguments.rounds} "
          f"rounds of {arguments.seconds} s, in turns.\n")
    ratios = [] if arguments.no_downloads else downloads(clients, arguments)
    costs = [] if arguments.no_idle else idle(clients, arguments)
    return int(any(ratio < DOWNLOAD_LEAST for ratio in ratios) or any(cost > IDLE_MOST for cost in costs))


def downloads(clients, arguments):
    """What is downloaded a second, by each; REST's share of SMB's, ours and the published ones'."""
    pairs = loads(arguments.mib)
    with serving(Quiet, Wanted(shares=(SHARE,), on_tmpfs=True)) as server:
        piece = random.Random(1).randbytes(1 << 20)
        with open(server.share_path() / NAME, "wb") as file:
            # Each MiB is another one, by its place.
            file.writelines(number.to_bytes(8, "big") + piece[8:] for number in range(arguments.mib))
        runs = {load: [] for pair in pairs.values() for load in pair}
        for number in range(arguments.rounds):
            for load in runs:
                runs[load].append(clients.run(load, server, SHARE, arguments.seconds))
                print(f"{number + 1}: {load.name}: {speed(load, runs[load][-1]):,.0f} MiB/s", file=sys.stderr, flush=True)
    medians = {load: statistics.median(speed(load, run) for run in them) for load, them in runs.items()}
    print(line(["download", "MiB/s", "server's CPU, ms/GiB", "of SMB's"]))
    print(line(["---", "---:", "---:", "---:"]))
    for pair in pairs.values():
        for load in pair:
            cpu = statistics.median(run.microseconds_each for run in runs[load]) / 1000 * (1 << 30) / load.block_bytes
            print(line([load.name, f"{medians[load]:,.0f}", f"{cpu:,.0f}", f"{medians[load] / medians[pair[0]]:.2f}"]))
    print()
    return [medians[rest] / medians[smb] for smb, rest in pairs.values()]


def speed(load, run):
    return run.operations_per_second * load.block_bytes / (1 << 20)


def idle(clients, arguments):
    """What small reads cost with a listener beside those without, and how many there are without beside those with."""
    load = small("read", name="4 KiB random read")
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(kind, Wanted(shares=(SHARE,), on_tmpfs=True))) for kind in (WithoutRest, Quiet)]
        runs = [[], []]
        for number in range(arguments.rounds * 2):
            # Whoever is first in a round is second in the next.
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                runs[index].append(clients.run(load, servers[index], SHARE, arguments.seconds))
    cpu = [statistics.median(run.microseconds_each for run in them) for them in runs]
    rate = [statistics.median(run.operations_per_second for run in them) for them in runs]
    print(line(["4 KiB random reads by SMB", "us/op", "op/s"]))
    print(line(["---", "---:", "---:"]))
    for name, index in (("without --rest", 0), ("with --rest, idle", 1)):
        print(line([name, f"{cpu[index]:.2f}", f"{rate[index]:,.0f}"]))
    print(line(["with / without", f"{cpu[1] / cpu[0]:.3f}", f"{rate[1] / rate[0]:.3f}"]))
    return [cpu[1] / cpu[0], rate[0] / rate[1]]


class WithoutRest(Quiet):
    def command(self):
        return multilane.Multilane.command(self)


def parsed():
    parser = argparse.ArgumentParser(prog="conformance.bench.rest", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    parser.add_argument("--mib", type=int, default=1024, help="of the file that is downloaded (1024)")
    parser.add_argument("--no-downloads", action="store_true", help="leave out the downloads")
    parser.add_argument("--no-idle", action="store_true", help="leave out the idle listener")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
