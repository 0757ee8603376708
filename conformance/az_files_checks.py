"""The checks of shares, directories and files made with `az`. Runs inside the environment that has it; the server is in ARM_*, REST_* and SMB_* variables."""

import datetime
import os

from conformance.az_command import ACCOUNT, BY_KEY, FOLDER, PLACE, SHARE, URL, az, log_in, refused, register
from conformance.report import Lines, expect
from conformance.rest_checks import BY_SMB, opened
from conformance.rest_client import smb

UNTIL = ("--expiry", "2099-01-01T00:00Z")
AS_SIGNED_IN = ("--account-name", ACCOUNT, "--file-endpoint", f"{URL}/{ACCOUNT}", "--auth-mode", "login", "--backup-intent")
# What az says of a letter that is missing.
NOT_ALLOWED = "You do not have the required permissions"
# Of more than one range, and of none.
TREE = {"large.bin": 5 << 20, "empty": 0, "below/plain.txt": 700, "below/ä b.bin": 70_000}
lines = Lines()


def main():
    register()
    log_in()
    for check in (shares, policies, directories, files, copies, trees, signatures, handles, rules, by_token):
        with lines.check(f"az: {check.__doc__}"):
            check()


def by_key(*words, parsed=True):
    return az("storage", *words, parsed=parsed, **BY_KEY)


def refused_by_key(part, *words):
    refused(part, "storage", *words, **BY_KEY)


def shares():
    """shares are made, shown, listed, given a quota and metadata, and deleted by a key"""
    of = ("--name", "by-key")
    expect(by_key("share", "create", *of, "--quota", "5", "--metadata", "a=b") == {"created": True}, "it was not made")
    expect(by_key("share", "create", *of) == {"created": False}, "it was made twice")
    expect(by_key("share", "exists", *of) == {"exists": True}, "it is not there")
    shown = by_key("share", "show", *of)
    expect((shown["properties"]["quota"], shown["metadata"], shown["protocols"]) == (5, {"a": "b"}, ["SMB"]), shown)
    by_key("share", "update", *of, "--quota", "7")
    expect(by_key("share", "show", *of)["properties"]["quota"] == 7, "another quota")
    expect(int(by_key("share", "stats", *of)) >= 0, "it does not tell how full it is")
    by_key("share", "metadata", "update", *of, "--metadata", "c=d")
    expect(by_key("share", "metadata", "show", *of) == {"c": "d"}, "other metadata")
    listed = {one["name"]: one["metadata"] for one in by_key("share", "list", "--include-metadata")}
    expect(listed == {"by-key": {"c": "d"}, "conf": {}, "other": {}}, listed)
    expect(by_key("share", "url", *of) == f"{URL}/{ACCOUNT}/by-key", "another URL")
    refused_by_key("ShareSnapshotOperationNotSupported", "share", "snapshot", *of)
    refused_by_key("InvalidResourceName", "share", "create", "--name", "Not_A_Name")
    refused_by_key("ShareNotFound", "share", "show", "--name", "nothing")
    expect(by_key("share", "delete", *of) == {"deleted": True}, "it was not deleted")
    expect(by_key("share", "exists", *of) == {"exists": False}, "it is still there")


def policies():
    """stored policies are made, listed, updated and deleted, and signatures name them"""
    of = ("--share-name", SHARE)
    by_key("share", "policy", "create", *of, "--name", "reads", "--permissions", "rl", *UNTIL)
    expect({name: one["permission"] for name, one in by_key("share", "policy", "list", *of).items()} == {"reads": "rl"}, "other policies")
    signature = by_key("share", "generate-sas", "--name", SHARE, "--policy-name", "reads")
    expect(isinstance(with_signature(signature, "file", "list", *of), list), "it does not let list")
    by_key("share", "policy", "update", *of, "--name", "reads", "--permissions", "r")
    expect(by_key("share", "policy", "show", *of, "--name", "reads")["permission"] == "r", "it was not updated")
    by_key("share", "policy", "delete", *of, "--name", "reads")
    expect(by_key("share", "policy", "list", *of) == {}, "it is still there")
    refused("Authentication failure", *signed(signature, "file", "list", *of))


def directories():
    """directories are made, shown, listed, given metadata, and deleted"""
    of = ("--share-name", SHARE)
    expect(by_key("directory", "create", *of, "--name", "folder", "--metadata", "a=b") == {"created": True}, "it was not made")
    by_key("directory", "create", *of, "--name", "folder/inner")
    refused_by_key("ParentNotFound", "directory", "create", *of, "--name", "no/where")
    shown = by_key("directory", "show", *of, "--name", "folder")
    expect((shown["isDirectory"], shown["metadata"]) == (True, {"a": "b"}), shown)
    by_key("directory", "metadata", "update", *of, "--name", "folder", "--metadata", "c=d")
    expect(by_key("directory", "metadata", "show", *of, "--name", "folder") == {"c": "d"}, "other metadata")
    expect([one["name"] for one in by_key("directory", "list", *of, "--name", "folder")] == ["inner"], "others are listed")
    refused_by_key("DirectoryNotEmpty", "directory", "delete", *of, "--name", "folder")
    for name in ("folder/inner", "folder"):
        expect(by_key("directory", "delete", *of, "--name", name) == {"deleted": True}, f"{name} was not deleted")
    expect(by_key("directory", "exists", *of, "--name", "folder") == {"exists": False}, "it is still there")


