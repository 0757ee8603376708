"""What a test of a storage account is derived from."""

from devtools_testutils.storage.testcase import GenericTestProxyParametrize1, LogCaptured, StorageRecordedTestCase

__all__ = ("GenericTestProxyParametrize1", "LogCaptured", "StorageRecordedTestCase")
