"""What files and directories have by REST: the checks made with azure-storage-file-share, beside SMB clients where the two meet. Runs inside the environment
that has it; the server is in REST_* and SMB_* variables."""

import base64
import datetime
import hashlib
import struct
import threading
import time
import types

from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ContentSettings, NTFSAttributes, ShareClient, ShareServiceClient, generate_file_sas
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.file_info import FileAttributes, InfoType
from smbprotocol.open import (CreateDisposition, CreateOptions, FilePipePrinterAccessMask, ImpersonationLevel, Open, RequestedOplockLevel,
                              ShareAccess, SMB2QueryInfoRequest, SMB2QueryInfoResponse, SMB2SetInfoRequest)

from conformance.report import Failure, expect
from conformance.rest_checks import ACCOUNT, BY_SMB, FOLDER, KEY, MIB, SHARE, URL, asked, chance, lines, opened
from conformance.rest_client import refused, smb

# What nothing is audited of is told to be so, as the service does.
UNAUDITED = "S:NO_ACCESS_CONTROL"
SDDL = f"O:S-1-5-21-2127521184-1604012920-1887927527-1001G:SYD:PAI(A;;FA;;;BA)(A;;0x1301bf;;;AU)(D;OICIIO;SD;;;S-1-5-21-1-2-3-500){UNAUDITED}"
TIME = datetime.datetime(2019, 5, 10, 1, 2, 3, 123456, tzinfo=datetime.UTC)
TIME_TEXT = "2019-05-10T01:02:03.1234560Z"
SETTINGS = ContentSettings(content_type="text/plain", content_encoding="identity", content_language="en", content_disposition="inline",
                           cache_control="no-cache")
OTHER = "other"
EVERYBODY = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE


def main():
    service = ShareServiceClient(URL, credential={"account_name": ACCOUNT, "account_key": KEY})
    share = service.get_share_client(SHARE)
    for check in (metadata, headers, kept_goes_along, smb_properties, created, permissions, permission_keys, listings, listing_while_it_changes,
                  sparse, md5, copies, from_url, renames, links):
        with lines.check(f"azure-storage-file-share: {check.__doc__}"):
            check(service, share)
    for check in (leases, handles, open_below, made_whole, attributes_beside_smb, written_time, caching, streams_by_smb, audited):
        with lines.check(check.__doc__), smb(*BY_SMB) as tree:
            check(share, tree)
    for check in (hostile_properties, dots, changes_at_once):
        with lines.check(check.__doc__):
            check(share)


# What the client does.

def metadata(service, share):
    """metadata of files and directories are set, told, replaced and taken away"""
    file = share.get_file_client("metadata")
    before = file.create_file(100, metadata={"one": "1", "two": "a, b"})
    expect(file.get_file_properties().metadata == {"one": "1", "two": "a, b"}, file.get_file_properties().metadata)
    after = file.set_file_metadata({"three": "3"})
    expect(after["etag"] != before["etag"], "the ETag is the same")
    expect(file.get_file_properties().metadata == {"three": "3"}, "others are told")
    expect(file.get_file_properties().size == 100, "another length")
    file.set_file_metadata({})
    expect(file.get_file_properties().metadata == {}, "they are not gone")
    directory = share.create_directory("metadata-d", metadata={"of": "directory"})
    expect(directory.get_directory_properties().metadata == {"of": "directory"}, "the directory's are others")
    directory.set_directory_metadata({"a": "b"})
    expect(directory.get_directory_properties().metadata == {"a": "b"}, "the directory's are others")
    file.upload_file(b"again")
    expect(file.get_file_properties().metadata == {}, "a new file has the old one's")
    refused(lambda: file.set_file_metadata({"bad-name": "x"}), "InvalidMetadata", 400)
    refused(lambda: file.set_file_metadata({"long": "x" * 8193}), "MetadataTooLarge", 400)
    refused(lambda: share.get_file_client("nothing-here").set_file_metadata({"a": "b"}), "ResourceNotFound", 404)


def headers(service, share):
    """HTTP headers are set with a file and later, and told by every answer"""
    file = share.get_file_client("headers")
    file.upload_file(b"text", content_settings=SETTINGS)
    for told in (file.get_file_properties().content_settings, file.download_file().properties.content_settings):
        seen = [getattr(told, name) for name in vars(SETTINGS) if name != "content_md5"]
        expect(seen == [getattr(SETTINGS, name) for name in vars(SETTINGS) if name != "content_md5"], told)
    expect(file.download_file().readall() == b"text", "another text")
    digest = bytearray(hashlib.md5(b"text").digest())
    file.set_http_headers(ContentSettings(content_type="image/png", content_md5=digest))
    told = file.get_file_properties().content_settings
    expect((told.content_type, told.cache_control, told.content_md5) == ("image/png", None, digest), told)
    file.resize_file(2)
    expect(file.get_file_properties().size == 2, "it has not another length")


