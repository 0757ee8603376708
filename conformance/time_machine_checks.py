"""The checks of the suite time_machine. Runs inside the environment that has smbprotocol; the server is in SMB_* variables."""

import contextlib
import os
import struct
import sys
import time
import uuid

from smbprotocol.connection import Connection
from smbprotocol.create_contexts import SMB2CreateContextRequest
from smbprotocol.exceptions import ObjectNameNotFound
from smbprotocol.file_info import FileInformationClass
from smbprotocol.open import (
    CreateDisposition, CreateOptions, ImpersonationLevel, Open, RequestedOplockLevel, SMB2FlushRequest, SMB2QueryInfoRequest,
    SMB2QueryInfoResponse,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from conformance.report import Lines
from conformance.smbprotocol_checks import (
    DELETE, HOST, MIB, PASSWORD, PORT, READ, SHARE, SHARE_ALL, USER, WRITE, end_of_file, exchange, expect, folder, gather_credits, listing,
    opened, raises, rename, same, set_information, status, stream_sizes,
)

GIB = 1 << 30
SIZE_BYTES = int(os.environ["SMB_SIZE_GIB"]) * GIB
BUNDLE = "Mac.sparsebundle"
BAND_BYTES = 8 * MIB
CHUNK_BYTES = MIB
RECONNECT_SECONDS = 30  # for as long a Mac tries before it gives a backup up
SERVER_QUERY, FULL_SYNC, READ_DIR_ATTR = 1, 0x04, 0x01
EVERY_CAPABILITY = 0x3F
READ_HANDLE_WRITE = 0x07  # of a lease
ALLOTTED_SPACE_EXCEEDED = 0xC0000099
FILE_SYSTEM, FULL_SIZE = 2, 7
PLIST = b'<?xml version="1.0"?><plist version="1.0"><dict><key>band-size</key><integer>%d</integer></dict></plist>'
lines = Lines()


def main():
    client = uuid.uuid4()
    with lines.check("the root tells what the server and the share can do"), mac(client) as tree:
        server, volume, model = asked(tree)
        expect(server & READ_DIR_ATTR and volume & FULL_SYNC, f"server {server:#x}, volume {volume:#x}")
        expect(model, "no model")
    with lines.check("durable opens are kept for as long as the probes ask"), mac(client) as tree:
        probes(tree)
    bundle(client)
    finder_information()
    with lines.check("names with what Windows forbids stay as the Mac says them"), mac(client) as tree:
        name = "why\uf025 a\uf022b"
        with opened(tree, name), folder(tree, "") as root:
            expect(name in listing(root), "another name is listed")


# What a Mac says.

@contextlib.contextmanager
def mac(client):
    """A tree connect of the Mac whose ClientGuid this is."""
    connection = Connection(client, HOST, PORT, require_signing=True)
    connection.connect()
    try:
        session = Session(connection, USER, PASSWORD, require_encryption=False, auth_protocol="ntlm")
        session.connect()
        tree = TreeConnect(session, rf"\\{HOST}\{SHARE}")
        tree.connect()
        gather_credits(connection, 64)
        yield tree
    finally:
        # Where its link was cut, it cannot sign off.
        with contextlib.suppress(Exception):
            connection.disconnect(True)


def context(name, data):
    request = SMB2CreateContextRequest()
    request["buffer_name"] = name
    request["buffer_data"] = data
    return request


def create_with(tree, name, contexts, disposition=CreateDisposition.FILE_OPEN_IF, options=0, leased=False):
    """An open and the contexts of its answer."""
    file = Open(tree, name)
    level = RequestedOplockLevel.SMB2_OPLOCK_LEVEL_LEASE if leased else RequestedOplockLevel.SMB2_OPLOCK_LEVEL_NONE
    answered = file.create(ImpersonationLevel.Impersonation, READ | WRITE | DELETE, 0, SHARE_ALL, disposition, options, contexts, level)
    return file, answered or []


def asked(tree):
    """The capabilities of the server and of the volume, and the model, as the AAPL context of the root's CREATE tells them."""
    query = struct.pack("<IIQQ", SERVER_QUERY, 0, 7, EVERY_CAPABILITY)
    root, answered = create_with(tree, "", [context(b"AAPL", query)], options=CreateOptions.FILE_DIRECTORY_FILE)
    root.close()
    told = next((data for data in answered if isinstance(data, bytes)), None)
    expect(told, "no AAPL context")
    command, _, parts, server, volume, _, length = struct.unpack_from("<IIQQQII", told)
    same((SERVER_QUERY, 7), (command, parts))
    return server, volume, told[40:40 + length].decode("utf-16-le")


def lease(key):
    return context(b"RqLs", struct.pack("<16sIIQ16sHH", key, READ_HANDLE_WRITE, 0, 0, bytes(16), 1, 0))


def durable(create_guid, milliseconds=0):
    return context(b"DH2Q", struct.pack("<IIQ16s", milliseconds, 0, 0, create_guid))


def timeout_of(answered):
    """The milliseconds for which the server keeps a durable open."""
    for told in answered:
        if hasattr(told, "fields") and "timeout" in told.fields:
            return told["timeout"].get_value()
    raise AssertionError("the open is not durable")


def lease_of(answered):
    for told in answered:
        if hasattr(told, "fields") and "lease_state" in told.fields:
            return told["lease_state"].get_value()
    raise AssertionError("no lease")


def full_sync(file):
    """F_FULLFSYNC: a FLUSH whose first reserved field is all ones."""
    request = SMB2FlushRequest()
    request["reserved1"] = 0xFFFF
    request["file_id"] = file.file_id
    exchange(file, request)


def full_size(file):
    """The bytes of the volume, and those that are free (FileFsFullSizeInformation)."""
    request = SMB2QueryInfoRequest()
    request["info_type"] = FILE_SYSTEM
    request["file_info_class"] = FULL_SIZE
    request["output_buffer_length"] = 64
    request["file_id"] = file.file_id
    response = SMB2QueryInfoResponse()
    response.unpack(exchange(file, request)["data"].get_value())
    total, free, _, sectors, sector = struct.unpack_from("<QQQII", response["buffer"].get_value())
    return total * sectors * sector, free * sectors * sector


# What it does.

def probes(tree):
    """Before a first backup a file is opened with several timeouts, each of which has to be the one that is granted."""
    for seconds in (30, 60, 180):
        name, guid = f".com.apple.timemachine.supported-{uuid.uuid4()}", os.urandom(16)
        file, answered = create_with(tree, name, [lease(os.urandom(16)), durable(guid, seconds * 1000)],
                                     options=CreateOptions.FILE_DELETE_ON_CLOSE, leased=True)
        same(seconds * 1000, timeout_of(answered))
        file.close()


def bundle(client):
    """A sparse bundle is made, its bands are written and flushed, the connection is cut, and the backup goes on where it was."""
    key, guid, first = os.urandom(16), os.urandom(16), os.urandom(BAND_BYTES)
    with mac(client) as tree:
        asked(tree)
        with lines.check("the share is as large as the size it was given"), folder(tree, "") as root:
            total, free_before = full_size(root)
            same(SIZE_BYTES, total)
        with lines.check("a sparse bundle is made, and its list of properties replaced by renaming another over it"):
            for name in (BUNDLE, rf"{BUNDLE}\bands"):
                folder(tree, name).close()
            for name in ("Info.plist", "Info.bckup", "token"):
                with opened(tree, rf"{BUNDLE}\{name}") as file:
                    file.write(PLIST % BAND_BYTES)
                    full_sync(file)
            with opened(tree, rf"{BUNDLE}\Info.plist.new") as file:
                file.write(PLIST % (8 * BAND_BYTES))
                full_sync(file)
                set_information(file, rename(rf"{BUNDLE}\Info.plist", replace=True))
            with opened(tree, rf"{BUNDLE}\Info.plist", access=READ) as file:
                same(PLIST % (8 * BAND_BYTES), file.read(0, 1000))
        with lines.check("a band is written under a lease by a durable open, and flushed down to the disk"):
            band, answered = create_with(tree, rf"{BUNDLE}\bands\0", [lease(key), durable(guid, 180_000)], leased=True)
            same(READ_HANDLE_WRITE, lease_of(answered))
            same(180_000, timeout_of(answered))
            for offset in range(0, BAND_BYTES, CHUNK_BYTES):
                band.write(first[offset:offset + CHUNK_BYTES], offset)
            full_sync(band)
        with lines.check("what is stored is free no longer"), folder(tree, "") as root:
            total, free = full_size(root)
            same(SIZE_BYTES, total)
            expect(BAND_BYTES <= free_before - free <= BAND_BYTES + MIB, f"{free_before - free} bytes less")
        # The link is gone, without a word to the server.
        tree.session.connection.transport.close()
    with lines.check("after a cut the band is open as it was, and the backup goes on"):
        taken_up(client, band.file_id, guid, key, first)


def taken_up(client, file_id, guid, key, first):
    deadline, second = time.monotonic() + RECONNECT_SECONDS, os.urandom(CHUNK_BYTES)
    with mac(client) as tree:
        # A Mac gives up where AAPL is not answered any more.
        asked(tree)
        again = context(b"DH2C", struct.pack("<16s16sI", file_id, guid, 0))
        while True:
            try:
                band, answered = create_with(tree, rf"{BUNDLE}\bands\0", [again, lease(key)], CreateDisposition.FILE_OPEN, leased=True)
                break
            except ObjectNameNotFound:
                expect(time.monotonic() < deadline, "the open was not kept")
                time.sleep(0.1)
        same(READ_HANDLE_WRITE, lease_of(answered))
        band.write(second, BAND_BYTES)
        full_sync(band)
        kept = b"".join(band.read(offset, CHUNK_BYTES) for offset in range(0, BAND_BYTES, CHUNK_BYTES))
        expect(kept == first, "the band holds something else")
        same(second, band.read(BAND_BYTES, CHUNK_BYTES))
        band.close()


def finder_information():
    info = b"AFP\0" + struct.pack(">IIi", 0x10000, 0, -2**31) + b"TEXTttxt" + b"\x40\0" + bytes(34)
    with mac(uuid.uuid4()) as tree:
        asked(tree)
        with lines.check("what the Finder knows of a file is 60 bytes in AFP_AfpInfo, and goes when nothing is set"):
            with opened(tree, "typed") as file:
                with opened(tree, "typed:AFP_AfpInfo") as stream:
                    stream.write(info)
                    same(info, stream.read(0, 100))
                    with status(ALLOTTED_SPACE_EXCEEDED):
                        set_information(stream, end_of_file(61))
                same({"::$DATA": 0, ":AFP_AfpInfo:$DATA": 60}, stream_sizes(file))
                with opened(tree, "typed:AFP_AfpInfo") as stream:
                    stream.write(info[:16] + bytes(44))
                same({"::$DATA": 0}, stream_sizes(file))
                with raises(ObjectNameNotFound), opened(tree, "typed:AFP_AfpInfo", disposition=CreateDisposition.FILE_OPEN):
                    pass
        with lines.check("a resource fork goes when it is cut to nothing"):
            with opened(tree, "typed") as file:
                with opened(tree, "typed:AFP_Resource") as fork:
                    fork.write(b"fork")
                    same({"::$DATA": 0, ":AFP_Resource:$DATA": 4}, stream_sizes(file))
                    set_information(fork, end_of_file(0))
                same({"::$DATA": 0}, stream_sizes(file))
        with lines.check("a listing tells of the Finder's information and of the fork"):
            with opened(tree, "typed:AFP_AfpInfo") as stream, opened(tree, "typed:AFP_Resource") as fork:
                stream.write(info)
                fork.write(b"12345")
            with folder(tree, "") as root:
                entry = next(iter(root.query_directory("typed", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION)))
                packed = entry.pack()
                (rights,), (fork_bytes,) = struct.unpack_from("<I", packed, 64), struct.unpack_from("<Q", packed, 70)
                same((5, b"TEXTttxt"), (fork_bytes, packed[78:86]))
                expect(rights & 0x3 == 0x3, f"rights {rights:#x}")


if __name__ == "__main__":
    sys.exit(main())
