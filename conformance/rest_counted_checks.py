"""How what is asked by REST is counted: each request once, by Azure Monitor's name for it, and nothing of what it is done by. Runs inside the environment that has
azure-storage-file-share; the program is $MULTILANE."""

import datetime
import json
import pathlib
import re
import tempfile

import requests
from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareServiceClient, generate_share_sas

from conformance.report import Lines, expect
from conformance.rest_dev_checks import running, told
from conformance.server import HOST, free_port

SHARE, KIB = "counted", 1024
# What is asked, by the names of Azure Monitor, and how it ends.
ASKED = {("CreateShare", "Success"): 1, ("CreateFile", "Success"): 1, ("PutRange", "Success"): 2, ("ClearRange", "Success"): 1, ("GetFile", "Success"): 3,
         ("GetFileProperties", "Success"): 1, ("GetFileProperties", "ClientOtherError"): 2, ("SetFileMetadata", "Success"): 1, ("ListFiles", "Success"): 1,
         ("AcquireFileLease", "Success"): 1, ("ReleaseFileLease", "Success"): 1, ("DeleteFile", "Success"): 1, ("GetFileProperties", "AuthorizationError"): 1,
         ("DeleteFile", "AuthorizationError"): 1}
lines = Lines()


def main():
    with tempfile.TemporaryDirectory(prefix="conformance-counted-", dir="/dev/shm") as folder, lines.check(counted.__doc__):
        counted(pathlib.Path(folder) / "data")


def counted(data):
    """each request by REST is counted once, by its own name, and its bytes are; no error is counted that nobody was told"""
    metrics = free_port()
    with running(data, "--metrics", f"{HOST}:{metrics}") as ready:
        ask(ready["rest"]["connection_string"])
        text = requests.get(f"http://{HOST}:{metrics}/metrics", timeout=30).text
    by_rest = {(api, response): int(count) for api, response, count in
               re.findall(rf'^multilane_rest_requests_total{{share="{SHARE}",api="(\w+)",response="(\w+)"}} (\d+)$', text, re.MULTILINE)}
    expect(by_rest == {asked: count for asked, count in ASKED.items() if asked[0] != "CreateShare"}, by_rest)
    expect(f'multilane_requests_total{{share="{SHARE}"' not in text, "SMB clients have asked for something")
    expect("STATUS_OBJECT_NAME_NOT_FOUND" not in text, "what REST looked for is an error")
    written = int(re.search(rf'^multilane_written_bytes_total{{share="{SHARE}"}} (\d+)$', text, re.MULTILINE)[1])
    # Metadata are written, too.
    expect(8 * KIB <= written < 9 * KIB, written)
    # The last minute is kept when the server ends.
    kept = {}
    for api, response, authentication, count in series(data, "Transactions", "ApiName eq '*' and ResponseType eq '*' and Authentication eq '*'",
                                                       ("ApiName", "ResponseType", "Authentication"), "total"):
        # As which its session signs in, as others do.
        if api in {"Negotiate", "SessionSetup"}:
            continue
        by = {("GetFileProperties", "AuthorizationError"): "Anonymous", ("DeleteFile", "AuthorizationError"): "SAS"}.get((api, response), "AccountKey")
        expect(authentication == by, (api, response, authentication))
        kept[api, response] = kept.get((api, response), 0) + count
    expect(kept == ASKED, kept)
    ingress = dict(series(data, "Ingress", f"ApiName eq '*' and FileShare eq '{SHARE}'", ("ApiName",), "total"))
    egress = dict(series(data, "Egress", f"ApiName eq '*' and FileShare eq '{SHARE}'", ("ApiName",), "total"))
    expect((ingress["PutRange"], egress["GetFile"]) == (8 * KIB, 3 * 4 * KIB), (ingress, egress))


def ask(connection):
    service = ShareServiceClient.from_connection_string(connection, retry_total=0)
    share = service.create_share(SHARE)
    file = share.get_file_client("file")
    file.create_file(8 * KIB)
    for at in (0, 4 * KIB):
        file.upload_range(b"x" * 4 * KIB, at, 4 * KIB)
    file.clear_range(0, 4 * KIB)
    for _ in range(3):
        file.download_file(offset=0, length=4 * KIB).readall()
    file.get_file_properties()
    for name in ("none", "neither"):
        is_refused(share.get_file_client(name).get_file_properties)
    file.set_file_metadata({"a": "b"})
    expect([one.name for one in share.list_directories_and_files()] == ["file"], "something else is there")
    file.acquire_lease().release()
    stranger = ShareServiceClient(service.url, credential={"account_name": service.account_name, "account_key": "AAAA"}, retry_total=0)
    is_refused(stranger.get_share_client(SHARE).get_file_client("file").get_file_properties)
    key = service.credential.account_key
    reads = generate_share_sas(service.account_name, SHARE, key, permission="r", expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))
    is_refused(ShareServiceClient(service.url, credential=reads, retry_total=0).get_share_client(SHARE).get_file_client("file").delete_file)
    file.delete_file()


def is_refused(work):
    try:
        work()
    except HttpResponseError:
        return
    raise AssertionError("it is not refused")


def series(data, metric, by, dimensions, aggregation):
    """The sum of each series that has something, behind its dimensions."""
    said = told(data, "metrics", "show", metric, "--filter", by, "--interval", "PT1M", "--json")
    expect(said.returncode == 0, said.stderr)
    for one in json.loads(said.stdout)["value"][0]["timeseries"]:
        names = {value["name"]["value"].lower(): value["value"] for value in one["metadatavalues"]}
        count = sum(point.get(aggregation, 0) for point in one["data"])
        if count:
            yield (*(names[dimension.lower()] for dimension in dimensions), int(count))


if __name__ == "__main__":
    main()
