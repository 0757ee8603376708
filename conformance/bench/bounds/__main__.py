"""Measures what peers can make the server hold: `python3 -m conformance.bench.bounds --help`.

Memory is the resident set of the server's process, looked at every 50 ms: how much it grew at the most, and what was left some seconds
after the attacker had gone (`--after`, a minute unless told otherwise). The bystander (bystander.py) has connections on every shard. While
the attack is held somebody else signs in, makes a file, and reads back what it wrote there.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from conformance import multilane, packages, samba  # noqa: E402
from conformance.bench.bounds.behind import come_behind, come_first  # noqa: E402
from conformance.bench.bounds.case import FROZEN, all_cases  # noqa: E402
from conformance.bench.bounds.memory import Watch  # noqa: E402
from conformance.bench.run import line, machine  # noqa: E402
from conformance.loop_disk import LoopDisk  # noqa: E402
from conformance.py_smbprotocol import REQUIREMENTS  # noqa: E402
from conformance.report import Skip  # noqa: E402
from conformance.server import Wanted, end_with_everything, serving  # noqa: E402

SHARE = "bounds"
ALONE_SECONDS = 3
NEWCOMER_SECONDS = 60
STOP_SECONDS_MAX = 15
LEAVING_SECONDS = 20
TIMES_ALONE, MORE_MS = 3, 20
SERVERS = {"multilane": multilane.Multilane, "samba": samba.Samba}


@dataclasses.dataclass
class Seen:
    """What one case showed."""

    case: object
    grown_mib: float = 0.0
    left_mib: float = 0.0
    alone: dict = dataclasses.field(default_factory=dict)
    during: dict = dataclasses.field(default_factory=dict)
    newcomer: str = ""
    stopped_seconds: float | None = None
    told: list = dataclasses.field(default_factory=list)
    trouble: list = dataclasses.field(default_factory=list)

    @property
    def memory_holds(self):
        return self.grown_mib <= self.case.bound_mib

    def latency_holds(self, kind):
        alone, during = self.alone.get(kind), self.during.get(kind)
        return bool(alone and during) and during[1] <= TIMES_ALONE * alone[1] + MORE_MS

    @property
    def holds(self):
        return self.memory_holds and not self.trouble


def main():
    arguments = parsed()
    packages.go_on_with(*REQUIREMENTS, module="conformance.bench.bounds")
    signal.signal(signal.SIGTERM, end_with_everything)
    signal.signal(signal.SIGINT, end_with_everything)
    from conformance.bench.bounds import cases  # noqa: F401, they register themselves
    if arguments.binary:
        os.environ["MULTILANE_BINARY"] = str(arguments.binary.resolve())
    chosen = [case for name, case in all_cases().items() if not arguments.only or any(re.fullmatch(only, name) for only in arguments.only)]
    if arguments.list or not chosen:
        print("\n".join(f"{case.name:24} {case.who}, at most {case.bound_mib} MiB: {case.title}" for case in all_cases().values()))
        sys.exit(0 if arguments.list else f"no such case: {' '.join(arguments.only)}")
    rows = []
    for case in chosen:
        rows.append(measured(case, SERVERS[arguments.server], arguments))
        print(told(rows[-1]), flush=True)
    if arguments.out:
        arguments.out.write_text(document(rows, arguments))
    broken = [seen.case.name for seen in rows if not seen.holds]
    slow = [seen.case.name for seen in rows if not (seen.latency_holds("echo") and seen.latency_holds("read"))]
    print(f"{len(rows) - len(broken)} of {len(rows)} cases hold" + (f"; broken: {', '.join(broken)}" if broken else ""))
    if slow:
        print(f"the bystander's 99th percentile was over {TIMES_ALONE} times alone + {MORE_MS} ms in: {', '.join(slow)}")
    sys.exit(bool(broken))


def placed(kind, case):
    """This kind of server, as a case wants its process and its disks."""
    class Placed(kind):
        disk = None

        def prepare(self):
            if case.frozen:
                self.disk = LoopDisk(self.share_path(FROZEN), self.folder / "disk")
                self.disk.mount()
            super().prepare()

        def command(self):
            limit = ["prlimit", f"--nofile={case.descriptors}:{case.descriptors}", "--"] if case.descriptors else []
            return [*limit, *super().command()]

        def unmount(self):
            if self.disk:
                self.disk.unmount()
    return Placed


def measured(case, kind, arguments):
    print(f"{case.name} ...", file=sys.stderr, flush=True)
    seen = Seen(case)
    wanted = Wanted(shares=(SHARE, FROZEN) if case.frozen else (SHARE,), on_tmpfs=case.on_tmpfs)
    with serving(placed(kind, case), wanted) as server, contextlib.ExitStack() as stack:
        if case.prepare:
            case.prepare(server.share_path())
        bystander = stack.enter_context(child("bystander", environment(server, second_user=True), preexec_fn=come_first))
        expect_line(bystander, "ready", 60)
        note_shards(server, seen)
        time.sleep(ALONE_SECONDS)
        seen.alone = asked(bystander)
        watch = Watch(server)
        watch.start()
        try:
            attacked(case, server, bystander, watch, seen)
        finally:
            if case.frozen:
                # The attack may have done it.
                with contextlib.suppress(Skip):
                    server.disk.thaw()
        time.sleep(arguments.after)
        seen.left_mib = watch.grown_now_mib()
        watch.end()
        seen.grown_mib = watch.grown_mib
        if not server.running() or not server.answers():
            seen.trouble.append(f"the server is gone: {server.log_tail(5)}")
        began = time.monotonic()
        if server.stop() is None:
            seen.trouble.append("the server had to be killed")
        seen.stopped_seconds = time.monotonic() - began
        if seen.stopped_seconds > STOP_SECONDS_MAX:
            seen.trouble.append(f"the server took {seen.stopped_seconds:.0f} s to stop")
        seen.told.append(f"log {server.log.stat().st_size >> 10:,} KiB")
    return seen


def attacked(case, server, bystander, watch, seen):
    """The attack, until the attacker has gone."""
    asked(bystander)
    with child("attacker", environment(server), case.name) as attacker:
        until = time.monotonic() + case.seconds
        while (said := next_line(attacker, 0.2)) != "held":
            if said.startswith("missed "):
                seen.trouble.append(f"the attack missed {said.removeprefix('missed ')}")
            elif said:
                seen.told.append(said.removeprefix("says "))
            if watch.too_much.is_set() or time.monotonic() > until or attacker.poll() is not None:
                seen.trouble.append("stopped: too much memory" if watch.too_much.is_set() else "stopped: the attack was not done in time")
                break
        time.sleep(case.held_seconds)
        seen.newcomer = newcomers(case, server, seen)
        seen.during = asked(bystander)
        if seen.during.pop("trouble", None):
            seen.trouble.append("the bystander lost its connection")
        attacker.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            attacker.wait(0 if watch.too_much.is_set() else LEAVING_SECONDS)


def newcomers(case, server, seen):
    """How long others take to sign in, to make a file and to read it back: the slowest."""
    seconds = [newcomer(case, server, seen) for _ in range(case.newcomers)]
    return "failed" if None in seconds else f"{max(seconds):.2f} s"


def newcomer(case, server, seen):
    began = time.monotonic()
    with child("newcomer", environment(server, second_user=True)) as process:
        said = next_line(process, NEWCOMER_SECONDS) or f"nothing for {NEWCOMER_SECONDS} s"
    if not said.startswith("done "):
        seen.trouble.append(f"somebody else could not work: {said}, after {time.monotonic() - began:.1f} s")
        return None
    seconds = float(said.removeprefix("done "))
    if seconds > case.newcomer_seconds:
        seen.trouble.append(f"somebody else took {seconds:.1f} s to sign in and work")
    return seconds


def note_shards(server, seen):
    """The bystander is to be on every shard, where the server tells of them."""
    if hasattr(server, "session_views"):
        shards = {channel["shard"] for session in server.session_views() for channel in session["channels"]}
        if len(shards) < (os.cpu_count() or 1):
            seen.told.append(f"the bystander is on {len(shards)} shards only")


def environment(server, second_user=False):
    user = getattr(server, "second_user", server.user) if second_user else server.user
    return dict(server.environment(), SMB_USER=user, PYTHONPATH=str(packages.ROOT), SMB_PID=str(server.pid),
                BOUNDS_FROZEN=str(server.share_path(FROZEN)))


@contextlib.contextmanager
def child(module, env, *words, preexec_fn=come_behind):
    process = subprocess.Popen([sys.executable, "-m", f"conformance.bench.bounds.{module}", *words], env=env, cwd=packages.ROOT,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, preexec_fn=preexec_fn)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def next_line(process, seconds):
    """The next line that it says, or nothing where it says none in time."""
    if not select.select([process.stdout], [], [], seconds)[0]:
        return ""
    return process.stdout.readline().decode().strip()


def expect_line(process, expected, seconds):
    said = next_line(process, seconds)
    if said != expected:
        raise RuntimeError(f"expected {expected}, the client said {said!r}")


def asked(bystander):
    """What the bystander saw since it was asked last."""
    bystander.stdin.write(b"\n")
    return json.loads(next_line(bystander, 30) or '{"trouble": "it says nothing"}')


def told(seen):
    """A case in a few lines."""
    lines = [f"{seen.case.name}: {'holds' if seen.holds else 'BROKEN'}: {seen.grown_mib:.0f} MiB of {seen.case.bound_mib}, "
             f"{seen.left_mib:.0f} left afterwards; {'; '.join(seen.told)}",
             *(f"  {kind}: p50 {milliseconds(seen, kind, 0)}, p99 {milliseconds(seen, kind, 1)}, longest {milliseconds(seen, kind, 2)} ms "
               f"(alone -> during){'' if seen.latency_holds(kind) else '  TOO SLOW'}" for kind in ("echo", "read")),
             f"  somebody else signs in and works: {seen.newcomer}; stopped in {seen.stopped_seconds:.1f} s",
             *(f"  {trouble}" for trouble in seen.trouble)]
    return "\n".join(lines)


def milliseconds(seen, kind, place):
    alone, during = seen.alone.get(kind), seen.during.get(kind)
    return f"{alone[place]:.1f} -> {during[place]:.1f}" if alone and during else "?"


def document(rows, arguments):
    """docs/BOUNDS.md."""
    head = ["case", "who", "bound, MiB", "grown, MiB", "left, MiB", "ECHO p50, ms", "ECHO p99, ms", "READ p50, ms", "READ p99, ms",
            "bystander", "somebody else"]
    table = [line(head), line(["---"] * 2 + ["---:"] * 7 + ["---"] * 2)]
    for seen in rows:
        fast = all(seen.latency_holds(kind) for kind in ("echo", "read"))
        table.append(line([seen.case.title, seen.case.who, f"{seen.case.bound_mib}", f"{seen.grown_mib:.0f}", f"{seen.left_mib:.0f}",
                           *(milliseconds(seen, kind, place) for kind in ("echo", "read") for place in (0, 1)),
                           "as it should" if fast else "too slow", seen.newcomer]))
    return "\n\n".join(["# Bounds", __doc__.split("\n\n", 1)[1].strip(),
                        f"The bystander's times are alone -> during the attack, those of its slowest connection; they are as they should be where "
                        f"the 99th percentile is at most {TIMES_ALONE} times that alone plus {MORE_MS} ms. Attacker and bystander have the same "
                        "cores as the server, where the attacker comes behind it and the others, with little to do, before it: real ones have "
                        "machines of their own.",
                        f"Machine: {machine()}. Made by `python3 -m conformance.bench.bounds --after {arguments.after:g} --out docs/BOUNDS.md`, which ends "
                        "with 1 where more memory is taken than the bound, or somebody else cannot work.", "\n".join(table)]) + "\n"


def parsed():
    parser = argparse.ArgumentParser(prog="conformance.bench.bounds", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", metavar="CASE", help="names or regular expressions; --list tells them")
    parser.add_argument("--list", action="store_true", help="tell the cases")
    parser.add_argument("--binary", type=pathlib.Path, help="the server, otherwise $MULTILANE_BINARY or target/release/multilane")
    parser.add_argument("--server", choices=SERVERS, default="multilane")
    parser.add_argument("--after", type=float, default=60, metavar="SECONDS", help="how long after the attack memory is looked at again (60)")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write the table there, such as docs/BOUNDS.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
