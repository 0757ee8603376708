"""The checks made with azure-storage-file-share. Runs inside the environment that has it; the server is in REST_* and SMB_* variables."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import pathlib
import random
import socket
import urllib.parse

from azure.core.exceptions import ClientAuthenticationError
from azure.storage.fileshare import ShareServiceClient
from smbprotocol.open import (CreateDisposition, CreateOptions, FilePipePrinterAccessMask, ImpersonationLevel, Open, ShareAccess,
                              SMB2LockElement, SMB2LockRequest)

from conformance.report import Failure, Lines, expect
from conformance.rest_client import refused, smb

URL, ACCOUNT, KEY = os.environ["REST_URL"], os.environ["REST_ACCOUNT"], os.environ["REST_KEY"]
SHARE, FOLDER = os.environ["SMB_SHARE"], pathlib.Path(os.environ["LOCAL_FOLDER"])
BY_SMB = SHARE, os.environ["SMB_USER"], os.environ["SMB_PASSWORD"]
HOST, PORT = urllib.parse.urlsplit(URL).hostname, urllib.parse.urlsplit(URL).port
MIB = 1 << 20
# Lengths at which something changes: of ranges, of reads ahead, of bodies.
LENGTHS = (0, 1, 511, 512, 65_536, MIB, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 7)
NAMES = ("plain", "with space", "ä+ö&%25", "'quote", "日本語", "a" * 200, "UPPER", "semi;colon,=", "#hash")
MANY = 60
CONNECTIONS = 300
lines = Lines()
chance = random.Random(1)


def main():
    service = ShareServiceClient(URL, credential={"account_name": ACCOUNT, "account_key": KEY})
    share = service.get_share_client(SHARE)
    for check in (shares, multichannel, lengths, names, ranges, directories, renames, refusals):
        with lines.check(f"azure-storage-file-share: {check.__doc__}"):
            check(service, share)
    for check in (one_truth, sharing, locks, deletion):
        with lines.check(check.__doc__), smb(*BY_SMB) as tree:
            check(share, tree)
    for check in (keys, signatures, hostile_names, bodies, many_connections):
        with lines.check(check.__doc__):
            check()


# What the client does.

def shares(service, share):
    """shares are listed, page by page, and have properties"""
    expect([one.name for one in service.list_shares()] == ["conf", "other"], list(service.list_shares()))
    pages = service.list_shares(results_per_page=1).by_page()
    expect([[one.name for one in page] for page in pages] == [["conf"], ["other"]], "pages are others")
    expect([one.name for one in service.list_shares(name_starts_with="o")] == ["other"], "the prefix does not count")
    properties = share.get_share_properties()
    expect((properties.quota, properties.protocols) == (102_400, ["SMB"]), properties)


def multichannel(service, share):
    """multichannel is switched, and told"""
    def is_on():
        return service.get_service_properties()["protocol"].smb.multichannel.enabled

    properties = service.get_service_properties()["protocol"]
    for wanted in (True, False, True):
        properties.smb.multichannel.enabled = wanted
        service.set_service_properties(protocol=properties)
        expect(is_on() is wanted, f"told {is_on()}")


def lengths(service, share):
    """files of every length come back as they went, and lie on the disk so"""
    for length in LENGTHS:
        data, name = chance.randbytes(length), f"length-{length}"
        file = share.get_file_client(name)
        file.upload_file(data, max_concurrency=chance.choice((1, 3)))
        expect(file.download_file().readall() == data, f"{length}: another text comes back")
        expect((FOLDER / name).read_bytes() == data, f"{length}: another text is on the disk")
        expect(file.get_file_properties().size == length, f"{length}: another length")
        file.delete_file()
        expect(not (FOLDER / name).exists(), f"{length}: it is not deleted")


def names(service, share):
    """files of every kind of name are made, listed and read"""
    share.create_directory("names")
    for name in NAMES:
        share.get_file_client(f"names/{name}").upload_file(name.encode())
    listed = {one.name for one in share.list_directories_and_files("names")}
    expect(listed == set(NAMES), f"{listed ^ set(NAMES)}")
    for name in NAMES:
        expect(share.get_file_client(f"names/{name}").download_file().readall() == name.encode(), name)
    expect({path.name for path in (FOLDER / "names").iterdir()} == set(NAMES), "the disk has others")


def ranges(service, share):
    """ranges are written, cleared and read, and none behind the end"""
    file, data = share.get_file_client("ranges"), bytearray(chance.randbytes(3 * MIB))
    file.upload_file(bytes(data))
    for _ in range(30):
        start = chance.randrange(len(data))
        length = chance.randrange(1, min(MIB, len(data) - start) + 1)
        if chance.random() < 0.3:
            # The client insists on sectors, the service does not.
            start, length = start // 512 * 512, max(length // 512, 1) * 512
            length = min(length, len(data) - start)
            file.clear_range(start, length)
            data[start:start + length] = bytes(length)
        else:
            piece = chance.randbytes(length)
            file.upload_range(piece, start, length)
            data[start:start + length] = piece
        start = chance.randrange(len(data))
        read = file.download_file(offset=start, length=min(MIB, len(data) - start)).readall()
        expect(read == data[start:start + len(read)], f"another text at {start}")
    expect(file.download_file().readall() == data, "another text at the end")
    refused(lambda: file.upload_range(b"behind", len(data) - 1, 6), "InvalidRange", 416)
    refused(lambda: file.download_file(offset=len(data), length=1).readall(), "InvalidRange", 416)
    file.resize_file(10)
    expect(file.download_file().readall() == data[:10], "it was not cut")


def directories(service, share):
    """directories are made, listed page by page, and removed once they are empty"""
    top = share.create_directory("many")
    for number in range(MANY):
        (top.create_subdirectory if number % 3 == 0 else lambda name: top.upload_file(name, b"x"))(f"entry-{number:03}")
    pages = [list(page) for page in share.list_directories_and_files("many", results_per_page=7).by_page()]
    expect([len(page) for page in pages] == [7] * (MANY // 7) + [MANY % 7], [len(page) for page in pages])
    # The client puts the directories of each page first.
    names = [sorted(one.name for one in page) for page in pages]
    expect(sum(names, []) == [f"entry-{number:03}" for number in range(MANY)], "names are missing")
    expect({one.name for one in pages[0] if one.is_directory} == {"entry-000", "entry-003", "entry-006"}, "directories are taken for files")
    expect(len(list(top.list_directories_and_files(name_starts_with="ENTRY-00"))) == 10, "the prefix does not count")
    refused(top.delete_directory, "DirectoryNotEmpty", 409)
    for one in list(top.list_directories_and_files()):
        (top.get_subdirectory_client(one.name).delete_directory if one.is_directory else top.get_file_client(one.name).delete_file)()
    top.delete_directory()
    expect(not top.exists(), "it is still there")


def renames(service, share):
    """files and directories are renamed, over another only where that is asked for"""
    share.create_directory("from")
    file = share.get_file_client("from/old name")
    file.upload_file(b"kept")
    new = file.rename_file("from/new name")
    expect(new.download_file().readall() == b"kept" and not file.exists(), "it is not there")
    share.get_file_client("target").upload_file(b"other")
    refused(lambda: new.rename_file("target"), "ResourceAlreadyExists", 409)
    expect(new.rename_file("target", overwrite=True).download_file().readall() == b"kept", "it is not there")
    share.get_directory_client("from").rename_directory("to")
    expect((FOLDER / "to").is_dir() and not (FOLDER / "from").exists(), "the directory is where it was")


def refusals(service, share):
    """what is not there, or is something else, is refused with the service's codes"""
    share.create_directory("refusals")
    share.get_file_client("a-file").upload_file(b"x")
    refused(share.get_file_client("nothing").get_file_properties, "ResourceNotFound", 404)
    refused(lambda: share.get_file_client("no/where").upload_file(b"x"), "ParentNotFound", 404)
    refused(lambda: share.create_directory("refusals"), "ResourceAlreadyExists", 409)
    refused(lambda: share.create_directory("no/where"), "ParentNotFound", 404)
    for told in (share.get_directory_client("a-file").get_directory_properties, share.get_file_client("refusals").get_file_properties):
        refused(told, "ResourceNotFound", 404)
    refused(share.get_directory_client("a-file").delete_directory, "ResourceTypeMismatch", 409)
    refused(share.get_file_client("refusals").delete_file, "ResourceTypeMismatch", 409)
    refused(service.get_share_client("nothing").get_share_properties, "ShareNotFound", 404)


