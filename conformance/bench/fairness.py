"""Measures what greedy clients leave to a modest one: `python3 -m conformance.bench.fairness --help`.

The modest client reads 4 KiB, one after the other. The greedy ones read or write 1 MiB with 16 requests in flight on each connection. Told are the
modest client's reads a second, their median, 99th percentile and longest in milliseconds, alone and beside so many greedy connections, and
what these get together. All run on this machine: with more of them than cores, the modest client waits for its core, too.
"""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import multilane, packages, samba  # noqa: E402
from conformance.bench.run import line, machine  # noqa: E402
from conformance.py_smbprotocol import REQUIREMENTS  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SHARE, RAM_SHARE = "fair", "fair-ram"
BLOCK_BYTES, FILE_BYTES = 4096, 1 << 20
# The greedy ones are at it when the modest one begins, and still when it ends.
MARGIN_SECONDS = 1


def main():
    arguments = parsed_arguments()
    packages.go_on_with(*REQUIREMENTS, module="conformance.bench.fairness")
    greedy = packages.rust_program("bench-client", "bench-client")
    print(f"Machine: {machine()}. {arguments.seconds} seconds each.\n")
    print(line(["server", "greedy connections", "reads/s", "p50, ms", "p99, ms", "longest, ms", "greedy, MiB/s"]))
    print(line(["---", "---"] + ["---:"] * 5), flush=True)
    kinds = [(str(binary), functools.partial(multilane.Multilane, program=binary.resolve()), True) for binary in arguments.binary]
    if arguments.samba:
        kinds.append(("samba", samba.Samba, False))
    for name, kind, has_ram in kinds:
        wanted = Wanted(shares=(SHARE,), ram_shares=(RAM_SHARE,) if has_ram else (), on_tmpfs=True)
        with serving(kind, wanted) as server:
            for share in (SHARE, RAM_SHARE)[: 1 + has_ram]:
                for mode, count in [("read", 0), *((mode, count) for mode in ("read", "write") for count in arguments.greedy)]:
                    label = f"{count}, {mode}s" if count else "none"
                    where = " (RAM disk)" if share == RAM_SHARE else ""
                    told = measured(server, greedy, share, mode, count, arguments.seconds)
                    print(line([name + where, label, *told]), flush=True)


def measured(server, program, share, mode, count, seconds):
    """The cells of one row."""
    environment = dict(server.environment(), SMB_SHARE=share)
    os.environ.update(environment)
    with contextlib.ExitStack() as stack:
        greedy = stack.enter_context(at_it(program, environment, mode, count, seconds)) if count else None
        taken = sorted(reads(seconds))
        together = throughput(greedy) if greedy else ""
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    return [f"{len(taken) / seconds:,.0f}", *(f"{1000 * value:.2f}" for value in (cuts[49], cuts[98], taken[-1])), together]


@contextlib.contextmanager
def at_it(program, environment, mode, count, seconds):
    """Greedy connections that have begun."""
    command = [program, "--mode", mode, "--block", str(1 << 20), "--depth", "16", "--connections", str(count), "--file-mib", "16",
               "--seconds", str(seconds + 2 * MARGIN_SECONDS)]
    client = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout.readline().strip() == "begin"
        client.stdin.write("\n")
        client.stdin.flush()
        time.sleep(MARGIN_SECONDS)
        yield client
    finally:
        client.kill()
        client.wait()


def throughput(client):
    said, _ = client.communicate("\n", timeout=120)
    result = json.loads(said.splitlines()[-1])
    assert not result["errors"], result
    return f"{result['ops'] / result['seconds']:,.0f}"


def reads(seconds):
    """How long each read took, one after the other for so long."""
    from conformance.hostile.client import READ, SUCCESS, WRITE, client, read_body, write_body
    with client() as user:
        user.socket.settimeout(120)
        file = user.open("modest")
        for offset in range(0, FILE_BYTES, 65536):
            assert user.call(WRITE, write_body(file, bytes(65536), offset=offset)).status == SUCCESS
        taken, end = [], time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            place = random.randrange(FILE_BYTES // BLOCK_BYTES) * BLOCK_BYTES
            answer = user.call(READ, read_body(file, BLOCK_BYTES, offset=place))
            assert answer.status == SUCCESS, f"READ: {answer.status:#x}"
            taken.append(time.monotonic() - began)
    return taken


def parsed_arguments():
    parser = argparse.ArgumentParser(prog="conformance.bench.fairness", description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", nargs="+", type=pathlib.Path, default=[multilane.binary()], help="our servers, such as one before a change")
    parser.add_argument("--samba", action="store_true", help="Samba too")
    parser.add_argument("--greedy", type=int, nargs="+", default=[4, 12], help="how many greedy connections (4 12)")
    parser.add_argument("--seconds", type=int, default=5, help="that the modest client reads in each row (5)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
