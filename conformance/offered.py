"""What the server offers SMB clients, as smbprotocol sees it. Runs inside the environment that has it."""

import os
import uuid

from smbprotocol.connection import Capabilities, Connection


def offers_multichannel():
    """Whether SMB clients are told that sessions may have several channels, which they are where some account's may."""
    connection = Connection(uuid.uuid4(), os.environ["SMB_HOST"], int(os.environ["SMB_PORT"]))
    connection.client_capabilities |= Capabilities.SMB2_GLOBAL_CAP_MULTI_CHANNEL
    connection.connect()
    try:
        return connection.server_capabilities.has_flag(Capabilities.SMB2_GLOBAL_CAP_MULTI_CHANNEL)
    finally:
        connection.disconnect()