def kept_goes_along(service, share):
    """metadata and headers go where the file goes"""
    file = share.get_file_client("moved-from")
    file.upload_file(b"x", metadata={"goes": "along"}, content_settings=SETTINGS)
    file = file.rename_file("moved-to")
    properties = file.get_file_properties()
    expect((properties.metadata, properties.content_settings.content_type) == ({"goes": "along"}, "text/plain"), properties)
    file.delete_file()
    file.create_file(1)
    expect(file.get_file_properties().metadata == {}, "the next file of the name has them")


def smb_properties(service, share):
    """attributes and times are set with a file and later, kept, and told with its number and its directory's"""
    directory = share.create_directory("smb", file_attributes="Hidden", file_creation_time=TIME, file_last_write_time=TIME)
    file = directory.get_file_client("file")
    made = file.create_file(5, file_attributes=NTFSAttributes(read_only=True, archive=True), file_creation_time=TIME,
                            file_last_write_time=TIME, file_change_time=TIME)
    expect((made["file_creation_time"], made["file_last_write_time"], made["file_change_time"]) == (TIME_TEXT,) * 3, made)
    seen = file.get_file_properties()
    expect((seen.creation_time, seen.last_write_time, seen.change_time) == (TIME,) * 3, vars(seen))
    expect(set(str(seen.file_attributes).replace(" ", "").split("|")) == {"ReadOnly", "Archive"}, seen.file_attributes)
    of_directory = directory.get_directory_properties()
    expect(str(of_directory.file_attributes) == "Hidden | Directory", of_directory.file_attributes)
    expect((of_directory.creation_time, of_directory.file_id) == (TIME, seen.parent_id), vars(of_directory))
    expect(seen.file_id == str((FOLDER / "smb/file").stat().st_ino), seen.file_id)
    expect(of_directory.parent_id == str(FOLDER.stat().st_ino), of_directory.parent_id)
    refused(lambda: file.upload_range(b"x", 0, 1), "ReadOnlyAttribute", 409)
    refused(file.delete_file, "ReadOnlyAttribute", 409)
    file.set_http_headers(ContentSettings(), file_attributes="None")
    expect(file.get_file_properties().creation_time == TIME, "the time was not kept")
    file.upload_range(b"x", 0, 1)
    expect(file.get_file_properties().last_write_time > TIME, "the time of the last write is the old one")
    directory.set_http_headers(file_attributes="None", file_creation_time="now")
    told = directory.get_directory_properties()
    expect(told.creation_time > TIME and str(told.file_attributes) == "Directory", vars(told))


def created(service, share):
    """a new file is to be archived, and a restored one has what is said of it alone; a type that is not set any more is none"""
    for semantics, attributes in ((None, "Archive"), ("New", "Archive"), ("Restore", "None")):
        file = share.get_file_client(f"semantics {semantics}")
        file.create_file(1, file_property_semantics=semantics)
        expect(str(file.get_file_properties().file_attributes) == attributes, (semantics, vars(file.get_file_properties())))
    file = share.get_file_client("semantics None")
    expect(file.get_file_properties().content_settings.content_type == "application/octet-stream", "another type")
    before = file.get_file_properties().last_write_time
    file.set_http_headers(ContentSettings())
    file.set_file_metadata({"of": "a new one"})
    seen = file.get_file_properties()
    expect(seen.content_settings.content_type is None, "it has a type")
    expect(seen.last_write_time == before, f"its last write was at {before}, and is told to have been at {seen.last_write_time}")
    for more, code in (({"x-ms-file-property-semantics": "Old"}, "InvalidHeaderValue"), ({"x-ms-content-length": "-1"}, "OutOfRangeInput"),
                       ({"x-ms-file-attributes": "None|ReadOnly"}, "InvalidHeaderValue")):
        status, told, _ = asked("PUT", f"/{SHARE}/semantics", "", more={"x-ms-type": "file", "x-ms-content-length": "1"} | more)
        expect((status, told.get("x-ms-error-code")) == (400, code), (more, status, told))


def permissions(service, share):
    """permissions are set in SDDL and as bytes, and come back"""
    file = share.get_file_client("permission")
    file.create_file(1, file_permission=SDDL)
    key = file.get_file_properties().permission_key
    expect(share.get_permission_for_share(key) == SDDL, share.get_permission_for_share(key))
    binary = share.get_permission_for_share(key, file_permission_format="binary")
    other = share.get_file_client("permission-binary")
    other.create_file(1, file_permission=binary, file_permission_format="binary")
    expect(other.get_file_properties().permission_key == key, "the same permission has another key")
    directory = share.create_directory("permission-d", file_permission=SDDL)
    expect(directory.get_directory_properties().permission_key == key, "the directory's is another one")
    file.set_http_headers(ContentSettings(), file_permission="O:SYG:SYD:(A;;FA;;;SY)")
    expect(share.get_permission_for_share(file.get_file_properties().permission_key) == f"O:SYG:SYD:(A;;FA;;;SY){UNAUDITED}", "it was not set")
    for text in ("nonsense", "O:DA", "D:(A;;FA;;;WD", "O:BAS:(AU;FA;GR;;;WD)"):
        refused(lambda text=text: share.get_file_client("refused").create_file(1, file_permission=text), "FileInvalidPermission", 400)
    expect(not share.get_file_client("refused").exists(), "a file was made without its permission")


