"""Snapshots of shares by Azure Files' REST interface, on btrfs, by Microsoft's own clients for Python as they are published, beside SMB clients; its checks
are in rest_snapshot_checks.py."""

import json
import os
import pathlib
import shutil
import subprocess
import time

from conformance import packages, rest_table
from conformance.data_on_btrfs import DataOnBtrfs
from conformance.management import REQUIREMENTS, Managed
from conformance.report import expect
from conformance.rest import only_ours
from conformance.server import HOST, Wanted, serving

NAME = "rest_snapshots"
CHECK_SECONDS = 300
TAKEN_AWAY_SECONDS = 30
NOBODY = 65534


class OnBtrfs(DataOnBtrfs, Managed):
    """Our server whose shares have snapshots."""

    def snapshot_environment(self):
        return dict(self.management_environment(), SNAPSHOT_SHARES=str(self.disk.folder / "shares"), SNAPSHOT_SERVER=str(self.pid))

    def subvolumes_of(self, share):
        """Those of a share, and of its snapshots: other shares are kept for some days."""
        return [path for path in self.subvolumes() if f"/{share}-" in path]


class AsNobody(OnBtrfs):
    """The same as a user who may nothing, as packages install it: only root deletes subvolumes."""

    def prepare(self):
        packages.need("setpriv")
        # Who may nothing may not look where it was built.
        own = self.folder / "multilane"
        shutil.copy(self.program, own)
        self.program = self.folder / "as-nobody"
        self.program.write_text(f'#!/bin/sh\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups -- {own} "$@"\n')
        self.program.chmod(0o755)
        super().prepare()

    def mounted(self):
        for path in (self.disk.folder, *(self.share_path(share) for share in self.wanted.shares)):
            os.chown(path, NOBODY, NOBODY)


