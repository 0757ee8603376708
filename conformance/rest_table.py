"""The table of docs/REST.md: which operations a published client asks for, and has an answer to.

Each suite compares its client's column with what the server has logged of this run: every request, by the name that the client gives itself. A claim
without its run fails, and so does a run without its line; `--update` writes the column.
"""

import json
import re
import threading

from conformance import packages
from conformance.report import expect

PAGE = packages.ROOT / "docs" / "REST.md"
# What the server is to be told, so that it says what it is asked.
LOGGED = ("--log", "azure=debug,info", "--log-format", "json")
_writing = threading.Lock()
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
# What the published client for Python builds requests for, in its own words where these are others: all of the service's operations.
BUILT = {
    "service_list_shares_segment": "ListShares", "share_get_access_policy": "GetShareAcl", "share_set_access_policy": "SetShareAcl",
    "share_get_statistics": "GetShareStats", "share_restore": "UndeleteShare", "share_create_snapshot": "SnapshotShare",
    "directory_list_files_and_directories_segment": "ListDirectory", "directory_list_handles": "ListHandles", "directory_force_close_handles": "CloseHandles",
    "file_list_handles": "ListHandles", "file_force_close_handles": "CloseHandles", "file_download": "GetFile", "file_set_http_headers": "SetFileProperties",
    "file_upload_range": "PutRange update", "file_upload_range_from_url": "PutRangeFromUrl", "file_get_range_list": "ListRanges",
    "file_list_all_ranges": "ListRanges", "file_start_copy": "CopyFile",
}
# What operations name without saying whose it is.
BY_THEMSELVES = ("Permission", "UserDelegationKey", "SymbolicLink", "HardLink", "Copy")
# How many there are in the version that is asked for.
BUILT_COUNT = 52
# Those whose checks by Python are the suite rest_shares'; all others are the suite rest's.
OF_SHARES = set(SHARE) - {"GetShareProperties", "CreatePermission", "GetPermission", "SnapshotShare"}
# It needs a file system of its own: the suite rest_snapshots.
OF_SNAPSHOTS = {"SnapshotShare"}
PARTED = {operation.partition(" ")[0] for operation in OPERATIONS if " " in operation}
# Asked for and done; asked for, and the server says that it does not serve it; not asked for.
YES, NO, NEVER = "yes", "no", ""
NOT_SERVED = 400
# The clients for a language can ask for everything, or there is a reason. Tools ask for what they need.
LANGUAGES = ("Python", "JavaScript", "Go")
REASONS = (
    ("It needs a bearer token, which clients send by HTTPS alone: Python's does so in these suites.", ("JavaScript", "Go"), ("GetUserDelegationKey",)),
    ("A copy is done when it is answered: there is none to abort, and who asks is told so.", LANGUAGES, ("AbortCopy",)),
    ("This client takes a share's lease for a file's where it is to be renewed, and does not ask.", ("JavaScript",), ("LeaseShare renew",)),
    ("Python's suite for snapshots has btrfs; these clients' have none, and who asks is told so.", ("JavaScript", "Go", "az"), ("SnapshotShare",)),
    ("Links are of NFS shares, and these are SMB's.", LANGUAGES, ("CreateSymbolicLink", "GetSymbolicLink", "CreateHardLink")),
)


def compare(report, suite, lines, client, options, operations=OPERATIONS):
    """A check: the column of this client, for these operations, is what the servers have answered in this run, by the lines of their logs."""
    with report.check(suite, f"docs/REST.md tells what {client} is answered"):
        column = {operation: cell for operation, cell in column_of(lines, client).items() if operation in operations}
        if options.update:
            write(client, column)
        told = {operation: cells[client] for operation, cells in read().items()}
        wrong = [f"{operation}: the page has {told[operation]!r}, the run {column[operation]!r}" for operation in column
                 if told[operation] != column[operation]]
        expect(not wrong, f"{wrong}; python3 -m conformance.run --only {suite} --update writes it")
        never = [operation for operation in column if client in LANGUAGES and column[operation] == NEVER]
        expect(not never, f"never asked for, and rest_table.py has no reason: {never}")


def whole(report, suite, built):
    """A check: each operation that the published client builds requests for is in the table, and a client asks for it."""
    with report.check(suite, "docs/REST.md has all operations that the published client knows"):
        expect(len(built) == BUILT_COUNT, f"it builds {len(built)} requests")
        rows = read()
        unknown = [name for name in built if operation_of(name) not in rows]
        expect(not unknown, f"in no row: {unknown}")
        never = [operation for operation in map(operation_of, built) if not any(rows[operation][client] for client in LANGUAGES)]
        expect(not never, f"asked for by nobody: {never}")


def operation_of(built):
    """The operation, in the table's words, that the client for Python builds a request for."""
    if built in BUILT:
        return BUILT[built]
    place, verb, *words = built.split("_")
    place, what = place.capitalize(), "".join(word.capitalize() for word in words)
    if what == "Lease":
        return f"Lease{place} {verb}"
    return f"{verb.capitalize()}{'' if what in BY_THEMSELVES else place}{what}"


def sums(report, suite, client):
    """A check: as many of the client's own tests have passed in this run, and failed as they are known to, as the page tells."""
    with report.check(suite, "docs/REST.md tells how many tests pass"):
        tests = [check.outcome for check in report.checks if check.suite == suite and re.search(": [Tt]est", check.name)]
        for outcome, row in (("known", "all of these"), ("pass", "and these pass")):
            cells = re.search(rf"^\| {row} \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE).groups()
            told = int(cells[("Python", "Go").index(client)])
            expect(told == tests.count(outcome), f"{row}: the page has {told}, the run {tests.count(outcome)}")


def asked_of(server):
    """The lines of its log."""
    return server.log.read_text(errors="replace").splitlines()


def column_of(lines, client):
    """Operation to cell, as it is logged of this run."""
    statuses = {operation: set() for operation in OPERATIONS}
    for line in lines:
        event = asked(line)
        if event is None or next((name for name, agent in AGENTS.items() if re.search(agent, event["agent"])), None) != client:
            continue
        part = event["part"].lower() if event["operation"] in PARTED else ""
        statuses.setdefault(f"{event['operation']} {part}".strip(), set()).add(event["status"])
    return {operation: cell(client, operation, statuses[operation]) for operation in OPERATIONS}


def cell(client, operation, statuses):
    if any(200 <= status < 300 for status in statuses):
        return YES
    reasons = (str(number) for number, (_, clients, operations) in enumerate(REASONS, 1) if client in clients and operation in operations)
    return next(reasons, NO if statuses == {NOT_SERVED} else NEVER)


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
    for line in PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if cells[0] in OPERATIONS:
            rows[cells[0]] = dict(zip(CLIENTS, cells[1:]))
    return {operation: {client: rows.get(operation, {}).get(client, NEVER) for client in CLIENTS} for operation in OPERATIONS}


def write(client, column):
    """Writes this client's column. Suites run side by side: each takes its turn."""
    with _writing:
        rows = read()
        for operation, cell in column.items():
            rows[operation][client] = cell
        lines = [f"| operation | {' | '.join(CLIENTS)} |", "| --- |" + " --- |" * len(CLIENTS)]
        lines += [f"| {operation} | {' | '.join(rows[operation][client] for client in CLIENTS)} |" for operation in OPERATIONS]
        lines += ["", *(f"{number}. {reason}" for number, (reason, _, _) in enumerate(REASONS, 1))]
        before, begin, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{begin}\n" + "\n".join(re.sub(" +", " ", line) for line in lines) + f"\n{END}{rest.partition(END)[2]}")