def permission_keys(service, share):
    """a permission of a share has a key, which files are made with"""
    key = share.create_permission_for_share(SDDL)
    expect(share.get_permission_for_share(key) == SDDL, "another one comes back")
    file = share.get_file_client("by-key")
    file.create_file(1, permission_key=key)
    expect(file.get_file_properties().permission_key == key, "the file has another one")
    refused(lambda: share.get_permission_for_share("1*2"), "FileInvalidPermissionKey", 400)
    refused(lambda: service.get_share_client(OTHER).get_permission_for_share(key), "FileInvalidPermissionKey", 400)
    refused(lambda: file.create_file(1, permission_key="1*2"), "FileInvalidPermissionKey", 400)


def listings(service, share):
    """listings tell what is asked for of each entry"""
    directory = share.create_directory("listed")
    for name in ("a", "b"):
        directory.get_file_client(name).create_file(3, file_last_write_time=TIME)
    directory.create_subdirectory("c")
    plain = list(directory.list_directories_and_files())
    expect([one.name for one in plain] == ["c", "a", "b"] and plain[1].size == 3 and plain[1].last_modified is None, plain)
    expect(all(one.file_id for one in plain), "ids are told to who asks alone")
    full = {one.name: one for one in directory.list_directories_and_files(
        include=["timestamps", "Etag", "Attributes", "PermissionKey"], include_extended_info=True)}
    file = directory.get_file_client("a").get_file_properties()
    seen = full["a"]
    expect((seen.file_id, seen.permission_key, seen.last_write_time) == (file.file_id, file.permission_key, TIME_TEXT), vars(seen))
    expect(seen.etag == file.etag and seen.last_access_time is not None and seen.size == 3, vars(seen))
    expect(str(full["c"].file_attributes) == "Directory" and full["c"].is_directory, vars(full["c"]))
    refused(lambda: list(directory.list_directories_and_files(include=["Nonsense"])), "InvalidQueryParameterValue", 400)


def listing_while_it_changes(service, share):
    """pages go on rightly while names come and go"""
    directory = share.create_directory("changing")
    for number in range(20):
        directory.get_file_client(f"n {number:02}&ü").create_file(0)
    pages = directory.list_directories_and_files(results_per_page=5).by_page()
    seen = [one.name for one in next(pages)]
    directory.get_file_client("n 05&ü").delete_file()
    directory.get_file_client("n 00&ü").delete_file()
    directory.get_file_client("n 01 new").create_file(0)
    directory.get_file_client("n 17 new").create_file(0)
    seen += [one.name for page in pages for one in page]
    wanted = [f"n {number:02}&ü" for number in range(20) if number != 5]
    wanted.insert(wanted.index("n 17&ü"), "n 17 new")
    expect(seen == wanted, seen)


def sparse(service, share):
    """ranges that were written are listed, and what is cleared takes no space"""
    file = share.get_file_client("sparse")
    file.create_file(64 * MIB)
    expect(file.get_ranges() == [], file.get_ranges())
    expect((FOLDER / "sparse").stat().st_blocks * 512 < MIB, "it takes space")
    file.upload_range(b"x" * MIB, 8 * MIB, MIB)
    file.upload_range(b"x" * MIB, 32 * MIB, MIB)
    ranges = [{"start": 8 * MIB, "end": 9 * MIB - 1}, {"start": 32 * MIB, "end": 33 * MIB - 1}]
    expect(file.get_ranges() == ranges, file.get_ranges())
    expect(file.get_ranges(offset=20 * MIB, length=20 * MIB) == ranges[1:], "another part is told")
    file.clear_range(8 * MIB, MIB)
    expect(file.get_ranges() == ranges[1:], file.get_ranges())
    expect((FOLDER / "sparse").stat().st_blocks * 512 < 2 * MIB, "what is cleared takes space")
    status, told, body = asked("GET", f"/{SHARE}/sparse", "comp=rangelist&maxresults=1")
    expect((status, told["x-ms-content-length"]) == (200, str(64 * MIB)) and b"<NextMarker>" not in body, body)


