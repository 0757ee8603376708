"""Samba's smbtorture: its smb2 tests one by one, several at a time, each on a share of its own.

What does not pass must be listed with its reason in the known-failures file; what is listed must not pass.
"""

import concurrent.futures
import dataclasses
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time

from conformance import known, packages
from conformance.capabilities import Relay
from conformance.report import expect
from conformance.server import Wanted, serving

NAME = "torture"
SECOND_SHARE = "torture-second"
# smb2.ioctl.bug14788 connects to a share of this name and asks it something that needs no access to its files.
IOCTL_SHARE = "noperm"
# smb2.acls.ACCESSBASED lists a share of this name.
LISTING_SHARE = "hideunread"
RETRIES_MAX = 40
CHANNELS = 32  # as many as smb2.multichannel.generic.num_channels wants; bug_15346 wants port 445

# Tests that need several channels. Where the server offers them it signs with CMAC, and smbtorture 4.17 names no request in a CANCEL then that comes before
# the interim response, and passes over all tests of signing; so the others run against a server that offers none.
CHANNELLED = r"smb2\.(multichannel|replay)\.|smb2\.session\.bind|smb2\.lock\.replay|smb2\.ioctl\.network_interface"

# Tests that cut connections with iptables, all under the same names there: one at a time. They wait for cut connections one after another.
CUTTING = r"smb2\.(multichannel\.(oplocks|leases)|oplock\.batch22b|replay\.dhv2-pending3)"
CUTTING_TIMEOUT_SECONDS = 180

# What they call instead of iptables. A channel that is cut before its client has acknowledged the last response carries no break any more: the
# server's kernel repeats that response and sends nothing behind it, so that the retry comes on the channel after it. Linux delays the
# acknowledgement of what it has no answer to by 40 ms; a test that cuts many channels in a row wants each retry on the very next one.
# Nor does a channel on which the server has heard nothing for 25.5 s: test3_specification cuts 32 of them, is answered on a new one every 1.256 s,
# and at this pace of cuts all that are left end half-way between the 19th and the 20th. As fast as it goes, they might end while one is chosen.
# They drop whatever comes from the port of a connection, which may be another suite's by then: a server that was given it as a free one
# answered nobody. So only what goes to the server of these tests is dropped.
CUT = """#!/bin/sh
case "$*" in *-I*--sport*)
    now=$(date +%s%3N)
    last=$(cat "$0.last" 2>/dev/null || echo 0)
    [ $((now - last)) -lt 1000 ] || last=$now
    due=$((last + {cut_every_ms}))
    echo $due >"$0.last"
    [ $due -le $now ] || sleep $(printf 0.%03d $((due - now)))
    ;;
esac
case "$*" in *--sport*) set -- "$@" --dport {port} ;; esac
exec {iptables} "$@"
"""
CUT_EVERY_MS = 75

# The beginnings of the names of tests that are run: of SMB 2 and 3, and of what Macs ask for.
FOR_MACS = "vfs.fruit"
OURS = ("smb2.", FOR_MACS)

# What is never run, and why. The key is the test's name up to a dot.
NOT_RUN = {
    "vfs.fruit_netatalk": "sets extended attributes as Netatalk does, through a local path",
    "vfs.fruit_conversion": "wants files of Netatalk turned into what Samba's module keeps",
    "smb2.bench": "measures speed for as long as it is told to; conformance/bench measures ours",
    "smb2.scan": "tries every command and info level in a loop and judges none of them",
    "smb2.hold-oplock": "holds an oplock for a person to look at and never ends",
    "smb2.hold-sharemode": "holds share modes for a person to look at and never ends",
    "smb2.check-sharemode": "is the second half of hold-sharemode, run by hand",
    "smb2.kernel-oplocks": "takes leases from Samba's kernel on the same files, on the server's machine",
    "smb2.samba3misc": "takes a POSIX lock on the server's own file system",
    "smb2.notify-inotify": "changes files behind the server's back through a local path",
    "smb2.maxfid": "opens files until the server refuses, for minutes",
    "smb2.aio_delay": "needs Samba's module that delays I/O",
    "smb2.async_dosmode": "needs Samba's module that delays attribute reads",
    "smb2.durable-v2-delay": "needs Samba's module that delays reconnects",
    "smb2.durable-open-disconnect": "needs a person to cut the connection",
    "smb2.mangle": "tests Samba's 8.3 name scheme",
    "smb2.twrp": "needs a snapshot made beforehand and its time as an argument",
    "smb2.change_notify_disabled": "needs a server with change notification switched off",
    "smb2.set-sparse-ioctl": "needs an existing file's name as an argument",
    "smb2.zero-data-ioctl": "needs an existing file's name and ranges as arguments",
    "smb2.ioctl-on-stream": "needs an existing file's name as an argument",
    "smb2.secleak": "watches the server's memory by eye while it repeats failed logins",
    "smb2.timestamp_resolution": "expects a file system that keeps whole seconds",
}

