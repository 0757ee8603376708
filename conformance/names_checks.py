"""The checks made with impacket. Runs inside the environment that has it; the server is in SMB_* variables."""

import contextlib
import os
import random
import struct
import sys
import time

from impacket.dcerpc.v5 import lsad, lsat, samr, srvs, transport
from impacket.dcerpc.v5.dtypes import MAXIMUM_ALLOWED, RPC_SID
from impacket.dcerpc.v5.rpcrt import DCERPCException

from conformance.report import Lines

HOST, PORT = os.environ["SMB_HOST"], int(os.environ["SMB_PORT"])
USER, PASSWORD = os.environ["SMB_USER"], os.environ["SMB_PASSWORD"]
KEEPER, KEEPER_PASSWORD = os.environ["SMB_KEEPER"], os.environ["SMB_KEEPER_PASSWORD"]
STRANGER, SECOND = os.environ["SMB_STRANGER"], os.environ["SMB_SECOND"]
NDR64 = ("71710533-BEBA-4937-8319-B5DBEF9CCC36", "1.0")
SOME_NOT_MAPPED, NONE_MAPPED = 0x107, 0xC0000073
WKSTA = lsat.LSAP_LOOKUP_LEVEL.LsapLookupWksta
NONSENSE = 400
lines = Lines()


def main():
    looking_up()
    thousands()
    accounts()
    in_use()
    malformed()


@contextlib.contextmanager
def bound(pipe, interface, user=USER, password=PASSWORD, syntax=None):
    """A connection that is bound to one interface."""
    rpc = transport.DCERPCTransportFactory(rf"ncacn_np:{HOST}[\pipe\{pipe}]")
    rpc.set_credentials(user, password)
    rpc.set_dport(PORT)
    dce = rpc.get_dce_rpc()
    dce.connect()
    try:
        dce.bind(interface, **({"transfer_syntax": syntax} if syntax else {}))
        yield dce
    finally:
        dce.disconnect()


def policy(dce, access=MAXIMUM_ALLOWED):
    return lsad.hLsarOpenPolicy2(dce, access)["PolicyHandle"]


def machine(dce, handle):
    """The SID of the account domain, as text."""
    answer = lsad.hLsarQueryInformationPolicy2(dce, handle, lsad.POLICY_INFORMATION_CLASS.PolicyAccountDomainInformation)
    return answer["PolicyInformation"]["PolicyAccountDomainInfo"]["DomainSid"].formatCanonical()


def names_of(dce, handle, sids):
    """The name of each SID, the domains, and the status."""
    try:
        answer, status = lsat.hLsarLookupSids2(dce, handle, sids, WKSTA), 0
    except DCERPCException as error:
        answer, status = error.get_packet(), error.get_error_code()
    translated = answer["TranslatedNames"]["Names"]
    domains = [domain["Name"] for domain in answer["ReferencedDomains"]["Domains"]] if answer["ReferencedDomains"]["Entries"] else []
    return [(name["Name"], name["Use"]) for name in translated], domains, status