def md5(service, share):
    """checksums are looked at where they come along, and told where they are wanted"""
    file, data = share.get_file_client("md5"), chance.randbytes(MIB)
    file.create_file(MIB)
    file.upload_range(data, 0, MIB, validate_content=True)
    expect(file.download_file(validate_content=True).readall() == data, "another text")
    right, wrong = (base64.b64encode(hashlib.md5(text).digest()).decode() for text in (data, b"other"))
    put = {"x-ms-write": "update", "x-ms-range": f"bytes=0-{MIB - 1}", "Content-MD5": wrong}
    status, told, _ = asked("PUT", f"/{SHARE}/md5", "comp=range", body=data, more=put)
    expect((status, told.get("x-ms-error-code")) == (400, "Md5Mismatch"), told)
    status, told, _ = asked("PUT", f"/{SHARE}/md5", "comp=range", body=data, more=put | {"Content-MD5": right})
    expect((status, told.get("content-md5")) == (201, right), told)
    status, told, _ = asked("PUT", f"/{SHARE}/md5", "comp=range", body=data, more=put | {"Content-MD5": "AAAA"})
    expect((status, told.get("x-ms-error-code")) == (400, "InvalidMd5"), told)
    status, told, body = asked("GET", f"/{SHARE}/md5", "", more={"x-ms-range": "bytes=5-99", "x-ms-range-get-content-md5": "true"})
    wanted = base64.b64encode(hashlib.md5(data[5:100]).digest()).decode()
    expect((status, told.get("content-md5"), body) == (206, wanted, data[5:100]), told)
    status, _, _ = asked("GET", f"/{SHARE}/md5", "", more={"x-ms-range-get-content-md5": "true"})
    expect(status == 400, status)


def copies(service, share):
    """files are copied within the account, with what is kept of them, and nothing is fetched from elsewhere"""
    data = chance.randbytes(5 * MIB + 3)
    source = share.get_file_client("copy source")
    source.upload_file(data, metadata={"of": "source"}, content_settings=SETTINGS, file_creation_time=TIME, file_permission=SDDL)
    target = service.get_share_client(OTHER).get_file_client("copied")
    begun = target.start_copy_from_url(source.url)
    expect(begun["copy_status"] == "success", begun)
    seen = target.get_file_properties()
    expect(target.download_file().readall() == data, "another text")
    expect((seen.metadata, seen.content_settings.content_type) == ({"of": "source"}, "text/plain"), vars(seen))
    expect((seen.copy.id, seen.copy.status, seen.copy.progress) == (begun["copy_id"], "success", f"{len(data)}/{len(data)}"), vars(seen.copy))
    target.start_copy_from_url(source.url, metadata={"of": "target"}, file_creation_time="source", file_permission="source")
    seen = target.get_file_properties()
    expect((seen.metadata, seen.creation_time) == ({"of": "target"}, TIME), vars(seen))
    expect(service.get_share_client(OTHER).get_permission_for_share(seen.permission_key) == SDDL, "it has another permission")
    refused(lambda: target.abort_copy(begun["copy_id"]), "NoPendingCopyOperation", 409)
    refused(lambda: target.start_copy_from_url(share.get_file_client("nothing").url), "ResourceNotFound", 404)
    refused(lambda: source.start_copy_from_url(source.url), "InvalidHeaderValue", 400)
    for url in ("http://127.0.0.1:1/elsewhere/share/file", "http://elsewhere.file.core.windows.net/share/file", "file:///etc/passwd"):
        try:
            target.start_copy_from_url(url)
        except HttpResponseError as error:
            expect(error.status_code in (400, 403, 404), error)
            continue
        raise Failure(f"{url} was copied")
    big = share.get_file_client("copy sparse")
    big.create_file(512 * MIB)
    big.upload_range(b"x" * MIB, 100 * MIB, MIB)
    target.start_copy_from_url(big.url)
    expect(target.get_ranges() == [{"start": 100 * MIB, "end": 101 * MIB - 1}], target.get_ranges())


def from_url(service, share):
    """ranges are taken from another file"""
    data = chance.randbytes(2 * MIB)
    source, target = share.get_file_client("url source"), share.get_file_client("url target")
    source.upload_file(data)
    target.create_file(MIB)
    refused(lambda: target.upload_range_from_url(source.url, offset=0, length=5, source_offset=0), "CannotVerifyCopySource", 401)
    sas = generate_file_sas(ACCOUNT, SHARE, ["url source"], KEY, permission="r", expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))
    url = f"{source.url}?{sas}"
    target.upload_range_from_url(url, offset=100, length=MIB - 100, source_offset=MIB)
    expect(target.download_file().readall() == bytes(100) + data[MIB:2 * MIB - 100], "another text")
    refused(lambda: target.upload_range_from_url(url, offset=0, length=MIB, source_offset=2 * MIB - 5), "InvalidRange", 416)