# SMB beside it.

@contextlib.contextmanager
def opened(tree, name, sharing=ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE, options=0):
    file = Open(tree, name)
    access = (FilePipePrinterAccessMask.GENERIC_READ | FilePipePrinterAccessMask.GENERIC_WRITE | FilePipePrinterAccessMask.DELETE)
    file.create(ImpersonationLevel.Impersonation, access, 0, sharing, CreateDisposition.FILE_OPEN_IF,
                CreateOptions.FILE_NON_DIRECTORY_FILE | options)
    try:
        yield file
    finally:
        with contextlib.suppress(Exception):
            file.close()


def one_truth(share, tree):
    """what is written by REST is read by SMB at once, and the other way round"""
    rest = share.get_file_client("both")
    rest.upload_file(b"by rest....")
    with opened(tree, "both") as file:
        expect(file.read(0, 11) == b"by rest....", "SMB reads another text")
        file.write(b"by smb!", 0)
        expect(rest.download_file().readall() == b"by smb!....", "REST reads another text")
        rest.upload_range(b"again", 3, 5)
        expect(file.read(0, 11) == b"by again...", "SMB reads an old text")
        rest.resize_file(4)
        expect(file.read(0, 11) == b"by a", "SMB sees an old length")


def sharing(share, tree):
    """what an SMB client shares with nobody is refused by REST as the service does"""
    rest = share.get_file_client("exclusive")
    rest.upload_file(b"mine")
    with opened(tree, "exclusive", sharing=0):
        refused(lambda: rest.download_file().readall(), "SharingViolation", 409)
        refused(lambda: rest.upload_range(b"x", 0, 1), "SharingViolation", 409)
        refused(rest.delete_file, "SharingViolation", 409)
    expect(rest.download_file().readall() == b"mine", "it is another text afterwards")


