"""Plays cases of the model of rights over the network: `access.py` has them made, and compares what comes of them.

Each line of the first file is a case, each line of the second what came of it. Runs where spnego is.
"""

import json
import os
import struct
import sys

from conformance.hostile.client import CREATE, CLOSE, QUERY_DIRECTORY, QUERY_INFO, SET_INFO, SUCCESS, TREE_CONNECT, WRITE, \
    Raw, close_body, create_body, create_context, query_directory_body, query_info_body, set_info_body, tree_body, \
    write_body

OPEN, CREATE_NEW, OPEN_IF, OVERWRITE, SUPERSEDE = 1, 2, 3, 4, 0
DIRECTORY, DELETE_ON_CLOSE = 0x1, 0x1000
FULL, LOOK = 0x1F01FF, 0x20080
OWNER, DACL, SACL = 1, 4, 8
BY_FILE, BY_SECURITY = 1, 3
ACCESS_CLASS, INTERNAL, STANDARD, STREAMS, RENAME, LINK, DISPOSITION, NAMES = 8, 6, 5, 22, 10, 11, 13, 12
NO_SUCH_FILE = 0xC000000F
# Kinds of entries that make a list one of revision 4: the entries for object types.
OBJECT_KINDS = (5, 6)
AUDIT = 2
WELL_KNOWN = {
    "everyone": (1, 0), "authenticated users": (5, 11), "network": (5, 2), "users": (5, 32, 545),
    "administrators": (5, 32, 544), "system": (5, 18), "creator owner": (3, 0), "owner rights": (3, 4), "self": (5, 10),
    # Nobody's, for a list that no case has by chance.
    "stranger": (5, 21, 9, 9, 9, 9),
}
OPEN_TO_ALL = {"owner": "tester", "list": [[0, 0, FULL, "everyone"]]}


def sid_of(authority, *numbers):
    return struct.pack("<BB6B", 1, len(numbers), 0, 0, 0, 0, 0, authority) + struct.pack(f"<{len(numbers)}I", *numbers)


