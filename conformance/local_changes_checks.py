"""Another program changes a share's folder, and what clients are told must be so at once. Runs where spnego is; the folder is in LOCAL_FOLDER.

This program is both: it changes files through the file system of this machine, and asks for them over SMB after each change. Before the change it had asked
for them, too, so that the server may know them. Now and then the client changes something itself.
"""

import os
import pathlib
import random
import struct

from conformance.hostile.client import CLOSE, CREATE, QUERY_DIRECTORY, QUERY_INFO, READ, SUCCESS, WRITE, \
    client, close_body, create_body, query_directory_body, query_info_body, read_body, write_body
from conformance.report import Lines

FOLDER = pathlib.Path(os.environ["LOCAL_FOLDER"])
OPERATIONS = int(os.environ["LOCAL_OPERATIONS"])
SEED = int(os.environ.get("LOCAL_SEED") or random.randrange(1 << 30))
# Directories that clients look at, and one whose names they never ask for.
SEEN, UNSEEN = ("one", "two"), "links"
NAMES = 12
OPEN, CREATE_NEW = 1, 2
DIRECTORY, DELETE_ON_CLOSE = 0x1, 0x1000
LOOK, CHANGE, DELETE = 0x120089, 0x12019F, 0x10080
ALL, EXTENDED, ID_BOTH = 18, 15, 37
NAME_NOT_FOUND, PATH_NOT_FOUND, NO_MORE_FILES = 0xC0000034, 0xC000003A, 0x80000006
EPOCH_DIFFERENCE = 116_444_736_000_000_000
BYTES_MAX, READ_BYTES = 9_000, 16_384
ATTRIBUTES = ("user.first", "user.second")


class Difference(Exception):
    """What the server says is not so."""


def main():
    lines = Lines()
    print(f"seed {SEED}", flush=True)
    with lines.check(f"what another program has changed is told at once, {OPERATIONS:,} times"):
        for folder in (*SEEN, UNSEEN):
            (FOLDER / folder).mkdir()
        Two(random.Random(SEED)).work()