def locks(share, tree):
    """a range that an SMB client has locked is neither read nor written by REST, and a copy that fails leaves what is there"""
    rest, kept = share.get_file_client("locked"), share.get_file_client("kept")
    rest.upload_file(bytes(1000))
    kept.upload_file(b"precious")
    with opened(tree, "locked") as file:
        lock(file, 100, 50, 0x2 | 0x10)
        refused(lambda: kept.start_copy_from_url(rest.url), "FileLockConflict", 409)
        expect(kept.download_file().readall() == b"precious", "it is lost")
        expect(not list(FOLDER.glob("~*")), "a draft is left")
        refused(lambda: rest.upload_range(b"x" * 100, 50, 100), "FileLockConflict", 409)
        expect(rest.upload_range(b"x" * 50, 0, 50) is not None, "what is not locked cannot be written")
        lock(file, 100, 50, 0x4)
        rest.upload_range(b"y" * 100, 50, 100)


def lock(file, offset, length, flags):
    element = SMB2LockElement()
    element["offset"], element["length"], element["flags"] = offset, length, flags
    request = SMB2LockRequest()
    request["file_id"] = file.file_id
    request["locks"] = [element]
    session = file.tree_connect.session
    sent = file.connection.send(request, sid=session.session_id, tid=file.tree_connect.tree_connect_id)
    file.connection.receive(sent)


def deletion(share, tree):
    """what an SMB client is about to delete is neither opened nor made by REST"""
    rest = share.get_file_client("going")
    rest.upload_file(b"x")
    with opened(tree, "going", options=CreateOptions.FILE_DELETE_ON_CLOSE):
        with opened(tree, "going") as second:
            second.close()
        # The first open deletes it when it is closed, and until then others may use it.
        expect(rest.download_file().readall() == b"x", "it is gone too soon")
    expect(not rest.exists(), "it is still there")


# What attackers do.

def keys():
    """a wrong key, and an account that does not exist, are refused alike"""
    other = base64.b64encode(bytes(64)).decode()
    for account, key in ((ACCOUNT, other), ("nobodyhere", KEY)):
        client = ShareServiceClient(f"http://{HOST}:{PORT}/{account}", credential={"account_name": account, "account_key": key})
        try:
            list(client.list_shares())
        except ClientAuthenticationError as error:
            expect((error.status_code, error.error_code) == (403, "AuthenticationFailed"), error)
            continue
        raise Failure(f"{account} is let in")


