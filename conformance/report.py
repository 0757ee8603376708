"""What each check found: printed as it happens, counted for the last line and the exit code."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time


# What `--update` writes for a newly failing test; a person replaces it with the reason.
TODO = "TODO reason"
# How long a server may take to notice that its clients are gone.
CLOSING_SECONDS = 5
# How long a client may take to exit once it has closed its output, or this program was told to end.
ENDING_SECONDS = 10
# Of a client's other output, the last lines are kept for the report of a failure.
PRINTED_LINES = 80


class Skip(Exception):
    """Raised inside a check that cannot run here; its text says what is missing."""


class Failure(Exception):
    """Raised inside a check whose expectation did not hold; its text says what was seen."""


def until(is_so, what, seconds):
    """Waits until it is so, for so many seconds; a failure that says `what` where it does not come."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Failure(what)
        time.sleep(0.1)


@dataclasses.dataclass
class Check:
    suite: str
    name: str
    outcome: str  # pass, fail, skip, or known: a failure that is listed with its reason
    seconds: float
    detail: str = ""

    def lines(self):
        """The check as a person reads it: one line, and below it what was seen unless it passed."""
        first = f"{self.outcome:5} {self.suite}: {self.name} ({self.seconds:.1f} s)"
        if not self.detail or self.outcome == "pass":
            return first
        return first + "\n      " + self.detail.strip().replace("\n", "\n      ")


class Report:
    """Collects checks from every suite; safe to use from several threads.

    What is listed as a known failure, by `suite: name` or for smbtorture by the test's name alone, must fail:
    it counts as known then, and as a failure when it passes.
    """

    def __init__(self, known=None, lines=sys.stdout):
        self.checks = []
        self.known = known or {}
        self._lines = lines
        self._lock = threading.Lock()

    def add(self, suite, name, outcome, seconds=0.0, detail=""):
        reason = self.known.get(f"{suite}: {name}", self.known.get(name))
        if reason is not None and outcome == "pass":
            outcome, detail = "fail", f"passes, yet it is listed: {reason}"
        elif reason is not None and reason.startswith(TODO):
            outcome, detail = "fail", "listed, but nobody has written the reason"
        elif reason is not None and outcome == "fail":
            outcome, detail = "known", reason
        check = Check(suite, name, outcome, seconds, detail)
        with self._lock:
            self.checks.append(check)
            print(check.lines(), file=self._lines, flush=True)
        return check

    @contextlib.contextmanager
    def check(self, suite, name):
        """Runs the body as one check: what it raises decides the outcome."""
        began = time.monotonic()
        outcome, detail = "pass", ""
        try:
            yield
        except Skip as reason:
            outcome, detail = "skip", str(reason)
        except Failure as seen:
            outcome, detail = "fail", str(seen)
        except Exception as error:  # a crash of the check is a failure of the check
            outcome, detail = "fail", f"{type(error).__name__}: {error}"
        self.add(suite, name, outcome, time.monotonic() - began, detail)

    def absorb(self, suite, argv, timeout_seconds, env=None, cwd=None, lines_kept=PRINTED_LINES, ending=None):
        """Runs a client program that prints `ok NAME`, `not ok NAME - WHY` or `skip NAME - WHY` lines.

        The program's exit is a check of its own, so that a client which dies early is not a quiet pass. What is not one is the exit of an
        emulator after its guest has printed the line `ending`: it has done all by then.
        """
        began = last = time.monotonic()
        seen = 0
        other = []
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        late = threading.Timer(timeout_seconds, process.kill)
        late.start()
        try:
            for line in process.stdout:
                now = time.monotonic()
                outcome, name, detail = parse_line(line.rstrip("\r\n"))
                if outcome is None:
                    other.append(line)
                    continue
                self.add(suite, name, outcome, now - last, detail)
                last, seen = now, seen + 1
        finally:
            late.cancel()
            if process.poll() is None and time.monotonic() - began < timeout_seconds:
                ended(process)
        code = process.wait()
        printed = "".join(other[-lines_kept:])
        elapsed = time.monotonic() - began
        if code != 0 and not any(line.strip() == ending for line in other):
            limit = f" (limit {timeout_seconds} s)" if elapsed >= timeout_seconds else ""
            self.add(suite, "the client ran to its end", "fail", elapsed, f"exit {code}{limit}\n{last_lines(printed)}")
        elif seen == 0:
            self.add(suite, "the client ran to its end", "fail", elapsed, f"it reported no check\n{last_lines(printed)}")
        return printed

    def note(self, text):
        """Prints something that belongs to no single check."""
        with self._lock:
            print(text, file=self._lines, flush=True)

    def server_is_well(self, suite, server):
        """After a suite: the same process still serves, and no client's handle has stayed open."""
        with self.check(suite, "the server is still the same process and answers"):
            expect(server.running(), f"it ended with {server.process.poll()}\n{server.log_tail()}")
            expect(server.answers(), "no answer to a NEGOTIATE")
        if server.open_files() is None:
            return
        with self.check(suite, "no handle stayed open"):
            deadline = time.monotonic() + CLOSING_SECONDS
            while server.open_files() and time.monotonic() < deadline:
                time.sleep(0.2)
            left = server.open_files()
            expect(left == 0, f"{left} handles are still open")

    def count(self, outcome):
        return sum(check.outcome == outcome for check in self.checks)

    def failures(self):
        """The lines of all that failed or was skipped, again: among a thousand that passed nobody finds them."""
        return "\n".join(check.lines() for check in self.checks if check.outcome in ("fail", "skip"))

    def summary(self):
        return f"{self.count('pass')} passed, {self.count('fail')} failed, {self.count('skip')} skipped"

    def exit_code(self):
        """1 after a failure; 1 after a skip too where CI=true, because there nothing may be left out."""
        strict = os.environ.get("CI") == "true"
        return int(self.count("fail") > 0 or (strict and self.count("skip") > 0))

    def json(self):
        return json.dumps({
            "checks": [dataclasses.asdict(check) for check in self.checks],
            "passed": self.count("pass"), "failed": self.count("fail"),
            "skipped": self.count("skip"), "known": self.count("known"),
        }, indent=1)


def last_lines(printed):
    return "\n".join(printed.splitlines()[-PRINTED_LINES:])


def ended(process):
    """Waits for a process that has closed its output; one that was interrupted instead is killed."""
    try:
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def parse_line(line):
    """A client's report line as (outcome, name, detail); (None, "", "") for any other output."""
    for prefix, outcome in (("ok ", "pass"), ("not ok ", "fail"), ("skip ", "skip")):
        if line.startswith(prefix):
            name, _, detail = line[len(prefix):].partition(" - ")
            return outcome, name, detail
    return None, "", ""


class Lines:
    """The other end of `Report.absorb`: a client written in Python reports its checks through this."""

    @contextlib.contextmanager
    def check(self, name):
        try:
            yield
        except Skip as reason:
            print(f"skip {name} - {reason}", flush=True)
        except Exception as error:
            text = str(error).replace("\n", " | ")
            print(f"not ok {name} - {type(error).__name__}: {text}", flush=True)
        else:
            print(f"ok {name}", flush=True)


def expect(condition, seen):
    """Fails the running check with what was seen unless the condition holds."""
    if not condition:
        raise Failure(seen)