def renames(service, share):
    """renames give properties, and replace what is read-only only where that is asked for"""
    source, target = share.get_file_client("rename me"), share.get_file_client("rename over")
    source.upload_file(b"source", metadata={"a": "b"})
    target.create_file(1, file_attributes="ReadOnly")
    refused(lambda: source.rename_file("rename over"), "ResourceAlreadyExists", 409)
    refused(lambda: source.rename_file("rename over", overwrite=True), "ReadOnlyAttribute", 409)
    new = source.rename_file("rename over", overwrite=True, ignore_read_only=True, file_last_write_time=TIME, content_type="text/css",
                             metadata={"c": "d"})
    seen = new.get_file_properties()
    expect((seen.metadata, seen.content_settings.content_type, seen.last_write_time) == ({"c": "d"}, "text/css", TIME), vars(seen))
    expect(new.download_file().readall() == b"source", "another text")
    directory = share.create_directory("rename d")
    directory.upload_file("in it", b"x")
    moved = directory.rename_directory("renamed d", metadata={"e": "f"}, file_attributes="Hidden")
    expect(moved.get_directory_properties().metadata == {"e": "f"}, "other metadata")
    expect(moved.get_file_client("in it").download_file().readall() == b"x", "it is empty")
    refused(lambda: new.rename_file("no/where"), "ParentNotFound", 404)


def links(service, share):
    """links, which NFS shares have, are refused"""
    file = share.get_file_client("link")
    for work in (lambda: file.create_symlink("metadata"), file.get_symlink, lambda: file.create_hardlink("metadata")):
        refused(work, "UnsupportedQueryParameter", 400)


# SMB beside it.

def leases(share, tree):
    """a leased file is written by who has the lease, and by no SMB client; everybody reads it"""
    file = share.get_file_client("leased")
    file.upload_file(b"before")
    lease = file.acquire_lease()
    seen = file.get_file_properties().lease
    expect((seen.state, seen.status, seen.duration) == ("leased", "locked", "infinite"), seen)
    refused(lambda: file.upload_range(b"x", 0, 1), "LeaseIdMissing", 412)
    refused(file.delete_file, "LeaseIdMissing", 412)
    refused(lambda: file.upload_file(b"x"), "LeaseIdMissing", 412)
    refused(lambda: file.set_file_metadata({"a": "b"}), "LeaseIdMissing", 412)
    refused(lambda: file.rename_file("leased too"), "LeaseIdMissing", 412)
    other = "01234567-89ab-cdef-0123-456789abcdef"
    refused(lambda: file.upload_range(b"x", 0, 1, lease=other), "LeaseIdMismatchWithFileOperation", 412)
    refused(lambda: file.acquire_lease(lease_id=other), "LeaseAlreadyPresent", 409)
    file.upload_range(b"during", 0, 6, lease=lease)
    file.set_file_metadata({"a": "b"}, lease=lease)
    expect(file.download_file().readall() == b"during", "it cannot be read")
    status = open_by_smb(tree, "leased", FilePipePrinterAccessMask.GENERIC_WRITE)
    expect(status == 0xC0000043, f"an SMB client may write: {status:#x}")
    expect(open_by_smb(tree, "leased", FilePipePrinterAccessMask.DELETE) == 0xC0000043, "an SMB client may delete")
    expect(open_by_smb(tree, "leased", FilePipePrinterAccessMask.GENERIC_READ) == 0, "an SMB client may not read")
    lease.change(other)
    file.upload_file(b"as a whole", lease=lease)
    refused(lambda: share.get_file_client("metadata").upload_range(b"x", 0, 1, lease=other), "LeaseNotPresentWithFileOperation", 412)
    lease.release()
    expect(file.get_file_properties().lease.state == "available", "it is still leased")
    expect(open_by_smb(tree, "leased", FilePipePrinterAccessMask.GENERIC_WRITE) == 0, "an SMB client may still not write")
    lease = file.acquire_lease()
    expect(lease.break_lease() == 0, "it does not end at once")
    expect(file.get_file_properties().lease.state == "broken", "it is not broken")
    file.upload_file(b"free again")
    with opened(tree, "leased", sharing=ShareAccess.FILE_SHARE_READ):
        refused(file.acquire_lease, "SharingViolation", 409)
    lease = file.acquire_lease()
    file.delete_file(lease=lease)
    expect(not file.exists(), "it is still there")
    file.upload_file(b"another one")
    file.delete_file()


def open_by_smb(tree, name, access):
    """Opens and closes; gives the status."""
    file = Open(tree, name)
    try:
        file.create(ImpersonationLevel.Impersonation, access, FileAttributes.FILE_ATTRIBUTE_NORMAL, EVERYBODY, CreateDisposition.FILE_OPEN, 0)
    except SMBResponseException as error:
        return error.status
    file.close()
    return 0


