"""Names that the tests import."""

STORAGE_ACCOUNT_FAKE_KEY = "unused"
