"""Requests of a logged-in client whose offsets, lengths, counts and ids lie."""

import os
import struct

from conformance.hostile.case import (
    ANY_ERROR, BUFFER_OVERFLOW, BUFFER_TOO_SMALL, END_OF_FILE, FILE_CLOSED, ILLEGAL_CHARACTER, INFO_LENGTH_MISMATCH,
    INVALID_DEVICE_REQUEST, INVALID_INFO_CLASS, INVALID_LOCK_RANGE, INVALID_PARAMETER, NO_SUCH_FILE,
    NOT_SUPPORTED, OBJECT_NAME_INVALID, RANGE_NOT_LOCKED, USER_SESSION_DELETED,
    NETWORK_NAME_DELETED, alive, case,
)
from conformance.hostile.client import (
    CANCEL, CHANGE_NOTIFY, CLOSE, CLOSED, CREATE, ECHO, ECHO_BODY, FLUSH, IOCTL, LOCK, LOGOFF, OPLOCK_BREAK,
    QUERY_DIRECTORY, QUERY_INFO, READ, RELATED, SET_INFO, SUCCESS, TREE_DISCONNECT, WRITE, client, close_body,
    create_body, create_context, ioctl_body, lock_body, parsed, query_directory_body, query_info_body, read_body,
    set_info_body, write_body,
)

MAX = 0xFFFFFFFFFFFFFFFF
MIB = 1 << 20
FOLDER = 1  # FILE_DIRECTORY_FILE
EMPTY_BODY = struct.pack("<HH", 4, 0)


def samples(raw):
    """Right requests of every kind, for changing bytes in them; each time on files of its own."""
    name = f"sample-{os.urandom(6).hex()}"
    file = raw.open(name)
    folder = raw.open(f"{name}-folder", options=FOLDER)
    return [
        (CREATE, create_body(name, contexts=create_context(b"MxAc", b""))),
        (CREATE, create_body(name, contexts=create_context(b"RqLs", bytes(32)))),
        (CREATE, create_body(name, contexts=create_context(b"DH2Q", bytes(32)))),
        (READ, read_body(file, 4096)), (WRITE, write_body(file, b"content")), (FLUSH, struct.pack("<HHI", 24, 0, 0) + file),
        (LOCK, lock_body(file, [(0, 10, 0x12), (20, 10, 0x12)])),
        (QUERY_DIRECTORY, query_directory_body(folder)), (QUERY_INFO, query_info_body(file)),
        (QUERY_INFO, query_info_body(file, kind=3, information_class=0)),
        (SET_INFO, set_info_body(file, 4, bytes(40))), (SET_INFO, set_info_body(file, 20, bytes(8))),
        (SET_INFO, set_info_body(file, 10, bytes(16) + struct.pack("<I", 8) + "else".encode("utf-16-le"))),
        (IOCTL, ioctl_body(0x00140078, b"", file)), (IOCTL, ioctl_body(0x001401FC, b"")),
        (CHANGE_NOTIFY, notify_body(folder)), (ECHO, ECHO_BODY), (CLOSE, close_body(file)),
    ]


def notify_body(file_id, length=4096):
    """A CHANGE_NOTIFY request, MS-SMB2 2.2.35."""
    return struct.pack("<HHI", 32, 0, length) + file_id + struct.pack("<II", 0x17, 0)


def asked(command, body, **fields):
    """The status of one request of a new, logged-in client; body may be a function of it."""
    with client() as raw:
        return raw.call(command, body(raw) if callable(body) else body, **fields).status


def on_file(command, build, **fields):
    """As `asked`, for a request on an open file of 100 bytes."""
    def body(raw):
        file = raw.open("hundred")
        raw.call(WRITE, write_body(file, bytes(100)))
        return build(file)
    return asked(command, body, **fields)


def on_folder(command, build):
    return asked(command, lambda raw: build(raw.open("a-folder", options=FOLDER)))


# Compounds, MS-SMB2 3.3.5.2.7.