def handles(share, tree):
    """what SMB clients have open is listed, page by page and below a directory, and closed"""
    directory = share.create_directory("handles")
    file = directory.get_file_client("file")
    file.upload_file(b"x")
    with opened(tree, r"handles\file"), opened(tree, r"handles\file"):
        found = list(file.list_handles())
        expect(len(found) == 2 and found[0].path == "handles/file" and found[0].client_ip, [vars(one) for one in found])
        expect(found[0].file_id == file.get_file_properties().file_id, vars(found[0]))
        expect(found[0].parent_id == directory.get_directory_properties().file_id, vars(found[0]))
        expect(set(found[0].access_rights) == {"Read", "Write", "Delete"}, found[0].access_rights)
        expect(list(directory.list_handles()) == [] and len(list(directory.list_handles(recursive=True))) == 2, "not those below it")
        root = share.get_directory_client("")
        pages = [list(page) for page in root.list_handles(recursive=True, results_per_page=1).by_page()]
        expect([len(page) for page in pages] == [1, 1], pages)
        closed = file.close_handle(found[0])
        expect(closed == {"closed_handles_count": 1, "failed_handles_count": 0}, closed)
        expect([one.id for one in file.list_handles()] == [found[1].id], "another one was closed")
        closed = share.get_directory_client("").close_all_handles(recursive=True)
        expect(closed == {"closed_handles_count": 1, "failed_handles_count": 0}, closed)
        expect(list(root.list_handles(recursive=True)) == [], "some are left")
    file.delete_file()
    refused(lambda: list(file.list_handles()), "ResourceNotFound", 404)


def open_below(share, tree):
    """a directory in which SMB clients have something open is not renamed, and says why"""
    directory = share.create_directory("open below")
    directory.upload_file("held", b"x")
    with opened(tree, r"open below\held"):
        refused(lambda: directory.rename_directory("moved below"), "FileOpenBySmbClient", 409)
    expect(directory.rename_directory("moved below").exists(), "it is not renamed afterwards")


def made_whole(share, tree):
    """a file that is made with a permission is opened by nobody before it has that and its data"""
    length = 48 * MIB
    share.get_file_client("whole source").upload_file(chance.randbytes(length))
    source, target, done = share.get_file_client("whole source").url, share.get_file_client("whole target"), threading.Event()

    def copy():
        target.start_copy_from_url(source, file_permission=SDDL)
        done.set()

    copying = threading.Thread(target=copy)
    copying.start()
    seen = set()
    while not done.is_set():
        file = Open(tree, "whole target")
        try:
            file.create(ImpersonationLevel.Impersonation, FilePipePrinterAccessMask.GENERIC_READ, 0, EVERYBODY, CreateDisposition.FILE_OPEN, 0)
        except SMBResponseException as error:
            seen.add(error.status)
            continue
        seen.add(0)
        expect(file.end_of_file == length, f"it was opened with {file.end_of_file} bytes")
        file.close()
    copying.join()
    expect(0xC0000034 in seen and seen <= {0, 0xC0000034, 0xC0000043}, [hex(status) for status in seen])
    expect(share.get_permission_for_share(target.get_file_properties().permission_key) == SDDL, "it has another permission")


def audited(share, _):
    """a file that is written over keeps its name, as it was given, and what of it is audited"""
    every_write_by_everyone = bytes.fromhex("02001c0001000000" "0240140016010000" "010100000000000100000000")
    directory = share.create_directory("Audited")
    with smb(SHARE, ACCOUNT, KEY) as tree:
        for name, over in {
            "Made": lambda file: file.create_file(4),
            "Uploaded": lambda file: file.upload_file(b"over"),
            "Permitted": lambda file: file.create_file(4, file_permission=SDDL),
            "Copied": lambda file: file.start_copy_from_url(share.get_file_client("Audited/source").url),
        }.items():
            share.get_file_client("Audited/source").upload_file(b"over")
            share.get_file_client(f"Audited/{name}").upload_file(b"first")
            audits(tree, rf"Audited\{name}", every_write_by_everyone)
            over(share.get_file_client(f"audited/{name.upper()}"))
            kept = audits(tree, rf"Audited\{name}")
            expect(kept == every_write_by_everyone, f"{name}: {kept.hex()}")
            file = share.get_file_client(f"Audited/{name}")
            expect(file.get_file_properties().size == 4, f"{name} was not written over")
            if name == "Permitted":
                told = share.get_permission_for_share(file.get_file_properties().permission_key)
                expect(told == SDDL, f"{name} has another permission: {told}")
        names = {one.name for one in directory.list_directories_and_files()}
        expect(names == {"Made", "Uploaded", "Permitted", "Copied", "source"}, names)