class Two:
    """The other program and the client."""

    def __init__(self, chance):
        self.chance = chance
        self.peer = client()
        self.number = 0
        self.links = []

    def work(self):
        changes = [self.make] * 4 + [self.write, self.append, self.truncate, self.write, self.rename, self.rename, self.replace, self.replace, self.remove,
                                     self.remove, self.remake, self.attribute, self.attribute, self.mode, self.times, self.link, self.write_through_link,
                                     self.folder, self.client_makes, self.client_removes, self.client_writes]
        for number in range(OPERATIONS):
            change = self.chance.choice(changes)
            try:
                touched = change()
                for path in {*touched, self.some_name()}:
                    self.look(path)
                if number % 4 == 0:
                    self.list(self.chance.choice(SEEN))
            except Difference as error:
                raise Difference(f"operation {number}, {change.__name__}, seed {SEED}: {error}") from None

    # What the other program does; each gives the names that it has to do with.

    def make(self):
        path = self.some_name()
        if exact(path) is None:
            put(path, self.data())
        return [path]

    def remake(self):
        """A name goes, and comes back in another case."""
        path = self.some_file()
        if path is None:
            return []
        (FOLDER / path).unlink()
        self.look(path)
        other = path.parent / path.name.swapcase()
        put(other, self.data())
        return [path, other]

    def write(self):
        path = self.some_file()
        if path:
            with open(FOLDER / path, "r+b") as file:
                file.write(self.data())
        return [path] if path else []

    def append(self):
        path = self.some_file()
        if path:
            with open(FOLDER / path, "ab") as file:
                file.write(self.data()[:100])
        return [path] if path else []

    def truncate(self):
        path = self.some_file()
        if path:
            os.truncate(FOLDER / path, self.chance.randrange(BYTES_MAX))
        return [path] if path else []

    def rename(self):
        old, new = self.some_file(), self.some_name()
        if old is None or exact(new) is not None:
            return []
        os.rename(FOLDER / old, FOLDER / new)
        return [old, new]

    def replace(self):
        """As editors save: a new file takes the name of the old one."""
        path = self.some_file()
        if path is None:
            return []
        new = self.fresh(UNSEEN if self.chance.random() < 0.5 else path.parent)
        put(new, self.data())
        os.replace(FOLDER / new, FOLDER / path)
        return [path]

    def remove(self):
        path = self.some_file()
        if path:
            (FOLDER / path).unlink()
        return [path] if path else []

    def attribute(self):
        path = self.some_file()
        if path is None:
            return []
        name, there = self.chance.choice(ATTRIBUTES), os.listxattr(FOLDER / path)
        if name in there and self.chance.random() < 0.5:
            os.removexattr(FOLDER / path, name)
        else:
            os.setxattr(FOLDER / path, name, self.chance.randbytes(self.chance.randrange(1, 40)))
        return [path]

    def mode(self):
        path = self.some_file()
        if path:
            os.chmod(FOLDER / path, self.chance.choice((0o600, 0o640, 0o644, 0o664, 0o755)))
        return [path] if path else []

    def times(self):
        path = self.some_file()
        if path:
            moment = self.chance.randrange(10 ** 18, 17 * 10 ** 17)
            os.utime(FOLDER / path, ns=(moment, moment))
        return [path] if path else []

    def link(self):
        """A second name, mostly in a directory that no client looks at."""
        path = self.some_file()
        if path is None:
            return []
        link = self.fresh(UNSEEN)
        os.link(FOLDER / path, FOLDER / link)
        self.links.append(link)
        return [path]

    def write_through_link(self):
        if not self.links:
            return []
        link = self.links.pop(self.chance.randrange(len(self.links)))
        same = [path for path in self.files() if (FOLDER / path).samefile(FOLDER / link)]
        for path in same:
            self.look(path)
        with open(FOLDER / link, "r+b") as file:
            file.write(self.data())
        for path in same:
            self.look(path)
        (FOLDER / link).unlink()
        return same

    def folder(self):
        """A directory of clients' names goes to another place and comes back."""
        path, away = self.chance.choice(SEEN), self.fresh(pathlib.Path("."))
        inside = [file for file in self.files() if file.parent.name == path][:2]
        os.rename(FOLDER / path, FOLDER / away)
        for file in inside:
            self.look(file)
            self.look(away / file.name)
        os.rename(FOLDER / away, FOLDER / path)
        return [*inside, *(away / file.name for file in inside)]

    # What the client does.

    def client_makes(self):
        path = self.some_name()
        if exact(path) is None:
            file = self.opened(path, access=CHANGE, disposition=CREATE_NEW)
            self.peer.call(WRITE, write_body(file, self.data()[:1000]))
            self.close(file)
            if exact(path) is None:
                raise Difference(f"{path} was made and is not there")
        return [path]

    def client_removes(self):
        path = self.some_file()
        if path:
            self.close(self.opened(path, access=DELETE, options=DELETE_ON_CLOSE))
            if (FOLDER / path).exists():
                raise Difference(f"{path} was removed and is there")
        return [path] if path else []

    def client_writes(self):
        path = self.some_file()
        if path:
            file = self.opened(path, access=CHANGE)
            self.peer.call(WRITE, write_body(file, self.data()[:500], offset=self.chance.randrange(3000)))
            self.close(file)
        return [path] if path else []

    # What the client is told, beside what is so.

    def look(self, path):
        there = exact(path)
        asked = path if self.chance.random() < 0.7 else path.parent / path.name.swapcase()
        answer = self.peer.call(CREATE, create_body(windows(asked), access=LOOK, disposition=OPEN))
        if there is None:
            same(asked, "the status of an open", answer.status, NAME_NOT_FOUND if (FOLDER / path.parent).is_dir() else PATH_NOT_FOUND)
            return
        same(asked, "the status of an open", answer.status, SUCCESS)
        truth, file = os.stat(FOLDER / there), answer.body[64:80]
        same(asked, "the open's times and length", struct.unpack_from("<QQ", answer.body, 24) + struct.unpack_from("<Q", answer.body, 48),
             (moment(truth.st_mtime_ns), moment(truth.st_ctime_ns), truth.st_size))
        told = self.peer.call(QUERY_INFO, query_info_body(file, information_class=ALL)).body[8:]
        same(asked, "times", struct.unpack_from("<QQ", told, 16), (moment(truth.st_mtime_ns), moment(truth.st_ctime_ns)))
        same(asked, "length and links", struct.unpack_from("<QI", told, 48), (truth.st_size, truth.st_nlink))
        same(asked, "attributes", self.attributes(file), {name.removeprefix("user.").upper(): os.getxattr(FOLDER / there, name)
                                                          for name in os.listxattr(FOLDER / there) if name in ATTRIBUTES})
        if truth.st_size:
            read = self.peer.call(READ, read_body(file, READ_BYTES))
            length = struct.unpack_from("<I", read.body, 4)[0]
            same(asked, "data", read.body[16:16 + length], (FOLDER / there).read_bytes())
        self.close(file)

    def attributes(self, file):
        answer = self.peer.call(QUERY_INFO, query_info_body(file, information_class=EXTENDED))
        found, rest = {}, answer.body[8:] if answer.status == SUCCESS else b""
        while rest:
            following, _, name_length, length = struct.unpack_from("<IBBH", rest)
            name = rest[8:8 + name_length].decode()
            found[name.upper()] = rest[9 + name_length:9 + name_length + length]
            rest = rest[following:] if following else b""
        return found

    def list(self, folder):
        told, directory = {}, self.opened(pathlib.Path(folder), access=0x100081, options=DIRECTORY)
        while (answer := self.peer.call(QUERY_DIRECTORY, query_directory_body(directory, flags=0, information_class=ID_BOTH))).status == SUCCESS:
            rest = answer.body[8:]
            while rest:
                written, changed, length = struct.unpack_from("<QQQ", rest, 24)
                name = rest[104:104 + struct.unpack_from("<I", rest, 60)[0]].decode("utf-16-le")
                told[name] = (written, changed, length)
                following = struct.unpack_from("<I", rest)[0]
                rest = rest[following:] if following else b""
        same(folder, "the end of a listing", answer.status, NO_MORE_FILES)
        self.close(directory)
        truth = {entry.name: (moment(entry.stat().st_mtime_ns), moment(entry.stat().st_ctime_ns), entry.stat().st_size)
                 for entry in os.scandir(FOLDER / folder)}
        same(folder, "a listing", {name: told[name] for name in told if name not in (".", "..")}, truth)

    def opened(self, path, **how):
        answer = self.peer.call(CREATE, create_body(windows(path), **{"disposition": OPEN, **how}))
        same(path, "the status of an open", answer.status, SUCCESS)
        return answer.body[64:80]

    def close(self, file):
        same("a file", "the status of a close", self.peer.call(CLOSE, close_body(file)).status, SUCCESS)

    # Names and data.

    def files(self):
        return [pathlib.Path(folder) / name for folder in SEEN for name in sorted(os.listdir(FOLDER / folder))]

    def some_file(self):
        files = self.files()
        return self.chance.choice(files) if files else None

    def some_name(self):
        name = f"File-{self.chance.randrange(NAMES)}"
        return pathlib.Path(self.chance.choice(SEEN)) / (name if self.chance.random() < 0.8 else name.swapcase())

    def fresh(self, folder):
        self.number += 1
        return pathlib.Path(folder) / f"new-{self.number}"

    def data(self):
        return self.chance.randbytes(self.chance.randrange(BYTES_MAX))


def exact(path):
    """The file's path in the case in which it is there, or None."""
    with_folder = FOLDER / path.parent
    if not with_folder.is_dir():
        return None
    return next((path.parent / name for name in os.listdir(with_folder) if name.casefold() == path.name.casefold()), None)


def put(path, data):
    (FOLDER / path).write_bytes(data)


def windows(path):
    return str(path).replace("/", "\\")


def moment(nanoseconds):
    """A FILETIME."""
    return nanoseconds // 100 + EPOCH_DIFFERENCE


def same(of, what, told, truth):
    if told != truth:
        raise Difference(f"{of}: {what}: {str(told)[:500]}, where it is {str(truth)[:500]}")


if __name__ == "__main__":
    main()
