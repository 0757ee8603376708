"""Samba's smbclient and smbcacls: a real tree both ways, protections, dialects, and who is let in."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile

from conformance import packages, relay, tree
from conformance.report import expect
from conformance.server import Wanted, serving

NAME = "smbclient"
PROTECTIONS = {"plain": "off", "signed": "sign", "sealed": "encrypt"}
DIALECTS = ("SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11")
LARGE_BYTES = 256 << 20
COMMAND_SECONDS = 300
# smbclient protects what it sends when asked to; plain keeps it from signing of its own accord.
PLAIN_OPTIONS = ("--option=client signing=off",)


def run(kind, report, options):
    packages.need("smbclient", "smbcacls")
    with serving(kind, Wanted(on_tmpfs=True, windows_like=True)) as server, Smbclient(server, report) as suite:
        for protection in PROTECTIONS:
            suite.trees(protection)
            suite.large_file(protection)
        suite.one_by_one()
        suite.shares_are_listed()
        suite.access_lists()
        suite.strangers()
        for dialect in DIALECTS:
            suite.dialect(dialect)
        report.server_is_well(NAME, server)


class Smbclient:
    def __init__(self, server, report):
        self.server = server
        self.check = lambda name: report.check(NAME, name)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="smbclient-", dir=server.folder))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work)

    # The checks.

    def trees(self, protection):
        """mput of thousands of files, then mget of the same, each compared byte for byte."""
        source, remote = tree.generated(), f"tree-{protection}"
        with self.check(f"put a tree of {tree.FILES} files, {protection}"):
            self.client(f'mkdir "{remote}"; cd "{remote}"; recurse on; prompt off; lcd "{source}"; mput *',
                        protection=protection)
            tree.expect_same(source, self.server.share_path() / remote)
        with self.check(f"get a tree of {tree.FILES} files, {protection}"):
            local = self.work / remote
            local.mkdir()
            self.client(f'cd "{remote}"; recurse on; prompt off; lcd "{local}"; mget *', protection=protection)
            tree.expect_same(source, local)
            shutil.rmtree(local)
        with self.check(f"delete a tree of {tree.FILES} files, {protection}"):
            self.client(f'deltree "{remote}"', protection=protection)
            left = os.listdir(self.server.share_path())
            expect(remote not in left, f"still there: {left}")

    def large_file(self, protection):
        with self.check(f"a file of {LARGE_BYTES >> 20} MiB both ways, {protection}"):
            sent, back = self.work / "sent", self.work / "back"
            sent.write_bytes(random.Random(LARGE_BYTES).randbytes(1 << 20) * (LARGE_BYTES >> 20))
            self.client(f'put "{sent}" large; get large "{back}"; del large', protection=protection)
            same = subprocess.run(["cmp", str(sent), str(back)], capture_output=True, text=True)
            expect(same.returncode == 0, same.stdout + same.stderr)
            sent.unlink(), back.unlink()

    def one_by_one(self):
        """Listing, attributes, rename and delete of single files and folders."""
        small = self.work / "small"
        small.write_bytes(b"some bytes")
        with self.check("a listing shows names, sizes and folders"):
            seen = self.client(f'mkdir folder; put "{small}" "naïve 日本.txt"; ls')
            line = next((line for line in seen.splitlines() if line.startswith("  naïve 日本.txt")), "")
            expect(line.split()[2:4] == ["A", "10"], seen)
            expect(any(line.split()[:2] == ["folder", "D"] for line in seen.splitlines()), seen)
        with self.check("a wildcard listing shows only what matches"):
            self.client(f'put "{small}" w1.txt; put "{small}" w2.bin')
            seen = self.client("ls w*.txt")
            expect("w1.txt" in seen and "w2.bin" not in seen, seen)
        with self.check("allinfo shows times, size and the streams"):
            seen = self.client("allinfo w1.txt")
            expect("create_time" in seen and "::$DATA" in seen, seen)
        with self.check("rename moves a file, into a folder too"):
            self.client("rename w1.txt w3.txt; rename w3.txt folder\\w4.txt")
            expect((self.server.share_path() / "folder" / "w4.txt").read_bytes() == b"some bytes", "wrong content")
            expect(not (self.server.share_path() / "w1.txt").exists(), "the old name is still there")
        with self.check("rename moves a folder with what is in it"):
            self.client("rename folder moved")
            expect((self.server.share_path() / "moved" / "w4.txt").exists(), "the file is not below the new name")
        with self.check("a folder that is not empty is not removed"):
            seen = self.client("rmdir moved", code=None)
            expect("NT_STATUS_DIRECTORY_NOT_EMPTY" in seen, seen)
        with self.check("a deleted file is gone, an absent one is not found"):
            self.client('del w2.bin; del "moved\\w4.txt"; rmdir moved')
            seen = self.client("get w2.bin -", code=1)
            expect("NT_STATUS_OBJECT_NAME_NOT_FOUND" in seen, seen)
        with self.check("names are found in any case and keep the case they were given"):
            seen = self.client(f'put "{small}" "CamelCase"; get camelcase -; ls camel*')
            expect("some bytes" in seen and "CamelCase" in seen, seen)
        with self.check("the share's free space is shown"):
            seen = self.client("du")
            expect("blocks of size" in seen, seen)

    def shares_are_listed(self):
        with self.check("smbclient -L lists the shares"):
            seen = self.call("smbclient", "-L", self.server.host)
            names = [line.split()[0] for line in seen.splitlines() if " Disk " in line + " "]
            expect(self.server.share in names, seen)

    def access_lists(self):
        """A security descriptor is read, extended by one entry, and read back."""
        entry = "ACL:S-1-5-32-545:0/0x0/0x001200a9"
        with self.check("smbcacls reads a security descriptor"):
            self.client(f'put "{self.work / "small"}" guarded')
            seen = self.cacls()
            expect("OWNER:S-1-" in seen and "ACL:" in seen, seen)
        with self.check("smbcacls adds an entry and reads it back"):
            self.cacls("--add", entry)
            seen = self.cacls()
            expect(entry in seen, seen)
        with self.check("smbcacls removes an entry"):
            self.cacls("--delete", entry)
            seen = self.cacls()
            expect(entry not in seen, seen)

    def strangers(self):
        """Who has no right to be here is refused, and told so in the specified way."""
        with self.check("a wrong password is refused"):
            seen = self.call("smbclient", self.unc(), "-c", "ls", user=(self.server.user, "wrong"), code=1)
            expect("NT_STATUS_LOGON_FAILURE" in seen, seen)
        with self.check("an unknown user is refused as one with a wrong password"):
            seen = self.call("smbclient", self.unc(), "-c", "ls", user=("nobody-here", "wrong"), code=1)
            expect("NT_STATUS_LOGON_FAILURE" in seen, seen)
        with self.check("an anonymous user gets no share"):
            seen = self.call("smbclient", self.unc(), "-c", "ls", user=None, code=1)
            expect("NT_STATUS_ACCESS_DENIED" in seen or "NT_STATUS_LOGON_FAILURE" in seen, seen)
        with self.check("the guest user is refused"):
            seen = self.call("smbclient", self.unc(), "-c", "ls", user=("guest", ""), code=1)
            expect("NT_STATUS_LOGON_FAILURE" in seen or "NT_STATUS_ACCOUNT_DISABLED" in seen
                   or "NT_STATUS_ACCESS_DENIED" in seen, seen)
        with self.check("a share that is not there is a bad network name"):
            seen = self.call("smbclient", f"//{self.server.host}/absent", "-c", "ls", code=1)
            expect("NT_STATUS_BAD_NETWORK_NAME" in seen, seen)

    def dialect(self, dialect):
        with self.check(f"dialect {dialect} writes and reads back"):
            only = (f"--option=client min protocol={dialect}", f"--option=client max protocol={dialect}")
            sent, back = self.work / "sent", self.work / "back"
            sent.write_bytes(random.Random(dialect).randbytes(3 << 20))
            self.call("smbclient", self.unc(), *only, "-c", f'put "{sent}" d; get d "{back}"; del d')
            expect(sent.read_bytes() == back.read_bytes(), "what came back differs")

    # How the programs are called.

    def unc(self):
        return f"//{self.server.host}/{self.server.share}"

    def client(self, commands, protection="plain", code=0):
        """Runs smbclient commands on the share."""
        options = [f"--client-protection={PROTECTIONS[protection]}", *(PLAIN_OPTIONS if protection == "plain" else ())]
        return self.call("smbclient", self.unc(), *options, "-c", commands, code=code)

    def cacls(self, *words):
        with relay.on_port_445(self.server) as address:
            return self.call("smbcacls", "--numeric", f"//{address}/{self.server.share}", "guarded", *words)

    def call(self, program, *words, user=(), code=0):
        """Runs a program as the server's user (or another, or anonymous with None) and expects its exit code."""
        argv = [program, *words] + (["-p", str(self.server.port)] if program == "smbclient" else [])
        if user is None:
            argv += ["-N", "-U", "%"]
        else:
            login = self.work / "login"
            name, password = user or (self.server.user, self.server.password)
            login.write_text(f"username = {name}\npassword = {password}\n")
            argv += ["-A", str(login)]
        result = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", timeout=COMMAND_SECONDS,
                                env=dict(os.environ, LC_ALL="C.UTF-8"))
        failed = [line for line in result.stdout.splitlines() if "NT_STATUS_" in line]
        if code == 0:
            expect(result.returncode == 0 and not failed, "\n".join(failed[:10]) or result.stdout[-1500:])
        elif code is not None:
            expect(result.returncode == code, f"exit {result.returncode}\n{result.stdout[-1500:]}")
        return result.stdout
