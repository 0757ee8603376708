"""The checks made with smbprotocol. Runs inside the environment that has it; the server is in SMB_* variables."""

import contextlib
import os
import random
import sys
import time
import uuid

import smbclient
from smbclient import shutil as smb_shutil
from smbprotocol import Dialects
from smbprotocol.change_notify import CompletionFilter, FileAction, FileSystemWatcher
from smbprotocol.connection import Ciphers, Connection, SigningAlgorithms
from smbprotocol.exceptions import (
    AccessDenied, BadNetworkName, Cancelled, DeletePending, EndOfFile, FileClosed, LogonFailure, NoSuchFile,
    ObjectNameCollision, ObjectNameNotFound, ObjectPathNotFound, SharingViolation, SMBException,
    SMBResponseException,
)
from smbprotocol.file_info import (
    FileAllInformation, FileAttributes, FileBasicInformation, FileDispositionInformation, FileEndOfFileInformation,
    FileInformationClass, FileRenameInformation, FileStandardInformation, FileStreamInformation, InfoType,
)
from smbprotocol.header import NtStatus
from smbprotocol.open import (
    CreateDisposition, CreateOptions, FilePipePrinterAccessMask, ImpersonationLevel, LockFlags, Open,
    QueryDirectoryFlags, ShareAccess, SMB2LockElement, SMB2QueryInfoRequest, SMB2QueryInfoResponse,
    SMB2SetInfoRequest,
)
from smbprotocol.session import Session
from smbprotocol.tree import SMB2TreeDisconnect, TreeConnect

from conformance.report import Lines

HOST, PORT, SHARE = os.environ["SMB_HOST"], int(os.environ["SMB_PORT"]), os.environ["SMB_SHARE"]
USER, PASSWORD = os.environ["SMB_USER"], os.environ["SMB_PASSWORD"]
MIB = 1 << 20
LARGE_BYTES = 8 * MIB
READ = FilePipePrinterAccessMask.GENERIC_READ
WRITE = FilePipePrinterAccessMask.GENERIC_WRITE
DELETE = FilePipePrinterAccessMask.DELETE
SHARE_ALL = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE
LOCK_CONFLICT = 0xC0000054
LOCK_NOT_GRANTED = 0xC0000055
NETWORK_NAME_DELETED = 0xC00000C9
DIRECTORY_INFORMATION = {
    "FileDirectoryInformation": FileInformationClass.FILE_DIRECTORY_INFORMATION,
    "FileFullDirectoryInformation": FileInformationClass.FILE_FULL_DIRECTORY_INFORMATION,
    "FileBothDirectoryInformation": FileInformationClass.FILE_BOTH_DIRECTORY_INFORMATION,
    "FileNamesInformation": FileInformationClass.FILE_NAMES_INFORMATION,
    "FileIdBothDirectoryInformation": FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION,
    "FileIdFullDirectoryInformation": FileInformationClass.FILE_ID_FULL_DIRECTORY_INFORMATION,
}
lines = Lines()


def main():
    protections()
    with connected() as tree:
        for checks in (opening, reading_and_writing, large, information, folders, renaming, deleting, streams,
                       compounds, locks, sharing, notifications):
            checks(tree)
    sessions()
    high_level()


# Connections.

@contextlib.contextmanager
def connected(dialect=None, signing=None, cipher=None, protect="sign", password=PASSWORD, share=SHARE):
    """A tree connect over a connection of its own; protect is sign, seal or plain."""
    connection = Connection(uuid.uuid4(), HOST, PORT, require_signing=protect == "sign")
    connection.connect(dialect,
                       preferred_signing_algos=None if signing is None else [signing],
                       preferred_encryption_algos=None if cipher is None else [cipher])
    try:
        session = Session(connection, USER, password, require_encryption=protect == "seal", auth_protocol="ntlm")
        session.connect()
        tree = TreeConnect(session, rf"\\{HOST}\{share}")
        tree.connect()
        yield tree
    finally:
        with contextlib.suppress(SMBException):
            connection.disconnect(True)


