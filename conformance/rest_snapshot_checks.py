"""The checks of snapshots of shares, made with azure-storage-file-share and azure-mgmt-storage beside an SMB client. Runs inside the environment that has them;
the server is in REST_*, ARM_* and SMB_* variables. With a share and a time, what that snapshot has is looked at, and nothing else; with `whoever`, what the
server's user makes a difference for."""

import contextlib
import datetime
import os
import pathlib
import sys
import threading
import time
import uuid

from azure.core.exceptions import HttpResponseError
from azure.mgmt.storage import StorageManagementClient
from azure.storage.fileshare import (AccountSasPermissions, ResourceTypes, ShareLeaseClient, ShareSasPermissions, ShareServiceClient, generate_account_sas,
                                     generate_share_sas)

from conformance.management_checks import GROUP, URL, ByHttp, contributor, subscription
from conformance.management_checks import refused as refused_there
from conformance.report import Lines, expect
from conformance.rest_checks import ACCOUNT, HOST, KEY, PORT, opened
from conformance.rest_client import refused, smb

# Where the folders are that the server makes for shares.
FOLDERS = pathlib.Path(os.environ["SNAPSHOT_SHARES"])
MIB = 1 << 20
OF_SHARE_MAX = 200
GIVEN_BACK_SECONDS = 60
AT_ONCE_ROUNDS = 20
NOT_THERE = "2026-11-30T08:00:00.0000000Z"
TEXT = b"as it was"
lines = Lines()


def main():
    if sys.argv[1:] == ["whoever"]:
        for check in (as_it_was, deleted, deleted_with_share):
            with lines.check(f"as a user without any right: {check.__doc__}"):
                check()
        return
    if len(sys.argv) == 3:
        share, at = sys.argv[1:]
        with lines.check("a snapshot has what it had before the server ended"):
            expect(read(of_time(share, at), "folder/file") == TEXT, "another text")
            expect(of_time(share, at).get_share_properties().lease.state == "leased", "its lease has ended with the server")
        return
    for check in (as_it_was, by_smb_meanwhile, one_after_another, unchanging, listed, properties, wrong_names, had_back, ranges, leases, deleted, deleted_while_read,
                  deleted_with_share, deleted_at_once, kept_with_share, signed, strangers, at_once, as_many_as_there_may_be, many_open, elsewhere, managed):
        with lines.check(check.__doc__):
            check()
    # What is looked at when the server has started again.
    kept = service().get_share_client("kept")
    kept.create_directory("folder")
    kept.get_file_client("folder/file").upload_file(TEXT)
    at = kept.create_snapshot()["snapshot"]
    of_time("kept", at).acquire_lease(lease_duration=-1)
    kept.get_file_client("folder/file").delete_file()


def service(account=ACCOUNT, key=KEY):
    return ShareServiceClient(f"http://{HOST}:{PORT}/{account}", credential={"account_name": account, "account_key": key})


def of_time(share, at, account=ACCOUNT, key=KEY):
    return service(account, key).get_share_client(share, snapshot=at)


def by_signature(share, at, signature):
    return ShareServiceClient(f"http://{HOST}:{PORT}/{ACCOUNT}", credential=signature).get_share_client(share, snapshot=at)


def soon():
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)


@contextlib.contextmanager
def new_share(**options):
    """A new share with a file, which goes again with its snapshots."""
    share = service().get_share_client(f"made-{uuid.uuid4().hex[:12]}")
    share.create_share(**options)
    try:
        share.create_directory("folder")
        share.get_file_client("folder/file").upload_file(TEXT, metadata={"kept": "then"})
        yield share
    finally:
        with contextlib.suppress(HttpResponseError):
            share.delete_share(delete_snapshots=True)


def taken(share, **options):
    """A new snapshot: its time, and a client of it."""
    at = share.create_snapshot(**options)["snapshot"]
    return at, of_time(share.share_name, at)


def read(share, path):
    return share.get_file_client(path).download_file().readall()


