"""The kernel's client copies to a continuously available share while the server is killed and started again, several times; its part is
in kernel-guest/failover.sh. It skips for servers that have no such shares."""

import hashlib
import shlex
import signal
import threading
import time

from conformance import guest, packages
from conformance.report import Skip, expect
from conformance.server import Wanted, serving

NAME = "failover"
SECONDS = 900
KILLS_AT_MIB = (4, 16, 32)
STOPPED_SECONDS = 0.5
DOWN_SECONDS = 2
LOOK_EVERY_SECONDS = 0.05


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("persistent handles are tested against multilane only")
    with serving(kind, Wanted(continuous=True)) as server:
        variables = {"server": guest.GATEWAY, "port": server.port, "share": server.share, "user": server.user,
                     "password": server.password}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())
        script += (guest.FILES / "failover.sh").read_text()
        ended = threading.Event()
        killer = threading.Thread(target=kill_in_the_middle, args=(server, report, ended))
        killer.start()
        try:
            failures = report.count("fail")
            said = report.absorb(NAME, guest.command(script, server.folder), SECONDS, cwd=packages.CACHE, ending=guest.ENDING)
        finally:
            ended.set()
            killer.join()
        if report.count("fail") > failures:
            report.note(f"What the guest printed:\n{said}\nThe server's log:\n{server.log_tail()}")
        with report.check(NAME, "the file on the server's disk is the copy"):
            copied = hashlib.sha256((server.share_path() / "copy").read_bytes()).hexdigest()
            expect(f"sum {copied}" in said, f"its sum is {copied}\n{said}")
        with report.check(NAME, "opens came back after every kill"):
            log = server.log.read_text(errors="replace")
            back = log.count("a persistent open waits for its client")
            expect(back >= len(KILLS_AT_MIB), f"{back} opens were restored")
        report.server_is_well(NAME, server)


def kill_in_the_middle(server, report, ended):
    """Kills the server whenever so much of the copy has arrived, and starts it again."""
    copy = server.share_path() / "copy"
    for mib in KILLS_AT_MIB:
        while not (copy.exists() and copy.stat().st_size >= mib << 20):
            if ended.wait(LOOK_EVERY_SECONDS):
                report.add(NAME, f"the server is killed after {mib} MiB", "fail", detail="the copy did not get so far")
                return
        # Linux 6.1 gives the program an error where the connection breaks while it sends, persistent handle or not: it waits for an
        # answer, and has sent all it wants to, when it happens.
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        server.process.kill()
        server.process.wait()
        time.sleep(DOWN_SECONDS)
        server.start()
        report.add(NAME, f"the server is killed after {mib} MiB", "pass")
