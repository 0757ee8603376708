"""The congestion control of our connections where the machine's is one that paces: another within the machine, that one beyond it.
Needs what `links` needs, and a kernel with BBR."""

import contextlib
import os
import subprocess
import sys
import time

from conformance import links, multilane
from conformance.channels import server
from conformance.links import InNamespace, command
from conformance.report import Skip, expect

NAME = "pacing"
PACING, UNPACED = "bbr", "reno"
LOAD_SECONDS = 5
REST_PORT = 10004
SMB = "( sport = :445 or dport = :445 )"


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("what others do with their connections is theirs to say")
    network = links.Network(links=1, mbit=1000)
    with links.built(network) as name:
        here, there = f"{name}-server", f"{name}-client"
        for namespace in (here, there):
            have_paced(namespace)
        with server(here, WithRest) as served:
            with report.check(NAME, "connections that stay on the machine are not paced"):
                with load(here, served, "127.0.0.1"):
                    seen(here, 2, UNPACED)
                with visit(here):
                    seen(here, 1, UNPACED, f"( sport = :{REST_PORT} )")
            with report.check(NAME, "connections that leave the machine are paced as the machine has it"):
                with load(there, served, network.address):
                    seen(here, 1, PACING)
                    seen(there, 1, PACING)


class WithRest(InNamespace):
    """The server, by REST as well."""

    def command(self):
        return [*super().command(), "--rest", str(REST_PORT)]


@contextlib.contextmanager
def visit(namespace):
    """A connection to the REST interface that says nothing."""
    says_nothing = f"import socket; held = socket.create_connection(('127.0.0.1', {REST_PORT})); input()"
    with subprocess.Popen(["ip", "netns", "exec", namespace, sys.executable, "-c", says_nothing], stdin=subprocess.PIPE) as visitor:
        yield
        visitor.communicate(b"\n", timeout=10 * LOAD_SECONDS)


def have_paced(namespace):
    try:
        in_namespace(namespace, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={PACING}")
    except subprocess.CalledProcessError as error:
        raise Skip(f"this kernel has no {PACING}: {error.stderr.strip()}") from error


@contextlib.contextmanager
def load(namespace, served, address):
    """A load that keeps a connection busy until it is no longer wanted."""
    place = f"smb://{served.user}@{address}/{served.wanted.ram_shares[0]}/file"
    argv = ["ip", "netns", "exec", namespace, str(multilane.binary()), "diskspd", "--channels", "1", "-c1M", "-b4K", "-W0",
            f"-d{LOAD_SECONDS}", place]
    running = subprocess.Popen(argv, env=dict(os.environ, MULTILANE_PASSWORD=served.password), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield
        _, said = running.communicate(timeout=10 * LOAD_SECONDS)
        expect(running.returncode == 0, f"the load failed: {said}")
    finally:
        running.kill()
        running.wait()


def seen(namespace, ends, wanted, ports=SMB):
    """Waits until so many ends of connections to the server are open in a namespace, all of them with this congestion control."""
    until = time.monotonic() + LOAD_SECONDS
    while True:
        told = in_namespace(namespace, "ss", "-tinHO", "state", "established", ports).splitlines()
        if len(told) == ends or time.monotonic() > until:
            break
        time.sleep(0.05)
    expect(len(told) == ends and all(wanted in line.split() for line in told), f"{ends} with {wanted} are to be there: {told}")


def in_namespace(namespace, *argv):
    return command("ip", "netns", "exec", namespace, *argv)
