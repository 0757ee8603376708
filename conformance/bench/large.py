"""Measures large folders and many byte-range locks: `python3 -m conformance.bench.large --help`.

Servers take turns on the same folder. A first page is 64 KiB of FileIdBothDirectoryInformation, from the request to its answer, of the
slowest of so many clients that ask at once. Of locks it is what one unlock takes while 500 other requests wait for the last of 20,000 locks,
and the longest ECHO of somebody else meanwhile.
"""

import argparse
import contextlib
import os
import pathlib
import selectors
import shutil
import statistics
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from conformance import multilane, packages, samba  # noqa: E402
from conformance.bench.run import line, machine  # noqa: E402
from conformance.py_smbprotocol import REQUIREMENTS  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

SHARE, FOLDER = "large", "many"
DIRECTORY, LIST = 0x1, 0x00100081
PAGE_BYTES = 65536
NO_MORE_FILES = 0x80000006
LOCKS, LOCKS_A_REQUEST, WAITERS, UNLOCKS = 20_000, 2_000, 500, 50
EXCLUSIVE, UNLOCK, AT_ONCE = 2, 4, 16


class Refused(Exception):
    """The server does not let so many wait."""


def main():
    arguments = parsed_arguments()
    packages.go_on_with(*REQUIREMENTS, module="conformance.bench.large")
    servers = [(str(binary), binary) for binary in arguments.binary]
    if arguments.samba:
        servers.append(("samba", None))
    rows = {}
    place = pathlib.Path(tempfile.mkdtemp(prefix="large-", dir=arguments.place))
    try:
        folder = filled(place / FOLDER, arguments.names)
        for _ in range(arguments.rounds):
            for name, binary in servers:
                for what, value in measured(binary, folder, arguments).items():
                    rows.setdefault(what, {}).setdefault(name, []).append(value)
                    print(f"{name}: {what}: {value:.4g}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(place)
    names = [name for name, _ in servers]
    print(f"Machine: {machine()}. {arguments.names:,} names; the median of {arguments.rounds} rounds.\n")
    print(line(["", *names]))
    print(line(["---", *["---:"] * len(names)]))
    for what, values in rows.items():
        print(line([what, *(f"{statistics.median(values[name]):.4g}" if name in values else "" for name in names)]))


def filled(folder, names):
    folder.mkdir()
    folder.chmod(0o777)
    for number in range(names):
        os.close(os.open(folder / f"a file with a name like others have {number:07}.txt", os.O_CREAT | os.O_WRONLY, 0o666))
    return folder


def measured(binary, folder, arguments):
    """What one server shows."""
    if binary:
        os.environ["MULTILANE_BINARY"] = str(binary.resolve())
    kind = multilane.Multilane if binary else samba.Samba
    seen = {}
    with serving(kind, Wanted(shares=(SHARE,))) as server:
        os.environ.update(server.environment())
        served = server.share_path() / FOLDER
        folder.rename(served)
        try:
            seen["first page, one client, s"] = first_pages(1)
            for clients in arguments.clients:
                before = server.cpu_seconds()
                seen[f"first page, {clients} clients, s"] = first_pages(clients)
                seen[f"CPU of a first page, {clients} clients, ms"] = 1000 * (server.cpu_seconds() - before) / clients
            seen["whole listing, one client, names a second"] = whole_listing(arguments.seconds)
        finally:
            served.rename(folder)
        if not arguments.no_locks:
            with contextlib.suppress(Refused):
                seen["unlock, ms"], seen["longest ECHO, ms"] = unlocks()
    return seen


def signed_in():
    from conformance.hostile.client import client
    user = client()
    user.socket.settimeout(120)
    return user


def page_body(folder):
    from conformance.hostile.client import query_directory_body
    return query_directory_body(folder, length=PAGE_BYTES, flags=0)


def first_pages(count):
    """Until the last of so many clients has its first page."""
    from conformance.hostile.client import QUERY_DIRECTORY, SUCCESS
    with contextlib.ExitStack() as stack:
        users = [stack.enter_context(signed_in()) for _ in range(count)]
        folders = [user.open(FOLDER, options=DIRECTORY, access=LIST) for user in users]
        selector, began = selectors.DefaultSelector(), time.monotonic()
        for user, folder in zip(users, folders):
            selector.register(user.socket, selectors.EVENT_READ, user)
            user.send(QUERY_DIRECTORY, page_body(folder))
        while selector.get_map():
            for key, _ in selector.select(120):
                assert key.data.receive().status == SUCCESS
                selector.unregister(key.fileobj)
        return time.monotonic() - began


def whole_listing(seconds):
    """Names a second, until all are told or so much time has passed."""
    from conformance.hostile.client import QUERY_DIRECTORY
    with signed_in() as user:
        folder = user.open(FOLDER, options=DIRECTORY, access=LIST)
        began, names = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            answer = user.call(QUERY_DIRECTORY, page_body(folder))
            if answer.status == NO_MORE_FILES:
                break
            names += entries(answer.body[8:])
        return names / (time.monotonic() - began)


def entries(buffer):
    count, at = 1, 0
    while step := struct.unpack_from("<I", buffer, at)[0]:
        count, at = count + 1, at + step
    return count


def unlocks():
    """Milliseconds that an unlock takes while others wait, and the longest ECHO of somebody else."""
    from conformance.hostile.client import LOCK, PENDING, SUCCESS, ECHO, ECHO_BODY, lock_body, parsed
    with signed_in() as holder, signed_in() as waiter, signed_in() as bystander:
        held, wanted = holder.open("locked"), waiter.open("locked")
        for first in range(0, LOCKS, LOCKS_A_REQUEST):
            locks = [(offset, 1, EXCLUSIVE | AT_ONCE) for offset in range(first, first + LOCKS_A_REQUEST)]
            assert holder.call(LOCK, lock_body(held, locks)).status == SUCCESS
        for _ in range(WAITERS):
            waiter.send(LOCK, lock_body(wanted, [(LOCKS - 1, 1, EXCLUSIVE)]), credits=4)
            if parsed(waiter.receive_frame()).status != PENDING:
                raise Refused
        longest, done = [0.0], threading.Event()

        def echo():
            while not done.is_set():
                began = time.monotonic()
                assert bystander.call(ECHO, ECHO_BODY).status == SUCCESS
                longest[0] = max(longest[0], time.monotonic() - began)
                time.sleep(0.001)
        thread = threading.Thread(target=echo)
        thread.start()
        took = []
        try:
            for offset in range(UNLOCKS):
                began = time.monotonic()
                assert holder.call(LOCK, lock_body(held, [(offset, 1, UNLOCK)])).status == SUCCESS
                took.append(time.monotonic() - began)
        finally:
            done.set()
            thread.join()
        return 1000 * statistics.median(took), 1000 * longest[0]


def parsed_arguments():
    parser = argparse.ArgumentParser(prog="conformance.bench.large", description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", nargs="+", type=pathlib.Path, default=[multilane.binary()], help="our servers, such as one before a change")
    parser.add_argument("--samba", action="store_true", help="Samba too")
    parser.add_argument("--names", type=int, default=1_000_000, help="names in the folder (1,000,000)")
    parser.add_argument("--clients", type=int, nargs="*", default=[10, 100], help="how many ask at once (10 100)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="how long the whole listing may take (10)")
    parser.add_argument("--place", type=pathlib.Path, help="where the folder is made: on the file system of the servers' folders")
    parser.add_argument("--no-locks", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
