"""Our own client and server over four links in network namespaces, each shaped: throughput with one and four channels, and links that
are cut in the middle of copies. Needs root, iproute2 and a kernel with veth, tbf and namespaces."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

from conformance import multilane
from conformance.report import Failure, Skip
from conformance.server import Wanted

NAME = "channels"
LINKS = 4
# What each link carries, and what of it a large copy must get out of all of them.
RATE_MBIT = int(os.environ.get("MULTILANE_LINK_MBIT", "1000"))
GAIN_MIN = 3.7
# What a large file takes over all links: so much that opening the channels takes little of it. Two must fit on the RAM disk.
FILE_SECONDS = 2
SMALL_FILES = 2000
SETTLED_SECONDS = 2
BACK_SECONDS = 15
SETTLED_SHARE = 0.7
COMMAND_SECONDS = 300


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


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("our client is measured against our server only")
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        raise Skip("needs root and iproute2")
    with links() as name, server(f"{name}-server") as served, scratch() as folder:
        client = Client(f"{name}-client", served, folder)
        with report.check(NAME, "four pairs of interfaces make four channels"):
            pairs = client.json("client", "connections", client.place(""))
            expect(len(pairs) == LINKS and all(pair["CurrentChannels"] >= 1 for pair in pairs), pairs)
        large = client.file("large", RATE_MBIT * LINKS * FILE_SECONDS * 125_000)
        client.json("put", str(large), client.place(large.name))
        for direction, copy in (("up", client.up), ("down", client.down)):
            with report.check(NAME, f"four links carry {GAIN_MIN} times what one does, {direction}"):
                one, four = (rate(copy(large, channels)) for channels in (1, 0))
                report.note(f"{direction}: {one:.0f} MB/s with one channel, {four:.0f} MB/s with four: {four / one:.2f} times")
                expect(four >= GAIN_MIN * one, f"{one:.0f} and {four:.0f} MB/s: {four / one:.2f} times")
        for cut in ([1], [1, 2, 3]):
            for direction, copy in (("up", client.up), ("down", client.down)):
                with report.check(NAME, f"{len(cut)} of {LINKS} links are cut, {direction}"):
                    cut_while(client, cut, lambda: copy(large, 0, "--verify"))
            with report.check(NAME, f"{len(cut)} of {LINKS} links are cut while many files are made and renamed"):
                tree = client.tree()
                cut_while(client, cut, lambda: client.up(tree, 0, "--verify", "--threads", "32"), settles=False)


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
        expect(settled is None or settled >= SETTLED_SHARE * left,
               f"{settled} MB/s {SETTLED_SECONDS} s after the cut, of {left:.0f} that are left")
        expect(back is None or back <= BACK_SECONDS, f"the links carry nothing {back} s after they are back")


class Client:
    """The commands of the tool in the client's namespace."""

    def __init__(self, namespace, served, folder):
        self.namespace, self.served, self.folder = namespace, served, folder

    def place(self, path):
        return f"smb://{self.served.user}@10.99.{LINKS}.1/{self.served.wanted.ram_shares[0]}/{path}"

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

    def file(self, name, length):
        path = self.folder / name
        block = os.urandom(1 << 20)
        with open(path, "wb") as file:
            for number in range(length >> 20):
                file.write(number.to_bytes(8, "little") + block[8:])
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
def links():
    """Two namespaces joined by shaped links, 10.99.N.1 at the server's end; gives the name that they begin with."""
    name = f"multilane-{os.getpid()}"
    server_name, client_name = f"{name}-server", f"{name}-client"
    try:
        for namespace in (server_name, client_name):
            command("ip", "netns", "add", namespace)
            command("ip", "-n", namespace, "link", "set", "lo", "up")
        for number in range(1, LINKS + 1):
            command("ip", "-n", server_name, "link", "add", f"s{number}", "type", "veth",
                    "peer", "name", f"c{number}", "netns", client_name)
            for namespace, device, end in ((server_name, f"s{number}", 1), (client_name, f"c{number}", 2)):
                command("ip", "-n", namespace, "addr", "add", f"10.99.{number}.{end}/24", "dev", device)
                command("ip", "-n", namespace, "link", "set", device, "up")
                command("ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", device, "root",
                        "tbf", "rate", f"{RATE_MBIT}mbit", "burst", "256k", "latency", "50ms")
        yield name
    except subprocess.CalledProcessError as error:
        raise Skip(f"no shaped links can be made here: {error.stderr.strip()}")
    finally:
        for namespace in (server_name, client_name):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


@contextlib.contextmanager
def server(namespace):
    served = InNamespace(Wanted(shares=(), ram_shares=("ram",), channels=LINKS), namespace)
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


def command(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def expect(is_true, seen):
    if not is_true:
        raise Failure(str(seen))