class Stage:
    """The server with its three users, and the files of one case after the other."""

    def __init__(self):
        password, keeper = os.environ["SMB_PASSWORD"], os.environ["SMB_KEEPER"]
        self.people = {
            "tester": signed_in(os.environ["SMB_USER"], password),
            "other": signed_in(os.environ["SMB_SECOND_USER"], password),
            "keeper": signed_in(keeper, os.environ["SMB_KEEPER_PASSWORD"]),
        }
        self.keeper = self.people["keeper"]
        self.sids = {name: sid_of(*numbers) for name, numbers in WELL_KNOWN.items()}
        for share in (os.environ["SMB_SHARE"], os.environ["SMB_LISTED_SHARE"]):
            self.use(share)
            root = self.made("", options=DIRECTORY, disposition=OPEN)
            self.set_security(self.keeper, root, DACL, self.descriptor({"list": OPEN_TO_ALL["list"]}))
            self.keeper.call(CLOSE, close_body(root))
        self.use(os.environ["SMB_SHARE"])
        for name in ("tester", "other"):
            self.sids[name] = self.own_sid(name)
        self.sids["domain users"] = self.sids["tester"][:-4] + struct.pack("<I", 513)

    def use(self, share):
        """Goes on in this share."""
        for peer in self.people.values():
            peer.tree_id = peer.trees[share]

    def own_sid(self, name):
        peer = self.people[name]
        file = opened(peer, f"of {name}", FULL, OPEN_IF)
        text = security(peer, file)
        start = struct.unpack_from("<I", text, 4)[0]
        peer.call(CLOSE, close_body(file))
        return text[start:start + 8 + 4 * text[start + 1]]

    # What is there before a case.

    def made(self, path, options=0, disposition=CREATE_NEW, told=None):
        """Makes a file or directory as the keeper, with a descriptor where one is told; its id."""
        file = opened(self.keeper, path, FULL, disposition, options)
        if told:
            self.set_security(self.keeper, file, OWNER | DACL, self.descriptor(told))
        return file

    def put(self, path, told, directory=False, data=b""):
        file = self.made(path, DIRECTORY if directory else 0, told=told)
        if data:
            self.keeper.call(WRITE, write_body(file, data))
        self.keeper.call(CLOSE, close_body(file))

    def descriptor(self, told):
        """A self-relative descriptor with owner and list (MS-DTYP 2.4.6), protected from what is inherited."""
        owner = self.sids[told["owner"]] if told.get("owner") else b""
        listed, control = b"", 0x8000
        if "list" in told:
            control |= 0x1004
            listed = self.acl(told["list"]) if told["list"] is not None else b""
        return struct.pack("<BBHIIII", 1, 0, control, 20 + len(listed) if owner else 0, 0, 0, 20 if listed else 0) \
            + listed + owner

    def acl(self, entries):
        body = b""
        for kind, flags, mask, who in entries:
            rest = struct.pack("<I", mask) + (bytes(4) if kind in OBJECT_KINDS else b"") + self.sids[who]
            body += struct.pack("<BBH", kind, flags, 4 + len(rest)) + rest
        revision = 4 if any(kind in OBJECT_KINDS for kind, *_ in entries) else 2
        return struct.pack("<BBHHH", revision, 0, 8 + len(body), len(entries), 0) + body

    def set_security(self, peer, file, which, told):
        status = set_security(peer, file, which, told)
        if status != SUCCESS:
            raise AssertionError(f"the keeper could not set a descriptor: {status:#010x}")

    # One case.

    def play(self, case):
        if case["way"] == "List":
            self.use(os.environ["SMB_LISTED_SHARE"])
            try:
                return self.listed(case)
            finally:
                self.use(os.environ["SMB_SHARE"])
        number = case["seed"]
        folder, target = f"d{number}", f"t{number}"
        file, name = rf"{folder}\f", rf"{target}\n"
        self.put(folder, None, directory=True)
        self.put(target, None, directory=True)
        self.put(file, None, directory=case["directory"], data=b"" if case["directory"] else b"data")
        if case["way"] == "OpenStream":
            self.put(file + ":s", None)
        if case["way"] in ("Rename", "Link") and case["taken"]:
            self.put(name, case["taken"])
        for path, told in ((file, case["own"]), (folder, case["folder"]), (target, case["target"])):
            held = self.made(path, disposition=OPEN, told=told)
            self.keeper.call(CLOSE, close_body(held))
        watched = [file, rf"{folder}\new", name]
        before = [self.look(path) for path in watched]
        status, granted = self.go(self.people[case["asks"]], case, folder, name)
        if case["way"] == "SetAudit" or case["way"] == "SetOwner" and case["own"]["owner"] == case["new_owner"]:
            changed = status == SUCCESS
        else:
            changed = [self.look(path) for path in watched] != before
        return {"seed": number, "status": status, "granted": granted, "changed": changed}

    def listed(self, case):
        number = case["seed"]
        self.put(f"t{number}", OPEN_TO_ALL, directory=True)
        self.put(rf"t{number}\n", case["own"], directory=case["directory"])
        peer = self.people[case["asks"]]
        folder = opened(peer, f"t{number}", 0x1, OPEN, DIRECTORY)
        answer = peer.call(QUERY_DIRECTORY, query_directory_body(folder, "n", information_class=NAMES))
        peer.call(CLOSE, close_body(folder))
        if answer.status not in (SUCCESS, NO_SUCH_FILE):
            raise AssertionError(f"QUERY_DIRECTORY: {answer.status:#010x}")
        return {"seed": number, "status": SUCCESS, "granted": None, "changed": answer.status == SUCCESS}

    def look(self, path):
        """Everything of a file that a case may change; None where it is missing."""
        answer = self.keeper.call(CREATE, create_body(path, access=LOOK, disposition=OPEN))
        if answer.status != SUCCESS:
            return None
        file = answer.body[64:80]
        seen = [queried(self.keeper, file, INTERNAL)[:8], queried(self.keeper, file, STANDARD)[8:16],
                queried(self.keeper, file, STREAMS), security(self.keeper, file)]
        self.keeper.call(CLOSE, close_body(file))
        return seen

    def go(self, peer, case, folder, name):
        """The requests of a case: the first status that is no success, and what the open was granted."""
        way, contexts = case["way"], b""
        path, disposition, options = {
            "OpenStream": (r"\f:s", OPEN, 0), "MakeStream": (r"\f:s", OPEN_IF, 0),
            "Make": (r"\new", CREATE_NEW, DIRECTORY * case["directory"]),
            "MakeOwned": (r"\new", CREATE_NEW, DIRECTORY * case["directory"]),
            "Overwrite": (r"\f", OVERWRITE, 0), "Supersede": (r"\f", SUPERSEDE, 0),
            "DeleteOnClose": (r"\f", OPEN, DELETE_ON_CLOSE),
        }.get(way, (r"\f", OPEN, 0))
        if way == "MakeOwned":
            contexts = create_context(b"SecD", self.descriptor({"owner": case["new_owner"]}))
        answer = peer.call(CREATE, create_body(folder + path, access=case["desired"], disposition=disposition,
                                               options=options, contexts=contexts))
        if answer.status != SUCCESS:
            return answer.status, None
        file = answer.body[64:80]
        granted = struct.unpack("<I", queried(peer, file, ACCESS_CLASS))[0]
        raw = name.encode("utf-16-le")
        named = struct.pack("<B7xQI", 1, 0, len(raw)) + raw
        status = SUCCESS
        if way == "Disposition":
            status = peer.call(SET_INFO, set_info_body(file, DISPOSITION, b"\1")).status
        elif way in ("Rename", "Link"):
            status = peer.call(SET_INFO, set_info_body(file, RENAME if way == "Rename" else LINK, named)).status
        elif way == "SetList":
            status = set_security(peer, file, DACL, self.descriptor({"list": [[0, 0, 0x12345, "stranger"]]}))
        elif way == "SetOwner":
            status = set_security(peer, file, OWNER, self.descriptor({"owner": case["new_owner"]}))
        elif way == "SetAudit":
            audited = self.acl([[AUDIT, 0x40, FULL, "everyone"]])
            status = set_security(peer, file, SACL, struct.pack("<BBHIIII", 1, 0, 0x8010, 0, 0, 20, 0) + audited)
        peer.call(CLOSE, close_body(file))
        return status, granted