def as_it_was():
    """a snapshot has files, folders, metadata and attributes as they were, whatever becomes of the share"""
    with new_share() as share:
        data = os.urandom(9 * MIB + 7)
        share.get_file_client("large").upload_file(data)
        before = share.get_file_client("folder/file").get_file_properties()
        _, snapshot = taken(share)
        share.get_file_client("folder/file").upload_file(b"another", metadata={"kept": "now"})
        share.get_file_client("folder/new").upload_file(b"new")
        share.get_file_client("large").upload_range(b"x" * 512, 4096, 512)
        share.get_file_client("large").rename_file("moved")
        expect(read(snapshot, "folder/file") == TEXT and read(share, "folder/file") == b"another", "texts are mixed up")
        expect(read(snapshot, "large") == data, "a large file is another one")
        properties = snapshot.get_file_client("folder/file").get_file_properties()
        expect((properties.metadata, properties.size, properties.last_write_time) == ({"kept": "then"}, len(TEXT), before.last_write_time), properties)
        expect([one.name for one in snapshot.list_directories_and_files()] == ["folder", "large"], "other names")
        expect([one.name for one in snapshot.list_directories_and_files("folder")] == ["file"], "other names in the folder")
        expect(snapshot.get_directory_client("folder").get_directory_properties().is_directory, "no folder")
        refused(lambda: read(snapshot, "folder/new"), "ResourceNotFound", 404)
        refused(lambda: read(snapshot, "moved"), "ResourceNotFound", 404)
        with smb(share.share_name, ACCOUNT, KEY) as tree, opened(tree, r"folder\file"):
            handles = [len(list(one.get_file_client("folder/file").list_handles())) for one in (share, snapshot)]
            expect(handles == [1, 0], f"handles: {handles}")


def by_smb_meanwhile():
    """what an SMB client has written is in the snapshot that is taken then, and what it writes later is not"""
    with new_share() as share, smb(share.share_name, ACCOUNT, KEY) as tree, opened(tree, "by-smb") as file:
        file.write(b"first", 0)
        _, snapshot = taken(share)
        file.write(b"later", 0)
        expect(read(snapshot, "by-smb") == b"first" and file.read(0, 5) == b"later", "texts are mixed up")
        expect(read(share, "by-smb") == b"later", "the share has another text")


def one_after_another():
    """snapshots of one file are told apart, whichever order they are read in"""
    with new_share() as share:
        texts = [os.urandom(2 * MIB) for _ in range(5)]
        snapshots = []
        for text in texts:
            share.get_file_client("file").upload_file(text)
            snapshots.append(taken(share))
        times = [at for at, _ in snapshots]
        expect(times == sorted(set(times)), times)
        for at in (4, 0, 2, 2, 1, 3, 0, 4):
            expect(read(snapshots[at][1], "file") == texts[at], f"snapshot {at} has another text")
        etags = {snapshot.get_file_client("file").get_file_properties().etag for _, snapshot in snapshots}
        expect(len(etags) == len(texts), etags)
        share.delete_share(delete_snapshots=True)


def unchanging():
    """nothing is changed in a snapshot, and what is asked of it is not done to the share"""
    with new_share() as share:
        _, snapshot = taken(share)
        file, folder = snapshot.get_file_client("folder/file"), snapshot.get_directory_client("folder")
        for work in (lambda: file.upload_range(b"xxxx", 0, 4), lambda: file.clear_range(0, 512), file.delete_file, lambda: file.set_file_metadata({"a": "b"}),
                     lambda: file.resize_file(1), lambda: file.create_file(4), lambda: snapshot.create_directory("more"),
                     folder.delete_directory, lambda: folder.set_directory_metadata({"a": "b"}), lambda: snapshot.set_share_metadata({"a": "b"}),
                     lambda: snapshot.set_share_quota(5), lambda: snapshot.set_share_access_policy({}), snapshot.create_snapshot, snapshot.get_share_stats,
                     file.acquire_lease, lambda: file.start_copy_from_url(share.get_file_client("folder/file").url)):
            refused(work, "ShareSnapshotOperationNotSupported", 409)
        # What it is to be is asked of the share, and what it was of the snapshot.
        refused(lambda: file.rename_file("other"), "InvalidHeaderValue", 400)
        expect(read(share, "folder/file") == read(snapshot, "folder/file") == TEXT, "something was changed")
        expect(share.get_share_properties().metadata == {}, "the share was changed")
        expect([one.name for one in share.list_directories_and_files()] == ["folder"], "the share has more")


