"""Clients that list a large folder."""

import selectors
import time

from conformance.bench.bounds.case import CLIENTS, case
from conformance.hostile.client import QUERY_DIRECTORY, SUCCESS, query_directory_body

LISTERS, NAMES, PAGES = 100, 200_000, 4
LISTING_MIB = 200
FIRST_PAGE_SECONDS_MAX = 1.0
PATIENCE_SECONDS = 120
FOLDER, DIRECTORY = "many", 0x1
PAGE_BYTES = 65536


def many_names(share):
    folder = share / FOLDER
    folder.mkdir()
    folder.chmod(0o777)
    for number in range(NAMES):
        open(folder / f"a file with a name like others have {number:06}.txt", "w").close()


def next_page(user, folder):
    user.send(QUERY_DIRECTORY, query_directory_body(folder, length=PAGE_BYTES, flags=0), credits=4)


@case("listing", f"{LISTERS} clients that list a folder of {NAMES:,} names", CLIENTS, LISTING_MIB, prepare=many_names, seconds=PATIENCE_SECONDS)
def _(attacker):
    users = [attacker.user() for _ in range(LISTERS)]
    folders = [user.open(FOLDER, options=DIRECTORY, access=0x00100081) for user in users]
    selector, began, first = selectors.DefaultSelector(), time.monotonic(), []
    for user, folder in zip(users, folders):
        selector.register(user.socket, selectors.EVENT_READ, (user, folder, [0]))
        next_page(user, folder)
    while selector.get_map() and time.monotonic() < began + PATIENCE_SECONDS - 20:
        for key, _ in selector.select(1):
            user, folder, pages = key.data
            answer = user.receive()
            assert answer.status == SUCCESS, f"QUERY_DIRECTORY: {answer.status:#x}"
            if pages[0] == 0:
                first.append(time.monotonic() - began)
            pages[0] += 1
            if pages[0] == PAGES:
                selector.unregister(user.socket)
            else:
                next_page(user, folder)
    slow = len(first) < LISTERS or first[-1] > FIRST_PAGE_SECONDS_MAX
    attacker.say(f"{len(first)} first pages, the last after {first[-1] if first else 0:.2f} s{', TOO SLOW' if slow else ''}; "
                 f"{PAGES} pages each after {time.monotonic() - began:.1f} s")
