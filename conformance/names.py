"""Names for SIDs and what is in use, over the pipes of IPC$: Samba's rpcclient, smbcacls, smbclient and net, and impacket from PyPI, whose checks are
in names_checks.py."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from conformance import multilane, packages, relay
from conformance.report import Skip, expect
from conformance.server import Wanted, serving

NAME = "names"
REQUIREMENTS = ("impacket==0.13.1",)
COMMAND_SECONDS = 120
IMPACKET_SECONDS = 300
# Somebody of another storage account, whom the users of the suite's own never get to see.
STRANGER = "a-stranger"
PEOPLE = 40


def run(kind, report, options):
    if kind is not multilane.Multilane:
        raise Skip("other servers have other people")
    packages.need("rpcclient", "smbclient", "smbcacls", "net")
    python = packages.python_with(*REQUIREMENTS, folder="venv-impacket")
    with serving(kind, Wanted(on_tmpfs=True)) as server, Names(server, report) as suite:
        suite.sids_and_names()
        suite.accounts()
        suite.descriptors()
        suite.net()
        suite.in_use()
        suite.others_see_less()
        report.absorb(NAME, [python, "-m", "conformance.names_checks"], IMPACKET_SECONDS,
                      env=dict(server.environment(), SMB_KEEPER=server.keeper, SMB_KEEPER_PASSWORD=server.keeper_password(),
                               SMB_STRANGER=STRANGER, SMB_SECOND=server.second_user), cwd=packages.ROOT)
        report.server_is_well(NAME, server)


class Names:
    def __init__(self, server, report):
        self.server = server
        self.check = lambda name: report.check(NAME, name)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="names-", dir=server.folder))
        password = server.password + "\n"
        server._run("account", "create", "elsewhere")
        server._run("user", "add", STRANGER, "--account", "elsewhere", "--password-stdin", text=password)
        for number in range(PEOPLE):
            server._run("user", "add", f"person-{number}", "--account", server.keeper, "--password-stdin", text=password)
        server._run("user", "add", "Änne Müller", "--account", server.keeper, "--password-stdin", text=password)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work)

    # The checks.

    def sids_and_names(self):
        user = self.sid_of(self.server.user)
        domain, _, _ = user.rpartition("-")
        with self.check("rpcclient translates a user's name and SID both ways"):
            seen = self.rpc(f"lookupsids {user}")
            expect(re.search(rf"^{user} \S+\\{self.server.user} \(1\)$", seen, re.M), seen)
        with self.check("a name is found in any case, with its domain and without"):
            expect(self.sid_of("ÄNNE MÜLLER") == self.sid_of("Änne Müller"), "two SIDs")
            host = self.rpc("lsaquery").split("Domain Name: ")[1].split()[0]
            expect(host, "no domain name")
        for sid, name in (("S-1-1-0", "\\Everyone"), ("S-1-5-32-544", "BUILTIN\\Administrators"), ("S-1-5-18", "NT AUTHORITY\\SYSTEM"),
                          ("S-1-5-11", "NT AUTHORITY\\Authenticated Users"), ("S-1-3-0", "\\CREATOR OWNER"),
                          (f"{domain}-513", "\\Domain Users")):
            with self.check(f"{sid} is {name.lstrip(chr(92))}, and back"):
                seen = self.rpc(f"lookupsids {sid}")
                expect(f"{sid} " in seen and name in seen, seen)
                expect(self.sid_of(name.rpartition("\\")[2]) == sid, "another SID")
        with self.check("unknown SIDs and names beside known ones are told as unknown"):
            seen = self.rpc(f"lookupsids {user} {domain}-4000000000 S-1-5-21-9-9-9-9")
            expect(self.server.user in seen and seen.count("(8)") == 2, seen)
            seen = self.rpc(f"lookupnames {self.server.user} nobody-here", code=None)
            expect(user in seen and "nobody-here S-0-0 (UNKNOWN: 8)" in seen, seen)
        with self.check("nothing but unknown ones is NONE_MAPPED"):
            seen = self.rpc("lookupnames nobody-here", code=None)
            expect("NT_STATUS_NONE_MAPPED" in seen, seen)
        with self.check("rpcclient asks who it is"):
            seen = self.rpc("getusername")
            expect(f"Account Name: {self.server.user}," in seen, seen)

    def accounts(self):
        relative_id = int(self.sid_of(self.server.user).rpartition("-")[2])
        with self.check("enumdomusers lists the account's people, by samr"):
            seen = self.rpc("enumdomusers")
            names = set(re.findall(r"user:\[(.*?)\]", seen))
            wanted = {self.server.user, self.server.second_user, self.server.keeper, "Änne Müller",
                      *(f"person-{number}" for number in range(PEOPLE))}
            expect(names == wanted, f"{names ^ wanted}")
        with self.check("enumdomgroups and enumalsgroups list groups"):
            expect("group:[Domain Users] rid:[0x201]" in self.rpc("enumdomgroups"), "no Domain Users")
            seen = self.rpc("enumalsgroups builtin")
            expect("group:[Administrators] rid:[0x220]" in seen, seen)
        with self.check("queryuser tells a user's name and ids"):
            seen = self.rpc(f"queryuser {relative_id:#x}")
            expect(re.search(rf"User Name\s*:\s*{self.server.user}", seen), seen)
            expect(re.search(rf"user_rid\s*:\s*{relative_id:#x}", seen) and re.search(r"group_rid\s*:\s*0x201", seen), seen)
        with self.check("queryusergroups, querygroup, querydominfo and querydispinfo are answered"):
            expect("group rid:[0x201]" in self.rpc(f"queryusergroups {relative_id:#x}"), "not in Domain Users")
            expect("Domain Users" in self.rpc("querygroup 0x201"), "no name")
            seen = self.rpc("querydominfo")
            expect(re.search(rf"Total Users:\s*{PEOPLE + 4}", seen), seen)
            seen = self.rpc("querydispinfo")
            expect(f"Account: {self.server.user}" in seen, seen)
        with self.check("samlookupnames and samlookuprids translate within a domain"):
            expect(f"name {self.server.user}: {relative_id:#x} (1)" in self.rpc(f"samlookupnames domain {self.server.user}"), "no id")
            seen = self.rpc("samlookuprids builtin 0x220 0x221")
            expect("Administrators" in seen and "Users" in seen, seen)
        with self.check("no user can be made, and no password changed"):
            for command in ("createdomuser mallory", f"chgpasswd {self.server.user} {self.server.password} other-Pass-w0rd"):
                seen = self.rpc(command, code=None)
                expect("NT_STATUS_ACCESS_DENIED" in seen or "NT_STATUS_RPC_PROCNUM_OUT_OF_RANGE" in seen, f"{command}: {seen}")
            self.rpc("getusername")

    def descriptors(self):
        with self.check("smbcacls shows names in a descriptor"):
            small = self.work / "small"
            small.write_bytes(b"bytes")
            self.call("smbclient", self.unc(), "-p", str(self.server.port), "-c", f'put "{small}" guarded')
            seen = self.cacls()
            expect(re.search(rf"^OWNER:\S+\\{self.server.user}$", seen, re.M), seen)
            expect(re.search(r"^GROUP:\S+\\Domain Users$", seen, re.M), seen)
        with self.check("smbcacls adds an entry by a name, and shows and removes it so"):
            for name in (self.server.second_user, "Everyone", "BUILTIN\\Users", "Änne Müller"):
                self.cacls("--add", f"ACL:{name}:ALLOWED/0x0/READ")
                seen = self.cacls()
                shown = name.rpartition("\\")[2]
                expect(re.search(rf"^ACL:(\S+\\)?{shown}:ALLOWED/0x0/READ$", seen, re.M), seen)
                self.cacls("--delete", f"ACL:{name}:ALLOWED/0x0/READ")
                expect(f"{shown}:ALLOWED/0x0/READ" not in self.cacls(), "still there")
        with self.check("smbcacls shows the SID of whom nobody knows"):
            entry = "ACL:S-1-5-21-9-9-9-9:ALLOWED/0x0/READ"
            self.cacls("--add", entry)
            seen = self.cacls()
            expect(entry in seen, seen)
            self.cacls("--delete", entry)
        with self.check("smbclient shows the owner by name"):
            seen = self.call("smbclient", self.unc(), "-p", str(self.server.port), "-c", "showacls; ls guarded")
            expect("guarded" in seen, seen)

    def net(self):
        with self.check("net rpc user and net rpc group list people and groups"):
            seen = self.net_rpc("user")
            expect(self.server.user in seen and "person-7" in seen, seen)
            seen = self.net_rpc("group", "list")
            expect("Domain Users" in seen, seen)
        with self.check("net rpc info tells the domain and how many there are"):
            seen = self.net_rpc("info")
            expect(f"Num users: {PEOPLE + 4}" in seen, seen)
        with self.check("net rpc share lists shares"):
            expect(self.server.share in self.net_rpc("share", "list"), "not listed")

    def in_use(self):
        with self.check("net rpc file tells the holder of the account's key what is open"), self.holding("held"):
            seen = self.net_rpc("file", keeper=True)
            expect(f"{self.server.share}\\held" in seen, seen)
        with self.check("rpcclient tells the holder of the account's key about sessions, files and shares"), self.holding("held"):
            seen = self.rpc("netsessenum", keeper=True)
            expect(re.search(r"Received [2-9] entries", seen), seen)
            seen = self.rpc("netfileenum", keeper=True)
            expect(f"{self.server.share}\\held" in seen, seen)
            seen = self.rpc(f"netsharegetinfo {self.server.share} 502", keeper=True)
            expect(f"netname: {self.server.share}" in seen, seen)
            expect("platform_id" in self.rpc("srvinfo"), "no server")

    def others_see_less(self):
        with self.check("who holds no key sees no sessions and no files"):
            for command in ("netsessenum", "netfileenum", f"netsharegetinfo {self.server.share} 502"):
                seen = self.rpc(command, code=None)
                expect("WERR_ACCESS_DENIED" in seen, f"{command}: {seen}")
        with self.check("nobody of another account is seen, by name, SID or list"):
            mine, theirs = self.sid_of(self.server.user), self.sid_of(STRANGER, user=STRANGER)
            seen = self.rpc(f"lookupsids {theirs} {mine}")
            expect(STRANGER not in seen and self.server.user in seen, seen)
            expect("NT_STATUS_NONE_MAPPED" in self.rpc(f"lookupnames {STRANGER}", code=None), "found")
            expect(STRANGER not in self.rpc("enumdomusers"), "listed")
            seen = self.rpc("enumdomusers", user=STRANGER)
            expect(re.findall(r"user:\[(.*?)\]", seen) == ["elsewhere", STRANGER] or
                   set(re.findall(r"user:\[(.*?)\]", seen)) == {"elsewhere", STRANGER}, seen)
        with self.check("who gives no name is told nothing"):
            argv = ["rpcclient", "-p", str(self.server.port), "-N", "-U", "%", self.server.host, "-c", "enumdomusers"]
            result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS)
            expect(result.returncode != 0 and "user:[" not in result.stdout, result.stdout)

    # How the programs are called.

    @contextlib.contextmanager
    def holding(self, name):
        """A client of the suite's user that has a file open."""
        (self.server.share_path() / name).write_bytes(b"held")
        login = self.login(self.server.user, self.server.password)
        argv = ["smbclient", self.unc(), "-p", str(self.server.port), "-A", str(login)]
        client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client.stdin.write(f"open {name}\n".encode())
            client.stdin.flush()
            deadline = time.monotonic() + COMMAND_SECONDS
            while self.server.open_files() == 0:
                expect(time.monotonic() < deadline and client.poll() is None, "smbclient has opened nothing")
                time.sleep(0.1)
            yield
        finally:
            client.stdin.close()
            client.wait(COMMAND_SECONDS)

    def unc(self):
        return f"//{self.server.host}/{self.server.share}"

    def sid_of(self, name, user=None):
        seen = self.rpc(f'lookupnames "{name}"', user=user)
        found = re.search(r" (S-1-[0-9-]+) \(", seen)
        expect(found, seen)
        return found[1]

    def rpc(self, command, keeper=False, user=None, code=0):
        return self.call("rpcclient", "-p", str(self.server.port), self.server.host, "-c", command, keeper=keeper, user=user, code=code)

    def cacls(self, *words):
        with relay.on_port_445(self.server) as address:
            return self.call("smbcacls", f"//{address}/{self.server.share}", "guarded", *words)

    def net_rpc(self, *words, keeper=False):
        with relay.on_port_445(self.server) as address:
            return self.call("net", "rpc", *words, "-S", address, keeper=keeper)

    def login(self, user, password):
        login = self.work / f"login-{user}"
        login.write_text(f"username = {user}\npassword = {password}\n")
        return login

    def call(self, program, *words, keeper=False, user=None, code=0):
        """Runs a program as the server's user (or another, or with the account's key) and expects its exit code, unless that is None."""
        name = self.server.keeper if keeper else user or self.server.user
        password = self.server.keeper_password() if keeper else self.server.password
        argv = [program, *words, "-A", str(self.login(name, password))]
        result = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", timeout=COMMAND_SECONDS, env=packages.in_utf8())
        if code is not None:
            expect(result.returncode == code, f"exit {result.returncode}\n{result.stdout[-1500:]}")
        return result.stdout