def listed():
    """snapshots are listed with their shares where that is asked for, page by page"""
    with new_share(metadata={"of": "share"}) as share:
        (first, _), (second, _) = taken(share), taken(share, metadata={"of": "snapshot"})

        def told(**how):
            return [(one.snapshot, one.metadata) for one in service().list_shares(name_starts_with=share.share_name, include_metadata=True, **how)]

        wanted = [(None, {"of": "share"}), (first, {"of": "share"}), (second, {"of": "snapshot"})]
        expect(told() == wanted[:1], told())
        expect(told(include_snapshots=True) == wanted, told(include_snapshots=True))
        expect(told(include_snapshots=True, results_per_page=1) == wanted, "pages are others")


def properties():
    """a snapshot has properties of its own, which do not change with those of the share"""
    with new_share(metadata={"a": "b"}, quota=7) as share:
        at, snapshot = taken(share)
        made = snapshot.get_share_properties()
        share.set_share_metadata({"c": "d"})
        share.set_share_quota(9)
        told = snapshot.get_share_properties()
        expect((told.metadata, told.quota, told.etag, told.snapshot) == ({"a": "b"}, 7, made.etag, at), told)
        expect((share.get_share_properties().metadata, share.get_share_properties().quota) == ({"c": "d"}, 9), "the share has others")


def wrong_names():
    """times that are none, and of no snapshot, lead nowhere"""
    with new_share() as share:
        at, _ = taken(share)
        for wrong in ("now", "..", "2026-11-30", f"{at}/..", f"{at}x", at.replace("Z", "+00:00"), f" {at}", "../../catalog.db"):
            refused(lambda wrong=wrong: read(of_time(share.share_name, wrong), "folder/file"), "InvalidQueryParameterValue", 400)
        there = of_time(share.share_name, NOT_THERE)
        for work in (there.get_share_properties, there.delete_share, lambda: read(there, "folder/file"), lambda: list(there.list_directories_and_files()),
                     lambda: there.acquire_lease(lease_duration=60)):
            refused(work, "ShareSnapshotNotFound", 404)
        refused(lambda: read(of_time("nothing", at), "folder/file"), "ShareNotFound", 404)
        expect(read(share, "folder/file") == TEXT, "the share's own file was read or changed")


def had_back():
    """a file is had back from a snapshot by a copy, whole or a range of it"""
    with new_share() as share:
        data = os.urandom(3 * MIB)
        share.get_file_client("lost").upload_file(data, metadata={"a": "b"})
        at, snapshot = taken(share)
        share.get_file_client("lost").upload_file(b"overwritten")
        source = f"{share.get_file_client('lost').url}?sharesnapshot={at}"
        share.get_file_client("lost").start_copy_from_url(source)
        expect(read(share, "lost") == data, "what was copied over what is there is another text")
        share.get_file_client("lost").delete_file()
        share.get_file_client("lost").start_copy_from_url(source)
        expect(read(share, "lost") == data and share.get_file_client("lost").get_file_properties().metadata == {"a": "b"}, "another text")
        signature = generate_share_sas(ACCOUNT, share.share_name, KEY, ShareSasPermissions(read=True), soon())
        part = share.get_file_client("part")
        part.create_file(MIB)
        part.upload_range_from_url(f"{source}&{signature}", 0, MIB, MIB)
        expect(read(share, "part") == data[MIB:2 * MIB], "another range")
        refused(lambda: share.get_file_client("new").start_copy_from_url(source.replace(at, NOT_THERE)), "ShareSnapshotNotFound", 404)


