"""What `multilane top --total --json` says was done, beside what a relay in front of the server saw pass: every request, byte and response, by API, of the
server, its share, user, client, sessions and channels. `python3 -m conformance.counted` runs it alone, with --whole for 10,000 sign-ins.
"""

import collections
import copy
import json
import os
import subprocess
import sys
import time

from conformance import alone, multilane, packages
from conformance.report import Failure, Skip, expect
from conformance.server import Wanted, serving
from conformance.watched import APIS, Relay, Tally

NAME = "counted"
SESSIONS, FILES = 3, 40
RECONNECTS = 1_000
CHANNELS = 4
ANSWERED_SECONDS = 10
SECONDS = 600
# What belongs to no session when it is asked.
SIGNING_IN = ("Negotiate", "SessionSetup")
IN_SESSIONS = tuple(api for api in APIS if api not in SIGNING_IN)
# A sign-in that goes on has this status, and is no error.
MORE_PROCESSING_REQUIRED = 0xC0000016


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers do not say what they count")
    checks(report)


def checks(report, reconnects=RECONNECTS):
    go_smb2(report, reconnects)
    diskspd(report)


def go_smb2(report, reconnects):
    program = packages.go_program("go-smb2", "counted")
    with serving(multilane.Multilane, Wanted()) as server, Relay(server) as relay:
        before = totals(server)
        client = started([str(program), str(SESSIONS), str(FILES), str(reconnects)], dict(server.environment(), SMB_PORT=str(relay.port)))
        try:
            said = client.stdout.readline()
            expect(said == "done\n", f"the client ended: {said}")
            what = f"go-smb2, {SESSIONS} sessions that go on and {reconnects:,} sign-ins"
            compare(report, what, server, before, relay, [[connection] for connection in relay.connections[:SESSIONS]])
        finally:
            end(client)


def diskspd(report):
    with serving(multilane.Multilane, Wanted(channels=CHANNELS)) as server, Relay(server) as relay:
        before = totals(server)
        client = started([str(multilane.binary()), "diskspd", "--signing", "as-server-wants", "--channels", str(CHANNELS), "-c64M", "-b256K", "-r", "-t2", "-o8",
                          "-w40", "-d60", f"smb://{server.user}@{server.host}:{relay.port}/{server.share}/file"],
                         dict(os.environ, MULTILANE_PASSWORD=server.password))
        try:
            deadline = time.monotonic() + ANSWERED_SECONDS
            while len(relay.connections) < CHANNELS and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(3)
            relay.holds = True
            compare(report, f"diskspd over {CHANNELS} channels", server, before, relay, [relay.connections])
        finally:
            end(client)


def started(argv, environment):
    return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(client):
    client.kill()
    client.communicate()


def totals(server):
    return json.loads(server._run("top", "--total", "--json"))


def compare(report, what, server, before, relay, sessions):
    """`sessions` are the connections of each session that is there; `before` is what was counted when none of them was."""
    until_answered(relay)
    said = totals(server)
    all_of_them = relay.connections
    with report.check(NAME, f"{what}: no frame was misread"):
        expect(not relay.faults, relay.faults[:3])
        expect(sum(tally_of(all_of_them).responses.values()) > 100, "hardly anything was asked")
    with report.check(NAME, f"{what}: the server has counted what passed"):
        # Who waits for a server to start asks it one thing.
        same(since(said["server"], before["server"]), tally_of(all_of_them))
        made = said["events"]["sign_ins"] + said["events"]["channels_bound"]
        expect(made == len(signed_in(all_of_them)) and said["events"]["channels_bound"] == made - len(sessions_of(all_of_them)), said["events"])
    with report.check(NAME, f"{what}: so have the share, the user and the client"):
        same(one(said["shares"], server.share), of_share(all_of_them, server.share))
        for row in (one(said["users"], server.user), one(said["clients"], server.host)):
            same(row, tally_of(all_of_them, IN_SESSIONS))
    with report.check(NAME, f"{what}: so have the sessions that are there, and each of their channels"):
        expect(len(said["sessions"]) == len(sessions), [row["name"] for row in said["sessions"]])
        expect(len(said["channels"]) == sum(map(len, sessions)), [row["name"] for row in said["channels"]])
        for connections in sessions:
            rows = [one(said["channels"], connection.local, by_end=True) for connection in connections]
            numbers = {row["name"].split()[0] for row in rows}
            expect(len(numbers) == 1, f"channels of one session are those of {numbers}")
            used = sum(row["requests"] > 0 for row in rows)
            expect(used >= min(2, len(rows)), f"requests went over {used} of {len(rows)} channels")
            for row, connection in zip(rows, connections):
                same(row, connection.tally(IN_SESSIONS))
            same(one(said["sessions"], f"{numbers.pop()} {server.user}"), tally_of(connections, IN_SESSIONS))