# What the file system under the shares' folder cannot do, and a RAM disk can: sharing extents.
ON_RAM_DISK = r"smb2\.ioctl\.dup_extents_"
RAM_SHARE = "torture-ram"
# What takes longer than other tests by design: how many times as long it may.
SLOW = {"smb2.notify.mask.mask": 3, "smb2.notify.mask-change.mask-change": 3}


@dataclasses.dataclass
class Outcome:
    test: str
    result: str  # pass, fail, skip (smbtorture said so), timeout, or norun: it ended without a verdict
    seconds: float
    text: str


def run(kind, report, options):
    packages.need("smbtorture")
    tests = [test for test in listed(kind) if re.search(options.torture_tests, test)]
    shares = tuple(f"torture{number}" for number in range(options.torture_parallel))
    wanted = Wanted(shares=(*shares, SECOND_SHARE, IOCTL_SHARE, LISTING_SHARE), access_based=(LISTING_SHARE,),
                    ram_shares=(RAM_SHARE,) if kind.has_ram_shares else (),
                    continuous=True, windows_like=True, on_tmpfs=True, usual_port=True, anonymous=True)
    channelled = [test for test in tests if re.match(CHANNELLED, test)]
    outcomes = []
    for some, channels in (([test for test in tests if test not in channelled], 1), (channelled, CHANNELS)):
        if not some:
            continue
        with serving(kind, dataclasses.replace(wanted, channels=channels)) as server:
            torture = Torture(server, shares, options.torture_timeout)
            outcomes += torture.all(some, report.known)
            with report.check(NAME, f"no test ended the server of {channels} channels"):
                expect(not torture.ended_server, f"it ended during: {torture.ended_server}")
            report.server_is_well(NAME, server)
    if options.update:
        known.update(kind, report.known, {outcome.test: outcome.result for outcome in outcomes})
    for outcome in outcomes:
        passed = outcome.result == "pass"
        report.add(NAME, outcome.test, "pass" if passed else "fail", outcome.seconds,
                   f"{outcome.result}\n{excerpt(outcome.text)}")
    if options.torture_tests == ".":
        with report.check(NAME, "every listed known failure is a test of this smbtorture"):
            gone = sorted(test for test in report.known if test.startswith(OURS) and test not in tests)
            expect(not gone, f"not run: {gone}")