def ranges():
    """a file's ranges are told of a snapshot, and what has changed since one"""
    with new_share() as share:
        file = share.get_file_client("sparse")
        file.create_file(8 * MIB)
        file.upload_range(os.urandom(65_536), MIB, 65_536)
        first, snapshot = taken(share)
        file.upload_range(os.urandom(65_536), 4 * MIB, 65_536)
        file.clear_range(MIB, 65_536)
        second, _ = taken(share)

        def told(share, **how):
            return [(one["start"], one["end"]) for one in share.get_file_client("sparse").get_ranges(**how)]

        expect(told(snapshot) == [(MIB, MIB + 65_535)] and told(share) == [(4 * MIB, 4 * MIB + 65_535)], (told(snapshot), told(share)))
        changed, cleared = share.get_file_client("sparse").get_ranges_diff(first)
        expect(([one["start"] for one in changed], [one["start"] for one in cleared]) == ([4 * MIB], [MIB]), (changed, cleared))
        changed, cleared = share.get_file_client("sparse").get_ranges_diff(second)
        expect((changed, cleared) == ([], []), (changed, cleared))
        # Written over with the same times and length, a sector of it.
        before = file.get_file_properties()
        file.upload_range(b"x" * 512, 4 * MIB + 1024, 512)
        file.set_http_headers(before.content_settings, file_last_write_time=before.last_write_time, file_change_time=before.change_time)
        changed, cleared = file.get_ranges_diff(second)
        expect((changed, cleared) == ([{"start": 4 * MIB + 1024, "end": 4 * MIB + 1535}], []), (changed, cleared))
        file.upload_range(bytes(512), 4 * MIB + 2048, 512)
        changed, cleared = file.get_ranges_diff(second)
        expect([one["start"] - 4 * MIB for one in (*changed, *cleared)] == [1024, 2048], (changed, cleared))
        other = file.rename_file("other")
        refused(lambda: other.get_ranges_diff(second), "PreviousSnapshotNotFound", 409)
        changed, cleared = other.get_ranges_diff(second, include_renames=True)
        expect([one["start"] for one in changed] == [4 * MIB] and cleared == [], (changed, cleared))
        file = other.rename_file("sparse")
        file.resize_file(4 * MIB)
        expect(file.get_ranges_diff(second) == ([], []), "what is behind its end is told")
        refused(lambda: share.get_file_client("sparse").get_ranges_diff(NOT_THERE), "PreviousSnapshotNotFound", 409)


def leases():
    """a lease of a snapshot keeps it, and its share, from being deleted"""
    with new_share() as share:
        _, snapshot = taken(share)
        lease = snapshot.acquire_lease(lease_duration=60)
        expect((snapshot.get_share_properties().lease.state, share.get_share_properties().lease.state) == ("leased", "available"), "leases are mixed up")
        refused(snapshot.delete_share, "LeaseIdMissing", 412)
        refused(lambda: share.delete_share(delete_snapshots=True), "DeleteShareWhenSnapshotLeased", 409)
        refused(lambda: snapshot.delete_share(lease=str(uuid.uuid4())), "LeaseIdMismatchWithContainerOperation", 412)
        lease.renew()
        lease.release()
        expect(snapshot.get_share_properties().lease.state == "available", "it has a lease still")
        lease = snapshot.acquire_lease(lease_duration=-1)
        ShareLeaseClient(snapshot).break_lease(lease_break_period=0)
        lease = snapshot.acquire_lease(lease_duration=-1)
        snapshot.delete_share(lease=lease)
        refused(snapshot.get_share_properties, "ShareSnapshotNotFound", 404)


def deleted():
    """a snapshot is deleted, and nothing else, and its space is given back"""
    with new_share() as share:
        (_, first), (_, second) = taken(share), taken(share)
        file = share.get_file_client("large")
        file.upload_file(os.urandom(64 * MIB))
        _, large = taken(share)
        expect(len(read(large, "large")) == 64 * MIB, "another length")
        file.delete_file()
        used = free_bytes()
        first.delete_share()
        for work in (first.get_share_properties, first.delete_share, lambda: read(first, "folder/file")):
            refused(work, "ShareSnapshotNotFound", 404)
        expect(read(second, "folder/file") == TEXT == read(share, "folder/file"), "another one was deleted")
        large.delete_share()
        until = time.monotonic() + GIVEN_BACK_SECONDS
        while free_bytes() - used < 48 * MIB:
            expect(time.monotonic() < until, f"{free_bytes() - used} bytes are given back")
            time.sleep(0.1)