def until_answered(relay):
    """The answers to all that was asked have passed, and the server has counted them."""
    deadline = time.monotonic() + ANSWERED_SECONDS
    seen, waits = None, None
    while seen != (now := (len(relay.connections), relay.waits, tally_of(relay.connections).responses.total())) or waits:
        if time.monotonic() > deadline:
            raise Failure(f"{[asked for connection in relay.connections for asked in connection.asked.values()]} are not answered")
        seen, waits = now, now[1]
        time.sleep(0.5)


def tally_of(connections, apis=APIS):
    total = Tally()
    for connection in connections:
        total.add(connection.tally(apis))
    return total


def of_share(connections, share):
    total = Tally()
    for connection in connections:
        total.add(connection.by_share[share])
    return total


def signed_in(connections):
    return [connection for connection in connections if connection.tally(("SessionSetup",)).responses["SessionSetup", 0] > 0]


def sessions_of(connections):
    return {connection.session for connection in connections if connection.session}


def one(rows, name, by_end=False):
    found = [row for row in rows if row["name"] == name or by_end and row["name"].endswith(f" {name}")]
    expect(len(found) == 1, f"{name} is {len(found)} times in {[row['name'] for row in rows][:20]}")
    return found[0]


def since(now, before):
    """A row without what an earlier one of the same had, which asked nothing but what is asked again."""
    known = {of["api"]: of for of in before["apis"]}
    expect(before["requests"] == sum(of["responses"][0]["requests"] for of in known.values()) and not before["statuses"], before)
    less = copy.deepcopy(now)
    for of in less["apis"]:
        if earlier := known.get(of["api"]):
            of["responses"][0]["requests"] -= earlier["responses"][0]["requests"]
            for field in ("received_bytes", "sent_bytes", "read_bytes", "written_bytes"):
                of[field] -= earlier[field]
    return less


def same(row, tally):
    """A row of the server's says what passed."""
    said = {of["api"]: of for of in row["apis"]}
    expected = collections.defaultdict(collections.Counter)
    for (api, status), count in tally.responses.items():
        expected[api]["done" if done(status) else "refused"] += count
    found = {api: collections.Counter() for api in said}
    for api, of in said.items():
        for response in of["responses"]:
            found[api]["done" if response["response"].startswith("Success") else "refused"] += response["requests"]
    expect(found == dict(expected), f"{row['name'] if 'name' in row else 'server'}: {found} for {dict(expected)}")
    for field in ("received", "sent", "read", "written"):
        bytes_of = {api: of[f"{field}_bytes"] for api, of in said.items()}
        expected_bytes = {api: getattr(tally, field)[api] for api in said}
        expect(bytes_of == expected_bytes, f"{field}: {bytes_of} for {expected_bytes}")
    statuses = {int(of["status"], 16): of["responses"] for of in row["statuses"]}
    refused = collections.Counter()
    for (_, status), count in tally.responses.items():
        if not done(status):
            refused[status] += count
    expect(statuses == dict(refused), f"statuses: {statuses} for {dict(refused)}")


def done(status):
    return status >> 30 != 3 or status == MORE_PROCESSING_REQUIRED


if __name__ == "__main__":
    whole = "--whole" in sys.argv
    alone.main(NAME, lambda report: checks(report, 10_000 if whole else RECONNECTS))
