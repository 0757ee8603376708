"""Backups while everything changes: accounts, keys, users, passwords, groups, shares, rights, operators and settings, and files are written meanwhile.

A model knows the sequence of changes. Each backup is restored into a fresh data folder, and has to say what the model did at one moment between the backup's
beginning and its end. A server is started on it, and smbclient has to find its shares, its people and their files. `python3 -m conformance.backups --minutes 60`
is the long form, with a backup each minute.
"""

import argparse
import copy
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time

from conformance import alone, multilane, packages
from conformance.report import Failure, Skip, expect, until
from conformance.server import Wanted, answers, free_port, serving

NAME = "backups"
# In conformance.run: about twenty seconds of changes, with as many backups as there is time for.
SHORT_MINUTES, SHORT_EVERY_SECONDS = 0.3, 2
EVERY_SECONDS = 60
COMMAND_SECONDS, START_SECONDS = 60, 30
# Things of one kind that there are at a time.
MOST = 5
# The share whose files are looked at; it is never deleted.
FILES = "files"
RIGHTS = ("read", "change", "full")
KEEPER = "suites"


def run(kind, report, options, minutes=SHORT_MINUTES, every_seconds=SHORT_EVERY_SECONDS):
    if kind.kind != "multilane":
        raise Skip("other servers are backed up in other ways")
    packages.need("smbclient")
    seed = random.randrange(1, 1 << 30)
    report.note(f"{NAME}: seed {seed}")
    with serving(kind, Wanted()) as server, tempfile.TemporaryDirectory(prefix="conformance-backups-") as work:
        changes = Changes(server, random.Random(seed))
        writer = Writer(server)
        keeper = Keeper(server, changes, writer, pathlib.Path(work))
        with report.check(NAME, "each backup restores to a server that serves what there was at one moment"):
            keeper.keep(minutes * 60, every_seconds)
        with report.check(NAME, "everything was changed, and files were written"):
            missing = {deed.__name__ for deed in changes.deeds()} - changes.done
            # A short run need not come to all of them.
            expect(len(missing) < len(changes.deeds()) / 2 and writer.written, f"never done: {missing}; files {len(writer.written)}")
            expect(keeper.count >= 2, f"only {keeper.count} backups")
        report.note(f"{NAME}: {keeper.count} backups, {len(changes.states)} changes, {len(writer.written)} files")
        report.server_is_well(NAME, server)