def chain(raw, *parts):
    """Signed requests, one after the other in one frame; a part is (command, body, header fields)."""
    frame = b""
    for number, (command, body, fields) in enumerate(parts):
        last = number == len(parts) - 1
        padded = body if last else body + bytes(-(64 + len(body)) % 8)
        fields = {"next_command": 0 if last else 64 + len(padded), **fields}
        frame += raw.message(command, padded, **fields)
    return frame


@case("a compound whose next command lies beyond the frame", INVALID_PARAMETER, CLOSED)
def _():
    return asked(ECHO, ECHO_BODY, next_command=0xFFFFFF8)


@case("a compound whose next command is not aligned", INVALID_PARAMETER, CLOSED)
def _():
    return asked(ECHO, ECHO_BODY + bytes(200), next_command=69)


@case("a compound whose next command lies in its own header", INVALID_PARAMETER, CLOSED)
def _():
    return asked(ECHO, ECHO_BODY + bytes(200), next_command=8)


@case("a compound whose next command wraps around", INVALID_PARAMETER, CLOSED)
def _():
    return asked(ECHO, ECHO_BODY + bytes(200), next_command=0xFFFFFFF8)


@case("a compound that begins with a related request", INVALID_PARAMETER)
def _():
    with client() as raw:
        raw.send_frame(chain(raw, (ECHO, ECHO_BODY, {"flags": RELATED}), (ECHO, ECHO_BODY, {"flags": RELATED})))
        return raw.receive().status


@case("a read in the same compound after TREE_DISCONNECT", NETWORK_NAME_DELETED, FILE_CLOSED, INVALID_PARAMETER)
def _():
    with client() as raw:
        file = raw.open("hundred")
        raw.send_frame(chain(raw, (TREE_DISCONNECT, EMPTY_BODY, {}), (READ, read_body(file, 1), {"flags": RELATED})))
        return last_of_compound(raw.receive_frame())


@case("a read in the same compound after LOGOFF", USER_SESSION_DELETED, FILE_CLOSED, INVALID_PARAMETER, CLOSED)
def _():
    with client() as raw:
        file = raw.open("hundred")
        raw.send_frame(chain(raw, (LOGOFF, EMPTY_BODY, {}), (READ, read_body(file, 1), {"flags": RELATED})))
        return last_of_compound(raw.receive_frame())


@case("a compound of 500 ECHOs", SUCCESS, INVALID_PARAMETER, CLOSED)
def _():
    with client() as raw:
        raw.call(ECHO, ECHO_BODY, credits=512)
        raw.send_frame(chain(raw, *[(ECHO, ECHO_BODY, {})] * 500))
        return raw.receive().status


def last_of_compound(frame):
    while step := struct.unpack_from("<I", frame, 20)[0]:
        frame = frame[step:]
    return parsed(frame).status


# Credits and message ids, MS-SMB2 3.3.5.2.3 and 3.3.5.2.5.

@case("a read of 1 MiB that pays for 64 KiB", INVALID_PARAMETER)
def _():
    return on_file(READ, lambda file: read_body(file, MIB), charge=1)


@case("a read of 1 MiB that pays nothing", INVALID_PARAMETER)
def _():
    return on_file(READ, lambda file: read_body(file, MIB), charge=0)


@case("a message id that was used before", CLOSED)
def _():
    return asked(ECHO, ECHO_BODY, message_id=1)


@case("a message id far ahead of the window", CLOSED)
def _():
    return asked(ECHO, ECHO_BODY, message_id=1 << 40)


@case("the message id that is reserved for breaks", CLOSED)
def _():
    return asked(ECHO, ECHO_BODY, message_id=MAX)


@case("a charge of all credits there can be", CLOSED, INVALID_PARAMETER)
def _():
    return asked(ECHO, ECHO_BODY, charge=0xFFFF)


@case("a request for all credits there can be is answered", SUCCESS)
def _():
    return asked(ECHO, ECHO_BODY, credits=0xFFFF)


# Commands and ids that do not exist.

@case("an unknown command", INVALID_PARAMETER, CLOSED)
def _():
    return asked(0x0042, ECHO_BODY)


@case("a body of no bytes", INVALID_PARAMETER, CLOSED)
def _():
    return asked(CREATE, b"")