def protections():
    """Each signing algorithm and each cipher carries data both ways."""
    cases = [(f"signed with {name}", dict(signing=getattr(SigningAlgorithms, name)))
             for name in ("HMAC_SHA256", "AES_CMAC", "AES_GMAC")]
    cases += [(f"sealed with {name}", dict(cipher=getattr(Ciphers, name), protect="seal"))
              for name in ("AES_128_CCM", "AES_128_GCM", "AES_256_CCM", "AES_256_GCM")]
    # On 3.1.1 a TREE_CONNECT must be signed (MS-SMB2 3.3.5.7), and this client signs all or nothing.
    cases += [("unsigned", dict(dialect=Dialects.SMB_3_0_2, protect="plain"))]
    for name, options in cases:
        with lines.check(f"1 MiB both ways, {name}"), connected(**options) as tree:
            data = random.Random(name).randbytes(MIB)
            with opened(tree, "protected", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
                write_all(file, data)
                same(data, read_all(file, MIB))
            if "cipher" in options:
                expect(tree.session.connection.cipher_id == options["cipher"], "another cipher was negotiated")
            if "signing" in options:
                expect(tree.session.connection.signing_algorithm_id == options["signing"], "another algorithm")


def sessions():
    """Sessions come, coexist and go; what is gone is told apart from what is refused."""
    with lines.check("a wrong password is LOGON_FAILURE"), raises(LogonFailure, SMBException):
        with connected(password="wrong"):
            pass
    with lines.check("an absent share is BAD_NETWORK_NAME"), raises(BadNetworkName):
        with connected(share="absent"):
            pass
    with lines.check("two sessions on one connection do not see each other's handles"):
        with connected() as tree:
            second = Session(tree.session.connection, USER, PASSWORD, require_encryption=False, auth_protocol="ntlm")
            second.connect()
            other = TreeConnect(second, rf"\\{HOST}\{SHARE}")
            other.connect()
            expect(second.session_id != tree.session.session_id, "the same session id twice")
            with opened(tree, "mine", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
                file.write(b"mine")
                stolen = Open(other, "mine")
                stolen.file_id = file.file_id
                with raises(FileClosed):
                    stolen.read(0, 4)
            second.disconnect(True)
    with lines.check("after TREE_DISCONNECT the tree is NETWORK_NAME_DELETED"), connected() as tree:
        request = tree.session.connection.send(SMB2TreeDisconnect(), sid=tree.session.session_id,
                                               tid=tree.tree_connect_id)
        tree.session.connection.receive(request)
        with status(NETWORK_NAME_DELETED):
            create(tree, "late")
        tree.session.tree_connect_table.clear()
    with lines.check("50 connections at once each write and read"), contextlib.ExitStack() as stack:
        trees = [stack.enter_context(connected()) for _ in range(50)]
        for number, tree in enumerate(trees):
            with opened(tree, f"many-{number}", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
                file.write(str(number).encode())
        for number, tree in enumerate(reversed(trees)):
            with opened(tree, f"many-{number}", options=CreateOptions.FILE_DELETE_ON_CLOSE) as file:
                same(str(number).encode(), file.read(0, 100))


# Files.

def opening(tree):
    with lines.check("opening an absent file is OBJECT_NAME_NOT_FOUND"), raises(ObjectNameNotFound):
        create(tree, "absent", disposition=CreateDisposition.FILE_OPEN)
    with lines.check("opening below an absent folder is OBJECT_PATH_NOT_FOUND"), raises(ObjectPathNotFound):
        create(tree, r"absent\file", disposition=CreateDisposition.FILE_OPEN)
    with lines.check("FILE_CREATE of an existing name collides"):
        create(tree, "taken").close()
        with raises(ObjectNameCollision):
            create(tree, "taken", disposition=CreateDisposition.FILE_CREATE)
    with lines.check("dispositions report what they did"):
        for disposition, action in ((CreateDisposition.FILE_OPEN_IF, 2), (CreateDisposition.FILE_OPEN_IF, 1),
                                    (CreateDisposition.FILE_OVERWRITE_IF, 3), (CreateDisposition.FILE_SUPERSEDE, 0),
                                    (CreateDisposition.FILE_OVERWRITE, 3), (CreateDisposition.FILE_OPEN, 1)):
            file = create(tree, "actions", disposition=disposition)
            expect(file.create_action == action, f"{disposition}: {file.create_action} for {action}")
            file.close()
    with lines.check("overwriting empties the file"):
        with opened(tree, "emptied", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
            file.write(b"content")
        with opened(tree, "emptied", disposition=CreateDisposition.FILE_OVERWRITE) as file:
            expect(file.end_of_file == 0, f"{file.end_of_file} bytes")
    with lines.check("a folder is not opened as a file, nor a file as a folder"):
        folder(tree, "a folder").close()
        with status(0xC00000BA):  # FILE_IS_A_DIRECTORY
            create(tree, "a folder", options=CreateOptions.FILE_NON_DIRECTORY_FILE)
        with status(0xC0000103):  # NOT_A_DIRECTORY
            create(tree, "taken", options=CreateOptions.FILE_DIRECTORY_FILE)
    with lines.check("an illegal name is OBJECT_NAME_INVALID"), status(0xC0000033):
        create(tree, "what?")
    with lines.check("a name of 255 characters works, one more is OBJECT_NAME_INVALID"):
        create(tree, "n" * 255, options=CreateOptions.FILE_DELETE_ON_CLOSE).close()
        with status(0xC0000033):
            create(tree, "n" * 256)
    with lines.check("a handle without write access does not write"):
        file = create(tree, "taken", access=READ)
        with raises(AccessDenied):
            file.write(b"no")
        file.close()
    with lines.check("a closed handle is FILE_CLOSED"):
        file = create(tree, "taken")
        kept = file.file_id
        file.close()
        file.file_id = kept
        with raises(FileClosed):
            file.read(0, 1)


def reading_and_writing(tree):
    with opened(tree, "data", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
        with lines.check("reading an empty file is END_OF_FILE"), raises(EndOfFile):
            file.read(0, 1)
        with lines.check("what is written is read at every offset"):
            data = random.Random(1).randbytes(100_000)
            write_all(file, data)
            for offset, length in ((0, 1), (1, 4095), (4095, 4097), (65_535, 2), (99_999, 1)):
                same(data[offset:offset + length], file.read(offset, length))
        with lines.check("a read across the end is short"):
            same(data[-10:], file.read(len(data) - 10, 1000))
        with lines.check("a read at the end is END_OF_FILE"), raises(EndOfFile):
            file.read(len(data), 1)
        with lines.check("a read below its minimum is END_OF_FILE"), raises(EndOfFile):
            file.read(len(data) - 10, 1000, min_length=11)
        with lines.check("a gap reads as zeros"):
            file.write(b"after the gap", 300_000)
            same(bytes(1000), file.read(200_000, 1000))
            same(b"after the gap", file.read(300_000, 100))
        with lines.check("shortening and lengthening cut and fill with zeros"):
            set_information(file, end_of_file(10))
            set_information(file, end_of_file(20))
            same(data[:10] + bytes(10), file.read(0, 100))
        with lines.check("flush is answered"):
            file.flush()
        with lines.check("a write of nothing changes nothing"):
            expect(file.write(b"", 5000) == 0, "bytes were counted")
            expect(query(file, FileStandardInformation)["end_of_file"].get_value() == 20, "the file grew")


def large(tree):
    """One request that carries 8 MiB, where the server takes as much."""
    connection = tree.session.connection
    gather_credits(connection, LARGE_BYTES // 65536 * 2)
    with lines.check("one write of 8 MiB and one read of 8 MiB"):
        expect(connection.max_read_size >= LARGE_BYTES, f"MaxReadSize is {connection.max_read_size}")
        expect(connection.max_write_size >= LARGE_BYTES, f"MaxWriteSize is {connection.max_write_size}")
        data = random.Random(8).randbytes(LARGE_BYTES)
        with opened(tree, "large", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
            expect(file.write(data) == LARGE_BYTES, "not all was written")
            gather_credits(connection, LARGE_BYTES // 65536)
            same(data, file.read(0, LARGE_BYTES))
    with lines.check("64 reads in flight return in any order with their own data"):
        gather_credits(connection, 80)
        data = random.Random(64).randbytes(64 * 4096)
        with opened(tree, "flight", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
            write_all(file, data)
            messages = [file.read(4096 * number, 4096, send=False) for number in range(64)]
            requests = [connection.send(message, tree.session.session_id, tree.tree_connect_id)
                        for message, _ in messages]
            for number, ((_, receive), request) in reversed(list(enumerate(zip(messages, requests)))):
                same(data[4096 * number:4096 * (number + 1)], receive(request))


def information(tree):
    with opened(tree, "facts", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
        file.write(b"x" * 5000)
        with lines.check("FileStandardInformation tells size, links and kind"):
            facts = query(file, FileStandardInformation)
            expect(facts["end_of_file"].get_value() == 5000, str(facts))
            expect(facts["number_of_links"].get_value() == 1, str(facts))
            expect(facts["directory"].get_value() is False, str(facts))
        with lines.check("FileAllInformation ends with the name from the share's root"):
            name = query(file, FileAllInformation)["name_information"]["file_name"].get_value()
            expect(name.lstrip("\\") == "facts", name)
        with lines.check("times and attributes that are set are read back, in 100 ns"):
            wanted = FileBasicInformation()
            ticks = 133_000_000_123_456_700
            for field in ("creation_time", "last_access_time", "last_write_time", "change_time"):
                wanted[field].set_value(ticks.to_bytes(8, "little"))
            wanted["file_attributes"] = FileAttributes.FILE_ATTRIBUTE_HIDDEN | FileAttributes.FILE_ATTRIBUTE_ARCHIVE
            set_information(file, wanted)
            seen = query(file, FileBasicInformation)
            for field in ("creation_time", "last_write_time"):
                expect(seen[field].pack() == wanted[field].pack(), f"{field}: {seen[field]}")
            expect(seen["file_attributes"].get_value() == wanted["file_attributes"].get_value(), str(seen))
        with lines.check("a buffer that is too small for the class is INFO_LENGTH_MISMATCH"):
            with status(0xC0000004):
                query(file, FileStandardInformation, output_bytes=4)


def folders(tree):
    names = sorted(f"entry {number:04d} ä" for number in range(1000))
    with folder(tree, "listed") as directory:
        with lines.check("a folder of 1,000 files lists each once"):
            for name in names:
                create(tree, rf"listed\{name}").close()
            same(names, listing(directory))
        for title, information_class in DIRECTORY_INFORMATION.items():
            with lines.check(f"{title} lists all entries"):
                same(names, listing(directory, information_class=information_class))
        with lines.check("a pattern with * and ? selects"):
            same([name for name in names if name[6:9] == "001"], listing(directory, "entry 001? *"))
        with lines.check("a pattern that matches nothing is NO_SUCH_FILE"), raises(NoSuchFile):
            with folder(tree, "listed") as fresh:
                fresh.query_directory("nothing*", FileInformationClass.FILE_NAMES_INFORMATION)
        with lines.check("RETURN_SINGLE_ENTRY returns one, and the scan goes on after it"):
            one = QueryDirectoryFlags.SMB2_RETURN_SINGLE_ENTRY
            first = directory.query_directory("*", FileInformationClass.FILE_NAMES_INFORMATION,
                                              one | QueryDirectoryFlags.SMB2_RESTART_SCANS)
            second = directory.query_directory("*", FileInformationClass.FILE_NAMES_INFORMATION, one)
            seen = [entry["file_name"].get_value().decode("utf-16-le") for entry in first + second]
            same([".", ".."], seen)


def renaming(tree):
    with lines.check("rename gives the open file its new name"):
        with opened(tree, "old", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
            file.write(b"moving")
            set_information(file, rename("new"))
            same(b"moving", file.read(0, 100))
        with raises(ObjectNameNotFound):
            create(tree, "old", disposition=CreateDisposition.FILE_OPEN)
        with opened(tree, "new") as file:
            same(b"moving", file.read(0, 100))
    with lines.check("rename onto an existing name collides unless it may replace"):
        create(tree, "target").close()
        with opened(tree, "new") as file:
            with raises(ObjectNameCollision):
                set_information(file, rename("target"))
            set_information(file, rename("target", replace=True))
        with opened(tree, "target", options=CreateOptions.FILE_DELETE_ON_CLOSE) as file:
            same(b"moving", file.read(0, 100))
    with lines.check("rename changes only the case when asked to"):
        with opened(tree, "case", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
            set_information(file, rename("CASE"))
        with opened(tree, "") as root:
            expect("CASE" in listing(root, "case"), str(listing(root, "case")))


def deleting(tree):
    with lines.check("delete-on-close removes the file with its last handle"):
        file = create(tree, "doomed", options=CreateOptions.FILE_DELETE_ON_CLOSE)
        second = create(tree, "doomed", access=READ)
        file.close()
        with raises(DeletePending):
            create(tree, "doomed")
        second.close()
        with raises(ObjectNameNotFound):
            create(tree, "doomed", disposition=CreateDisposition.FILE_OPEN)
    with lines.check("a delete disposition can be taken back"):
        file = create(tree, "spared")
        set_information(file, disposition(True))
        set_information(file, disposition(False))
        file.close()
        create(tree, "spared", disposition=CreateDisposition.FILE_OPEN).close()
    with lines.check("a read-only file is not deleted"):
        file = create(tree, "kept", attributes=FileAttributes.FILE_ATTRIBUTE_READONLY)
        with status(0xC0000121):  # CANNOT_DELETE
            set_information(file, disposition(True))
        file.close()
    with lines.check("a folder with files in it is not deleted"):
        with folder(tree, "listed", access=READ | WRITE | DELETE) as directory, status(0xC0000101):  # DIRECTORY_NOT_EMPTY
            set_information(directory, disposition(True))


def streams(tree):
    with lines.check("a named stream has content of its own"):
        with opened(tree, "base", disposition=CreateDisposition.FILE_OVERWRITE_IF) as file:
            file.write(b"base content")
        with opened(tree, "base:notes", disposition=CreateDisposition.FILE_OPEN_IF) as stream:
            stream.write(b"stream content")
            same(b"stream content", stream.read(0, 100))
        with opened(tree, "base:NOTES:$DATA", disposition=CreateDisposition.FILE_OPEN) as stream:
            same(b"stream content", stream.read(0, 100))
        with opened(tree, "base") as file:
            same(b"base content", file.read(0, 100))
            expect(file.end_of_file == 12, f"{file.end_of_file} bytes")
    with lines.check("FileStreamInformation lists the streams with their sizes"), opened(tree, "base") as file:
        same({"::$DATA": 12, ":notes:$DATA": 14}, stream_sizes(file))
    with lines.check("a stream is deleted without its file"):
        create(tree, "base:notes", options=CreateOptions.FILE_DELETE_ON_CLOSE).close()
        with raises(ObjectNameNotFound):
            create(tree, "base:notes", disposition=CreateDisposition.FILE_OPEN)
        with opened(tree, "base") as file:
            same(b"base content", file.read(0, 100))


def compounds(tree):
    """Requests chained in one frame, where each works on the file that the first one opened."""
    with lines.check("create, write, read and close in one related compound"):
        file = Open(tree, "chained")
        parts = [create_message(file, CreateDisposition.FILE_OVERWRITE_IF), file.write(b"in one go", send=False),
                 file.read(0, 9, send=False), file.close(send=False)]
        answers = compound(tree, parts)
        expect(answers[1] == 9, f"{answers[1]} bytes written")
        same(b"in one go", answers[2])
    with lines.check("a failed create fails everything related to it"):
        file = Open(tree, "absent")
        parts = [create_message(file, CreateDisposition.FILE_OPEN), file.read(0, 9, send=False),
                 file.close(send=False)]
        for (_, receive), request in zip(parts, send_compound(tree, parts)):
            with raises(ObjectNameNotFound):
                receive(request)
    with lines.check("unrelated requests in one frame each get their own answer"):
        one, two = Open(tree, "chained"), Open(tree, "absent")
        parts = [create_message(one, CreateDisposition.FILE_OPEN), create_message(two, CreateDisposition.FILE_OPEN)]
        requests = send_compound(tree, parts, related=False)
        parts[0][1](requests[0])
        with raises(ObjectNameNotFound):
            parts[1][1](requests[1])
        one.close()
    with lines.check("open, list and close a folder in one compound"):
        directory = Open(tree, "listed")
        parts = [create_message(directory, CreateDisposition.FILE_OPEN),
                 directory.query_directory("entry 00*", FileInformationClass.FILE_NAMES_INFORMATION, send=False),
                 directory.close(send=False)]
        expect(len(compound(tree, parts)[1]) == 100, "not the 100 names that match")


def locks(tree):
    first = create(tree, "locked", disposition=CreateDisposition.FILE_OVERWRITE_IF)
    first.write(bytes(100))
    with connected() as other_tree, opened(other_tree, "locked") as second:
        with lines.check("an exclusive lock keeps others from reading and writing"):
            first.lock([element(10, 20, LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK)])
            with status(LOCK_CONFLICT):
                second.read(15, 1)
            with status(LOCK_CONFLICT):
                second.write(b"x", 15)
            second.read(30, 1)
        with lines.check("a second lock on the range is LOCK_NOT_GRANTED"), status(LOCK_NOT_GRANTED):
            second.lock([element(15, 1, now=True)])
        with lines.check("a waiting lock is granted when the first is released"):
            message, receive = second.lock([element(15, 1)], send=False)
            request = other_tree.session.connection.send(message, other_tree.session.session_id,
                                                         other_tree.tree_connect_id)
            first.lock([element(10, 20, LockFlags.SMB2_LOCKFLAG_UNLOCK)])
            receive(request)
        with lines.check("closing a handle releases its locks"):
            first.lock([element(50, 10, LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK)])
            first.close()
            second.read(55, 1)


def sharing(tree):
    with lines.check("a share mode that excludes an access makes it a SHARING_VIOLATION"):
        with opened(tree, "shared", disposition=CreateDisposition.FILE_OVERWRITE_IF,
                    share=ShareAccess.FILE_SHARE_READ):
            create(tree, "shared", access=READ).close()
            with raises(SharingViolation):
                create(tree, "shared", access=WRITE)
            with raises(SharingViolation):
                create(tree, "shared", access=READ, share=ShareAccess.FILE_SHARE_WRITE)
        create(tree, "shared", access=WRITE).close()


def notifications(tree):
    with folder(tree, "watched") as directory:
        with lines.check("a watched folder tells of a new file"):
            watcher = FileSystemWatcher(directory)
            watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME)
            create(tree, r"watched\new").close()
            action = watcher.wait()[0]
            expect(action["file_name"].get_value() == "new", str(action))
            expect(action["action"].get_value() == FileAction.FILE_ACTION_ADDED, str(action))
        with lines.check("a cancelled watch is answered with CANCELLED"):
            watcher = FileSystemWatcher(directory)
            watcher.start(CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME)
            deadline = time.monotonic() + 10
            while watcher._request.async_id is None and time.monotonic() < deadline:
                time.sleep(0.01)
            watcher.cancel()
            with raises(Cancelled):
                watcher.wait()
                raise Cancelled(None) if watcher.cancelled else AssertionError("no answer")


def high_level():
    """The package's file-like interface, as a Python program would use it."""
    options = dict(username=USER, password=PASSWORD, port=PORT, auth_protocol="ntlm")
    root = rf"\\{HOST}\{SHARE}\high"
    with lines.check("makedirs, open, walk, rename and rmtree"):
        smbclient.makedirs(root + r"\one\two", **options)
        with smbclient.open_file(root + r"\one\two\file.txt", "w", encoding="utf-8", **options) as file:
            file.write("first line\nsecond – line\n")
        with smbclient.open_file(root + r"\one\two\file.txt", "a", encoding="utf-8", **options) as file:
            file.write("third line\n")
        smbclient.rename(root + r"\one\two\file.txt", root + r"\one\moved.txt", **options)
        with smbclient.open_file(root + r"\one\moved.txt", encoding="utf-8", **options) as file:
            same("first line\nsecond – line\nthird line\n", file.read())
        seen = sorted(name for _, folder_names, file_names in smbclient.walk(root, **options)
                      for name in folder_names + file_names)
        same(["moved.txt", "one", "two"], seen)
        smb_shutil.rmtree(root, **options)
        expect(not smbclient.path.exists(root, **options), "the folder is still there")
    with lines.check("the server copies a file by itself"):
        data = random.Random(2).randbytes(3 * MIB)
        source, target = (rf"\\{HOST}\{SHARE}\{name}" for name in ("copied-from", "copied-to"))
        with smbclient.open_file(source, "wb", **options) as file:
            file.write(data)
        smbclient.copyfile(source, target, **options)
        with smbclient.open_file(target, "rb", **options) as file:
            same(data, file.read())
    with lines.check("symbolic links are made, followed by the client and removed as themselves"):
        root = rf"\\{HOST}\{SHARE}\links"
        smbclient.makedirs(root + r"\target", **options)
        with smbclient.open_file(root + r"\target\file", "wb", **options) as file:
            file.write(b"data")
        for name, target in ((r"\way", "target"), (r"\file", r"target\file"), (r"\nowhere", "none"), (r"\circle", "circle")):
            smbclient.symlink(target, root + name, **options)
            same(rf"{root}\{target}", smbclient.readlink(root + name, **options))
        expect(smbclient.path.islink(root + r"\way", **options), "a link is no link")
        for path in (r"\way\file", r"\file"):
            with smbclient.open_file(root + path, "rb", **options) as file:
                same(b"data", file.read())
        with smbclient.open_file(root + r"\way\new", "wb", **options) as file:
            file.write(b"new")
        same(["file", "new"], sorted(smbclient.listdir(root + r"\target", **options)))
        found = {entry.name: entry.is_symlink() for entry in smbclient.scandir(root, **options)}
        same({"target": False, "way": True, "file": True, "nowhere": True, "circle": True}, found)
        smbclient.rename(root + r"\way", root + r"\moved", **options)
        same(root + r"\target", smbclient.readlink(root + r"\moved", **options))
        for name in (r"\moved", r"\file", r"\nowhere", r"\circle"):
            smbclient.unlink(root + name, **options)
        same(["target"], smbclient.listdir(root, **options))
        smb_shutil.rmtree(root, **options)
    with lines.check("the volume tells its size"):
        volume = smbclient.stat_volume(rf"\\{HOST}\{SHARE}", **options)
        expect(volume.total_size >= volume.caller_available_size > 0, str(volume))
    smbclient.reset_connection_cache()


# How requests are made.

def create(tree, name, access=READ | WRITE | DELETE, disposition=CreateDisposition.FILE_OPEN_IF, options=0,
           share=SHARE_ALL, attributes=0):
    file = Open(tree, name)
    file.create(ImpersonationLevel.Impersonation, access, attributes, share, disposition, options)
    return file


@contextlib.contextmanager
def opened(tree, name, **how):
    file = create(tree, name, **how)
    try:
        yield file
    finally:
        file.close()


def folder(tree, name, access=READ):
    """An opened folder, made when absent; works as a context too."""
    file = create(tree, name, access=access, options=CreateOptions.FILE_DIRECTORY_FILE)
    return file


Open.__enter__ = lambda file: file
Open.__exit__ = lambda file, *_: file.close() and None


def create_message(file, disposition):
    return file.create(ImpersonationLevel.Impersonation, READ | WRITE, 0, SHARE_ALL, disposition, 0, send=False)


def send_compound(tree, parts, related=True):
    if related:
        for message, _ in parts[1:]:
            message["file_id"] = b"\xff" * 16
    return tree.session.connection.send_compound([message for message, _ in parts], tree.session.session_id,
                                                 tree.tree_connect_id, related=related)


def compound(tree, parts):
    """Every part's answer."""
    return [receive(request) for (_, receive), request in zip(parts, send_compound(tree, parts))]


def gather_credits(connection, wanted):
    """Asks for credits with ECHO until this many are there."""
    session_id = next(iter(connection.session_table))
    for _ in range(64):
        window = connection.sequence_window
        if window["high"] - window["low"] >= wanted:
            return
        connection.echo(sid=session_id, credit_request=wanted)
    raise AssertionError(f"the server grants no {wanted} credits")


def write_all(file, data, chunk=65536):
    for offset in range(0, len(data), chunk):
        file.write(data[offset:offset + chunk], offset)


def read_all(file, length, chunk=65536):
    return b"".join(file.read(offset, min(chunk, length - offset)) for offset in range(0, length, chunk))


def stream_sizes(file):
    """The sizes of a file's streams, by their names."""
    raw, seen = query_bytes(file, FileInformationClass.FILE_STREAM_INFORMATION), {}
    while raw:
        entry = FileStreamInformation()
        entry.unpack(raw)
        seen[entry["stream_name"].get_value()] = entry["stream_size"].get_value()
        step = entry["next_entry_offset"].get_value()
        raw = raw[step:] if step else b""
    return seen


def query_bytes(file, information_class, output_bytes=65536):
    request = SMB2QueryInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILE
    request["file_info_class"] = information_class
    request["output_buffer_length"] = output_bytes
    request["file_id"] = file.file_id
    response = SMB2QueryInfoResponse()
    response.unpack(exchange(file, request)["data"].get_value())
    return response["buffer"].get_value()


def query(file, structure, output_bytes=65536):
    answer = structure()
    answer.unpack(query_bytes(file, structure.INFO_CLASS, output_bytes))
    return answer


def set_information(file, structure):
    request = SMB2SetInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILE
    request["file_info_class"] = structure.INFO_CLASS
    request["file_id"] = file.file_id
    request["buffer"] = structure
    exchange(file, request)


def exchange(file, message):
    tree = file.tree_connect
    request = file.connection.send(message, tree.session.session_id, tree.tree_connect_id)
    return file.connection.receive(request)


def end_of_file(length):
    structure = FileEndOfFileInformation()
    structure["end_of_file"] = length
    return structure


def rename(name, replace=False):
    structure = FileRenameInformation()
    structure["replace_if_exists"] = replace
    structure["file_name"] = name
    return structure


def disposition(doomed):
    structure = FileDispositionInformation()
    structure["delete_pending"] = doomed
    return structure


def element(offset, length, flags=LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK, now=False):
    lock = SMB2LockElement()
    lock["offset"] = offset
    lock["length"] = length
    lock["flags"] = flags | (LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY if now else 0)
    return lock


def listing(directory, pattern="*", information_class=FileInformationClass.FILE_NAMES_INFORMATION):
    """All names the server lists, without the two dots, sorted."""
    names, flags = [], QueryDirectoryFlags.SMB2_RESTART_SCANS
    while True:
        try:
            entries = directory.query_directory(pattern, information_class, flags)
        except SMBResponseException as error:
            expect(error.status == NtStatus.STATUS_NO_MORE_FILES, str(error))
            return sorted(name for name in names if name not in (".", ".."))
        names += [entry["file_name"].get_value().decode("utf-16-le") for entry in entries]
        flags = 0


@contextlib.contextmanager
def raises(*expected):
    try:
        yield
    except expected:
        return
    raise AssertionError(f"no {expected[0].__name__}")


@contextlib.contextmanager
def status(expected):
    try:
        yield
    except SMBResponseException as error:
        expect(error.status == expected, f"status {error.status:#010x} for {expected:#010x}")
        return
    raise AssertionError(f"succeeded, expected {expected:#010x}")


def expect(condition, seen):
    if not condition:
        raise AssertionError(seen)


def same(expected, seen):
    expect(expected == seen, f"expected {str(expected)[:200]}, seen {str(seen)[:200]}")


if __name__ == "__main__":
    sys.exit(main())
