"""`multilane why` names the cause of a slow share first: each cause is staged for real, and a server that is fast under load has none.
`python3 -m conformance.why` runs it alone.

What is found at once is enough; where it takes a while until a cause is there (a link that was cut), it is asked again.
"""

import contextlib
import functools
import json
import os
import subprocess
import time

from conformance import alone, links, multilane, packages
from conformance.limited import Client, Limited, Load
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.report import Failure, Skip, expect, until
from conformance.server import Wanted, serving

NAME = "why"
# How long a load is at it before it is asked why it is slow, and how long it may take until the cause is there.
UNDER_WAY_SECONDS = 4
FOUND_SECONDS = 60
LOAD_SECONDS = 120
# What a folder has that is listed; a million takes a few minutes to make.
NAMES = int(os.environ.get("MULTILANE_WHY_NAMES", "100000"))
LINK_MBIT = 100
SHARE = "slow"


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers do not say why")
    checks(report)


def checks(report):
    stages = {
        "a limit of requests": iops_limit, "a limit of bytes": throughput_limit, "a limit of a user": user_limit,
        "credits for bursts that ran out": burst_credits, "a client that holds an oplock": lease_holder, "a slow disk": slow_disk,
        "a machine without time for the server": no_core,
        "a channel that was lost": lost_channel, "one channel where two are possible": one_channel,
        "small requests one at a time": one_at_a_time, "signing": signing, "sealing": sealing, f"a listing of {NAMES} names": listing,
        "a noisy neighbour": neighbour,
    }
    for what, stage in stages.items():
        with report.check(NAME, f"{what} is named first"):
            stage(report)
    with report.check(NAME, "a fast server under load has no cause"):
        healthy(report)
    with report.check(NAME, "a server with nothing to do has no cause, and says what it does not know"):
        idle()


# The stages.

def iops_limit(report):
    with server({SHARE: ["--iops-max", "1000"]}) as one, loaded(one, Load(SHARE)):
        found = named(report, one, "iops_limit")
        says(found, "The share slow has been at its limit of 1000 requests a second since ", "--iops-max N")


def throughput_limit(report):
    with server({SHARE: ["--mibps-max", "20"]}) as one, loaded(one, Load(SHARE, block="64K", writes=100)):
        says(named(report, one, "throughput_limit"), "20 MiB a second, by writing")


def user_limit(report):
    with server({SHARE: ["--user-iops-max", "500"]}) as one, loaded(one, Load(SHARE)):
        says(named(report, one, "iops_limit"), f"The user {one.user} of the share slow", "--user-iops-max N")


def burst_credits(report):
    words = ("--burst-credits-max", "2000")
    with server({SHARE: ["--provisioned", "32", "--iops", "3000", "--mibps", "100"]}, words) as one, loaded(one, Load(SHARE, depth=32)):
        says(named(report, one, "burst_credits"), "3000 requests a second", "have run out")


