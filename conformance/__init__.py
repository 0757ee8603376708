"""Foreign SMB clients and suites, run against a built server. See docs/TESTING.md."""