def looking_up():
    with bound("lsarpc", lsat.MSRPC_UUID_LSAT) as dce:
        handle = policy(dce)
        domain = machine(dce, handle)
        with lines.check("impacket: each form of LookupNames gives the same"):
            whole = lsat.hLsarLookupNames3(dce, handle, (USER, "Everyone", "BUILTIN\\Users"), WKSTA)
            sids = [entry["Sid"].formatCanonical() for entry in whole["TranslatedSids"]["Sids"]]
            same(sids[1:], ["S-1-1-0", "S-1-5-32-545"])
            for look in (lsat.hLsarLookupNames, lsat.hLsarLookupNames2):
                found = look(dce, handle, (USER, "Everyone", "BUILTIN\\Users"))["TranslatedSids"]["Sids"]
                same([entry["RelativeId"] for entry in found], [int(sid.rpartition("-")[2]) for sid in sids])
        with lines.check("impacket: each form of LookupSids gives the same"):
            found, domains, status = names_of(dce, handle, sids)
            same(([name for name, _ in found], status), ([USER, "Everyone", "Users"], 0))
            same(domains[1:], ["", "BUILTIN"])
            first = lsat.hLsarLookupSids(dce, handle, sids, WKSTA)["TranslatedNames"]["Names"]
            same([name["Name"] for name in first], [name for name, _ in found])
        with lines.check("impacket: what is for domain controllers is refused as such"):
            for operation in (76, 77):
                dce.call(operation, b"")
                same(dce.recv()[-4:], struct.pack("<I", 0xC00000DC))
        with lines.check("impacket: GetUserName tells who asks"):
            same(lsat.hLsarGetUserName(dce)["UserName"], USER)
        with lines.check("impacket: unknown SIDs are told by their last number or as they are"):
            found, _, status = names_of(dce, handle, [f"{domain}-77", "S-1-5-21-7-7-7-7", sids[0]])
            same((found, status), ([("0000004d", 8), ("S-1-5-21-7-7-7-7", 8), (USER, 1)], SOME_NOT_MAPPED))
            same(names_of(dce, handle, ["S-1-5-21-7-7-7-7"])[2], NONE_MAPPED)
        with lines.check("impacket: a handle that is closed is none"):
            lsad.hLsarClose(dce, handle)
            fails(lambda: lsat.hLsarLookupSids(dce, handle, sids, WKSTA), "nca_s_fault_context_mismatch")
        with lines.check("impacket: more rights than there are are refused"):
            fails(lambda: policy(dce, 0xF0FFF), 0xC0000022)
    with lines.check("impacket: the same in NDR64"), bound("lsarpc", lsat.MSRPC_UUID_LSAT, syntax=NDR64) as dce:
        handle = policy(dce)
        found, domains, status = names_of(dce, handle, sids)
        same(([name for name, _ in found], domains[1:], status), ([USER, "Everyone", "Users"], ["", "BUILTIN"], 0))


def thousands():
    with bound("lsarpc", lsat.MSRPC_UUID_LSAT) as dce:
        handle = policy(dce)
        domain = machine(dce, handle)
        with lines.check("impacket: a thousand SIDs in one call"):
            sids = [f"{domain}-{1000 + number}" for number in range(1000)]
            found, _, status = names_of(dce, handle, sids)
            same((len(found), status), (1000, SOME_NOT_MAPPED))
            known = {name for name, use in found if use == 1}
            expect({USER, SECOND, KEEPER} <= known and STRANGER not in known, known)
        with lines.check("impacket: more SIDs than a call may have are a fault, and the pipe goes on"):
            fails(lambda: lsat.hLsarLookupSids2(dce, handle, [f"{domain}-1000"] * 1001, WKSTA), None)
            same(names_of(dce, handle, ["S-1-1-0"])[2], 0)
        with lines.check("impacket: a thousand names in one call"):
            names = [USER, *(f"nobody-{number}" for number in range(999))]
            try:
                lsat.hLsarLookupNames3(dce, handle, names, WKSTA)
                raise AssertionError("all were found")
            except DCERPCException as error:
                same(error.get_error_code(), SOME_NOT_MAPPED)
                same(error.get_packet()["MappedCount"], 1)
        with lines.check("impacket: as many handles as may be, and no more"):
            opened = []
            with contextlib.suppress(DCERPCException):
                for _ in range(1000):
                    opened.append(policy(dce))
            expect(200 < len(opened) < 300, len(opened))
            for one in opened:
                lsad.hLsarClose(dce, one)
            lsad.hLsarClose(dce, policy(dce))