class Changes(threading.Thread):
    """Who changes the catalog, one change after the other, and knows what it says after each."""

    def __init__(self, server, chance):
        super().__init__(daemon=True)
        self.server, self.chance = server, chance
        self.over = threading.Event()
        self.failure = None
        self.done = set()
        self.number = 0
        server._run("share", "delete", "conf")
        server._run("share", "create", FILES, "--path", str(self.folder(FILES)))
        now = described(server._data(), server)
        for share in now["shares"].values():
            share["unsaid"] = True
        # What is kept, whatever the running server was started with.
        now["channels"] = "4"
        server._run("server", "set", "channels-max", "4")
        self.state = now
        self.passwords = {server.user: server.password, server.second_user: server.password}
        # What the catalog said after each change, and how many were begun.
        self.states = [(frozen(self.state), dict(self.passwords))]
        self.begun = 0

    def folder(self, name):
        folder = pathlib.Path(self.server._data()) / name
        folder.mkdir(exist_ok=True)
        return folder

    def run(self):
        try:
            while not self.over.is_set():
                deed = self.chance.choice([deed for deed in self.deeds() if deed() is not None])
                self.change(deed)
                time.sleep(0.02)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def change(self, deed):
        change = deed()
        self.begun += 1
        change()
        self.states.append((frozen(self.state), dict(self.passwords)))
        self.done.add(deed.__name__)

    def deeds(self):
        return (self.make_account, self.drop_account, self.new_key, self.make_user, self.drop_user, self.new_password, self.rename_user,
                self.disable_user, self.enable_user, self.make_group, self.drop_group, self.enter_group, self.leave_group, self.make_share, self.drop_share,
                self.change_share, self.grant, self.revoke, self.make_operator, self.drop_operator, self.set_channels)

    # Each deed gives what does it, or nothing where there is nothing to do it with.

    def make_account(self):
        def change():
            name = self.name("acc")
            self.command("account", "create", name)
            self.state["accounts"][name] = self.keys(name)
        return change if len(self.state["accounts"]) < MOST else None

    def drop_account(self):
        some = [name for name in self.state["accounts"] if name != KEEPER]

        def change():
            name = self.chance.choice(some)
            self.command("account", "delete", name)
            del self.state["accounts"][name]
        return change if some else None

    def new_key(self):
        def change():
            name, number = self.chance.choice(sorted(self.state["accounts"])), self.chance.choice((1, 2))
            before = self.state["accounts"][name]
            keys = self.command("account", "keys", name, "--regenerate", str(number))
            now = [keys["key1"], keys["key2"]]
            expect([a == b for a, b in zip(before, now)] == [number != 1, number != 2], "the other key is another, too")
            self.state["accounts"][name] = now
        return change

    def make_user(self):
        def change():
            name, password = self.name("user"), self.password()
            made = self.command("user", "create", name, "--password-stdin", text=password + "\n")
            self.state["users"][name] = {"account": KEEPER, "standing": "good", "sid": made["sid"]}
            self.passwords[name] = password
        return change if len(self.state["users"]) < 2 + MOST else None

    def users(self):
        return [name for name in sorted(self.state["users"]) if name not in (self.server.user, self.server.second_user)]

    def drop_user(self):
        def change():
            name = self.chance.choice(self.users())
            self.command("user", "delete", name, "--force")
            del self.state["users"][name], self.passwords[name]
            self.forget(name)
        return change if self.users() else None

    def new_password(self):
        def change():
            name, password = self.chance.choice(self.users()), self.password()
            self.command("user", "passwd", name, "--password-stdin", text=password + "\n")
            self.passwords[name] = password
        return change if self.users() else None

    def rename_user(self):
        def change():
            name, new = self.chance.choice(self.users()), self.name("user")
            self.command("user", "rename", name, new)
            self.state["users"][new] = self.state["users"].pop(name)
            self.passwords[new] = self.passwords.pop(name)
            for group in self.state["groups"].values():
                group["members"] = sorted(new if member == name else member for member in group["members"])
            for share in self.state["shares"].values():
                share["grants"] = {new if who == name else who: right for who, right in share["grants"].items()}
        return change if self.users() else None

    def disable_user(self):
        return self.switch("disable", "good", "disabled")

    def enable_user(self):
        return self.switch("enable", "disabled", "good")

    def switch(self, verb, before, after):
        some = [name for name in self.users() if self.state["users"][name]["standing"] == before]

        def change():
            name = self.chance.choice(some)
            self.command("user", verb, name)
            self.state["users"][name]["standing"] = after
        return change if some else None

    def make_group(self):
        def change():
            name = self.name("group")
            made = self.command("group", "create", name)
            self.state["groups"][name] = {"account": KEEPER, "sid": made["sid"], "members": []}
        return change if len(self.state["groups"]) < MOST else None

    def drop_group(self):
        def change():
            name = self.chance.choice(sorted(self.state["groups"]))
            self.command("group", "delete", name, "--force")
            del self.state["groups"][name]
            self.forget(name)
        return change if self.state["groups"] else None

    def enter_group(self):
        free = [(name, user) for name, group in sorted(self.state["groups"].items()) for user in self.users() if user not in group["members"]]

        def change():
            name, user = self.chance.choice(free)
            self.command("group", "add", name, user)
            self.state["groups"][name]["members"] = sorted([*self.state["groups"][name]["members"], user])
        return change if free else None

    def leave_group(self):
        inside = [(name, user) for name, group in sorted(self.state["groups"].items()) for user in group["members"]]

        def change():
            name, user = self.chance.choice(inside)
            self.command("group", "remove", name, user)
            self.state["groups"][name]["members"].remove(user)
        return change if inside else None

    def make_share(self):
        def change():
            name = self.name("share")
            self.command("share", "create", name, "--path", str(self.folder(name)))
            self.state["shares"][name] = {"account": KEEPER, "read_only": False, "comment": "", "grants": {"everyone": "full"}, "unsaid": True}
        return change if len(self.state["shares"]) < MOST else None

    def shares(self):
        return [name for name in sorted(self.state["shares"]) if name != FILES]

    def drop_share(self):
        def change():
            name = self.chance.choice(self.shares())
            self.command("share", "delete", name)
            del self.state["shares"][name]
        return change if self.shares() else None

    def change_share(self):
        def change():
            name, comment, read_only = self.chance.choice(self.shares()), f"the {self.number}th", self.chance.choice((True, False))
            self.command("share", "update", name, "--comment", comment, "--read-only", "on" if read_only else "off")
            self.state["shares"][name].update(comment=comment, read_only=read_only)
        return change if self.shares() else None

    def grant(self):
        who = [*self.users(), *sorted(self.state["groups"]), "everyone"]

        def change():
            name, to, right = self.chance.choice(self.shares()), self.chance.choice(who), self.chance.choice(RIGHTS)
            self.command("share", "grant", name, to, right)
            share = self.state["shares"][name]
            if to != "everyone" and share["unsaid"]:
                del share["grants"]["everyone"]
            share["unsaid"] = False
            share["grants"][to] = right
        return change if self.shares() else None

    def revoke(self):
        granted = [(name, who) for name in self.shares() for who in sorted(self.state["shares"][name]["grants"])]

        def change():
            name, who = self.chance.choice(granted)
            self.command("share", "revoke", name, who)
            share = self.state["shares"][name]
            del share["grants"][who]
            if who == "everyone":
                share["unsaid"] = False
        return change if granted else None

    def make_operator(self):
        def change():
            name = self.name("operator")
            self.command("operator", "create", name, "--password-stdin", text=self.password() + "\n")
            self.state["operators"] = sorted([*self.state["operators"], name])
        return change if len(self.state["operators"]) < MOST else None

    def drop_operator(self):
        def change():
            name = self.chance.choice(self.state["operators"])
            self.command("operator", "delete", name)
            self.state["operators"].remove(name)
        return change if self.state["operators"] else None

    def set_channels(self):
        def change():
            count = str(self.chance.randint(1, 32))
            self.command("server", "set", "channels-max", count)
            self.state["channels"] = count
        return change

    def forget(self, name):
        """Nobody of this name stands in groups or has rights."""
        for group in self.state["groups"].values():
            group["members"] = [member for member in group["members"] if member != name]
        for share in self.state["shares"].values():
            share["grants"].pop(name, None)

    def command(self, *words, text=""):
        return json.loads(self.server._run(*words, "--json", text=text))

    def keys(self, account):
        keys = self.command("account", "keys", account)
        return [keys["key1"], keys["key2"]]

    def name(self, kind):
        self.number += 1
        return f"{kind}{self.number}"

    def password(self):
        return f"{self.chance.getrandbits(64):016x}-horse"