def audits(tree, name, entries=None):
    """The list of what is audited of a file, which is set first where one is given."""
    sacl, system_security, read_control = 8, 0x0100_0000, 0x0002_0000
    file = Open(tree, name)
    file.create(ImpersonationLevel.Impersonation, system_security | read_control, 0, EVERYBODY, CreateDisposition.FILE_OPEN, 0)
    if entries is not None:
        change = SMB2SetInfoRequest()
        change["info_type"], change["additional_information"], change["file_id"] = InfoType.SMB2_0_INFO_SECURITY, sacl, file.file_id
        change["buffer"] = struct.pack("<BBHIIII", 1, 0, 0x8010, 0, 0, 20, 0) + entries
        answered(tree, change)
    question = SMB2QueryInfoRequest()
    question["info_type"], question["additional_information"], question["file_id"] = InfoType.SMB2_0_INFO_SECURITY, sacl, file.file_id
    question["output_buffer_length"] = 4096
    answer = SMB2QueryInfoResponse()
    answer.unpack(answered(tree, question))
    file.close()
    told = answer["buffer"].get_value()
    at = struct.unpack_from("<I", told, 12)[0]
    return told[at:] if at else b""


def answered(tree, request):
    """The answer's body."""
    connection = tree.session.connection
    sent = connection.send(request, tree.session.session_id, tree.tree_connect_id)
    return connection.receive(sent)["data"].get_value()


def attributes_beside_smb(share, tree):
    """attributes that REST sets are SMB's, and the other way round"""
    file = share.get_file_client("beside")
    file.create_file(1, file_attributes="Hidden|System", file_creation_time=TIME)
    by_smb = Open(tree, "beside")
    by_smb.create(ImpersonationLevel.Impersonation, FilePipePrinterAccessMask.GENERIC_READ, 0, ShareAccess.FILE_SHARE_READ,
                  CreateDisposition.FILE_OPEN, CreateOptions.FILE_NON_DIRECTORY_FILE)
    wanted = FileAttributes.FILE_ATTRIBUTE_HIDDEN | FileAttributes.FILE_ATTRIBUTE_SYSTEM
    expect(by_smb.file_attributes & wanted == wanted and by_smb.file_attributes & FileAttributes.FILE_ATTRIBUTE_READONLY == 0, by_smb.file_attributes)
    seen = by_smb.creation_time.replace(tzinfo=datetime.UTC) if by_smb.creation_time.tzinfo is None else by_smb.creation_time
    expect(abs((seen - TIME).total_seconds()) < 1, by_smb.creation_time)
    by_smb.close()


def written_time(share, tree):
    """a range is written with the old time of the last write where that is asked for"""
    file = share.get_file_client("preserved")
    file.create_file(100, file_last_write_time=TIME)
    file.upload_range(b"x" * 10, 0, 10, file_last_write_mode="preserve")
    expect(file.get_file_properties().last_write_time == TIME, "the time is another one")
    file.upload_range(b"x" * 10, 0, 10, file_last_write_mode="now")
    expect(file.get_file_properties().last_write_time > TIME, "the time is the old one")
    file.set_http_headers(ContentSettings(), file_last_write_time=TIME)
    lease = file.acquire_lease()
    file.upload_range(b"x" * 10, 0, 10, file_last_write_mode="preserve", lease=lease)
    expect(file.get_file_properties().last_write_time == TIME, "the time is another one, by the lease's open")
    file.upload_range(b"y" * 10, 0, 10, lease=lease)
    expect(file.get_file_properties().last_write_time > TIME, "the lease's open keeps the time for good")
    lease.release()


def caching(share, tree):
    """who reads by REST waits for an SMB client to give up what it caches, and not for ever"""
    rest = share.get_file_client("cached")
    rest.upload_file(b"x")
    tree.session.connection.outstanding_requests = Unanswered()
    holder = Open(tree, "cached")
    holder.create(ImpersonationLevel.Impersonation, FilePipePrinterAccessMask.GENERIC_READ | FilePipePrinterAccessMask.GENERIC_WRITE, 0, EVERYBODY,
                  CreateDisposition.FILE_OPEN, 0, oplock_level=RequestedOplockLevel.SMB2_OPLOCK_LEVEL_BATCH)
    begun = time.monotonic()
    status, told, _ = asked("GET", f"/{SHARE}/cached", "")
    took = time.monotonic() - begun
    # smbprotocol never answers a break of its oplock.
    expect((status, told.get("x-ms-error-code")) == (500, "ClientCacheFlushDelay") and 10 < took < 30, f"{status} after {took:.1f}s")
    holder.close()
    expect(rest.download_file().readall() == b"x", "it cannot be read afterwards")


class Unanswered(dict):
    """Requests that wait for their answers, where what the server tells by itself is no answer to any."""

    def __missing__(self, message_id):
        nothing = types.SimpleNamespace(get_value=lambda: 0)
        return types.SimpleNamespace(session_id=0, response_event_lock=threading.Lock(), response_event=threading.Event(), response=None,
                                     message={"reserved": nothing})