def run(kind, report, options):
    only_ours(kind)
    python = packages.python_with(*REQUIREMENTS, folder="venv-management")
    with serving(OnBtrfs, Wanted(shares=("conf",), on_tmpfs=True)) as server:
        made = json.loads(server._run("share", "create", "kept", "--audit", "read", "--json"))["path"]
        environment = server.snapshot_environment()
        report.absorb(NAME, [python, "-m", "conformance.rest_snapshot_checks"], CHECK_SECONDS, env=environment, cwd=packages.ROOT)
        report.server_is_well(NAME, server)
        with report.check(NAME, "SMB clients reach no snapshot as a share"):
            folder = server.disk.folder / "shares" / ".snapshots" / made.rsplit("/", 1)[1]
            [taken] = [entry.name for entry in folder.iterdir()]
            for share in (f"kept:{taken}", ".snapshots"):
                words = [packages.find("smbclient"), f"//{HOST}/{share}", "-p", str(server.port), "-U", f"{server.keeper}%{server.keeper_password()}", "-c", "ls"]
                refused = subprocess.run(words, capture_output=True, text=True, timeout=CHECK_SECONDS)
                expect("NT_STATUS_BAD_NETWORK_NAME" in refused.stdout + refused.stderr, refused.stdout + refused.stderr)
        with report.check(NAME, "no share is made of snapshots"):
            for path in (folder / taken / "files", folder / taken, folder, folder.parent, folder.parent.parent):
                server_says(server, "share", "create", "stolen", "--path", str(path))
        with report.check(NAME, "snapshots outlive the server, and what was half made does not"):
            server.stop()
            half = folder / ".new-2026-01-01T00:00:00.0000000Z"
            half.mkdir()
            subprocess.run([packages.find("btrfs"), "subvolume", "snapshot", "-r", made, str(half / "files")], check=True, capture_output=True)
            server.start()
            wait_until(lambda: [entry.name for entry in folder.iterdir()] == [taken] and len(server.subvolumes_of("kept")) == 2, server.subvolumes)
            report.absorb(NAME, [python, "-m", "conformance.rest_snapshot_checks", "kept", taken], CHECK_SECONDS, env=environment, cwd=packages.ROOT)
        with report.check(NAME, "the audit log tells what was read of which snapshot"):
            log = server.disk.folder / "audit.log"
            wait_until(lambda: f"kept:{taken}" in log.read_text(), lambda: log.read_text()[-4000:])
        with report.check(NAME, "an operator sees snapshots, and deletes one whoever has a lease, while it is read or no server runs"):
            shown = json.loads(server._run("share", "snapshots", "kept", "--json"))
            expect([(one["time"], one["leased"]) for one in shown] == [(taken, True)], shown)
            refused = server_says(server, "share", "delete-snapshot", "kept", taken)
            expect("lease" in refused, refused)
            refused = server_says(server, "share", "delete-snapshot", "kept", taken, "--yes")
            expect("lease" in refused, refused)
            server._run("share", "delete-snapshot", "kept", taken, "--force")
            second = json.loads(server._run("share", "snapshot", "kept", "--json"))["time"]
            refused = server_says(server, "share", "delete-snapshot", "kept", second)
            expect("--yes" in refused, refused)
            server._run("share", "delete-snapshot", "kept", second, "--yes")
            expect(json.loads(server._run("share", "snapshots", "kept", "--json")) == [], "it is there still")
            wait_until(lambda: len(server.subvolumes_of("kept")) == 1, server.subvolumes)
            refused = server_says(server, "share", "delete-snapshot", "kept", taken, "--force")
            expect("has no snapshot" in refused, refused)
            made = json.loads(server._run("share", "snapshot", "kept", "--json"))["time"]
            expect([one["time"] for one in json.loads(server._run("share", "snapshots", "kept", "--json"))] == [made], made)
            refused = server_says(server, "share", "update", "kept", "--path", str(server.share_path("conf")))
            expect("a snapshot" in refused, refused)
            refused = server_says(server, "share", "snapshot", "conf")
            expect("an operator named" in refused, refused)
            told = server._run("share", "snapshots", "conf")
            expect("has no snapshots" in told and "No snapshot of it can be made" in told and "an operator named" in told, told)
            expect("can be made" not in server._run("share", "snapshots", "kept"), "it says that none can be made")
        with report.check(NAME, "the log tells who made snapshots, and from where"):
            who = {(one["operator"], one["from"].partition(":")[0]) for one in server.logged("catalog_changed", "snapshot made")}
            # Where there are many lines at once some are left out.
            expect((f"account:{server.keeper}", HOST) in who and all(name == "" or at == HOST for name, at in who), who)
        with report.check(NAME, "what is mounted in a share's folder does not go with it"):
            path = pathlib.Path(json.loads(server._run("share", "create", "mounted", "--json"))["path"])
            (path / "in").mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "other", path / "in"], check=True)
            gone = server.disk.folder / "shares" / ".gone" / path.name
            try:
                (path / "in" / "file").write_text("kept")
                server._run("share", "delete", "mounted", "--force")
                wait_until(lambda: b"deleted_share_stays" in server.log.read_bytes(), lambda: server.log.read_bytes()[-2000:])
                expect((gone / "in" / "file").read_text() == "kept", "it is gone")
            finally:
                subprocess.run(["umount", (gone if gone.exists() else path) / "in"], check=True)
            server.stop()
            server.start()
            wait_until(lambda: not gone.exists(), server.subvolumes)
        with report.check(NAME, "with a share its folder goes, and its snapshots"):
            refused = server_says(server, "share", "delete", "kept")
            expect("a snapshot" in refused, refused)
            server._run("share", "delete", "kept", "--force")
            wait_until(lambda: not server.subvolumes_of("kept"), server.subvolumes)
        report.server_is_well(NAME, server)
        rest_table.compare(report, NAME, rest_table.asked_of(server), "Python", options, rest_table.OF_SNAPSHOTS)
    with serving(AsNobody, Wanted(shares=("conf",), on_tmpfs=True)) as server:
        environment = server.snapshot_environment()
        report.absorb(NAME, [python, "-m", "conformance.rest_snapshot_checks", "whoever"], CHECK_SECONDS, env=environment, cwd=packages.ROOT)
        with report.check(NAME, "as a user without any right: nothing stays of what is deleted"):
            wait_until(lambda: not server.subvolumes(), server.subvolumes)
        report.server_is_well(NAME, server)


def server_says(server, *words):
    """What a command is refused with."""
    done = subprocess.run([str(server.program), *words, "--data", server._data()], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=CHECK_SECONDS)
    expect(done.returncode != 0, done.stdout)
    return done.stderr


def wait_until(is_so, seen):
    """Waits until the server has taken away what it takes away by itself."""
    until = time.monotonic() + TAKEN_AWAY_SECONDS
    while not is_so():
        expect(time.monotonic() < until, seen())
        time.sleep(0.1)