class Writer(threading.Thread):
    """Who puts one file after the other, by our own client."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.over = threading.Event()
        self.failure = None
        # Names of files that were answered for; each holds its name.
        self.written = []

    def run(self):
        environment = dict(os.environ, MULTILANE_PASSWORD=self.server.keeper_password())
        with tempfile.TemporaryDirectory(prefix="conformance-backups-") as folder:
            number = 0
            while not self.over.is_set() and not self.failure:
                name = f"file{number}"
                path = pathlib.Path(folder) / name
                path.write_text(name)
                where = f"smb://{KEEPER}@{self.server.host}:{self.server.port}/{FILES}/{name}"
                # Its key may be another by now.
                done = subprocess.run([str(self.server.program), "put", str(path), where], env=environment, capture_output=True, text=True,
                                      timeout=COMMAND_SECONDS)
                if done.returncode == 0:
                    self.written.append(name)
                    number += 1
                else:
                    environment["MULTILANE_PASSWORD"] = self.server.keeper_password()
                path.unlink()
                self.over.wait(0.2)


class Keeper:
    """Who makes backups, and looks at each."""

    def __init__(self, server, changes, writer, work):
        self.server, self.changes, self.writer, self.work = server, changes, writer, work
        self.count = 0

    def keep(self, seconds, every_seconds):
        end = time.monotonic() + seconds
        self.changes.start()
        self.writer.start()
        try:
            while time.monotonic() < end:
                next_one = time.monotonic() + every_seconds
                self.once()
                expect(self.changes.failure is None, f"a change failed: {self.changes.failure}")
                time.sleep(max(0, min(next_one, end) - time.monotonic()))
        finally:
            for other in (self.changes, self.writer):
                other.over.set()
                other.join(COMMAND_SECONDS)

    def once(self):
        backup = self.work / f"{self.count}.db"
        first, files = len(self.changes.states) - 1, list(self.writer.written)
        self.server._run("backup", str(backup))
        # What was begun may be in it.
        last = self.changes.begun
        until(lambda: len(self.changes.states) > last or self.changes.failure, "a change does not end", COMMAND_SECONDS)
        expect(self.changes.failure is None, f"a change failed: {self.changes.failure}")
        candidates = self.changes.states[first:last + 1]
        data = self.work / f"{self.count}-data"
        self.multilane(data, "restore", str(backup))
        said = frozen(described(str(data), self))
        # What is told of a catalog has no passwords, so that several moments may look like this one.
        passwords = [passwords for state, passwords in candidates if state == said]
        expect(passwords, f"backup {self.count}: no state between {first} and {last} is this one:\n{difference(candidates[0][0], said)}")
        self.serves(data, json.loads(said), passwords, files)
        backup.unlink()
        shutil.rmtree(data)
        self.count += 1

    def serves(self, data, state, passwords, files):
        """Starts a server on what was restored, with the files of shares beside it, as an operator does."""
        for share in state["shares"]:
            source = pathlib.Path(self.server._data()) / share
            # One that was deleted since is still there: a folder keeps its files. Files that come and go under their other names are not missed.
            subprocess.run(["cp", "-a", str(source), str(data / share)], stderr=subprocess.DEVNULL)
        port, log = free_port(), open(self.work / f"{self.count}.log", "wb")
        process = subprocess.Popen([str(self.server.program), "serve", "--data", str(data), "--listen", f"{self.server.host}:{port}", "--signing", "enabled"],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            until(lambda: process.poll() is not None or answers(self.server.host, port), "the restored server does not answer", START_SECONDS)
            expect(process.poll() is None, f"the restored server ended: {pathlib.Path(log.name).read_text()[-1500:]}")
            key = state["accounts"][KEEPER][0]
            listed = self.client(port, (KEEPER, key), "-L", "-g")
            shares = sorted(line.split("|")[1] for line in listed.splitlines() if line.startswith("Disk|"))
            expect(shares == sorted(state["shares"]), f"shares {shares} and not {sorted(state['shares'])}:\n{listed[-800:]}")
            names = self.client(port, (KEEPER, key), FILES, "-c", "ls")
            missing = [name for name in files if f" {name} " not in names]
            expect(not missing, f"files {missing[:5]} of {len(files)} are not there:\n{names[-800:]}")
            for user, about in state["users"].items():
                possible = {of[user] for of in passwords if user in of}
                if not possible:
                    continue
                # The share is everybody's, until somebody may not sign in at all.
                said = [self.client(port, (user, password), FILES, "-c", "get nowhere") for password in possible]
                seen = next((answer for answer in said if "NT_STATUS_OBJECT_NAME_NOT_FOUND" in answer), said[0])
                is_in = "NT_STATUS_OBJECT_NAME_NOT_FOUND" in seen
                is_told = "NT_STATUS_ACCOUNT_DISABLED" in seen or "NT_STATUS_LOGON_FAILURE" in seen
                expect(is_in if about["standing"] == "good" else is_told, f"{user}, who is {about['standing']}: {seen[-400:]}")
        finally:
            process.terminate()
            process.wait(COMMAND_SECONDS)
            log.close()

    def client(self, port, who, share, *words):
        login = self.work / "login"
        login.write_text(f"username = {who[0]}\npassword = {who[1]}\n")
        host = self.server.host
        place = ["-L", f"//{host}"] if share == "-L" else [f"//{host}/{share}"]
        result = subprocess.run(["smbclient", *place, "-p", str(port), "-A", str(login), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=COMMAND_SECONDS, cwd=self.work)
        return f"{result.stdout}\n{result.stderr}"

    def multilane(self, data, *words):
        result = subprocess.run([str(self.server.program), *words, "--data", str(data)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=COMMAND_SECONDS)
        if result.returncode != 0:
            raise Failure(f"multilane {' '.join(words)}: exit {result.returncode}\n{result.stderr}{result.stdout}")
        return result.stdout


def described(data, place):
    """What the catalog of a data folder says, as far as the model knows it. `place` runs commands."""
    program = place.program if hasattr(place, "program") else place.server.program

    def told(*words):
        result = subprocess.run([str(program), *words, "--json", "--data", data], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if result.returncode != 0:
            raise Failure(f"multilane {' '.join(words)}: exit {result.returncode}\n{result.stderr}")
        return json.loads(result.stdout)

    accounts = {account["name"]: list(told("account", "keys", account["name"]).values()) for account in told("account", "list")}
    users = {user["name"]: {"account": user["account"], "standing": user["standing"], "sid": user["sid"]} for user in told("user", "list")}
    groups = {group["name"]: {"account": group["account"], "sid": group["sid"], "members": sorted(group["members"])} for group in told("group", "list")}
    shares = {}
    for share in told("share", "list"):
        grants = {grant["who"]: grant["right"] for grant in told("share", "grants", share["name"])["grants"]}
        shares[share["name"]] = {"account": share["account"], "read_only": share["read_only"], "comment": share["comment"], "grants": grants}
    operators = sorted(operator["name"] for operator in told("operator", "list"))
    channels = {setting["name"]: setting["value"] for setting in told("server", "settings")}["channels-max"]
    return {"accounts": accounts, "users": users, "groups": groups, "shares": shares, "operators": operators, "channels": channels}


def frozen(state):
    """A state as text, without what the catalog does not say."""
    state = copy.deepcopy(state)
    for share in state["shares"].values():
        share.pop("unsaid", None)
    return json.dumps(state, sort_keys=True)


def difference(one, other):
    """Where two states differ, kind by kind."""
    one, other = json.loads(one), json.loads(other)
    return "\n".join(f"{kind}: {one[kind]}\n  and {other[kind]}" for kind in one if one[kind] != other[kind])


def main():
    parser = argparse.ArgumentParser(prog="conformance.backups", description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=SHORT_MINUTES, help=f"how long things change ({SHORT_MINUTES})")
    parser.add_argument("--every", type=float, metavar="SECONDS", help=f"from one backup to the next ({EVERY_SECONDS}, or {SHORT_EVERY_SECONDS} in less than five minutes)")
    arguments = parser.parse_args()
    every = arguments.every or (EVERY_SECONDS if arguments.minutes >= 5 else SHORT_EVERY_SECONDS)
    alone.main(NAME, lambda report: run(multilane.Multilane, report, arguments, arguments.minutes, every))


if __name__ == "__main__":
    main()