def listed(kind):
    """The names of all tests that are run. Those for Macs want a module of Samba's, where the server is Samba."""
    lines = subprocess.run(["smbtorture", "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = OURS if kind.kind == "multilane" else OURS[:1]
    names = [line.strip() for line in lines if line.strip().startswith(wanted)]
    return [name for name in names if not any(name == prefix or name.startswith(prefix + ".") for prefix in NOT_RUN)]


class Torture:
    """Runs tests against one server, restarting it when a test brings it down."""

    def __init__(self, server, shares, timeout_seconds):
        self.server = server
        self.timeout_seconds = timeout_seconds
        self.ended_server = []
        self.logs = packages.cache(f"torture-logs-{server.kind}")
        self._under_way = set()
        self._reviving = threading.Lock()
        self._cutting = threading.Lock()
        self._on_ram_disk = threading.Lock()
        self._free = queue.Queue()
        for share in shares:
            self._free.put(share)
        self._for_macs = Relay(server)
        self._login = server.folder / "torture-login"
        self._login.write_text(f"username = {server.user}\npassword = {server.password}\n")
        self._options = [f"--option=torture:share2={SECOND_SHARE}",
                         f"--option=torture:acl_xattr_name={server.acl_attribute}"]
        second_user = getattr(server, "second_user", None)
        if second_user:
            self._options += [f"--option=torture:user2name={second_user}",
                              f"--option=torture:user2password={server.password}"]
        if can_block_ports():
            cut = server.folder / "cut"
            cut.write_text(CUT.format(iptables=packages.find("iptables"), port=server.port, cut_every_ms=CUT_EVERY_MS))
            cut.chmod(0o755)
            self._options += ["--option=torture:use_iptables=yes", f"--option=torture:iptables_command={cut}"]

    def all(self, tests, listed_failures):
        """Every test's outcome. One that is not as listed is run again, alone, and that run counts.

        With very many of them it is not the company that made them deviate, and the first run counts.
        """
        with concurrent.futures.ThreadPoolExecutor(self._free.qsize()) as several:
            outcomes = list(several.map(self.one, tests))
        deviating = [outcome for outcome in outcomes if not as_listed(outcome, listed_failures)]
        if len(deviating) > RETRIES_MAX:
            return outcomes
        return [self.one(outcome.test) if outcome in deviating else outcome for outcome in outcomes]

    def one(self, test):
        share = self._free.get()
        self._under_way.add(test)
        began = time.monotonic()
        try:
            self._empty(share)
            if re.match(CUTTING, test):
                with self._cutting:
                    mend()
                    result, text = self._call(test, share, max(self.timeout_seconds, CUTTING_TIMEOUT_SECONDS))
                    mend()
            elif re.match(ON_RAM_DISK, test) and self.server.has_ram_shares:
                with self._on_ram_disk:
                    result, text = self._call(test, RAM_SHARE, self.timeout_seconds)
            else:
                result, text = self._call(test, share, self.timeout_seconds)
        finally:
            self._free.put(share)
        outcome = Outcome(test, result, time.monotonic() - began, text)
        (self.logs / f"{test.replace('/', ' ')}.log").write_text(f"{result}\n{text}")
        self.revive()
        self._under_way.discard(test)
        return outcome

    def _empty(self, share):
        """What one test leaves behind, read-only perhaps, is not the next one's concern."""
        for entry in self.server.share_path(share).iterdir():
            if entry.name != ".multilane":
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def revive(self):
        """Starts the server again after it ended, and remembers what ran then."""
        with self._reviving:
            if not self.server.running():
                self.ended_server.append(sorted(self._under_way))
                self.server.start()

    def _call(self, test, share, timeout_seconds):
        port = self._for_macs.port if test.startswith(FOR_MACS) else self.server.port
        argv = ["smbtorture", "-p", str(port), "-A", str(self._login), *self._options,
                f"//{self.server.host}/{share}", test]
        # smbtorture leaves files in its folder, so it gets one that goes away.
        with tempfile.TemporaryDirectory(dir=self.server.folder) as folder:
            process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT)
            try:
                output, _ = process.communicate(timeout=timeout_seconds * SLOW.get(test, 1))
                result = None
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
                result = "timeout"
        text = output.decode("utf-8", "replace")
        return result or verdict(text), text


def verdict(text):
    """What smbtorture's subunit lines say of the one test that ran."""
    for words, result in (("failure|error", "fail"), ("success", "pass"), ("skip", "skip")):
        if re.search(rf"^({words}):", text, re.MULTILINE):
            return result
    return "norun"


def can_block_ports():
    """Whether the multichannel tests may cut connections with iptables here."""
    if os.geteuid() != 0 or not packages.find("iptables"):
        return False
    return subprocess.run([packages.find("iptables"), "-L", "-n"], capture_output=True).returncode == 0


def mend():
    """Takes away what a test that was ended left in iptables."""
    if not can_block_ports():
        return
    iptables = packages.find("iptables")
    rules = subprocess.run([iptables, "-S"], capture_output=True, text=True).stdout.splitlines()
    chains = [rule.split()[1] for rule in rules if rule.startswith("-N SMBTORTURE_")]
    jumps = [rule.split()[1:] for rule in rules if rule.startswith("-A OUTPUT -j SMBTORTURE_")]
    for removal in [*(["-D", *jump] for jump in jumps), *(["-F", chain] for chain in chains), *(["-X", chain] for chain in chains)]:
        subprocess.run([iptables, *removal], capture_output=True)


def as_listed(outcome, listed_failures):
    return (outcome.result == "pass") != (outcome.test in listed_failures)


def excerpt(text, lines=6):
    """Why a test did not pass, in its own words: what stands in its verdict's brackets, and the warnings before."""
    bracketed = re.search(r"^(?:failure|error|skip): [^\n]*\[\n(.*?)\n\]", text, re.MULTILINE | re.DOTALL)
    told = re.findall(r"^.*(?:Incorrect|should be|WARNING|NT_STATUS_).*$", text, re.MULTILINE)
    told += bracketed[1].splitlines() if bracketed else []
    return "\n".join((list(dict.fromkeys(told)) or text.splitlines())[-lines:])