def files():
    """files go up and come down, are shown, given metadata and headers, resized, and deleted"""
    of = ("--share-name", SHARE)
    at = (*of, "--path", "folder/up.bin")
    (PLACE / "up").write_bytes(os.urandom(5 << 20))
    by_key("directory", "create", *of, "--name", "folder")
    by_key("file", "upload", *at, "--source", str(PLACE / "up"), "--metadata", "a=b", "--content-type", "text/x", parsed=False)
    expect((FOLDER / "folder" / "up.bin").read_bytes() == (PLACE / "up").read_bytes(), "another text is on the disk")
    expect([one["name"] for one in by_key("file", "list", *of, "--path", "folder")] == ["up.bin"], "others are listed")
    by_key("file", "download", *at, "--dest", str(PLACE / "down"), parsed=False)
    expect((PLACE / "down").read_bytes() == (PLACE / "up").read_bytes(), "another text comes down")
    by_key("file", "download", *at, "--dest", str(PLACE / "part"), "--start-range", "10", "--end-range", "19", parsed=False)
    expect((PLACE / "part").read_bytes() == (PLACE / "up").read_bytes()[10:20], "another part comes down")
    shown = by_key("file", "show", *at)
    told = (shown["properties"]["contentLength"], shown["properties"]["contentSettings"]["contentType"], shown["metadata"])
    expect(told == (5 << 20, "text/x", {"a": "b"}), shown)
    by_key("file", "metadata", "update", *at, "--metadata", "c=d")
    expect(by_key("file", "metadata", "show", *at) == {"c": "d"}, "other metadata")
    by_key("file", "update", *at, "--content-language", "de")
    expect(by_key("file", "show", *at)["properties"]["contentSettings"]["contentLanguage"] == "de", "another language")
    by_key("file", "resize", *at, "--size", "100")
    expect((FOLDER / "folder" / "up.bin").stat().st_size == 100, "it has another length")
    expect(by_key("file", "url", *at) == f"{URL}/{ACCOUNT}/{SHARE}/folder/up.bin", "another URL")
    expect(by_key("file", "exists", *of, "--path", "folder") == {"exists": False}, "a directory is there as a file")
    expect(by_key("directory", "exists", *of, "--name", "folder/up.bin") == {"exists": False}, "a file is there as a directory")
    refused_by_key("Links are of NFS shares", "file", "hard-link", "create", *of, "--path", "folder/hard", "--target", "folder/up.bin")
    refused_by_key("Links are of NFS shares", "file", "symbolic-link", "create", *of, "--path", "folder/soft", "--target", "up.bin")
    by_key("file", "delete", *at)
    expect(by_key("file", "exists", *at) == {"exists": False}, "it is still there")
    refused_by_key("ResourceNotFound", "file", "show", *at)
    by_key("directory", "delete", *of, "--name", "folder")


def copies():
    """a file is copied by the server, in a share and from another, and no copy is pending"""
    (PLACE / "text").write_text("text")
    by_key("file", "upload", "--share-name", "other", "--path", "source.txt", "--source", str(PLACE / "text"), parsed=False)
    for words in (("--source-share", "other", "--source-path", "source.txt"), ("--source-uri", f"{URL}/{ACCOUNT}/other/source.txt")):
        copied = by_key("file", "copy", "start", *words, "--destination-share", SHARE, "--destination-path", "copied")
        expect(copied["status"] == "success", copied)
        expect((FOLDER / "copied").read_text() == "text", "another text was copied")
        refused_by_key("NoPendingCopyOperation", "file", "copy", "cancel", "--destination-share", SHARE, "--destination-path", "copied", "--copy-id", copied["id"])
        by_key("file", "delete", "--share-name", SHARE, "--path", "copied")
    by_key("file", "delete", "--share-name", "other", "--path", "source.txt")


