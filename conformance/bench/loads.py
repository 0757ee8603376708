"""The loads, and running one against a server while its CPU time is looked at."""

import dataclasses
import functools
import json
import subprocess

from conformance import packages

PHASE_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Load:
    """One row of the table."""

    name: str
    client: str            # pipelined: bench-client; go: go-smb2/bench
    mode: str
    block_bytes: int = 4096
    depth: int = 16        # requests in flight on a connection; goroutines of the Go client
    connections: int = 1
    protection: str = "none"
    file_mib: int = 64
    more: tuple = ()       # words that only some modes of the pipelined client have


def small(mode, **how):
    return Load(client="pipelined", mode=mode, **how)


def large(mode, **how):
    return Load(client="pipelined", mode=mode, block_bytes=1 << 20, depth=8, **how)


def huge(mode, **how):
    """What Linux asks for at a time."""
    return Load(client="pipelined", mode=mode, block_bytes=4 << 20, depth=4, **how)


def go(mode, block_bytes, name):
    return Load(name, "go", mode, block_bytes)


LOADS = (
    small("read", name="4 KiB random read"),
    small("read", name="4 KiB random read, 4 connections", connections=4),
    small("write", name="4 KiB random write"),
    small("write", name="4 KiB random write, 4 connections", connections=4),
    small("read", name="4 KiB random read, signed (GMAC)", protection="gmac"),
    small("write", name="4 KiB random write, signed (GMAC)", protection="gmac"),
    small("read", name="4 KiB random read, sealed (AES-128-GCM)", protection="seal"),
    small("write", name="4 KiB random write, sealed (AES-128-GCM)", protection="seal"),
    large("read", name="1 MiB read"),
    large("write", name="1 MiB write"),
    large("read", name="1 MiB read, signed (GMAC)", protection="gmac"),
    large("write", name="1 MiB write, signed (GMAC)", protection="gmac"),
    large("read", name="1 MiB read, sealed (AES-128-GCM)", protection="seal"),
    large("write", name="1 MiB write, sealed (AES-128-GCM)", protection="seal"),
    huge("read", name="4 MiB read"),
    huge("read", name="4 MiB read, signed (GMAC)", protection="gmac"),
    huge("read", name="4 MiB read, sealed (AES-128-GCM)", protection="seal"),
    small("create", name="create and close a new file"),
    small("open", name="open and close a file"),
    small("stat", name="open, query and close in a compound"),
    go("read", 4096, "4 KiB random read, go-smb2, 16 goroutines"),
    go("write", 4096, "4 KiB random write, go-smb2, 16 goroutines"),
    go("read", 1 << 20, "1 MiB read, go-smb2, 16 goroutines"),
    go("write", 1 << 20, "1 MiB write, go-smb2, 16 goroutines"),
)


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one run cost."""

    user_seconds: float
    system_seconds: float
    operations: int
    seconds: float

    @property
    def microseconds_each(self):
        return (self.user_seconds + self.system_seconds) / self.operations * 1e6

    @property
    def own_microseconds_each(self):
        """Without what the kernel did."""
        return self.user_seconds / self.operations * 1e6

    @property
    def operations_per_second(self):
        return self.operations / self.seconds


class Clients:
    """The client programs, each built once, when it is first wanted."""

    @functools.cached_property
    def pipelined(self):
        return packages.rust_program("bench-client", "bench-client")

    @functools.cached_property
    def go(self):
        return packages.go_program("go-smb2", "bench")

    def command(self, load, seconds):
        if load.client == "go":
            return [self.go, load.mode, str(load.block_bytes), str(load.depth), str(seconds), str(load.file_mib)]
        return [self.pipelined, "--mode", load.mode, "--block", str(load.block_bytes), "--depth", str(load.depth),
                "--connections", str(load.connections), "--protect", load.protection, "--seconds", str(seconds),
                "--file-mib", str(load.file_mib), *load.more]

    def run(self, load, server, share, seconds):
        """Runs a load and returns what the server's processes spent between its `begin` and its `end`."""
        before, after, result = self.between(load, server, share, seconds, server.cpu_times)
        user, system = (later - earlier for earlier, later in zip(before, after))
        return Measured(user, system, result["ops"], result["seconds"])

    def between(self, load, server, share, seconds, look):
        """Runs a load and returns what `look` gave at its `begin` and at its `end`, and what the client says it did."""
        client = subprocess.Popen(self.command(load, seconds), env=dict(server.environment(), SMB_SHARE=share),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            before = self._at("begin", client, look)
            after = self._at("end", client, look)
            said, complaints = client.communicate(timeout=PHASE_SECONDS)
        except BaseException:
            client.kill()
            client.wait()
            raise
        result = json.loads(said) if client.returncode == 0 else None
        if result is None or result["errors"]:
            raise RuntimeError(f"{load.name} against {server.kind}: {result} {complaints}")
        return before, after, result

    @staticmethod
    def _at(phase, client, look):
        """What `look` gives when the client says that it is there; then lets it go on."""
        said = client.stdout.readline().strip()
        if said != phase:
            raise RuntimeError(f"expected {phase}, the client said {said!r} {client.stderr.read()}")
        seen = look()
        client.stdin.write("\n")
        client.stdin.flush()
        return seen
