"""Measures our server and Samba in turns on this machine: `python3 -m conformance.bench.run --help`."""

import argparse
import contextlib
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import multilane, samba  # noqa: E402
from conformance.bench import binds, idle, leases  # noqa: E402
from conformance.bench.loads import LOADS, Clients  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SHARE, RAM_SHARE = "bench", "bench-ram"
METHOD = """\
CPU time is what the operating system counts (user and system) for the server's process and every process it forked,
between the moment a load begins and the moment it ends, divided by the operations done. Client and server share the
machine over loopback; the share's files lie on tmpfs for both servers, and for Multilane once more on its own RAM disk.
The servers take turns, {rounds} rounds of {seconds} seconds each, and the table shows the medians. Every byte that is
read is checked, and what was written is read back and checked. Signing and encryption are off unless a row says so.

The pipelined client (conformance/bench-client) keeps 16 requests in flight on each connection (8 for 1 MiB), sends
together all that is due and takes whatever has arrived; go-smb2 sends each request by itself. Samba runs with its
defaults: no module for ACLs or streams is loaded.

Read the numbers as ratios: another machine has other microseconds."""


def main():
    arguments = parsed()
    kinds = [kind for kind in (multilane.Multilane, samba.Samba) if kind.kind in arguments.servers]
    chosen = [load for load in LOADS if re.search(arguments.loads, load.name)]
    raise_open_files()
    clients = Clients()
    report = [title(arguments), table(kinds, chosen, clients, arguments)]
    if not arguments.no_idle:
        report.append(idle_text(kinds, clients))
    if not arguments.no_leases:
        report.append(leases_text(clients, arguments))
    if not arguments.no_binds:
        report.append(binds_text(kinds, clients, arguments))
    text = "\n\n".join(report) + "\n"
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text)
    print(text)


def table(kinds, chosen, clients, arguments):
    """Runs all rounds of all loads; the servers stay up, and take turns at each load."""
    with contextlib.ExitStack() as stack:
        places = []
        for kind in kinds:
            ram = (RAM_SHARE,) if kind.has_ram_shares else ()
            server = stack.enter_context(serving(kind, Wanted(shares=(SHARE,), ram_shares=ram, on_tmpfs=True)))
            places += [(server, SHARE), *((server, share) for share in ram)]
        rows = []
        for load in chosen:
            runs = {place: [] for place in places}
            for _ in range(arguments.rounds):
                for server, share in places:
                    runs[server, share].append(clients.run(load, server, share, arguments.seconds))
            rows.append((load.name, [runs[place] for place in places]))
            print(row(*rows[-1]), file=sys.stderr, flush=True)
        return markdown([heading(*place) for place in places], rows)


def heading(server, share):
    return {"samba": "Samba", "multilane": "Multilane"}[server.kind] + (", RAM disk" if share == RAM_SHARE else "")


def markdown(headings, rows):
    ratio = [f"Samba / {heading}" for heading in headings[:-1]] if headings[-1] == "Samba" else []
    names = ["load", *(f"{heading}, us/op" for heading in headings), *ratio, *(f"{heading}, op/s" for heading in headings)]
    return "\n".join([line(names), line(["---"] + ["---:"] * (len(names) - 1)), *(row(*each, bool(ratio)) for each in rows)])


def row(name, runs, ratios=True):
    """A load's line: CPU per operation of each place, Samba's divided by each of ours, and operations a second."""
    cpu = [statistics.median(run.microseconds_each for run in place) for place in runs]
    speed = [statistics.median(run.operations_per_second for run in place) for place in runs]
    compared = [f"{cpu[-1] / each:.1f}" for each in cpu[:-1]] if ratios else []
    return line([name, *(f"{each:.1f}" for each in cpu), *compared, *(f"{each:,.0f}" for each in speed)])


def line(cells):
    return f"| {' | '.join(cells)} |"


def idle_text(kinds, clients):
    told = []
    for kind in kinds:
        with serving(kind, Wanted(shares=(SHARE,), on_tmpfs=True)) as server:
            told.append(f"| {heading(server, SHARE)} | {idle.kib_each(clients, server, SHARE):.0f} |")
    return "\n".join(["## Idle connections", f"The server's memory (PSS of all its processes) for each of {idle.CONNECTIONS:,} "
                      "connections that logged in, connected to the share and then say nothing.", "",
                      "| server | KiB per connection |", "| --- | ---: |", *told])


def leases_text(clients, arguments):
    with serving(multilane.Multilane, Wanted(shares=(SHARE,), on_tmpfs=True)) as server:
        costs = leases.measured(clients, server, SHARE, arguments)
    return "\n".join(["## Leases held by an idle client", f"One client keeps {leases.FILES:,} files open, each under a lease for reading, "
                      "writing and keeping handles, and says nothing. Another opens and closes other files, in turns with the first one "
                      "there and not there.", "", "| | |", "| --- | ---: |",
                      f"| memory for each open and its lease | {costs.bytes_each:,.0f} bytes |",
                      f"| open and close a file, no leases held | {costs.microseconds_without:.1f} us |",
                      f"| the same with {leases.FILES:,} leases held | {costs.microseconds_with:.1f} us |",
                      f"| ratio | {costs.ratio:.2f} |"])


def binds_text(kinds, clients, arguments):
    try:
        told = binds.measured(kinds, clients, SHARE, arguments)
    except RuntimeError as error:
        # Samba loses a connection now and then that it hands from one process to another; the rest of the report is good all the same.
        return f"## Channels that come and go\n\nNot measured: {error}"
    rows = [line([heading(server, SHARE), f"{cost.binds_per_second:,.0f}", f"{cost.microseconds_each:.0f}", f"{cost.binds:,}",
                  f"{cost.grown_bytes / 1024:,.0f}"]) for server, cost in told.items()]
    return "\n".join(["## Channels that come and go", f"{binds.LOAD.connections} clients, each with a session, connect, bind the connection to "
                      "the session as another channel, and close it, one after the other. Memory is that of all the server's processes, after all "
                      "binds less before, when it had seen some.", "",
                      "| server | binds a second | CPU, us each | binds | memory grown, KiB |", "| --- | ---: | ---: | ---: | ---: |", *rows])


def title(arguments):
    return "\n\n".join(["# Benchmarks", METHOD.format(rounds=arguments.rounds, seconds=arguments.seconds),
                        f"Machine: {machine()}. Samba: {samba_version()}. "
                        "Made by `python3 -m conformance.bench.run --out docs/BENCHMARKS.md`.",
                        "## CPU time per operation"])


def machine():
    processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{os.cpu_count()} cores ({processor[1] if processor else platform.machine()}), {memory} GiB, Linux {platform.release()}"


def samba_version():
    return subprocess.run(["smbd", "--version"], capture_output=True, text=True).stdout.strip().removeprefix("Version ")


def raise_open_files():
    """A thousand connections at both ends are more files than a shell usually allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def parsed():
    parser = argparse.ArgumentParser(prog="conformance.bench.run", description=__doc__)
    parser.add_argument("--servers", nargs="+", choices=("multilane", "samba"), default=["multilane", "samba"])
    parser.add_argument("--loads", default=".", metavar="REGEX", help="only the loads whose name matches")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    parser.add_argument("--no-idle", action="store_true", help="leave out the idle connections")
    parser.add_argument("--no-leases", action="store_true", help="leave out the leases of an idle client")
    parser.add_argument("--no-binds", action="store_true", help="leave out the channels that come and go")
    parser.add_argument("--out", metavar="FILE", help="write the report there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