def trees():
    """trees go up, are copied, come down and are deleted by one command each"""
    source, back = PLACE / "tree", PLACE / "back"
    for name, length in TREE.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(os.urandom(length))
    back.mkdir()
    upload = ("file", "upload-batch", "--destination", SHARE, "--destination-path", "tree", "--source", str(source))
    by_key(*upload, "--dryrun")
    expect(not (FOLDER / "tree").exists(), "a dry run has made something")
    by_key(*upload, "--pattern", "*.txt", parsed=False)
    expect(contents(FOLDER / "tree") == {"below/plain.txt": (source / "below/plain.txt").read_bytes()}, "the pattern does not count")
    by_key(*upload, "--metadata", "a=b", parsed=False)
    expect(contents(FOLDER / "tree") == contents(source), "another tree is on the disk")
    by_key("file", "copy", "start-batch", "--source-share", SHARE, "--pattern", "tree/*", "--destination-share", "other")
    by_key("file", "download-batch", "--source", "other", "--destination", str(back), parsed=False)
    expect(contents(back / "tree") == contents(source), "another tree comes down")
    for share in (SHARE, "other"):
        by_key("file", "delete-batch", "--source", share, "--pattern", "tree/*", parsed=False)
    expect(contents(FOLDER / "tree") == {}, "files are left")
    for share in (SHARE, "other"):
        for name in ("tree/below", "tree"):
            by_key("directory", "delete", "--share-name", share, "--name", name)


def contents(folder):
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def signatures():
    """signatures of a share, and of a file by a key and by a token, let do what they say"""
    at = ("--share-name", SHARE, "--path", "signed.txt")
    (PLACE / "signed").write_text("signed")
    by_key("file", "upload", *at, "--source", str(PLACE / "signed"), parsed=False)
    of_share = by_key("share", "generate-sas", "--name", SHARE, "--permissions", "rl", *UNTIL, "--https-only")
    expect("signed.txt" in [one["name"] for one in with_signature(of_share, "file", "list", "--share-name", SHARE)], "it is not listed")
    refused(NOT_ALLOWED, *signed(of_share, "file", "delete", *at))
    as_user = az("storage", "file", "generate-sas", *at, "--permissions", "r", "--expiry", in_an_hour(), "--as-user", *AS_SIGNED_IN)
    for of_file in (by_key("file", "generate-sas", *at, "--permissions", "r", *UNTIL), as_user):
        with_signature(of_file, "file", "download", *at, "--dest", str(PLACE / "by-signature"), parsed=False)
        expect((PLACE / "by-signature").read_text() == "signed", "another text comes down")
        refused(NOT_ALLOWED, *signed(of_file, "file", "delete", *at))
    by_key("file", "delete", *at)


def in_an_hour():
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%MZ")


def signed(signature, *words):
    return ("storage", *words, "--account-name", ACCOUNT, "--file-endpoint", f"{URL}/{ACCOUNT}", "--sas-token", signature)


def with_signature(signature, *words, parsed=True):
    return az(*signed(signature, *words), parsed=parsed)


def handles():
    """what SMB clients have open is listed and closed"""
    at = ("--name", SHARE, "--recursive")
    (FOLDER / "open").write_text("x")
    with smb(*BY_SMB) as tree, opened(tree, "open"):
        expect([one["path"] for one in by_key("share", "list-handle", *at)["items"]] == ["open"], "others are listed")
        closed = by_key("share", "close-handle", *at, "--close-all")
        expect(closed == {"closed_handles_count": 1, "failed_handles_count": 0}, closed)
        expect(by_key("share", "list-handle", *at)["items"] == [], "it is still open")
    (FOLDER / "open").unlink()


def rules():
    """CORS rules are added, listed and taken away"""
    by_key("cors", "add", "--services", "f", "--methods", "GET", "--origins", "http://page.example", "--max-age", "5")
    expect([one["AllowedOrigins"] for one in by_key("cors", "list", "--services", "f")] == ["http://page.example"], "other rules")
    by_key("cors", "clear", "--services", "f")
    expect(by_key("cors", "list", "--services", "f") == [], "some are left")


def by_token():
    """who has signed in and means to back up needs no key"""
    of = ("--share-name", SHARE, *AS_SIGNED_IN)
    at = ("--path", "by-token/up.bin", *of)
    (PLACE / "up").write_bytes(os.urandom(5 << 20))
    az("storage", "directory", "create", "--name", "by-token", *of)
    expect((FOLDER / "by-token").is_dir(), "it is not on the disk")
    az("storage", "file", "upload", "--source", str(PLACE / "up"), *at, parsed=False)
    expect((FOLDER / "by-token" / "up.bin").read_bytes() == (PLACE / "up").read_bytes(), "another text is on the disk")
    expect("by-token" in [one["name"] for one in az("storage", "file", "list", *of)], "it is not listed")
    az("storage", "file", "download", "--dest", str(PLACE / "by-token"), *at, parsed=False)
    expect((PLACE / "by-token").read_bytes() == (PLACE / "up").read_bytes(), "another text comes down")
    refused("backup-request-intent is required", "storage", "file", "list", *of[:-1])
    az("storage", "file", "delete", *at)
    az("storage", "directory", "delete", "--name", "by-token", *of)
    expect(not (FOLDER / "by-token").exists(), "it is still there")


if __name__ == "__main__":
    main()
