"""Fifty people in ten groups: who may do what, as a model computes it from groups, rights on shares and descriptors, and as smbclient finds it.

Groups stand in each other, folders have descriptors that what is in them inherits, and every person tries every deed in every folder of every
share. Then some are moved, disabled, renamed and locked out while they are connected.
"""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

from conformance import multilane, packages, relay
from conformance.report import Skip, expect, until
from conformance.server import Wanted, serving

NAME = "people"
PEOPLE = [f"person{number:02}" for number in range(50)]
GROUPS = [f"group{number}" for number in range(10)]
SHARES = ("open", "granted", "layered", "public")
FOLDERS = ("all", "some", "mixed")
SEED = 20_261
COMMAND_SECONDS = 60
EVERYONE = "everyone"

# MS-DTYP 2.4.3 and MS-SMB2 2.2.13.1.1.
READ, CHANGE, FULL = 0x1200A9, 0x1301BF, 0x1F01FF
READ_DATA, WRITE_DATA, DELETE, DELETE_CHILD, WRITE_DAC = 0x1, 0x2, 0x10000, 0x40, 0x40000
CHANGING = 0x116 | DELETE | DELETE_CHILD
RIGHTS = {"read": READ, "change": CHANGE, "full": FULL}
ALLOWED, DENIED = 0, 1
# This folder, what is in it, and in that (OBJECT_INHERIT_ACE | CONTAINER_INHERIT_ACE).
INHERITED = 3


@dataclasses.dataclass
class Model:
    """What was set up, and what follows from it."""

    groups: dict      # the members of each group, users and groups
    rights: dict      # of each share: who has which right by name; none where nobody was named
    folders: dict     # of each folder of a share: its entries as (kind, who, mask), in the order in which they count

    def groups_of(self, person):
        found, new = set(), {person}
        while new:
            new = {group for group, members in self.groups.items() if members & new} - found
            found |= new
        return found

    def identities(self, person):
        return {person, EVERYONE} | self.groups_of(person)

    def right(self, person, share):
        """The most that a share lets somebody do; 0 for who may not connect."""
        granted, most = self.rights[share], 0
        for who in self.identities(person) & granted.keys():
            most |= RIGHTS[granted[who]]
        return most

    def access(self, person, share, folder):
        """What a folder's entries grant, the first that speaks of a right decides (MS-DTYP 2.5.3.2)."""
        granted = denied = 0
        for kind, who, mask in self.folders[share, folder]:
            if who in self.identities(person):
                granted, denied = (granted | mask & ~denied, denied) if kind == ALLOWED else (granted, denied | mask & ~granted)
        return granted

    def may(self, person, share, folder):
        """The deeds that somebody can do in a folder: those of DEEDS."""
        right, granted = self.right(person, share), self.access(person, share, folder)
        if not right:
            return None
        both = right & granted
        # Who may delete in a folder may delete what is in it, where the share lets that be done at all. smbclient lists what it is to delete.
        deletes = right & DELETE and granted & (DELETE | DELETE_CHILD) and both & READ_DATA
        return {"list": bool(both & READ_DATA), "read": bool(both & READ_DATA), "write": both & CHANGE == CHANGE,
                "make": bool(both & WRITE_DATA), "delete": bool(deletes)}


DEEDS = ("list", "read", "write", "make", "delete")


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers are told of their users in other ways")
    packages.need("smbclient", "smbcacls")
    with serving(kind, Wanted(shares=SHARES)) as server, Office(server) as office:
        with report.check(NAME, "fifty people in ten groups, rights on four shares, descriptors that are inherited"):
            office.set_up()
        counts = collections.Counter()
        for share in SHARES:
            with report.check(NAME, f"everybody may do on the share {share} what the model says, and nothing else"):
                office.compare(share, counts)
        report.note("deeds: " + ", ".join(f"{deed} {counts[deed, True]} done, {counts[deed, False]} refused" for deed in DEEDS))
        with report.check(NAME, "every deed was done by some and refused to others"):
            expect(all(counts[deed, is_done] for deed in DEEDS for is_done in (True, False)), counts)
        office.changes(report)
        report.server_is_well(NAME, server)