def signatures():
    """a signature is worth nothing for another request, or on another day"""
    query = "restype=share"
    expect(asked("GET", f"/{SHARE}", query)[0] == 200, "the check's own signature is not taken")
    old = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=16)
    new = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=16)
    for what, changes in {"another path": {"sent_path": f"/{ACCOUNT}/other"}, "another query": {"sent_query": "restype=directory"},
                          "another method": {"sent_method": "DELETE"}, "old": {"date": old}, "from the future": {"date": new},
                          "another header": {"more": {"x-ms-meta-a": "b"}}}.items():
        status, headers, _ = asked("GET", f"/{SHARE}", query, **changes)
        expect((status, headers.get("x-ms-error-code")) == (403, "AuthenticationFailed"), f"{what}: {status}")


def hostile_names():
    """no path leads out of the share, or to a stream"""
    for path in ("..", "../other/x", "%2e%2e/other", "a%2f..%2f..%2fother", "..%5c..%5cetc", "a%00", "file:stream:$DATA", "%c0%ae%c0%ae", "con%3a"):
        status, headers, _ = asked("PUT", f"/{SHARE}/{path}", "", body=b"", more={"x-ms-type": "file", "x-ms-content-length": "1"})
        expect(status == 400, f"{path}: {status} {headers.get('x-ms-error-code')}")
    # `.multilane` is the server's own.
    there = [path.name for folder in (FOLDER.parent, FOLDER.parent / "other") for path in folder.iterdir() if path.name != ".multilane"]
    expect(sorted(there) == ["conf", "other"], f"there are {there}")


def bodies():
    """bodies that are too long, have no length, or never come are refused, and keep nobody waiting"""
    put = {"x-ms-write": "update", "x-ms-range": f"bytes=0-{4 * MIB}", "x-ms-version": "2026-10-06"}
    status, headers, _ = asked("PUT", f"/{SHARE}/a-file", "comp=range", more=dict(put, **{"Content-Length": str(4 * MIB + 1)}))
    expect((status, headers.get("x-ms-error-code")) == (413, "RequestBodyTooLarge"), f"{status}")
    silent = [asking(b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n") for _ in range(20)]
    try:
        expect(asked("GET", f"/{SHARE}", "restype=share")[0] == 200, "somebody else waits")
    finally:
        for one in silent:
            one.close()


def many_connections():
    """hundreds of connections that say nothing give way, and the server answers"""
    silent = [asking(b"") for _ in range(CONNECTIONS)]
    for one in silent:
        one.close()
    expect(asked("GET", f"/{SHARE}", "restype=share")[0] == 200, "it does not answer")


def asking(begins):
    connection = socket.create_connection((HOST, PORT), timeout=30)
    connection.sendall(begins)
    return connection


def asked(method, path, query, body=b"", date=None, more=None, sent_method=None, sent_path=None, sent_query=None):
    """One request signed by hand; what is sent may be another than what is signed."""
    path = f"/{ACCOUNT}{path}"
    date = date or datetime.datetime.now(datetime.UTC)
    headers = {"x-ms-date": date.strftime("%a, %d %b %Y %H:%M:%S GMT"), "x-ms-version": "2026-10-06"}
    late = {name: value for name, value in (more or {}).items() if name.startswith("x-ms-meta")}
    headers |= {name: value for name, value in (more or {}).items() if name not in late}
    ours = "\n".join(f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith("x-ms-"))
    parameters = "".join(f"\n{name}:{value}" for name, value in sorted(urllib.parse.parse_qsl(query)))
    length = headers.get("Content-Length", str(len(body)) if body else "")
    text = f"{method}\n\n\n{length}\n{headers.get('Content-MD5', '')}\n\n\n\n\n\n\n\n{ours}\n/{ACCOUNT}{path}{parameters}"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    connection = http.client.HTTPConnection(HOST, PORT, timeout=30)
    try:
        connection.putrequest(sent_method or method, f"{sent_path or path}?{sent_query if sent_query is not None else query}",
                              skip_accept_encoding=True)
        for name, value in (headers | late | {"Authorization": f"SharedKey {ACCOUNT}:{signature}"}).items():
            connection.putheader(name, value)
        if "Content-Length" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


if __name__ == "__main__":
    main()