def lease_holder(report):
    python = packages.python_with(*REQUIREMENTS)
    with server({SHARE: []}) as one:
        environment = dict(os.environ, SMB_HOST=one.host, SMB_PORT=str(one.port), SMB_SHARE=SHARE, SMB_USER=one.user, SMB_PASSWORD=one.password)
        holder = subprocess.Popen([python, "-m", "conformance.why_holder"], env=environment, cwd=packages.ROOT, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        try:
            expect(holder.stdout.readline() == "waits\n", "the holder of the oplock did not come so far")
            found = named(report, one, "lease_holder", about=None)
            says(found, f"{one.user} at 127.0.0.1:", "holds an oplock on \\held of the share slow", "close open ")
            # What it says mends it.
            one._run(*found["command"].split()[1:])
            expect(holder.stdout.readline() == "opened\n", "who waited did not get the file")
        finally:
            holder.kill()
            holder.communicate()


def slow_disk(report):
    with server({SHARE: []}, ("--store-latency", "20")) as one, loaded(one, Load(SHARE, depth=4)):
        found = named(report, one, "slow_store")
        says(found, "The store of the share slow is slow")
        expect(found["evidence"]["p50_ms"] >= 15, found)


def no_core(report):
    with serving(OnACoreOfOthers, Wanted(shares=(SHARE,))) as one:
        others = [subprocess.Popen(["taskset", "-c", str(OnACoreOfOthers.CORE), "sh", "-c", "while :; do :; done"]) for _ in range(6)]
        try:
            with loaded(one, Load(SHARE, writes=50), cores=(0,)):
                found = named(report, one, "no_core")
                says(found, "The machine has no time for the server", "Other programs have the cores.", "top ")
                expect(found["evidence"]["waited_for_a_core"] >= 0.3, found)
        finally:
            for other in others:
                other.kill()
                other.wait()


def lost_channel(report):
    with over_links(4) as (one, namespace, address):
        with loaded_over(namespace, one, address, 4):
            until(lambda: len(channels_of(one)) == 4, "there are not four channels", FOUND_SECONDS)
            time.sleep(UNDER_WAY_SECONDS)
            links.command("ip", "-n", namespace, "link", "set", "c2", "down")
            says(named(report, one, "channel_lost"), "has lost 1 of its 4 channels")


def one_channel(report):
    with over_links(2) as (one, namespace, address):
        with loaded_over(namespace, one, address, 1):
            time.sleep(UNDER_WAY_SECONDS * 3)
            says(named(report, one, "one_channel"), "goes over one channel", "The server tells of 2 addresses")


def one_at_a_time(report):
    with server({SHARE: []}) as one, loaded(one, Load(SHARE, files=1, depth=1)):
        says(named(report, one, "one_at_a_time"), "sends one request at a time")
        session, = json.loads(one._run("sessions", "--json"))
        named(report, one, "one_at_a_time", about=session["id"])


def signing(report):
    with server({SHARE: []}, core=1) as one, loaded(one, Load(SHARE, block="1M", depth=4, is_signed=True), cores=(0,)):
        says(named(report, one, "protection"), "Signing with AES-", "of what the shards compute")


def sealing(report):
    # Where processors seal fast it is only a fifth of what reads cost, from which on it is a cause; of what writes cost it is a third.
    with server({SHARE: ["--seal"]}, core=1) as one, loaded(one, Load(SHARE, block="1M", depth=4, writes=100), cores=(0,)):
        says(named(report, one, "protection"), "Sealing with AES-128-GCM", "of what the shards compute")


def listing(report):
    with serving(OfFolder, Wanted(shares=(SHARE,))) as one:
        folder = one.share_path(SHARE) / "large"
        folder.mkdir()
        for number in range(NAMES):
            (folder / f"file-with-a-name-{number}").touch()
        place = f"smb://{one.user}@{one.host}:{one.port}/{SHARE}/large"
        lister = Lister(one, place)
        try:
            says(named(report, one, "listing"), "Listing folders is ", " names in ")
        finally:
            lister.end()


def neighbour(report):
    shares = {SHARE: [], "loud": []}
    # Large requests cost the server more than their client, which leaves room for the other one on their core.
    with server(shares, core=1) as one, loaded(one, Load("loud", block="1M", files=4, depth=32), cores=(0,)), \
            loaded(one, Load(SHARE, files=1, depth=1, is_keeper=True), cores=(0,)):
        says(named(report, one, "neighbour"), "of all work is that of the share loud", "share update loud --iops-max N")


def healthy(report):
    with server({SHARE: []}) as one, loaded(one, Load(SHARE, depth=8)):
        time.sleep(UNDER_WAY_SECONDS)
        for _ in range(3):
            answer = why(one, None)
            expect(answer["requests"] > 1000, answer)
            expect(answer["causes"] == [], answer)
            time.sleep(1)


def idle():
    with server({SHARE: []}) as one:
        answer = why(one, None)
        expect(answer["about"] is None and answer["causes"] == [] and answer["is_short"], answer)
        expect("less than a minute" in one._run("why"), "it does not say that it is new")
        for nothing in ("nothing", "12345"):
            refused = command(one, "why", nothing)
            expect(refused.returncode == 1 and "the shares are slow" in refused.stderr, refused)
        expect(one._run("why", SHARE.upper()).count("Nothing makes the share slow slow") == 1, "a share is known by its name in capitals")
    stopped = command(one, "why")
    expect(stopped.returncode == 1, stopped)


# What they are made of.

class Staged(Limited):
    """A server of RAM disks, with words of its own."""

    def __init__(self, wanted, shares, words=(), core=None):
        super().__init__(wanted, shares, core)
        self.words = words

    def command(self):
        return [*super().command(), *self.words]


class OfFolder(multilane.Multilane):
    """A server of folders that believes what it knows of them, so that listings are made as fast as they are."""


class OnACoreOfOthers(multilane.Multilane):
    """A server on a core on which other programs compute."""

    CORE = 1

    def command(self):
        return ["taskset", "-c", str(self.CORE), *super().command()]


def server(shares, words=(), core=None):
    return serving(functools.partial(Staged, shares=shares, words=words, core=core), Wanted(shares=(), channels=4))


@contextlib.contextmanager
def loaded(one, load, cores=None):
    """With this load on the server, until it is left."""
    client = Client(one, load, LOAD_SECONDS, cores=cores)
    try:
        until(lambda: channels_of(one), "the load does not begin", FOUND_SECONDS)
        time.sleep(UNDER_WAY_SECONDS)
        expect(client.process.poll() is None, "the load has ended")
        yield client
    finally:
        client.end()


class Lister:
    """Lists a folder again and again."""

    def __init__(self, one, place):
        words = " ".join(f"'{word}'" for word in (str(multilane.binary()), "ls", "--channels", "1", place))
        self.process = subprocess.Popen(["sh", "-c", f"while {words} >/dev/null; do :; done"], start_new_session=True,
                                        env=dict(os.environ, MULTILANE_PASSWORD=one.password))

    def end(self):
        os.killpg(self.process.pid, 9)
        self.process.wait()


@contextlib.contextmanager
def over_links(count):
    """A server in a namespace, the client's namespace, and the server's address on the last link."""
    network = links.Network(links=count, mbit=LINK_MBIT)
    with links.built(network) as name:
        one = links.InNamespace(Wanted(shares=(), ram_shares=(SHARE,), channels=4), f"{name}-server")
        try:
            yield one.start(), f"{name}-client", network.address
        finally:
            one.remove()


@contextlib.contextmanager
def loaded_over(namespace, one, address, count):
    argv = ["ip", "netns", "exec", namespace, str(multilane.binary()), "diskspd", "--channels", str(count), "-c64M", "-b1M", "-r", "-t1", "-o16",
            "-w0", f"-d{LOAD_SECONDS}", f"smb://{one.user}@{address}/{SHARE}/file"]
    process = subprocess.Popen(argv, env=dict(os.environ, MULTILANE_PASSWORD=one.password), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until(lambda: channels_of(one), "the load does not begin", FOUND_SECONDS)
        yield
    finally:
        process.kill()
        process.wait()


def channels_of(one):
    return [channel for session in json.loads(one._run("sessions", "--json")) for channel in session["channels"]]


def why(one, about):
    return json.loads(one._run("why", *([about] if about else []), "--json"))


def named(report, one, kind, about=SHARE):
    """The first cause, once it is this one."""
    deadline = time.monotonic() + FOUND_SECONDS
    while True:
        causes = why(one, about)["causes"]
        if causes and causes[0]["kind"] == kind:
            report.note(f"{kind}: {causes[0]['share']:.0%}: {' '.join(causes[0]['sentences'])}")
            return causes[0]
        if time.monotonic() > deadline:
            raise Failure(f"{kind} is not the first of {json.dumps(causes, indent=1)}")
        time.sleep(1)


def says(cause, *parts):
    text = " ".join([*cause["sentences"], cause["command"]])
    missing = [part for part in parts if part not in text]
    expect(not missing, f"{missing} not in: {text}")


def command(one, *words):
    argv = [str(multilane.binary()), *words, "--data", one._data()]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


if __name__ == "__main__":
    alone.main(NAME, checks)