def accounts():
    with bound("samr", samr.MSRPC_UUID_SAMR) as dce:
        server = samr.hSamrConnect5(dce)["ServerHandle"]
        with lines.check("impacket: every SamrConnect, and the domains"):
            for connect in (samr.hSamrConnect, samr.hSamrConnect2, samr.hSamrConnect4):
                samr.hSamrCloseHandle(dce, connect(dce)["ServerHandle"])
            domains = [entry["Name"] for entry in samr.hSamrEnumerateDomainsInSamServer(dce, server)["Buffer"]["Buffer"]]
            same(domains[1], "BUILTIN")
        sid = samr.hSamrLookupDomainInSamServer(dce, server, domains[0])["DomainId"]
        domain = samr.hSamrOpenDomain(dce, server, domainId=sid)["DomainHandle"]
        with lines.check("impacket: users come in pages, each once"):
            told, context, status = [], 0, 0x105
            while status == 0x105:
                try:
                    page, status = samr.hSamrEnumerateUsersInDomain(dce, domain, enumerationContext=context, preferedMaximumLength=1000), 0
                except DCERPCException as error:
                    page, status = error.get_packet(), error.get_error_code()
                told += [entry["Name"] for entry in page["Buffer"]["Buffer"]]
                context = page["EnumerationContext"]
            same((len(set(told)), status), (len(told), 0))
            expect({USER, SECOND, KEEPER, "person-0"} <= set(told) and STRANGER not in told, told)
        with lines.check("impacket: every class of a user, of a domain, of a group"):
            found = samr.hSamrLookupNamesInDomain(dce, domain, (USER,))["RelativeIds"]["Element"][0]["Data"]
            user = samr.hSamrOpenUser(dce, domain, userId=found)["UserHandle"]
            classes = samr.USER_INFORMATION_CLASS
            for each, arm in ((classes.UserGeneralInformation, "General"), (classes.UserLogonInformation, "Logon"),
                              (classes.UserAccountInformation, "Account"), (classes.UserNameInformation, "Name"), (classes.UserAllInformation, "All")):
                row = samr.hSamrQueryInformationUser2(dce, user, each)["Buffer"][arm]
                same((row["UserName"], row["FullName"]), (USER, ""))
            for each in (classes.UserControlInformation, classes.UserPrimaryGroupInformation, classes.UserExpiresInformation,
                         classes.UserPreferencesInformation, classes.UserHomeInformation, classes.UserLogonHoursInformation):
                samr.hSamrQueryInformationUser2(dce, user, each)
            fails(lambda: samr.hSamrQueryInformationUser2(dce, user, classes.UserInternal1Information), 0xC0000003)
            kinds = samr.DOMAIN_INFORMATION_CLASS
            for each in (kinds.DomainPasswordInformation, kinds.DomainGeneralInformation, kinds.DomainLogoffInformation, kinds.DomainNameInformation,
                         kinds.DomainServerRoleInformation, kinds.DomainModifiedInformation, kinds.DomainStateInformation,
                         kinds.DomainLockoutInformation):
                samr.hSamrQueryInformationDomain2(dce, domain, each)
            general = samr.hSamrQueryInformationDomain2(dce, domain, kinds.DomainGeneralInformation)["Buffer"]["General"]
            same((general["UserCount"], general["DomainName"]), (len(told), domains[0]))
            group = samr.hSamrOpenGroup(dce, domain, groupId=513)["GroupHandle"]
            same(samr.hSamrQueryInformationGroup(dce, group)["Buffer"]["General"]["Name"], "Domain Users")
            same(samr.hSamrGetMembersInGroup(dce, group)["Members"]["MemberCount"], len(told))
        with lines.check("impacket: what is shown, by name"):
            shown = samr.hSamrQueryDisplayInformation3(dce, domain)["Buffer"]["UserInformation"]["Buffer"]
            names = [entry["AccountName"] for entry in shown]
            same(sorted(names), sorted(told))
        with lines.check("impacket: administrators are who holds the account's key"):
            builtin = samr.hSamrLookupDomainInSamServer(dce, server, "builtin")["DomainId"]
            local = samr.hSamrOpenDomain(dce, server, domainId=builtin)["DomainHandle"]
            alias = samr.hSamrOpenAlias(dce, local, aliasId=544)["AliasHandle"]
            members = samr.hSamrGetMembersInAlias(dce, alias)["Members"]["Sids"]
            same(len(members), 1)
            relative_id = int(members[0]["SidPointer"].formatCanonical().rpartition("-")[2])
            same(samr.hSamrLookupIdsInDomain(dce, domain, (relative_id,))["Names"]["Element"][0]["Data"], KEEPER)
            of_sid = samr.hSamrRidToSid(dce, domain, relative_id)["Sid"]
            item, array = samr.PSAMPR_SID_INFORMATION(), samr.SAMPR_PSID_ARRAY()
            item["SidPointer"] = of_sid
            array["Sids"].append(item)
            same(samr.hSamrGetAliasMembership(dce, local, array)["Membership"]["Element"][0]["Data"], 544)
        with lines.check("impacket: whatever would change something is denied"):
            for call in (lambda: samr.hSamrCreateUser2InDomain(dce, domain, "mallory"),
                         lambda: samr.hSamrDeleteUser(dce, user),
                         lambda: samr.hSamrUnicodeChangePasswordUser2(dce, "\x00", USER, PASSWORD, "Another-Pass-w0rd")):
                fails(call, "rpc_s_access_denied")
        with lines.check("impacket: a handle of samr is none of lsarpc's"), bound("lsarpc", lsat.MSRPC_UUID_LSAT) as other:
            fails(lambda: lsat.hLsarLookupSids(other, server, ["S-1-1-0"], WKSTA), "nca_s_fault_context_mismatch")