class Office:
    def __init__(self, server):
        self.server = server
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="people-", dir=server.folder))
        self.model = None
        self.sids = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work)

    # What is set up.

    def set_up(self):
        chance = random.Random(SEED)
        for person in PEOPLE:
            self.multilane("user", "create", person, "--password-stdin", text=self.server.password + "\n")
        groups = {}
        for number, group in enumerate(GROUPS):
            self.multilane("group", "create", group)
            # Some groups hold others, never in a circle: only those made before.
            members = set(chance.sample(PEOPLE, chance.randint(2, 9))) | set(chance.sample(GROUPS[:number], min(number, chance.randint(0, 2))))
            self.multilane("group", "add", group, *sorted(members))
            groups[group] = members
        rights = {"open": {EVERYONE: "full"},
                  "granted": {**{group: chance.choice(list(RIGHTS)) for group in GROUPS[:5]}, PEOPLE[0]: "full", PEOPLE[1]: "read"},
                  "layered": {group: chance.choice(list(RIGHTS)) for group in GROUPS[5:]},
                  "public": {EVERYONE: "read", GROUPS[2]: "change", GROUPS[7]: "full"}}
        for share, granted in rights.items():
            for who, right in granted.items():
                self.multilane("share", "grant", share, who, right)
        self.model = Model(groups, rights, {})
        self.sids = {shown["name"]: shown["sid"] for what in ("user", "group") for shown in json.loads(self.multilane(what, "list", "--json"))}
        self.sids[EVERYONE] = "S-1-1-0"
        for share in SHARES:
            for folder in FOLDERS:
                self.make_folder(share, folder, self.entries(folder, chance))

    def entries(self, folder, chance):
        """Those that deny come first, as in the order that Windows writes."""
        if folder == "all":
            return [(ALLOWED, EVERYONE, FULL)]
        allowed = [(ALLOWED, who, chance.choice((READ, CHANGE, FULL))) for who in chance.sample(GROUPS, 4) + chance.sample(PEOPLE, 3)]
        denied = [(DENIED, who, chance.choice((CHANGING, FULL))) for who in chance.sample(GROUPS, 1) + chance.sample(PEOPLE, 2)]
        return denied + allowed if folder == "mixed" else allowed

    def make_folder(self, share, folder, entries):
        self.model.folders[share, folder] = entries
        as_keeper = (self.server.keeper, self.server.keeper_password())
        expect("NT_STATUS" not in (seen := self.client(as_keeper, share, f"mkdir {folder}")), seen)
        words = [f"ACL:{self.sids[who]}:{kind}/{INHERITED:#x}/{mask:#x}" for kind, who, mask in entries]
        with relay.on_port_445(self.server) as address:
            self.call(["smbcacls", "--numeric", f"//{address}/{share}", folder, "--set", ",".join(["REVISION:1", *words])], as_keeper)
        self.put_files(share, folder)

    def put_files(self, share, folder):
        """The keeper's files: they inherit all that the folder's entries say."""
        (self.work / "file").write_text("kept")
        puts = "; ".join(f'put "{self.work}/file" {folder}/{name}' for name in ("kept", "written", *(f"of-{person}" for person in PEOPLE)))
        as_keeper = (self.server.keeper, self.server.keeper_password())
        expect("NT_STATUS" not in (seen := self.client(as_keeper, share, puts)), seen)

    # What is compared.

    def compare(self, share, counts):
        wrong = []
        for person in PEOPLE:
            found = self.tried(person, share)
            for folder in FOLDERS:
                expected = self.model.may(person, share, folder)
                done = None if found is None else found[folder]
                if done != expected:
                    wrong.append(f"{person} in {share}/{folder}: {done}, and the model says {expected}")
                for deed in DEEDS:
                    counts[deed, bool(expected and expected[deed])] += 1
        expect(not wrong, "\n".join(wrong[:20]))

    def tried(self, person, share, file_of=None):
        """Which deeds somebody can do in each folder, with the file of somebody to delete; `None` for who cannot connect."""
        file_of = file_of or person
        file = self.work / "file"
        commands = []
        for folder in FOLDERS:
            deeds = {"list": f"ls {folder}/*", "read": f'get {folder}/kept "{self.work}/got"', "write": f'put "{file}" {folder}/written',
                     "make": f'put "{file}" {folder}/new-{person}', "delete": f"del {folder}/of-{file_of}"}
            commands += deeds.values()
        seen = self.client((person, self.server.password), share, "; ".join(commands))
        if "tree connect failed: NT_STATUS_ACCESS_DENIED" in seen:
            return None
        expect(set(re.findall(r"NT_STATUS_\w+", seen)) <= {"NT_STATUS_ACCESS_DENIED"}, f"{person} {share}: {seen}")
        return {folder: {deed: self.is_told(seen, deed, folder, (person, file_of)) for deed in DEEDS} for folder in FOLDERS}

    @staticmethod
    def is_told(seen, deed, folder, names):
        """Whether smbclient has done something. Of most that it does it tells; of a deletion and a listing only where they fail."""
        (person, file_of), at = names, chr(92) + folder + chr(92)
        match deed:
            case "list":
                return f"NT_STATUS_ACCESS_DENIED listing {at}*" not in seen
            case "read":
                return f"getting file {at}kept " in seen
            case "write":
                return f" as {at}written " in seen
            case "make":
                return f" as {at}new-{person} " in seen
            case _:
                return not any(f"NT_STATUS_ACCESS_DENIED {what} {at}of-{file_of}" in seen for what in ("listing", "deleting remote file"))

    # What counts at once.

    def changes(self, report):
        inside = next(person for person in PEOPLE if self.model.right(person, "layered"))
        outside = next(person for person in PEOPLE if not self.model.right(person, "layered"))
        with report.check(NAME, "who comes into a group may connect at once, and not once it is left"):
            expect(self.connects(inside, "layered") and not self.connects(outside, "layered"), "before")
            self.multilane("group", "add", GROUPS[9], outside)
            expect(self.connects(outside, "layered"), "in the group")
            self.multilane("group", "remove", GROUPS[9], outside)
            expect(not self.connects(outside, "layered"), "out of it")
        with report.check(NAME, "who is connected is thrown out of a share that is closed to the group"):
            with self.reading(inside, "layered") as reader:
                for group in self.model.groups_of(inside) & self.model.rights["layered"].keys():
                    self.multilane("share", "revoke", "layered", group)
                _, error = reader.communicate(timeout=COMMAND_SECONDS)
                expect(reader.returncode != 0 and "NETWORK_NAME_DELETED" in error, f"exit {reader.returncode}: {error}")
            expect(not self.connects(inside, "layered"), "afterwards")
        with report.check(NAME, "a disabled user is told so, and is let in again"):
            self.multilane("user", "disable", inside)
            seen = self.client((inside, self.server.password), "open", "ls")
            expect("NT_STATUS_ACCOUNT_DISABLED" in seen, seen)
            expect("NT_STATUS_LOGON_FAILURE" in (seen := self.client((inside, "wrong"), "open", "ls")), seen)
            self.multilane("user", "enable", inside)
            expect(self.connects(inside, "open"), "enabled")
        with report.check(NAME, "a user whose time is over is told so"):
            self.multilane("user", "expire", inside, "2020-01-01T00:00:00Z")
            expect("NT_STATUS_ACCOUNT_EXPIRED" in (seen := self.client((inside, self.server.password), "open", "ls")), seen)
            self.multilane("user", "expire", inside, "never")
            expect(self.connects(inside, "open"), "never expires")
        with report.check(NAME, "a renamed user has all that it had, and the old name nothing"):
            expect(self.model.right(PEOPLE[0], "granted") == FULL, "the model")
            self.multilane("user", "rename", PEOPLE[0], "somebody")
            self.put_files("granted", FOLDERS[0])
            done = self.tried("somebody", "granted", PEOPLE[0])
            expect(done[FOLDERS[0]] == dict.fromkeys(DEEDS, True), done)
            expect("NT_STATUS_LOGON_FAILURE" in (seen := self.client((PEOPLE[0], self.server.password), "granted", "ls")), seen)

        with report.check(NAME, "a user is locked after wrong passwords, told so with the right one, and unlocked"):
            self.multilane("server", "set", "lock-after", "3")
            for _ in range(3):
                expect("NT_STATUS_LOGON_FAILURE" in (seen := self.client((inside, "wrong"), "open", "ls")), seen)
            for password in (self.server.password, "wrong"):
                expect("NT_STATUS_ACCOUNT_LOCKED_OUT" in (seen := self.client((inside, password), "open", "ls")), seen)
            expect("locked" in self.multilane("user", "show", inside), "user show")
            self.multilane("user", "unlock", inside)
            self.multilane("server", "set", "lock-after", "off")
            expect(self.connects(inside, "open"), "unlocked")
        with report.check(NAME, "a share is for the hosts that it names, also for the account's key"):
            as_keeper = (self.server.keeper, self.server.keeper_password())
            self.multilane("share", "update", "open", "--hosts-allow", "192.0.2.0/24")
            for who in ((inside, self.server.password), as_keeper):
                expect("NT_STATUS_ACCESS_DENIED" in (seen := self.client(who, "open", "ls")), seen)
            self.multilane("share", "update", "open", "--hosts-allow", "any")
            expect(self.connects(inside, "open"), "from everywhere")
        with report.check(NAME, "a user who gets another password with a grace goes on, and signs in with that alone"):
            with self.reading(inside, "open") as reader:
                self.multilane("user", "passwd", inside, "--grace", "1h", "--password-stdin", text="another one\n")
                expect("NT_STATUS_LOGON_FAILURE" in (seen := self.client((inside, self.server.password), "open", "ls")), seen)
                expect(reader.poll() is None, "the session has ended")
                self.multilane("user", "passwd", inside, "--password-stdin", text="a third one\n")
                reader.communicate(timeout=COMMAND_SECONDS)
                expect(reader.returncode != 0, "the session goes on without a grace")
            self.multilane("user", "passwd", inside, "--password-stdin", text=f"{self.server.password}\n")
            expect(self.connects(inside, "open"), "the password of before")

    def connects(self, person, share):
        return "tree connect failed" not in self.client((person, self.server.password), share, "pwd")

    @contextlib.contextmanager
    def reading(self, person, share):
        """Reads a file for longer than anybody waits."""
        (self.work / "large").write_bytes(bytes(1 << 20))
        as_keeper = (self.server.keeper, self.server.keeper_password())
        expect("NT_STATUS" not in (seen := self.client(as_keeper, share, f'put "{self.work}/large" {FOLDERS[0]}/large')), seen)
        there = f"smb://{person}@{self.server.host}:{self.server.port}/{share}/{FOLDERS[0]}/large"
        process = subprocess.Popen([str(multilane.binary()), "diskspd", "-b4K", "-r", f"-d{10 * COMMAND_SECONDS}", "-W0", there],
                                   env=dict(os.environ, MULTILANE_PASSWORD=self.server.password), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: any(view["user"] == person and view["opens"] for view in self.server.session_views()), "nobody reads", COMMAND_SECONDS)
            yield process
        finally:
            process.kill()
            process.communicate()

    # How programs are run.

    def client(self, who, share, commands):
        return self.call([*self.words(share, who), "-c", commands], None)

    def words(self, share, who):
        login = self.work / f"login-{who[0]}"
        login.write_text(f"username = {who[0]}\npassword = {who[1]}\n")
        return ["smbclient", f"//{self.server.host}/{share}", "-p", str(self.server.port), "-A", str(login)]

    def call(self, argv, who):
        """Runs a program; with `who`, it must succeed as that user."""
        if who is not None:
            login = self.work / f"login-{who[0]}"
            login.write_text(f"username = {who[0]}\npassword = {who[1]}\n")
            argv = [*argv, "-A", str(login)]
        result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS)
        # One behind the other: what is written to both at once tears lines.
        seen = f"{result.stdout}\n{result.stderr}"
        expect(who is None or result.returncode == 0, f"{argv[0]}: exit {result.returncode}\n{seen[-1500:]}")
        return seen

    def multilane(self, *words, text=""):
        return self.server._run(*words, text=text)
