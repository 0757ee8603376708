"""A server whose shares have limits, and `multilane diskspd` as the load on them."""

import dataclasses
import functools
import json
import os
import subprocess
import xml.etree.ElementTree

from conformance import multilane
from conformance.report import Failure
from conformance.server import Wanted, serving

MIB = 1 << 20
# Disks take memory only for what is written.
DISK, FILE = "2G", "4M"
# A load is at it before it is measured, and goes on while others, who began a little later, are measured still.
WARM_SECONDS = 1
COMMAND_SECONDS = 120


class Limited(multilane.Multilane):
    """RAM disks, each made with words of its own. The two users, and the account with its key, may use them all."""

    def __init__(self, wanted, shares, core):
        super().__init__(wanted)
        self.disks, self.core = shares, core

    def prepare(self):
        super().prepare()
        self.make(self.disks)

    def command(self):
        words = super().command()
        return words if self.core is None else ["taskset", "-c", str(self.core), *words, "--threads", "1"]

    def make(self, shares):
        for share, words in shares.items():
            self._run("share", "create", share, "--ram", DISK, *words)

    def change(self, share, *words):
        self._run("share", "update", share, *words)

    def change_account(self, *words):
        self._run("account", "update", self.keeper, *words)

    def shown(self, share):
        """What `share show --json` tells."""
        return json.loads(self._run("share", "show", share, "--json"))


def limited(shares, core=None):
    """A started server with these shares, each by its name with the words that `share create` is given; on one thread, where a core is named."""
    return serving(functools.partial(Limited, shares=shares, core=core), Wanted(shares=(), channels=4))


@dataclasses.dataclass(frozen=True)
class Load:
    """What one client does: random requests, so many in flight for each of its files."""

    share: str
    name: str = "file"     # of its files, with their numbers behind it
    files: int = 2
    block: str = "4K"
    depth: int = 16
    writes: int = 0        # percent
    channels: int = 1
    is_keeper: bool = False  # signs in with the account's key
    is_signed: bool = False  # also where the server does not ask for it
    pace: int | None = None  # requests a second at each of its files, where it keeps to a pace of its own


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one client was let do."""

    requests: float        # a second
    mib: float             # a second
    p99_ms: float
    intervals: tuple       # requests a second, interval by interval


class Client:
    """A load under way."""

    def __init__(self, server, load, seconds, warm=WARM_SECONDS, interval_ms=1000, cores=None):
        user = server.keeper if load.is_keeper else server.user
        password = server.keeper_password() if load.is_keeper else server.password
        pace = [] if load.pace is None else [f"-g{load.pace}i"]
        files = [f"smb://{user}@{server.host}:{server.port}/{load.share}/{load.name}{number}" for number in range(load.files)]
        self.process = subprocess.Popen(
            [*(["taskset", "-c", ",".join(map(str, cores))] if cores else []), str(multilane.binary()), "diskspd",
             "--signing", "required" if load.is_signed else "as-server-wants", "--channels", str(load.channels), f"-c{FILE}", f"-b{load.block}", "-r", "-t1", f"-o{load.depth}", f"-w{load.writes}", f"-d{seconds}", f"-W{warm}", f"-C{warm}", "-L", f"-D{interval_ms}", "-Rxml", *pace, *files],
            env=dict(os.environ, MULTILANE_PASSWORD=password), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def measured(self):
        """What it came to, once it is done."""
        try:
            out, error = self.process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            raise Failure(f"the load still runs after {COMMAND_SECONDS} s") from None
        if self.process.returncode != 0:
            raise Failure(f"the load: exit {self.process.returncode}\n{error}")
        return read(out)

    def end(self):
        self.process.kill()
        self.process.communicate()


def read(report):
    """The numbers of a report of DiskSpd in XML."""
    span = xml.etree.ElementTree.fromstring(report).find("TimeSpan")
    seconds = float(span.findtext("TestTimeSeconds"))
    total = {name: sum(int(one.text) for one in span.iter(name)) for name in ("IOCount", "BytesCount")}
    latencies = {bucket.findtext("Percentile"): bucket.findtext("TotalMilliseconds") for bucket in span.find("Latency").iter("Bucket")}
    intervals = tuple(float(bucket.get("Total")) for bucket in span.find("Iops").findall("Bucket"))
    return Measured(total["IOCount"] / seconds, total["BytesCount"] / seconds / MIB, float(latencies["99"]), intervals)


def at_once(server, loads, seconds):
    """Has clients work at the same time; gives what each came to."""
    clients = [Client(server, load, seconds) for load in loads]
    try:
        return [client.measured() for client in clients]
    finally:
        for client in clients:
            if client.process.poll() is None:
                client.end()


def bytes_of(block):
    return int(block[:-1]) * {"K": 1 << 10, "M": MIB}[block[-1]]