def deleted_while_read():
    """who reads in a snapshot that is deleted reads it to the end or is told, and never another text"""
    with new_share() as share:
        data = os.urandom(24 * MIB)
        share.get_file_client("large").upload_file(data)
        for _ in range(4):
            _, snapshot = taken(share)
            seen = []

            def reads(snapshot=snapshot, seen=seen):
                for _ in range(20):
                    try:
                        seen.append(read(snapshot, "large"))
                    except Exception as error:  # noqa: BLE001
                        seen.append(getattr(error, "error_code", None) or type(error).__name__)

            readers = [threading.Thread(target=reads) for _ in range(4)]
            for reader in readers:
                reader.start()
            share.get_file_client("large").upload_range(b"y" * 512, 0, 512)
            snapshot.delete_share()
            for reader in readers:
                reader.join()
            texts = [text for text in seen if isinstance(text, bytes)]
            expect(all(text == data for text in texts), f"of {len(texts)} texts some are others")
            expect("ShareSnapshotNotFound" in [getattr(code, "value", code) for code in seen], set(map(str, (code for code in seen if not isinstance(code, bytes)))))
            share.get_file_client("large").upload_range(data[:512], 0, 512)


def deleted_with_share():
    """a share that has snapshots is deleted with them or not at all"""
    with new_share() as share:
        _, snapshot = taken(share)
        refused(share.delete_share, "ShareHasSnapshots", 409)
        expect(read(share, "folder/file") == TEXT, "it is gone all the same")
        share.delete_share(delete_snapshots=True)
        refused(snapshot.get_share_properties, "ShareNotFound", 404)
        refused(lambda: read(snapshot, "folder/file"), "ShareNotFound", 404)
        share.create_share()
        refused(snapshot.get_share_properties, "ShareSnapshotNotFound", 404)
        expect([one.snapshot for one in service().list_shares(share.share_name, include_snapshots=True)] == [None], "a new share has another's snapshots")


def deleted_at_once():
    """of a share that is deleted while a snapshot is made, or one is leased, both are never done"""
    for _ in range(AT_ONCE_ROUNDS):
        with new_share() as share:
            both(share.delete_share, share.create_snapshot)
        with new_share() as share:
            _, snapshot = taken(share)
            both(lambda share=share: share.delete_share(delete_snapshots=True), lambda snapshot=snapshot: snapshot.acquire_lease(lease_duration=-1))
            with contextlib.suppress(HttpResponseError):
                ShareLeaseClient(snapshot).break_lease(lease_break_period=0)


