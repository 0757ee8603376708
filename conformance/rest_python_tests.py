"""Microsoft's own tests of azure-storage-file-share, as PyPI has them beside the package, against our server.

What their repository has beside them is in rest-python: there is a server, so that nothing is played back. They name Azure's hosts, which lead to it here
(as_azure). Tests that a server of SMB shares without Azure's other services cannot pass are in known-failures.txt, each with its reason.
"""

import os
import subprocess
import sys
import tarfile

from conformance import packages, rest_table
from conformance.as_azure import as_azure
from conformance.report import Skip

NAME = "rest_python_tests"
PACKAGE, VERSION = "azure-storage-file-share", "12.27.1"
REQUIREMENTS = (f"{PACKAGE}=={VERSION}", "azure-storage-blob==12.31.1", "PyJWT==2.15.1", "pytest==9.2.0", "cryptography==50.0.2")
# Those with asyncio are the same again. Bodies in segments (test_content_validation), and NFS shares, are none of ours.
MODULES = ("test_directory", "test_file", "test_file_api_version", "test_file_client", "test_file_service_properties", "test_get_file", "test_handle",
           "test_sas", "test_share")
CHECK_SECONDS = 1800


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    python = packages.python_with(*REQUIREMENTS, folder="venv-azure-tests")
    tests = published()
    with as_azure() as (server, environment):
        paths = os.pathsep.join(map(str, (packages.HERE / "rest-python", packages.ROOT)))
        report.absorb(NAME, [python, "-m", "pytest", "-q", "--no-header", "--tb=no", "--capture=no", "-p", "lines", "-p", "no:cacheprovider",
                             *(f"{module}.py" for module in MODULES)], CHECK_SECONDS, env=environment | {"PYTHONPATH": paths}, cwd=tests)
        rest_table.sums(report, NAME, "Python")
        report.server_is_well(NAME, server)


def published():
    """The folder of the tests, of the source that PyPI has."""
    folder = packages.cache("azure-tests")
    tests = folder / f"{PACKAGE.replace('-', '_')}-{VERSION}" / "tests"
    if not tests.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", PACKAGE, "-d", str(folder), f"{PACKAGE}=={VERSION}"],
                       check=True)
        with tarfile.open(folder / f"{PACKAGE.replace('-', '_')}-{VERSION}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return tests