def streams_by_smb(share, tree):
    """what an SMB client writes where metadata are kept harms nobody"""
    file = share.get_file_client("stream")
    file.upload_file(b"x", metadata={"a": "b"})
    for text in (b"no JSON", b'{"metadata":{"a":"b\\r\\nx-injected: 1"}}', b'{"metadata":{"bad name":"c","x: y":"d"}}', b"[" * 60000, b"\xff" * 100_000):
        stream = Open(tree, "stream:azure.properties:$DATA")
        stream.create(ImpersonationLevel.Impersonation, FilePipePrinterAccessMask.GENERIC_WRITE, 0, ShareAccess.FILE_SHARE_READ,
                      CreateDisposition.FILE_OVERWRITE_IF, 0)
        for at in range(0, len(text), 60_000):
            stream.write(text[at:at + 60_000], at)
        stream.close()
        seen = file.get_file_properties()
        expect(set(seen.metadata) <= {"badname"} and seen.size == 1, seen.metadata)
        status, told, _ = asked("HEAD", f"/{SHARE}/stream", "")
        expect(status == 200 and "x-injected" not in told, told)
    file.set_file_metadata({"again": "1"})
    expect(file.get_file_properties().metadata == {"again": "1"}, "metadata cannot be set any more")


# What attackers do.

def hostile_properties(share):
    """headers that make no sense are refused, and change nothing"""
    share.get_file_client("hostile").upload_file(b"kept")
    make = {"x-ms-type": "file", "x-ms-content-length": "1"}
    for more in ({"x-ms-file-attributes": "Nonsense"}, {"x-ms-file-creation-time": "yesterday"}, {"x-ms-file-last-write-time": "99999-01-01"},
                 {"x-ms-content-length": "-1"}, {"x-ms-content-length": str(1 << 63)}, {"x-ms-lease-id": "x"}, {"x-ms-content-md5": "x"},
                 {"x-ms-file-permission": "D:" + "(A;;FA;;;WD)" * 2000}, {"x-ms-file-permission": "O:S-1-" + "9" * 5000},
                 {"x-ms-file-permission-format": "xml", "x-ms-file-permission": "O:SY"}, {"x-ms-structured-body": "XSM/1.0; properties=crc64"}):
        status, told, _ = asked("PUT", f"/{SHARE}/hostile", "", body=b"", more=make | more)
        expect(status in (400, 412), f"{more}: {status} {told.get('x-ms-error-code')}"[:300])
    for query, more in (("comp=lease", {}), ("comp=lease", {"x-ms-lease-action": "steal"}), ("comp=lease", {"x-ms-lease-action": "release"}),
                        ("comp=lease", {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "15"}), ("comp=copy&copyid=1", {}),
                        ("comp=forceclosehandles", {}), ("comp=forceclosehandles", {"x-ms-handle-id": "-1"})):
        status, told, _ = asked("PUT", f"/{SHARE}/hostile", query, body=b"", more=more)
        expect(status == 400, f"{query} {more}: {status} {told.get('x-ms-error-code')}")
    for query in ("comp=rangelist&marker=x", "comp=rangelist&maxresults=0", "comp=listhandles&marker=-1"):
        status, told, _ = asked("GET", f"/{SHARE}/hostile", query)
        expect(status == 400, f"{query}: {status}")
    expect((FOLDER / "hostile").read_bytes() == b"kept", "the file was changed")


def dots(share):
    """dots at the end of a name are left out, as the service does, and kept where that is asked for"""
    share.get_file_client("dotted...").upload_file(b"x")
    expect((FOLDER / "dotted").exists(), "the file has another name")
    expect(share.get_file_client("dotted").download_file().readall() == b"x", "it is another one")
    dotted = ShareClient(URL, SHARE, credential={"account_name": ACCOUNT, "account_key": KEY}, allow_trailing_dot=True,
                         allow_source_trailing_dot=True)
    dotted.create_directory("kept.").upload_file("dotted..", b"y")
    expect((FOLDER / "kept." / "dotted..").read_bytes() == b"y", "the file has another name")
    expect([one.name for one in dotted.list_directories_and_files("kept.")] == ["dotted.."], "it is listed by another name")
    dotted.get_file_client("kept./dotted..").rename_file("kept./moved.").delete_file()
    dotted.delete_directory("kept.")
    for path in ("...", "a/...", ".%2e", "a/../b"):
        for more in ({}, {"x-ms-allow-trailing-dot": "true"}):
            status, _, _ = asked("GET", f"/{SHARE}/{path}", "", more=more)
            expect(status == 400, f"{path} {more}: {status}")


def changes_at_once(share):
    """metadata that many set at once are those of one of them, and headers are lost by none"""
    file = share.get_file_client("at once")
    file.upload_file(b"x", content_settings=SETTINGS)
    failures = []

    def change(number):
        try:
            file.set_file_metadata({f"n{number}": "v" * number})
        except HttpResponseError as error:
            failures.append(error)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = file.get_file_properties()
    expect(not failures and len(seen.metadata) == 1 and seen.content_settings.content_type == "text/plain", (failures, vars(seen)))


if __name__ == "__main__":
    main()