def both(one, other):
    """Does both at the same time: one of them has to be refused, and no other way than by what the other one does."""
    done = []

    def tries(work):
        try:
            work()
            done.append("done")
        except HttpResponseError as error:
            done.append(getattr(error.error_code, "value", error.error_code))

    threads = [threading.Thread(target=tries, args=(work,)) for work in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refusals = {"ShareHasSnapshots", "ShareNotFound", "DeleteShareWhenSnapshotLeased", "ShareSnapshotNotFound"}
    expect(done.count("done") == 1 and refusals & set(done), done)


def kept_with_share():
    """snapshots of a share that is kept are had back with it"""
    managed_client().file_services.set_service_properties(GROUP, ACCOUNT, {"properties": {"shareDeleteRetentionPolicy": {"enabled": True, "days": 3}}})
    try:
        with new_share() as share:
            _, snapshot = taken(share)
            share.delete_share(delete_snapshots=True)
            refused(lambda: read(snapshot, "folder/file"), "ShareNotFound", 404)
            [one] = [one for one in service().list_shares(share.share_name, include_deleted=True) if one.deleted]
            service().undelete_share(share.share_name, one.version)
            expect(read(snapshot, "folder/file") == TEXT, "another text")
    finally:
        managed_client().file_services.set_service_properties(GROUP, ACCOUNT, {"properties": {"shareDeleteRetentionPolicy": {"enabled": False}}})


def signed():
    """a signature allows in a snapshot what it allows in the share"""
    with new_share() as share:
        at, _ = taken(share)

        def by(**permissions):
            return by_signature(share.share_name, at, generate_share_sas(ACCOUNT, share.share_name, KEY, ShareSasPermissions(**permissions), soon()))

        expect(read(by(read=True), "folder/file") == TEXT, "another text")
        refused(lambda: read(by(list=True), "folder/file"), "AuthorizationPermissionMismatch")
        expect(len(list(by(list=True).list_directories_and_files())) == 1, "others")
        refused(by(read=True, list=True, write=True, delete=True).delete_share, "AuthorizationFailure")

        def of_account(**permissions):
            levels = ResourceTypes(service=True, container=True, object=True)
            return by_signature(share.share_name, at, generate_account_sas(ACCOUNT, KEY, levels, AccountSasPermissions(**permissions), soon()))

        refused(of_account(read=True, write=True, list=True).delete_share, "AuthorizationPermissionMismatch")
        of_account(delete=True).delete_share()


def strangers():
    """an account reaches no snapshot of another one"""
    client = managed_client()
    client.storage_accounts.begin_create(GROUP, "stranger", {"location": "local", "kind": "FileStorage", "sku": {"name": "Premium_LRS"}}).result()
    key = client.storage_accounts.list_keys(GROUP, "stranger").keys_property[0].value
    with new_share() as share:
        at, _ = taken(share)
        theirs = of_time(share.share_name, at, account="stranger", key=key)
        for work in (theirs.get_share_properties, theirs.delete_share, lambda: read(theirs, "folder/file"), theirs.acquire_lease):
            refused(work, "ShareNotFound", 404)
        own = service("stranger", key).get_share_client("own-share")
        own.create_share()
        refused(lambda: own.get_file_client("file").start_copy_from_url(f"{share.get_file_client('folder/file').url}?sharesnapshot={at}"), "AuthorizationFailure")
        own.delete_share()


def at_once():
    """of two snapshots of a share that are wanted at once each is made or refused, and none is half made"""
    with new_share() as share:
        told = []

        def takes():
            try:
                told.append(taken(share)[0])
            except HttpResponseError as error:
                told.append(error.error_code)

        takers = [threading.Thread(target=takes) for _ in range(8)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        made = sorted(one for one in told if isinstance(one, str) and one.endswith("Z"))
        expect(made and all(one in made or getattr(one, "value", one) in ("ShareSnapshotInProgress", "ServerBusy") for one in told), told)
        seen = [one.snapshot for one in service().list_shares(share.share_name, include_snapshots=True) if one.snapshot]
        expect(seen == made and all(read(of_time(share.share_name, at), "folder/file") == TEXT for at in made), (seen, made))


def as_many_as_there_may_be():
    """a share has two hundred snapshots and no more, and each has its own text"""
    with new_share() as share:
        file, times = share.get_file_client("counted"), []
        for number in range(OF_SHARE_MAX):
            file.upload_file(str(number).encode())
            times.append(taken(share)[0])
        refused(share.create_snapshot, "ShareSnapshotCountExceeded", 409)
        for number in range(0, OF_SHARE_MAX, 7):
            expect(read(of_time(share.share_name, times[number]), "counted") == str(number).encode(), f"snapshot {number} has another text")
        of_time(share.share_name, times[0]).delete_share()
        taken(share)


def many_open():
    """however many snapshots are read, few are open"""
    with new_share() as share:
        server = int(os.environ["SNAPSHOT_SERVER"])
        clients = [taken(share)[1] for _ in range(60)]

        def files():
            return len(os.listdir(f"/proc/{server}/fd"))

        read(clients[0], "folder/file")
        before = files()
        for client in clients:
            expect(read(client, "folder/file") == TEXT, "another text")
        expect(files() - before < 150, f"{files() - before} more files are open")
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            expect(read(taken(stack.enter_context(new_share()))[1], "folder/file") == TEXT, "another text")
        # A share is open, too.
        expect(files() - before < 150 + 20 * 12, f"{files() - before} more files are open with 20 shares")


def elsewhere():
    """no snapshot is made of a share whose folder somebody named, and it is told why"""
    share = service().get_share_client("conf")
    refused(share.create_snapshot, "ShareSnapshotOperationNotSupported", 409)
    refused(of_time("conf", NOT_THERE).get_share_properties, "ShareSnapshotNotFound", 404)


def managed():
    """the management interface makes, tells, lists, leases and deletes snapshots, and nothing else by that"""
    client = managed_client()
    with new_share(metadata={"a": "b"}) as share:
        name = share.share_name
        made = client.file_shares.create(GROUP, ACCOUNT, name, {"properties": {"metadata": {"of": "snapshot"}}}, expand="snapshots")
        expect(made.snapshot_time is not None and made.metadata == {"of": "snapshot"}, made.as_dict())
        [at] = [one.snapshot for one in service().list_shares(name, include_snapshots=True) if one.snapshot]
        told = client.file_shares.get(GROUP, ACCOUNT, name, x_ms_snapshot=at)
        expect((told.snapshot_time, told.metadata) == (made.snapshot_time, {"of": "snapshot"}), told.as_dict())
        expect(client.file_shares.get(GROUP, ACCOUNT, name).snapshot_time is None, "the share is told as a snapshot")
        listed = [one.snapshot_time for one in client.file_shares.list(GROUP, ACCOUNT, expand="snapshots") if one.name == name]
        expect(listed == [None, made.snapshot_time], listed)
        lease = client.file_shares.lease(GROUP, ACCOUNT, name, {"action": "Acquire", "leaseDuration": -1}, x_ms_snapshot=at)
        refused_there(lambda: client.file_shares.delete(GROUP, ACCOUNT, name, x_ms_snapshot=at), "LeaseIdMissing", 412)
        refused_there(lambda: client.file_shares.delete(GROUP, ACCOUNT, name), "DeleteShareWhenSnapshotLeased", 409)
        client.file_shares.lease(GROUP, ACCOUNT, name, {"action": "Release", "leaseId": lease.lease_id}, x_ms_snapshot=at)
        refused_there(lambda: client.file_shares.delete(GROUP, ACCOUNT, name, include="none"), "ShareHasSnapshots", 409)
        refused_there(lambda: client.file_shares.get(GROUP, ACCOUNT, name, x_ms_snapshot=NOT_THERE), "ShareSnapshotNotFound", 404)
        for wrong in ({"include": "none"}, {"x-ms-snapshot": at}, {"snapshot": at}):
            refused_there(lambda wrong=wrong: client.file_shares.delete(GROUP, ACCOUNT, name, params=wrong), "InvalidRequestParameter", 400)
        for wrong in ("now", "../..", at[:-2] + "Z"):
            refused_there(lambda wrong=wrong: client.file_shares.delete(GROUP, ACCOUNT, name, x_ms_snapshot=wrong), "InvalidRequestParameter", 400)
        client.file_shares.delete(GROUP, ACCOUNT, name, x_ms_snapshot=at)
        expect(read(share, "folder/file") == TEXT, "the share is gone with its snapshot")
        refused_there(lambda: client.file_shares.delete(GROUP, ACCOUNT, name, x_ms_snapshot=at), "ShareSnapshotNotFound", 404)
        taken(share)
        client.file_shares.delete(GROUP, ACCOUNT, name)
        refused(share.get_share_properties, "ShareNotFound", 404)


def managed_client():
    by_http = ByHttp(contributor())
    return StorageManagementClient(by_http, subscription(), base_url=URL, authentication_policy=by_http)


def free_bytes():
    system = os.statvfs(FOLDERS)
    return system.f_bavail * system.f_frsize


if __name__ == "__main__":
    main()
