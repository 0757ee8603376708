"""Two kernel clients, each in a guest of its own, on the same files with default caching: a checker looks at all that they read and
wrote, first undisturbed, then while a relay cuts their connections at random.

The guests do one thing at a time and are told each by this program (kernel-guest/worker.c), so that one clock saw everything.
"""

import random
import shlex
import socket
import subprocess
import threading
import time

from conformance import guest, history, packages
from conformance.relay import Cutter
from conformance.report import expect
from conformance.server import Wanted, serving

NAME = "coherence"
GUESTS = 2
FILES, BLOCKS, BLOCK_BYTES = 2, 4, 4096
BOOT_SECONDS = 120
# A guest answers in time even when it has to wait for a break and to connect anew.
ANSWER_SECONDS = 90
CALM_SECONDS, CUT_SECONDS = 15, 60
CUT_CHANCE = 0.2
# Who caches only reads is told of a change and not waited for; a client whose connection was cut has to notice that first. This
# much later than it was answered a change has to be seen everywhere.
CALM_GRACE, CUT_GRACE = 0.5, 2.0
SCRIPT = """
mkdir -p /mnt && mount.cifs "//$server/$share" /mnt -o "port=$port,username=$user,password=$password,vers=3.1.1,nosharesock" || exit 1
grep ' /mnt ' /proc/mounts
/bin/worker $server $run /mnt
echo "worker ended with $?"
umount /mnt
dmesg | tail -n 20
"""


def run(kind, report, options):
    worker = guest.worker()
    seed = random.randrange(1 << 32)
    report.note(f"coherence: seed {seed}")
    with report.check(NAME, "the checker knows stale reads and lost writes"):
        expect(history.works(), "it judges made-up histories wrongly")
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True, continuous=True)) as server:
        for number in range(FILES):
            (server.share_path() / str(number)).write_bytes(bytes(BLOCKS * BLOCK_BYTES))
        with Cutter(server, seed) as relay, Guests(server, relay, worker) as guests:
            with report.check(NAME, "two guests mount the share"):
                guests.wait()
            if not guests.ready():
                return
            judge(report, guests, seed, "files opened for each access", "rw", CALM_SECONDS, CALM_GRACE)
            judge(report, guests, seed + 1, "files that stay open", "RW", CALM_SECONDS, CALM_GRACE)
            relay.chance = CUT_CHANCE
            judge(report, guests, seed + 2, "a fifth of the connections cut each second", "rw", CUT_SECONDS, CUT_GRACE)
            relay.chance = 0.0
            with report.check(NAME, "connections were cut"):
                expect(relay.cuts > 0, "none")
            report.note(f"coherence: {relay.cuts} connections cut")
            with report.check(NAME, "the files hold what was written last"):
                expect_last(server, guests.events)
        report.server_is_well(NAME, server)


def judge(report, guests, seed, name, verbs, seconds, grace):
    with report.check(NAME, f"no read is stale and no write lost: {name}"):
        failed = guests.work(seed, verbs, seconds)
        seen = sum(not event.is_write for event in guests.events)
        report.note(f"coherence: {len(guests.events)} events so far, {seen} of them reads; {failed} operations failed; changes were "
                    f"seen everywhere within {history.delay(guests.events)} s")
        found = history.fault(guests.events, grace)
        expect(found is None, found)


def expect_last(server, events):
    """Every block holds a value that a read at the end may give."""
    now = time.monotonic()
    last = []
    for file in range(FILES):
        content = (server.share_path() / str(file)).read_bytes()
        for block in range(BLOCKS):
            words = content[block * BLOCK_BYTES:(block + 1) * BLOCK_BYTES]
            expect(words == words[:8] * (BLOCK_BYTES // 8), f"file {file}, block {block} holds several values")
            value = int.from_bytes(words[:8], "little")
            last.append(history.Event("disk", (file, block), value, False, now + CUT_GRACE, now + CUT_GRACE))
    found = history.fault([*events, *last], CUT_GRACE)
    expect(found is None, found)


class Guests:
    """The guests, and a connection to the worker in each."""

    def __init__(self, server, relay, worker):
        self.server, self.relay, self.worker = server, relay, worker
        self.events = []
        self._values = 0
        self._lock = threading.Lock()
        self._workers, self._processes = [], []

    def __enter__(self):
        self._listener = socket.create_server((self.server.host, 0))
        self._listener.settimeout(BOOT_SECONDS)
        for number in range(GUESTS):
            folder = self.server.folder / f"guest-{number}"
            folder.mkdir()
            command = guest.command(self._script(), folder, {"bin/worker": self.worker})
            with open(folder / "said", "wb") as said:
                self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                                        cwd=packages.CACHE))
        return self

    def _script(self):
        variables = {"server": guest.GATEWAY, "port": self.relay.port, "share": self.server.share, "user": self.server.user,
                     "password": self.server.password, "run": self._listener.getsockname()[1]}
        return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items()) + SCRIPT

    def __exit__(self, *_):
        for worker in self._workers:
            worker.close()
        self._listener.close()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait(self):
        """Until every guest has mounted the share."""
        try:
            for _ in range(GUESTS):
                connection, _ = self._listener.accept()
                connection.settimeout(ANSWER_SECONDS)
                self._workers.append(Worker(connection))
        except TimeoutError as error:
            raise AssertionError("\n".join(self.said())) from error

    def ready(self):
        return len(self._workers) == GUESTS

    def said(self):
        return [path.read_text(errors="replace")[-2000:] for path in sorted(self.server.folder.glob("guest-*/said"))]

    def work(self, seed, verbs, seconds):
        """All guests read and write for so long; how many of their operations failed."""
        until = time.monotonic() + seconds
        failed, broken = [0] * GUESTS, []

        def one(number, worker):
            chance = random.Random(f"{seed} {number}")
            try:
                while time.monotonic() < until:
                    failed[number] += not self._step(f"guest {number}", worker, chance, verbs)
            except Exception as error:
                broken.append(f"guest {number}: {type(error).__name__}: {error}")
        threads = [threading.Thread(target=one, args=each) for each in enumerate(self._workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(not broken, "; ".join(broken) + "\n" + "\n".join(self.said()))
        return sum(failed)

    def _step(self, name, worker, chance, verbs):
        read, write = verbs
        file, block = chance.randrange(FILES), chance.randrange(BLOCKS)
        is_write = chance.random() < 0.4
        value = self._new_value() if is_write else 0
        began = time.monotonic()
        answer = worker.ask(f"{write if is_write else read} {file} {block} {value}").split()
        ended = time.monotonic()
        expect(answer[0] != "torn", f"a block of {name} holds several values")
        done = answer[0] == "ok"
        if is_write:
            # What failed may have been done all the same, now or later.
            self._add(name, (file, block), value, True, began, ended if done else history.NEVER)
        elif done:
            self._add(name, (file, block), int(answer[1]), False, began, ended)
        return done

    def _new_value(self):
        with self._lock:
            self._values += 1
            return self._values

    def _add(self, *fields):
        with self._lock:
            self.events.append(history.Event(*fields))


class Worker:
    """The program in one guest."""

    def __init__(self, connection):
        self._connection = connection
        self._lines = connection.makefile("rw")

    def ask(self, line):
        self._lines.write(line + "\n")
        self._lines.flush()
        answer = self._lines.readline()
        if not answer:
            raise ConnectionError("the guest's program has ended")
        return answer

    def close(self):
        self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