def in_use():
    with lines.check("impacket: every level of sessions and files, to the holder of the account's key"), \
            bound("srvsvc", srvs.MSRPC_UUID_SRVS, KEEPER, KEEPER_PASSWORD) as dce:
        for level in (0, 1, 2, 10, 502):
            found = srvs.hNetrSessionEnum(dce, "\x00", "\x00", level)["InfoStruct"]["SessionInfo"][f"Level{level}"]["Buffer"]
            expect(len(found) >= 1, level)
        users = {entry["sesi502_username"].rstrip("\x00") for entry in found}
        expect(KEEPER in users and STRANGER not in users, users)
        files = srvs.hNetrFileEnum(dce, "\x00", "\x00", 3)["InfoStruct"]["FileInfo"]["Level3"]["Buffer"]
        expect(any(entry["fi3_path_name"].rstrip("\x00") == r"\PIPE\srvsvc" for entry in files), files)
        srvs.hNetrServerGetInfo(dce, 102)
        now = srvs.hNetrRemoteTOD(dce)["BufferPtr"]
        expect(abs(now["tod_elapsedt"] - time.time()) < 60, now["tod_elapsedt"])
    with lines.check("impacket: to others neither"), bound("srvsvc", srvs.MSRPC_UUID_SRVS) as dce:
        fails(lambda: srvs.hNetrSessionEnum(dce, "\x00", "\x00", 10), 5)
        fails(lambda: srvs.hNetrFileEnum(dce, "\x00", "\x00", 3), 5)
        fails(lambda: srvs.hNetrServerGetInfo(dce, 102), 5)
        srvs.hNetrServerGetInfo(dce, 101)


def malformed():
    """Stubs of nonsense, and good ones with a byte changed, on pipes that go on."""
    chance = random.Random(15)
    for pipe, interface, operations in (("lsarpc", lsat.MSRPC_UUID_LSAT, (0, 6, 7, 14, 15, 44, 45, 46, 57, 58, 68, 76, 77)),
                                        ("samr", samr.MSRPC_UUID_SAMR, (*range(0, 74),))):
        with lines.check(f"impacket: {NONSENSE} calls of nonsense on {pipe} are answered, and the pipe goes on"), bound(pipe, interface) as dce:
            for _ in range(NONSENSE):
                stub = chance.randbytes(chance.randrange(200))
                if chance.random() < 0.5:
                    stub = struct.pack("<IQQ", 0, 1, 0) + struct.pack("<II", chance.choice((0, 1, 1000, 1 << 31)), 1) + stub
                dce.call(chance.choice(operations), stub)
                with contextlib.suppress(DCERPCException):
                    dce.recv()
            if pipe == "lsarpc":
                same(names_of(dce, policy(dce), ["S-1-1-0"])[2], 0)
            else:
                samr.hSamrConnect5(dce)
    with lines.check("impacket: a good call with any one byte changed is answered"), bound("lsarpc", lsat.MSRPC_UUID_LSAT) as dce:
        handle = policy(dce)
        request = lsat.LsarLookupSids2()
        request["PolicyHandle"] = handle
        sid = RPC_SID()
        sid.fromCanonical("S-1-5-32-544")
        entry = lsat.LSAPR_SID_INFORMATION()
        entry["Sid"] = sid
        request["SidEnumBuffer"]["SidInfo"].append(entry)
        request["SidEnumBuffer"]["Entries"] = 1
        request["TranslatedNames"]["Names"] = lsat.NULL
        request["LookupLevel"] = WKSTA
        good = request.getData()
        for at in range(len(good)):
            dce.call(57, good[:at] + bytes([good[at] ^ (1 << chance.randrange(8))]) + good[at + 1:])
            with contextlib.suppress(DCERPCException):
                dce.recv()
        same(names_of(dce, handle, ["S-1-5-32-544"])[0], [("Administrators", 4)])


def fails(call, expected):
    """A call fails with a status, or with what a fault says; None is any."""
    try:
        call()
    except DCERPCException as error:
        is_it = expected is None or error.get_error_code() == expected or str(expected) in str(error)
        expect(is_it, f"{error} for {expected}")
        return
    raise AssertionError(f"it went well for {expected}")


def expect(condition, seen):
    if not condition:
        raise AssertionError(seen)


def same(seen, expected):
    expect(expected == seen, f"expected {str(expected)[:300]}, seen {str(seen)[:300]}")


if __name__ == "__main__":
    sys.exit(main())
