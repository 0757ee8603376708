"""What the checks of Azure Files' REST interface share: a refusal, and an SMB client beside. Runs inside the environment of the suite `rest`."""

import contextlib
import os
import uuid

from azure.core.exceptions import HttpResponseError
from smbprotocol.connection import Connection
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from conformance.report import Failure, expect


def refused(work, code, status=403):
    """Fails the running check unless the service refuses the work in this way."""
    try:
        work()
    except HttpResponseError as error:
        seen = getattr(error.error_code, "value", error.error_code), error.status_code
        expect(seen == (code, status), f"refused with {seen}, not {(code, status)}")
        return
    raise Failure(f"not refused with {code}")


@contextlib.contextmanager
def smb(share, user, password):
    """The share as an SMB client has it."""
    host = os.environ["SMB_HOST"]
    connection = Connection(uuid.uuid4(), host, int(os.environ["SMB_PORT"]))
    connection.connect()
    try:
        session = Session(connection, user, password)
        session.connect()
        tree = TreeConnect(session, rf"\\{host}\{share}")
        tree.connect()
        yield tree
    finally:
        # The share, or who signed in, may be gone by then.
        with contextlib.suppress(Exception):
            connection.disconnect()