def signed_in(user, password):
    """A connection on which this user is signed in, with the trees of both shares."""
    peer = Raw(seconds=60)
    peer.negotiate()
    answer = peer.login(password, user)
    if answer.status != SUCCESS:
        raise AssertionError(f"{user} cannot sign in: {answer.status:#010x}")
    peer.trees = {}
    for share in (os.environ["SMB_LISTED_SHARE"], os.environ["SMB_SHARE"]):
        answer = peer.call(TREE_CONNECT, tree_body(rf"\\{os.environ['SMB_HOST']}\{share}"))
        if answer.status != SUCCESS:
            raise AssertionError(f"{user} cannot connect to {share}: {answer.status:#010x}")
        peer.trees[share] = peer.tree_id = answer.tree_id
    return peer


def opened(peer, path, access, disposition, options=0):
    answer = peer.call(CREATE, create_body(path, access=access, disposition=disposition, options=options))
    if answer.status != SUCCESS:
        raise AssertionError(f"CREATE of {path!r}: {answer.status:#010x}")
    return answer.body[64:80]


def queried(peer, file, information_class, kind=BY_FILE):
    answer = peer.call(QUERY_INFO, query_info_body(file, kind, information_class))
    if answer.status != SUCCESS:
        raise AssertionError(f"QUERY_INFO {kind}, {information_class}: {answer.status:#010x}")
    return answer.body[8:8 + struct.unpack_from("<I", answer.body, 4)[0]]


def security(peer, file):
    return queried(peer, file, 0, BY_SECURITY)


def set_security(peer, file, which, told):
    body = set_info_body(file, 0, told, kind=BY_SECURITY)
    return peer.call(SET_INFO, body[:12] + struct.pack("<I", which) + body[16:]).status


def main():
    stage = Stage()
    with open(sys.argv[1]) as cases, open(sys.argv[2], "w") as outcomes:
        for line in cases:
            print(json.dumps(stage.play(json.loads(line))), file=outcomes)


if __name__ == "__main__":
    main()
