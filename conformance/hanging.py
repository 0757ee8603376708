"""One of the server's shards hangs, as by a fault of ours: it is seen from outside and said, systemd's watchdog is told nothing, and clients of the other
shards notice nothing."""

import contextlib
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from conformance import multilane
from conformance.held import held, threads
from conformance.report import Skip, expect, until
from conformance.server import HOST, NEGOTIATE_202, Wanted, free_port, serving

NAME = "hanging"
WATCHDOG_SECONDS = 2
# Each connection is some shard's; that all of so many are those of one out of two comes once in thirty thousand runs.
CONNECTIONS = 16
ANSWER_SECONDS = 2
# How long what is asked four times in the watchdog's time takes until it is seen, on a busy machine.
SEEN_SECONDS = 20
SHARDS_HANG_EXIT = 4


class Watched(multilane.Multilane):
    """Our server, which tells a watchdog and who asks by HTTP how it is."""

    def __init__(self, wanted):
        super().__init__(wanted)
        self.metrics_port = free_port()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(self.folder / "notify"))
        self.told = []  # when it was told that the server is alive
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        with contextlib.suppress(OSError):
            while True:
                if b"WATCHDOG=1" in self.manager.recv(4096):
                    self.told.append(time.monotonic())

    def command(self):
        return ["env", f"NOTIFY_SOCKET={self.folder / 'notify'}", f"WATCHDOG_USEC={WATCHDOG_SECONDS}000000", *super().command(),
                "--metrics", str(self.metrics_port)]

    def health(self):
        """The code that who asks by HTTP is answered."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}/healthz", timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as answer:
            return answer.code

    def status(self):
        """What `multilane status` says, and its exit code."""
        words = [str(self.program), "status", "--json", "--data", self._data()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)["state"], done.returncode


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no watchdog")
    with serving(Watched, Wanted()) as server:
        with report.check(NAME, "while all shards answer, the watchdog is told so and the server is well"):
            expect(well(server), f"{server.health()}, {server.status()}")
            until(lambda: len(server.told) > 2, "the watchdog is told nothing", SEEN_SECONDS)
        shard, = threads(server.pid, "multilane-0")
        with contextlib.ExitStack() as connections:
            clients = [connections.enter_context(socket.create_connection((HOST, server.port))) for _ in range(CONNECTIONS)]
            with held(shard):
                with report.check(NAME, "clients of the other shards are answered"):
                    for client in clients:
                        client.sendall(NEGOTIATE_202)
                    time.sleep(ANSWER_SECONDS)
                    answered = [client for client in clients if heard(client, 0)]
                    expect(0 < len(answered) < CONNECTIONS, f"{len(answered)} of {CONNECTIONS} are answered")
                with report.check(NAME, "a shard that hangs is seen by `status`, by who asks by HTTP, and in the log"):
                    until(lambda: server.health() == 503, "/healthz says that all is well", SEEN_SECONDS)
                    expect(server.status() == ("shards_hang", SHARDS_HANG_EXIT), f"{server.status()}")
                    until(lambda: "shards do not answer" in server.log.read_text(), "the log says nothing", SEEN_SECONDS)
                with report.check(NAME, "the watchdog is told nothing more"):
                    before = len(server.told)
                    time.sleep(2 * WATCHDOG_SECONDS)
                    expect(len(server.told) == before, f"told {len(server.told) - before} times that all is well")
            with report.check(NAME, "once it answers again, all is well, and its clients have their answers"):
                until(lambda: well(server), "the server is not well", SEEN_SECONDS)
                until(lambda: server.told[-1] > time.monotonic() - WATCHDOG_SECONDS, "the watchdog is told nothing", SEEN_SECONDS)
                expect("all shards answer again" in server.log.read_text(), "the log does not say so")
                late = [client for client in clients if client not in answered]
                expect(all(heard(client, SEEN_SECONDS) for client in late), "some are not answered")
        report.server_is_well(NAME, server)


def well(server):
    return (server.health(), server.status()) == (200, ("ready", 0))


def heard(client, seconds):
    """Whether an answer is there, or comes within so many seconds."""
    client.settimeout(seconds)
    with contextlib.suppress(TimeoutError, BlockingIOError):
        head = client.recv(8)
        return len(head) == 8 and head[4:] == b"\xfeSMB"
    return False
