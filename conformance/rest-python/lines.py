"""A plugin of pytest: each test is a line that the report of the suites takes in."""

import pytest


def pytest_runtest_logreport(report):
    module, _, test = report.nodeid.partition("::")
    name = f"{module.rpartition('/')[2].removesuffix('.py')}: {test.replace('::', '.')}"
    if report.failed and report.when != "teardown":
        reason = str(getattr(report.longrepr, "reprcrash", None) and report.longrepr.reprcrash.message or report.longrepr)
        print(f"\nnot ok {name} - {reason}"[:500].replace("\n", " | ").replace(" | not ok", "\nnot ok", 1), flush=True)
    elif report.when == "call" and report.passed:
        print(f"\nok {name}", flush=True)
    elif report.skipped:
        print(f"\nleft out by itself: {name}", flush=True)


def pytest_configure(config):
    config.addinivalue_line("markers", "playback_test_only: needs what was recorded")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("playback_test_only"):
            item.add_marker(pytest.mark.skip("needs what was recorded"))


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    # The lines are all there is to see.
    return (report.outcome if report.when == "call" or report.outcome != "passed" else ""), "", ""


def pytest_sessionfinish(session, exitstatus):
    # Which tests have failed is in the lines.
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = pytest.ExitCode.OK
