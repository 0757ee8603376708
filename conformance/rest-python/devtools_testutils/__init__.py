"""What Microsoft's tests of azure-storage-file-share ask of the tools that their repository has beside them: here for a server that is there, so that nothing
is recorded, played back or made unrecognizable. Where they are is in REST_* variables."""

import functools
import inspect
import os

import pytest


class Secret:
    """A value that is not to be printed."""

    def __init__(self, secret):
        self.secret = secret


class EnvironmentVariableOptions:
    def __init__(self, hide_secrets=()):
        self.hide_secrets = hide_secrets


class EnvironmentVariableLoader:
    """Gives a test the names and keys of its accounts: one of kind Premium_LRS, and one that is all the others."""

    def __init__(self, _directory, options=None, **wanted):
        self.given = {}
        for name in wanted:
            account = os.environ["REST_V1" if name.startswith("premium") else "REST_STANDARD"]
            self.given[name] = account if name.endswith("_name") else Secret(os.environ[f"REST_KEY_{account}"])

    def __call__(self, test):
        parameters = inspect.signature(test).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        given = {name: value for name, value in self.given.items() if takes_all or name in parameters}

        @functools.wraps(test)
        def with_accounts(*arguments, **named):
            return test(*arguments, **named, **given)

        return with_accounts


def recorded_by_proxy(test):
    return test


def is_live():
    return True


def nothing(*_, **__):
    pass


add_body_regex_sanitizer = add_general_regex_sanitizer = add_header_regex_sanitizer = add_oauth_response_sanitizer = nothing
add_uri_string_sanitizer = add_remove_header_sanitizer = add_uri_regex_sanitizer = set_custom_default_matcher = nothing


@pytest.fixture(scope="session")
def test_proxy():
    return None
