"""Two hosts in network namespaces, joined by shaped links. Needs root, iproute2 and a kernel with veth, tbf, htb, u32 and namespaces."""

import contextlib
import dataclasses
import os
import shutil
import subprocess

from conformance import multilane
from conformance.report import Skip

# Flows that a link with queues tells apart: one for each value of the byte that they are told apart by.
QUEUES = 256
# The client's ports on such a link begin here. There are as many as queues, so that no two flows ever share one by chance.
PORT_FIRST = 0x8000


@dataclasses.dataclass(frozen=True)
class Network:
    """How many links there are, and what holds each: all that goes over it together, or each TCP flow by itself."""

    links: int
    mbit: int
    per_flow: bool = False

    @property
    def address(self):
        """The server's, on the last link."""
        return f"10.99.{self.links}.1"


class InNamespace(multilane.Multilane):
    """Our server in a namespace of its own."""

    def __init__(self, wanted, namespace):
        super().__init__(wanted)
        self.namespace = namespace
        self.host, self.ports = "0.0.0.0", [445]

    def start(self):
        for share in self.wanted.shares:
            self.share_path(share).mkdir(parents=True)
        self.prepare()
        argv = ["ip", "netns", "exec", self.namespace, *self.command(), "--json"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            text=True, start_new_session=True)
        if not self.process.stdout.readline():
            raise RuntimeError(f"the server did not start\n{self.log_tail()}")
        return self


@contextlib.contextmanager
def built(network):
    """The namespaces NAME-server and NAME-client with their links, 10.99.N.1 at the server's end; gives NAME."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        raise Skip("needs root and iproute2")
    name = f"multilane-{os.getpid()}"
    namespaces = (f"{name}-server", f"{name}-client")
    try:
        for namespace in namespaces:
            command("ip", "netns", "add", namespace)
            command("ip", "-n", namespace, "link", "set", "lo", "up")
        for number in range(1, network.links + 1):
            join(network, number, *namespaces)
        yield name
    except subprocess.CalledProcessError as error:
        raise Skip(f"no shaped links can be made here: {error.stderr.strip()}") from error
    finally:
        for namespace in namespaces:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


def join(network, number, server, client):
    """Makes one link and shapes both its ends."""
    queues = ("numrxqueues", "4", "numtxqueues", "4") if network.per_flow else ()
    command("ip", "-n", server, "link", "add", f"s{number}", *queues, "type", "veth",
            "peer", "name", f"c{number}", *queues, "netns", client)
    for namespace, device, end, port_mask in ((server, f"s{number}", 1, "0x000000ff"), (client, f"c{number}", 2, "0x00ff0000")):
        command("ip", "-n", namespace, "addr", "add", f"10.99.{number}.{end}/24", "dev", device)
        command("ip", "-n", namespace, "link", "set", device, "up")
        if network.per_flow:
            shape_flows(namespace, device, network.mbit, port_mask)
        else:
            command("ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", device, "root",
                    "tbf", "rate", f"{network.mbit}mbit", "burst", "256k", "latency", "50ms")
    if network.per_flow:
        command("ip", "netns", "exec", client, "sh", "-c",
                f"echo {PORT_FIRST} {PORT_FIRST + QUEUES - 1} >/proc/sys/net/ipv4/ip_local_port_range")


def shape_flows(namespace, device, mbit, port_mask):
    """Holds each flow to so much; what it is told apart by is the low byte of the client's port, at `port_mask` in TCP's first word."""
    rate = f"htb rate {mbit}mbit burst 256k quantum 60000"
    lines = [f"qdisc add dev {device} root handle 1: htb default 1", f"class add dev {device} parent 1: classid 1:1 {rate}",
             f"filter add dev {device} parent 1: prio 1 handle 2: protocol ip u32 divisor {QUEUES}"]
    for queue in range(QUEUES):
        lines += [f"class add dev {device} parent 1: classid 1:{queue + 16:x} {rate}",
                  f"filter add dev {device} parent 1: prio 1 protocol ip u32 ht 2:{queue:x}: match u8 0 0 at 0 flowid 1:{queue + 16:x}"]
    lines.append(f"filter add dev {device} parent 1: prio 1 protocol ip u32 ht 800:: match ip protocol 6 0xff "
                 f"hashkey mask {port_mask} at 20 link 2:")
    subprocess.run(["ip", "netns", "exec", namespace, "tc", "-batch", "-"], input="\n".join(lines) + "\n",
                   check=True, capture_output=True, text=True)


def command(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