@case("a CANCEL of nothing is not answered, and the connection goes on", SUCCESS)
def _():
    with client() as raw:
        raw.send(CANCEL, EMPTY_BODY, message_id=0x4444, charge=0)
        return SUCCESS if alive(raw) else "the ECHO failed"


@case("a file id nobody has", FILE_CLOSED)
def _():
    return asked(READ, read_body(b"\x11" * 16, 1))


@case("the file id that stands for the compound's, outside of one", FILE_CLOSED, INVALID_PARAMETER)
def _():
    return asked(READ, read_body(b"\xff" * 16, 1))


@case("a closed file's id", FILE_CLOSED)
def _():
    with client() as raw:
        file = raw.open("hundred")
        raw.call(CLOSE, close_body(file))
        return raw.call(CLOSE, close_body(file)).status


@case("another session's file id", FILE_CLOSED)
def _():
    with client() as owner:
        file = owner.open("hundred")
        return asked(READ, read_body(file, 1))


@case("an oplock acknowledgement that nobody asked for", ANY_ERROR)
def _():
    return on_file(OPLOCK_BREAK, lambda file: struct.pack("<HBBI", 24, 0, 0, 0) + file)


@case("a lease acknowledgement that nobody asked for", ANY_ERROR)
def _():
    return asked(OPLOCK_BREAK, struct.pack("<HHI", 36, 0, 0) + bytes(16) + struct.pack("<IQ", 0, 0))


# CREATE, MS-SMB2 3.3.5.9.

@case("CREATE with a name beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return asked(CREATE, create_body("x", name_length=60000))


@case("CREATE with a name offset beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return asked(CREATE, create_body("x", name_offset=60000))


@case("CREATE with a name of odd length", INVALID_PARAMETER, OBJECT_NAME_INVALID, ILLEGAL_CHARACTER)
def _():
    return asked(CREATE, create_body("abc", name_length=5))


@case("CREATE with a lone surrogate in the name", OBJECT_NAME_INVALID, ILLEGAL_CHARACTER, SUCCESS)
def _():
    return asked(CREATE, create_body(b"a\x00\x00\xd8b\x00"))


@case("CREATE with a NUL in the name", OBJECT_NAME_INVALID, INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("a\0b"))


@case("CREATE with a leading backslash", INVALID_PARAMETER, OBJECT_NAME_INVALID)
def _():
    return asked(CREATE, create_body("\\x"))


@case("CREATE with a name of 30,000 characters", ANY_ERROR)
def _():
    return asked(CREATE, create_body("x" * 30_000))


@case("CREATE with 10,000 folders in the name", ANY_ERROR)
def _():
    return asked(CREATE, create_body("a\\" * 10_000 + "b"))


for climb in ("..", "..\\outside\\secret", "a-folder\\..\\..\\outside\\secret", "../outside/secret", "..\\..\\..\\..\\etc\\passwd"):
    @case(f"CREATE of {climb!r} does not leave the share", ANY_ERROR)
    def _(name=climb):
        with client() as raw:
            raw.open("a-folder", options=FOLDER)
            return raw.call(CREATE, create_body(name, disposition=1)).status


for link in ("link-to-file", "link-to-folder\\secret", "relative-link\\secret"):
    @case(f"CREATE through the symbolic link {link!r} does not leave the share", ANY_ERROR)
    def _(name=link):
        with client() as raw:
            answer = raw.call(CREATE, create_body(name, disposition=1, access=0x00120089))
            if answer.status != SUCCESS:
                return answer.status
            data = raw.call(READ, read_body(answer.body[64:80], 100)).body[16:]
            return f"opened; read {data!r}"


@case("CREATE that would make a file behind a symbolic link", ANY_ERROR)
def _():
    return asked(CREATE, create_body("link-to-folder\\planted"))


@case("CREATE with contexts beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"MxAc", b""), contexts_length=0xFFFFF))


@case("CREATE with contexts at an offset beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"MxAc", b""), contexts_offset=0xFFFFFF00))


@case("CREATE with a context whose next one is itself", INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"MxAc", b"", next_offset=4) + bytes(32)))


@case("CREATE with a context whose next one lies beyond", INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"MxAc", b"", next_offset=0xFFFFFFF8)))


