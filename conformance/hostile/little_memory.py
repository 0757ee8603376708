"""A server that is allowed little memory, and users who would have it hold more than that: it goes on, and they get their answers."""

import concurrent.futures
import os

from conformance.hostile.case import END_OF_FILE
from conformance.hostile.client import READ, SUCCESS, WRITE, Raw, read_body, write_body
from conformance.report import Lines, expect

MIB = 1 << 20
FILE_BYTES = 8 * MIB
CLIENTS = 16  # of each user
READS = 3     # of each client
CREDITS = 512

lines = Lines()


def main():
    users = [os.environ["SMB_USER"], os.environ["SMB_SECOND_USER"]]
    with lines.check("two users ask for more than a server of little memory may hold"):
        clients = [connected(user) for user in users for _ in range(CLIENTS)]
        write_all(clients[0])
        asked = [ask(client) for client in clients]
    with lines.check("somebody else is served meanwhile"):
        with connected(users[0]) as client:
            answer = client.call(READ, read_body(client.open("small"), 4096))
            expect(answer.status in (SUCCESS, END_OF_FILE), f"a READ: {answer.status:#010x}")
    with lines.check("all of them get what they asked for when they take it"):
        # At once: who takes nothing keeps room that others of the same user wait for.
        with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
            for taken in pool.map(take, clients, asked):
                expect(taken == {SUCCESS}, f"statuses {taken}")


def connected(user):
    client = Raw()
    client.negotiate()
    client.login(username=user)
    answer = client.tree_connect()
    expect(answer.status == SUCCESS, f"TREE_CONNECT: {answer.status:#010x}")
    return client


def write_all(client):
    file = client.open("large")
    for offset in range(0, FILE_BYTES, MIB):
        client.call(WRITE, write_body(file, bytes(MIB), offset=offset), charge=16, credits=CREDITS)


def ask(client):
    """Asks for the whole file several times, and takes no answer; the ids of the requests."""
    file = client.open("large", access=0x00120089)
    client.call(READ, read_body(file, 1), credits=CREDITS)
    ids = set()
    for _ in range(READS):
        ids.add(client.next_id)
        client.send(READ, read_body(file, FILE_BYTES), charge=FILE_BYTES // 65536, credits=CREDITS)
    return ids


def take(client, ids):
    """Takes the answers to these requests; the statuses that they had."""
    statuses = set()
    while ids:
        answer = client.receive()
        whole = len(answer.body) == 16 + FILE_BYTES
        statuses.add(answer.status if whole or answer.status != SUCCESS else "too short")
        ids.remove(answer.message_id)
    return statuses


if __name__ == "__main__":
    main()
