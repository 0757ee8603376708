"""The table of docs/REST.md: which operations a published client asks for, and has an answer to.

Each suite compares its client's column with what the server has logged of this run: every request, by the name that the client gives itself. A claim
without its run fails, and so does a run without its line; `--update` writes the column.
"""

import json
import re

from conformance import packages
from conformance.report import expect

PAGE = packages.ROOT / "docs" / "REST.md"
# What the server is to be told, so that it says what it is asked.
LOGGED = ("--log", "azure=debug,info", "--log-format", "json")
BEGIN, END = "<!-- operations: begin -->", "<!-- operations: end -->"
# How each client names itself in its requests. The first that fits counts: tools are made of the clients for their languages.
AGENTS = {"AzCopy": "^AzCopy/", "rclone": "rclone/", "az": "AZURECLI/", "Python": "^azsdk-python-", "JavaScript": "^azsdk-js-", "Go": "^azsdk-go-"}
CLIENTS = ("Python", "JavaScript", "Go", "az", "AzCopy", "rclone")
# The operations, and their parts that are asked for by one header.
SERVICE = ("ListShares", "GetServiceProperties", "SetServiceProperties", "GetUserDelegationKey")
SHARE = ("CreateShare", "GetShareProperties", "SetShareProperties", "SetShareMetadata", "DeleteShare", "UndeleteShare", "SnapshotShare",
         "LeaseShare acquire", "LeaseShare renew", "LeaseShare change", "LeaseShare release", "LeaseShare break",
         "GetShareAcl", "SetShareAcl", "GetShareStats", "CreatePermission", "GetPermission")
DIRECTORY = ("CreateDirectory", "GetDirectoryProperties", "SetDirectoryProperties", "SetDirectoryMetadata", "DeleteDirectory", "RenameDirectory",
             "ListDirectory")
FILE = ("CreateFile", "GetFile", "GetFileProperties", "SetFileProperties", "SetFileMetadata", "DeleteFile", "RenameFile",
        "LeaseFile acquire", "LeaseFile change", "LeaseFile release", "LeaseFile break",
        "PutRange update", "PutRange clear", "PutRangeFromUrl", "ListRanges", "CopyFile", "AbortCopy",
        "CreateSymbolicLink", "GetSymbolicLink", "CreateHardLink", "ListHandles", "CloseHandles")
OPERATIONS = (*SERVICE, *SHARE, *DIRECTORY, *FILE)
PARTED = {operation.partition(" ")[0] for operation in OPERATIONS if " " in operation}
YES, NO = "yes", ""


def compare(report, suite, server, client, options):
    """A check: the column of this client is what the server has answered in this run."""
    with report.check(suite, f"docs/REST.md tells what {client} is answered"):
        answered = answered_to(server)[client]
        if options.update:
            write({client: answered})
        told = {operation for operation, cells in read().items() if cells[client] == YES}
        missing, more = sorted(answered - told), sorted(told - answered)
        expect(not missing and not more, f"answered, and not told: {missing}; told, and not answered: {more}; "
               f"python3 -m conformance.run --only {suite} --update writes it")


def answered_to(server):
    """Client to the operations that it was answered with success."""
    found = {client: set() for client in CLIENTS}
    for line in server.log.read_text(errors="replace").splitlines():
        event = asked(line)
        if event is None or not 200 <= event["status"] < 300:
            continue
        client = next((name for name, agent in AGENTS.items() if re.search(agent, event["agent"])), None)
        if client:
            part = event["part"].lower() if event["operation"] in PARTED else ""
            found[client].add(f"{event['operation']} {part}".strip())
    return found


def asked(line):
    """The event of one request, or None for another line."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if event.get("message") == "asked by REST" else None


def read():
    """Operation to client to cell, as the page has them."""
    rows = {}
    for line in between().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] in OPERATIONS:
            rows[cells[0]] = dict(zip(CLIENTS, cells[1:]))
    return {operation: {client: rows.get(operation, {}).get(client, NO) for client in CLIENTS} for operation in OPERATIONS}


def between():
    text = PAGE.read_text()
    return text.partition(BEGIN)[2].partition(END)[0]


def write(columns):
    """Writes these clients' columns."""
    rows = read()
    for client, answered in columns.items():
        for operation in OPERATIONS:
            rows[operation][client] = YES if operation in answered else NO
    lines = [f"| operation | {' | '.join(CLIENTS)} |", "| --- |" + " --- |" * len(CLIENTS)]
    lines += [f"| {operation} | {' | '.join(rows[operation][client] for client in CLIENTS)} |" for operation in OPERATIONS]
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{begin}\n" + "\n".join(re.sub(" +", " ", line) for line in lines) + f"\n{END}{after}")