@case("CREATE with a context whose name lies beyond", INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"MxAc", b"", name_offset=0xFFF0)))


@case("CREATE with a context whose data lies beyond", INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"MxAc", b"12345678", data_length=0xFFFFFF)))


@case("CREATE with a lease context that is too short", INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"RqLs", bytes(7)), oplock=0xFF))


@case("CREATE with a durable context that is too short", INVALID_PARAMETER)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"DH2Q", bytes(5))))


@case("CREATE with a reconnect of a durable handle nobody has", ANY_ERROR)
def _():
    return asked(CREATE, create_body("x", contexts=create_context(b"DHnC", b"\x11" * 16)))


@case("CREATE with extended attributes whose chain lies", ANY_ERROR)
def _():
    chained = struct.pack("<IBBH", 0xFFFFFFF0, 0, 4, 60000) + b"name\0"
    return asked(CREATE, create_body("ea-liar", contexts=create_context(b"ExtA", chained), disposition=2))


@case("CREATE with a security descriptor whose list lies beyond", ANY_ERROR)
def _():
    descriptor = struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 0xFFFFFF00)
    return asked(CREATE, create_body("sd-liar", contexts=create_context(b"SecD", descriptor), disposition=2))


@case("CREATE with a security descriptor of 65,535 entries in 8 bytes", ANY_ERROR)
def _():
    descriptor = struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20) + struct.pack("<BBHHH", 2, 0, 8, 0xFFFF, 0)
    return asked(CREATE, create_body("sd-liar", contexts=create_context(b"SecD", descriptor), disposition=2))


# READ and WRITE, MS-SMB2 3.3.5.12 and 3.3.5.13.

