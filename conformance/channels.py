"""Our own client and server in network namespaces: throughput with one and four channels, over four shaped links and over one whose
flows are each held as on one receive queue, and links that are cut in the middle of copies. Needs what `links` needs."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

from conformance import links, multilane
from conformance.links import InNamespace, command
from conformance.report import Failure, Skip
from conformance.server import Wanted

NAME = "channels"
LINKS = 4
CHANNELS = 4
# What each link carries, what a flow does on a link with queues, and what of it a large copy must get out of all of them. The links
# are to be the limit, not the machine, which is client and server at once and may be busy with other things: so they are slow ones.
RATE_MBIT = int(os.environ.get("MULTILANE_LINK_MBIT", "250"))
FLOW_MBIT = int(os.environ.get("MULTILANE_FLOW_MBIT", "250"))
GAIN_MIN = 3.7
# What a file takes over all links: so much that opening the channels takes little of it. Two must fit on the RAM disk.
FILE_SECONDS = 6
# The one that is on its way while links are cut: its copy, up to a second after the cut has settled, must not end before.
CUT_FILE_SECONDS = 5
SMALL_FILES = 2000
SETTLED_SECONDS = 2
BACK_SECONDS = 15
SETTLED_SHARE = 0.7
COMMAND_SECONDS = 300
# What is found slow is measured again, so often in all: other programs' work makes a copy slower, never faster.
TRIES = 3


class Slow(Failure):
    """The bytes are right, the speed is not."""


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("our client is measured against our server only")
    over_queues(report)
    over_links(report)


def over_queues(report):
    """One link with receive queues: a flow gets what one queue does, whatever the link has left."""
    with client_of(links.Network(links=1, mbit=FLOW_MBIT, per_flow=True)) as client:
        with report.check(NAME, "one pair of interfaces with receive queues makes four channels"):
            pairs = client.json("client", "connections", client.place(""))
            expect(len(pairs) == 1 and pairs[0]["CurrentChannels"] >= 1 and pairs[0]["MaxChannels"] == CHANNELS, pairs)
        gains(report, client, FLOW_MBIT, "four flows carry")


def over_links(report):
    with client_of(links.Network(links=LINKS, mbit=RATE_MBIT)) as client:
        with report.check(NAME, "four pairs of interfaces make four channels"):
            pairs = client.json("client", "connections", client.place(""))
            expect(len(pairs) == LINKS and all(pair["CurrentChannels"] >= 1 for pair in pairs), pairs)
        gains(report, client, RATE_MBIT, "four links carry")
        long = client.put("long", RATE_MBIT * LINKS * CUT_FILE_SECONDS * 125_000)
        for cut in ([1], [1, 2, 3]):
            for direction, copy in (("up", client.up), ("down", client.down)):
                with report.check(NAME, f"{len(cut)} of {LINKS} links are cut, {direction}"):
                    until_fast(lambda: cut_while(client, cut, lambda: copy(long, 0, "--verify")))
            with report.check(NAME, f"{len(cut)} of {LINKS} links are cut while many files are made and renamed"):
                tree = client.tree()
                cut_while(client, cut, lambda: client.up(tree, 0, "--verify", "--threads", "32"), settles=False)


def gains(report, client, mbit, who):
    """Files both ways, with one channel and with all that the interfaces suggest: each so long that both copies take the same time."""
    of_one, of_four = (client.put(f"for-{channels}", mbit * channels * FILE_SECONDS * 125_000) for channels in (1, CHANNELS))
    for direction, copy in (("up", client.up), ("down", client.down)):
        with report.check(NAME, f"{who} {GAIN_MIN} times what one does, {direction}"):
            until_fast(lambda: gain(report, direction, lambda: copy(of_one, 1), lambda: copy(of_four, 0)))
    for file in (of_one, of_four):
        client.json("rm", client.place(file.name))
        file.unlink()


def gain(report, direction, with_one, with_four):
    one, four = rate(with_one()), rate(with_four())
    report.note(f"{direction}: {one:.0f} MB/s with one channel, {four:.0f} MB/s with four: {four / one:.2f} times")
    if four < GAIN_MIN * one:
        raise Slow(f"{one:.0f} and {four:.0f} MB/s: {four / one:.2f} times")


def until_fast(measure):
    for tries_left in reversed(range(TRIES)):
        try:
            return measure()
        except Slow:
            if tries_left == 0:
                raise


def cut_while(client, cut, copy, settles=True):
    """Cuts links a second into a copy, and plugs them in again; the copy must come through, at the speed of what is left."""
    found, problem = {}, []

    def work():
        try:
            found.update(copy())
        except Exception as error:
            problem.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(1)
    try:
        client.plug(cut, "down")
        time.sleep(SETTLED_SECONDS)
        settled = client.rate(1.0) if worker.is_alive() else None
    finally:
        client.plug(cut, "up")
    back = client.wait_for_traffic(cut, worker) if settles else None
    worker.join()
    if problem:
        raise problem[0]
    expect(found["failed"] == 0 and found["verified"], found)
    if settles:
        left = (LINKS - len(cut)) * RATE_MBIT * 0.125
        expect(found["lost_channels"] >= len(cut), f"the cut was not noticed: {found}")
        expect(settled is not None, "the copy ended before its rate after the cut could be read")
        expect(back is None or back <= BACK_SECONDS, f"the links carry nothing {back} s after they are back")
        if settled < SETTLED_SHARE * left:
            raise Slow(f"{settled:.0f} MB/s {SETTLED_SECONDS} s after the cut, of {left:.0f} that are left")


class Client:
    """The commands of the tool in the client's namespace."""

    def __init__(self, namespace, address, served, folder):
        self.namespace, self.address, self.served, self.folder = namespace, address, served, folder

    def place(self, path):
        return f"smb://{self.served.user}@{self.address}/{self.served.wanted.ram_shares[0]}/{path}"

    def json(self, *words):
        argv = ["ip", "netns", "exec", self.namespace, str(multilane.binary()), *words, "--json"]
        environment = dict(os.environ, MULTILANE_PASSWORD=self.served.password)
        result = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if result.returncode != 0:
            raise Failure(f"{' '.join(words)}: exit {result.returncode}\n{result.stderr}")
        return json.loads(result.stdout)

    def up(self, source, channels, *words):
        target = f"up-{time.monotonic_ns()}"
        try:
            return self.json("cp", str(source), self.place(target), "--channels", str(channels), *words)
        finally:
            self.json("rm", "--recursive", self.place(target))

    def down(self, source, channels, *words):
        """Copies what was put there under the name of `source`."""
        target = self.folder / "down"
        copied = self.json("get", self.place(source.name), str(target), "--channels", str(channels), *words)
        target.unlink()
        return copied

    def put(self, name, length):
        """Makes a file and puts it on the share under its name."""
        path = self.folder / name
        block = os.urandom(1 << 20)
        with open(path, "wb") as file:
            for number in range(length >> 20):
                file.write(number.to_bytes(8, "little") + block[8:])
        self.json("put", str(path), self.place(name))
        return path

    def tree(self):
        root = self.folder / "tree"
        if not root.exists():
            for number in range(SMALL_FILES):
                path = root / f"{number % 20}" / f"file{number}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(os.urandom(1 << (number % 6 + 12)))
        return root

    def plug(self, numbers, state):
        for number in numbers:
            command("ip", "-n", self.namespace, "link", "set", f"c{number}", state)

    def moved(self, numbers=range(1, LINKS + 1)):
        """Bytes that went over these links, both ways."""
        total = 0
        for line in command("ip", "netns", "exec", self.namespace, "cat", "/proc/net/dev").splitlines():
            name, _, counters = line.strip().partition(":")
            if name in {f"c{number}" for number in numbers}:
                words = counters.split()
                total += int(words[0]) + int(words[8])
        return total

    def rate(self, seconds):
        before = self.moved()
        time.sleep(seconds)
        return (self.moved() - before) / seconds / 1e6

    def wait_for_traffic(self, numbers, worker):
        """Seconds until each of the links carries data again; None where the copy ends before."""
        began = time.monotonic()
        before = [self.moved([number]) for number in numbers]
        while worker.is_alive():
            if all(self.moved([number]) > start + 4e6 for number, start in zip(numbers, before)):
                return time.monotonic() - began
            if time.monotonic() - began > BACK_SECONDS + 1:
                return time.monotonic() - began
            time.sleep(0.2)
        return None


@contextlib.contextmanager
def client_of(network):
    """A client with a server over this network."""
    with links.built(network) as name, server(f"{name}-server") as served, scratch() as folder:
        yield Client(f"{name}-client", network.address, served, folder)


@contextlib.contextmanager
def server(namespace, kind=InNamespace):
    served = kind(Wanted(shares=(), ram_shares=("ram",), channels=CHANNELS), namespace)
    try:
        yield served.start()
    finally:
        served.remove()


@contextlib.contextmanager
def scratch():
    """A folder in memory."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="conformance-channels-", dir=base) as folder:
        yield pathlib.Path(folder)


def rate(copied):
    return copied["bytes"] / copied["seconds"] / 1e6


def expect(is_true, seen):
    if not is_true:
        raise Failure(str(seen))