@case("READ of more than the server's maximum", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(READ, lambda file: read_body(file, 0xFFFFFFFF))


@case("READ at an offset whose end overflows", INVALID_PARAMETER, END_OF_FILE)
def _():
    return on_file(READ, lambda file: read_body(file, 4096, offset=MAX - 10))


@case("READ at a negative offset", INVALID_PARAMETER, END_OF_FILE)
def _():
    return on_file(READ, lambda file: read_body(file, 4096, offset=1 << 63))


@case("READ with a channel that is not there", INVALID_PARAMETER, SUCCESS)
def _():
    return on_file(READ, lambda file: read_body(file, 10, channel=1, channel_offset=60000, channel_length=16))


@case("WRITE with data beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(WRITE, lambda file: write_body(file, b"x", length=60000))


@case("WRITE with data at an offset beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(WRITE, lambda file: write_body(file, b"x", data_offset=60000))


@case("WRITE with data inside the header", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(WRITE, lambda file: write_body(file, b"x" * 200, data_offset=4))


@case("WRITE of more than the server's maximum", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(WRITE, lambda file: write_body(file, b"x", length=0xFFFFFFF0))


@case("WRITE at an offset whose end overflows", INVALID_PARAMETER, ANY_ERROR)
def _():
    return on_file(WRITE, lambda file: write_body(file, b"x" * 100, offset=(1 << 63) - 50))


@case("WRITE at a negative offset", INVALID_PARAMETER, ANY_ERROR)
def _():
    return on_file(WRITE, lambda file: write_body(file, b"x" * 100, offset=(1 << 63) + 50))


@case("READ of a folder", INVALID_DEVICE_REQUEST)
def _():
    return on_folder(READ, lambda folder: read_body(folder, 10))


# LOCK, MS-SMB2 3.3.5.14.

@case("LOCK of no ranges", INVALID_PARAMETER)
def _():
    return on_file(LOCK, lambda file: lock_body(file, [], count=0))


@case("LOCK of more ranges than were sent", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(LOCK, lambda file: lock_body(file, [(0, 1, 0x12)], count=0xFFFF))


@case("LOCK of a range that overflows", INVALID_LOCK_RANGE)
def _():
    return on_file(LOCK, lambda file: lock_body(file, [(MAX - 5, 100, 0x12)]))


@case("LOCK with no kind of lock", INVALID_PARAMETER)
def _():
    return on_file(LOCK, lambda file: lock_body(file, [(0, 1, 0x10)]))


@case("LOCK that locks and unlocks at once", INVALID_PARAMETER)
def _():
    return on_file(LOCK, lambda file: lock_body(file, [(0, 1, 0x12), (5, 1, 0x04)]))


@case("unlocking what is not locked", RANGE_NOT_LOCKED)
def _():
    return on_file(LOCK, lambda file: lock_body(file, [(0, 1, 0x04)]))


# Directories and information, MS-SMB2 3.3.5.18 to 3.3.5.21.

@case("QUERY_DIRECTORY into no bytes", INFO_LENGTH_MISMATCH, BUFFER_TOO_SMALL, INVALID_PARAMETER, BUFFER_OVERFLOW)
def _():
    return on_folder(QUERY_DIRECTORY, lambda folder: query_directory_body(folder, length=0))


@case("QUERY_DIRECTORY into more than the server's maximum", INVALID_PARAMETER, CLOSED)
def _():
    return on_folder(QUERY_DIRECTORY, lambda folder: query_directory_body(folder, length=0xFFFFFFFF))


@case("QUERY_DIRECTORY with a pattern that makes a naive matcher loop", NO_SUCH_FILE)
def _():
    with client() as raw:
        folder = raw.open("patterns", options=FOLDER)
        raw.open("patterns\\" + "a" * 200)
        return raw.call(QUERY_DIRECTORY, query_directory_body(folder, "*a" * 60 + "*b")).status


@case("QUERY_DIRECTORY with a pattern beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return on_folder(QUERY_DIRECTORY, lambda folder: query_directory_body(folder, pattern_length=60000))


@case("QUERY_DIRECTORY of an unknown class", INVALID_INFO_CLASS, NOT_SUPPORTED)
def _():
    return on_folder(QUERY_DIRECTORY, lambda folder: query_directory_body(folder, information_class=99))


@case("QUERY_DIRECTORY of a file", INVALID_PARAMETER)
def _():
    return on_file(QUERY_DIRECTORY, query_directory_body)


@case("QUERY_INFO of an unknown kind", INVALID_PARAMETER, NOT_SUPPORTED)
def _():
    return on_file(QUERY_INFO, lambda file: query_info_body(file, kind=77))


@case("QUERY_INFO of an unknown class", INVALID_INFO_CLASS, NOT_SUPPORTED)
def _():
    return on_file(QUERY_INFO, lambda file: query_info_body(file, information_class=250))


@case("QUERY_INFO into no bytes", INFO_LENGTH_MISMATCH, BUFFER_TOO_SMALL)
def _():
    return on_file(QUERY_INFO, lambda file: query_info_body(file, length=0))


@case("QUERY_INFO of a security descriptor into no bytes", BUFFER_TOO_SMALL)
def _():
    return on_file(QUERY_INFO, lambda file: query_info_body(file, kind=3, information_class=0, length=0))


@case("QUERY_INFO into more than the server's maximum", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(QUERY_INFO, lambda file: query_info_body(file, length=0xFFFFFFFF))


@case("QUERY_INFO of attributes by a list beyond the message", INVALID_PARAMETER, CLOSED, ANY_ERROR)
def _():
    return on_file(QUERY_INFO, lambda file: query_info_body(file, information_class=15, input_offset=60000,
                                                            input_length=60000))


@case("SET_INFO with a buffer beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(SET_INFO, lambda file: set_info_body(file, 4, b"x", length=60000))


@case("SET_INFO with too few bytes for the class", INFO_LENGTH_MISMATCH, INVALID_PARAMETER)
def _():
    return on_file(SET_INFO, lambda file: set_info_body(file, 4, bytes(8)))


@case("SET_INFO of a negative end of file", INVALID_PARAMETER)
def _():
    return on_file(SET_INFO, lambda file: set_info_body(file, 20, struct.pack("<q", -5)))


@case("SET_INFO of a rename whose name lies beyond", INVALID_PARAMETER, INFO_LENGTH_MISMATCH)
def _():
    return on_file(SET_INFO, lambda file: set_info_body(file, 10, bytes(16) + struct.pack("<I", 60000) + b"x\0"),)


@case("SET_INFO of a rename out of the share", ANY_ERROR)
def _():
    def body(raw):
        name = "..\\outside\\moved".encode("utf-16-le")
        return set_info_body(raw.open("to-move", access=0x0013019F), 10, bytes(16) + struct.pack("<I", len(name)) + name)
    return asked(SET_INFO, body)


@case("SET_INFO of a link out of the share", ANY_ERROR)
def _():
    def body(raw):
        name = "..\\outside\\linked".encode("utf-16-le")
        return set_info_body(raw.open("to-link", access=0x0013019F), 11, bytes(16) + struct.pack("<I", len(name)) + name)
    return asked(SET_INFO, body)


@case("SET_INFO of an allocation larger than any disk", ANY_ERROR)
def _():
    return on_file(SET_INFO, lambda file: set_info_body(file, 19, struct.pack("<q", (1 << 63) - 1)))


# IOCTL, MS-SMB2 3.3.5.15.

@case("IOCTL of an unknown code", INVALID_DEVICE_REQUEST, NOT_SUPPORTED)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x00990000, b"", file))


@case("IOCTL with input beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x00140078, b"x", file, input_length=60000))


@case("IOCTL that is no FSCTL", NOT_SUPPORTED, INVALID_PARAMETER)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x00140078, b"", file, flags=0))


@case("IOCTL into more than the server's maximum", INVALID_PARAMETER, CLOSED)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x00140078, b"", file, output=0xFFFFFFFF))


@case("a server-side copy of more chunks than were sent", INVALID_PARAMETER)
def _():
    def body(file):
        return ioctl_body(0x001440F2, bytes(24) + struct.pack("<II", 0xFFFFFF, 0) + bytes(24), file)
    return on_file(IOCTL, body)


@case("a server-side copy from a key nobody has", ANY_ERROR)
def _():
    def body(file):
        return ioctl_body(0x001440F2, b"\x11" * 24 + struct.pack("<II", 1, 0) + struct.pack("<QQII", 0, 0, 10, 0), file)
    return on_file(IOCTL, body)


@case("zeroing a range that ends before it begins", INVALID_PARAMETER)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x000980C8, struct.pack("<qq", 50, 10), file))


@case("zeroing a range at a negative offset", INVALID_PARAMETER)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x000980C8, struct.pack("<qq", -50, 10), file))


@case("asking for allocated ranges at a negative offset", INVALID_PARAMETER)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x000940CF, struct.pack("<qq", -50, 100), file))


@case("asking for allocated ranges with too few bytes", INVALID_PARAMETER, BUFFER_TOO_SMALL)
def _():
    return on_file(IOCTL, lambda file: ioctl_body(0x000940CF, bytes(8), file))


@case("VALIDATE_NEGOTIATE_INFO on 3.1.1", CLOSED)
def _():
    return asked(IOCTL, ioctl_body(0x00140204, bytes(24) + struct.pack("<H", 0x0311)))


# Pipes and notifications.

@case("a pipe that is not there", ANY_ERROR)
def _():
    with client() as raw:
        raw.tree_connect("IPC$")
        return raw.call(CREATE, create_body("no-such-pipe", disposition=1)).status


@case("random bytes to the share service's pipe", SUCCESS, ANY_ERROR, CLOSED)
def _():
    with client() as raw:
        raw.tree_connect("IPC$")
        pipe = raw.open("srvsvc", disposition=1)
        for data in (os.urandom(200), b"\x05\x00\x0b\x03\x10\x00\x00\x00\xff\xff\x00\x00" + bytes(100), b"\x05", bytes(4096)):
            raw.call(WRITE, write_body(pipe, data))
            raw.call(IOCTL, ioctl_body(0x0011C017, data, pipe, output=1024))
        return SUCCESS if alive(raw) else "the ECHO failed"


@case("CHANGE_NOTIFY on a file", INVALID_PARAMETER)
def _():
    return on_file(CHANGE_NOTIFY, notify_body)


@case("CHANGE_NOTIFY into more than the server's maximum", INVALID_PARAMETER, CLOSED)
def _():
    return on_folder(CHANGE_NOTIFY, lambda folder: notify_body(folder, length=0xFFFFFFFF))
