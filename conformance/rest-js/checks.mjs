// Checks Azure Files' REST interface with @azure/storage-file-share as it is published, and prints one line a check. What the server says it does not
// serve is no failure here: the table in docs/REST.md tells it, and is compared.
import { randomBytes } from "node:crypto";
import dns from "node:dns";
import { readFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import {
  AccountSASPermissions,
  ShareServiceClient,
  StorageSharedKeyCredential,
  generateAccountSASQueryParameters,
  AccountSASResourceTypes,
  AccountSASServices,
  FileSASPermissions,
  SASProtocol,
} from "@azure/storage-file-share";

const { REST_URL: URL_, REST_ACCOUNT: ACCOUNT, REST_KEY: KEY, SMB_SHARE: SHARE, LOCAL_FOLDER: FOLDER } = process.env;
const MIB = 1 << 20;
const MINUTE = 60_000;
const LENGTHS = [0, 1, 511, 65_536, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 7];
const NAMES = ["plain", "with space", "ä+ö&%25", "'quote", "日本語", "semi;colon,=", "#hash"];
const SDDL = "O:S-1-5-21-1-2-3-500G:S-1-5-21-1-2-3-513D:(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;S-1-5-21-1-2-3-513)";

const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
// Nothing is tried again: a second answer would hide the first.
const once = { retryOptions: { maxTries: 1 } };
const service = new ShareServiceClient(URL_, credential, once);
const share = service.getShareClient(SHARE);
const root = share.rootDirectoryClient;

// With the account in the path, this client's rename leaves it out of the URL that it asks. So a rename is asked for with the account in the host's name,
// and names below localhost are this machine, whatever resolver there is.
const lookup = dns.lookup;
dns.lookup = (name, ...rest) => lookup(name.endsWith(".localhost") ? "127.0.0.1" : name, ...rest);
const byHost = new ShareServiceClient(`http://${ACCOUNT}.file.core.localhost:${new URL(URL_).port}`, credential, once).getShareClient(SHARE);

async function check(name, body) {
  try {
    await body();
    console.log(`ok ${name}`);
  } catch (error) {
    const text = `${error.code ?? error.details?.errorCode ?? error.name}: ${error.message}`.replaceAll("\n", " | ");
    console.log(text.includes("is not served") ? `absent ${name}` : `not ok ${name} - ${text}`);
  }
}

function expect(isSo, seen) {
  if (!isSo) throw new Error(`seen: ${typeof seen === "string" ? seen : JSON.stringify(seen)}`);
}

async function refused(work, code, status) {
  try {
    await work();
  } catch (error) {
    const seen = `${error.details?.errorCode ?? error.code} ${error.statusCode}`;
    if (seen !== `${code} ${status}`) throw error;
    return;
  }
  throw new Error(`not refused with ${code}`);
}

async function all(pages) {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
}

async function made(name, text = "text") {
  const file = root.getFileClient(name);
  await file.create(Buffer.byteLength(text));
  if (text) await file.uploadRange(text, 0, Buffer.byteLength(text));
  return file;
}

// The service and its shares.

await check("shares are listed, page by page", async () => {
  const names = (await all(service.listShares())).map((one) => one.name);
  expect(names.includes(SHARE) && names.includes("other"), names);
  expect((await all(service.listShares({ prefix: "oth" }))).length === 1, "the prefix does not count");
  const pages = [];
  for await (const page of service.listShares().byPage({ maxPageSize: 1 })) pages.push(page.shareItems.map((one) => one.name));
  expect(pages.length === names.length && pages.every((page) => page.length === 1), pages);
});

await check("the service's properties are told and set", async () => {
  for (const enabled of [true, false, true]) {
    const properties = await service.getProperties();
    await service.setProperties({ ...properties, protocol: { smb: { multichannel: { enabled } } } });
    const seen = (await service.getProperties()).protocol?.smb?.multichannel?.enabled;
    expect(seen === enabled, String(seen));
  }
});

await check("the service's CORS rules are kept", async () => {
  const rule = { allowedOrigins: "https://example.test", allowedMethods: "GET,PUT", allowedHeaders: "x-ms-*", exposedHeaders: "*", maxAgeInSeconds: 60 };
  await service.setProperties({ cors: [rule] });
  try {
    const { cors } = await service.getProperties();
    expect(cors.length === 1 && cors[0].allowedOrigins === rule.allowedOrigins && cors[0].maxAgeInSeconds === 60, cors);
  } finally {
    await service.setProperties({ cors: [] });
  }
});

await check("a share's properties are told", async () => {
  const properties = await share.getProperties();
  expect(properties.quota > 0 && properties.etag && properties.lastModified instanceof Date, properties);
  expect(await share.exists(), "it is not there");
  await refused(() => service.getShareClient("nothing").getProperties(), "ShareNotFound", 404);
});

await check("a share is made, changed, and deleted", async () => {
  const mine = service.getShareClient("js-made");
  await mine.create({ quota: 200, metadata: { by: "js" } });
  await refused(() => mine.create(), "ShareAlreadyExists", 409);
  expect((await mine.getProperties()).quota === 200, "another quota");
  await mine.setProperties({ quotaInGB: 300 });
  expect((await mine.getProperties()).quota === 300, "another quota");
  await mine.rootDirectoryClient.createFile("a", 10);
  await mine.delete();
  expect(!(await mine.exists()), "it is still there");
});

await check("a share's metadata is kept", async () => {
  await share.setMetadata({ colour: "green", two: "words here" });
  const { metadata } = await share.getProperties();
  expect(metadata?.colour === "green" && metadata.two === "words here", metadata);
  await share.setMetadata({});
  expect(Object.keys((await share.getProperties()).metadata ?? {}).length === 0, "it is still there");
});

await check("metadata is signed, in whatever order its names are", async () => {
  const wanted = { a1: "1", a_1: "2", ab: "3", a_b: "4", A_c: "5" };
  await share.setMetadata(wanted);
  const { metadata } = await share.getProperties();
  expect(Object.keys(wanted).every((name) => metadata?.[name.toLowerCase()] === wanted[name]), metadata);
  await share.setMetadata({});
});

await check("a share's access policies are kept", async () => {
  const accessPolicy = { startsOn: new Date(Date.now() - MINUTE), expiresOn: new Date(Date.now() + 60 * MINUTE), permissions: "rl" };
  await share.setAccessPolicy([{ id: "policy-1", accessPolicy }]);
  const { signedIdentifiers } = await share.getAccessPolicy();
  expect(signedIdentifiers.length === 1 && signedIdentifiers[0].id === "policy-1", signedIdentifiers);
  expect(signedIdentifiers[0].accessPolicy.permissions === "rl", signedIdentifiers);
  await share.setAccessPolicy([]);
  expect((await share.getAccessPolicy()).signedIdentifiers.length === 0, "it is still there");
});

await check("a share's use is told", async () => {
  const { shareUsageBytes } = await share.getStatistics();
  expect(Number.isInteger(shareUsageBytes), shareUsageBytes);
});

await check("a permission is kept under a key", async () => {
  const { filePermissionKey } = await share.createPermission(SDDL);
  expect(filePermissionKey, "no key");
  const { permission } = await share.getPermission(filePermissionKey);
  expect(permission.includes("S-1-5-21-1-2-3-513"), permission);
});

await check("a share's lease is acquired, changed, released and broken", async () => {
  const lease = share.getShareLeaseClient();
  await lease.acquireLease(-1);
  expect((await share.getProperties()).leaseState === "leased", "it is not leased");
  await lease.changeLease("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
  await lease.releaseLease();
  await lease.acquireLease(15);
  await lease.breakLease();
});

await check("a snapshot of a share is told not to be made", async () => {
  await refused(() => share.createSnapshot(), "ShareSnapshotOperationNotSupported", 409);
});

await check("a deleted share comes back", async () => {
  const gone = service.getShareClient("js-gone");
  await gone.create();
  await gone.rootDirectoryClient.createFile("kept", 5);
  await gone.delete();
  const [deleted] = (await all(service.listShares({ includeDeleted: true }))).filter((one) => one.deleted && one.name === "js-gone");
  expect(deleted?.version, "it is not listed as deleted");
  await service.undeleteShare("js-gone", deleted.version);
  expect(await gone.rootDirectoryClient.getFileClient("kept").exists(), "its file is gone");
  await gone.delete();
});

// Directories.

await check("directories are made, listed page by page, and removed", async () => {
  const { directoryClient: top } = await share.createDirectory("js-many");
  await refused(() => share.createDirectory("js-many"), "ResourceAlreadyExists", 409);
  for (let number = 0; number < 20; number++) {
    const name = `entry-${String(number).padStart(3, "0")}`;
    await (number % 4 === 0 ? top.createSubdirectory(name) : top.createFile(name, 3));
  }
  const pages = [];
  for await (const page of top.listFilesAndDirectories().byPage({ maxPageSize: 7 })) {
    pages.push([...page.segment.directoryItems, ...page.segment.fileItems].map((one) => one.name));
  }
  expect(pages.map((page) => page.length).join() === "7,7,6", pages);
  const listed = await all(top.listFilesAndDirectories({ prefix: "entry-01" }));
  expect(listed.length === 10 && listed.filter((one) => one.kind === "directory").length === 2, listed);
  await refused(() => top.delete(), "DirectoryNotEmpty", 409);
  for (const one of await all(top.listFilesAndDirectories())) {
    await (one.kind === "directory" ? top.deleteSubdirectory(one.name) : top.deleteFile(one.name));
  }
  await top.delete();
  expect(!(await top.exists()) && !existsSync(join(FOLDER, "js-many")), "it is still there");
});

await check("a listing tells times, attributes and identities where they are asked for", async () => {
  await made("js-told", "12345");
  const listed = await all(root.listFilesAndDirectories({ prefix: "js-told", includeTimestamps: true, includeEtag: true, includeAttributes: true,
                                                         includeExtendedInfo: true }));
  expect(listed.length === 1 && listed[0].properties.contentLength === 5, listed);
  expect(listed[0].properties.lastWriteTime && listed[0].properties.etag && listed[0].attributes, listed);
});

await check("a directory's properties are told and set", async () => {
  const { directoryClient: one } = await share.createDirectory("js-properties");
  const before = await one.getProperties();
  expect(before.etag && before.lastModified instanceof Date && before.fileAttributes.includes("Directory"), before);
  const creationTime = new Date("2020-02-03T04:05:06.000Z");
  await one.setProperties({ creationTime });
  const after = await one.getProperties();
  expect(after.fileCreatedOn.getTime() === creationTime.getTime(), after.fileCreatedOn);
  await one.delete();
});

await check("a directory's metadata is kept", async () => {
  const { directoryClient: one } = await share.createDirectory("js-metadata");
  await one.setMetadata({ colour: "red" });
  expect((await one.getProperties()).metadata?.colour === "red", "it is not there");
  await one.delete();
});

await check("a directory is renamed", async () => {
  const { directoryClient: one } = await byHost.createDirectory("js-from");
  await one.createFile("inside", 1);
  const { destinationDirectoryClient: to } = await one.rename("js-to");
  expect(await to.getFileClient("inside").exists() && !existsSync(join(FOLDER, "js-from")), "it is where it was");
  await to.deleteFile("inside");
  await to.delete();
});

await check("a directory's handles are listed and closed", async () => {
  expect(Array.isArray(await all(root.listHandles({ recursive: true }))), "no list");
  const closed = await root.forceCloseAllHandles({ recursive: true });
  expect(closed.closedHandlesCount >= 0 && !closed.closeFailureCount, closed);
});

// Files.

await check("files of every length come back as they went, and lie on the disk so", async () => {
  for (const length of LENGTHS) {
    const data = randomBytes(length);
    const file = root.getFileClient(`js-length-${length}`);
    await file.uploadData(data, { rangeSize: 4 * MIB, concurrency: 3 });
    expect((await file.downloadToBuffer()).equals(data), `${length}: another text comes back`);
    expect(readFileSync(join(FOLDER, `js-length-${length}`)).equals(data), `${length}: another text is on the disk`);
    expect((await file.getProperties()).contentLength === length, `${length}: another length`);
    await file.delete();
  }
});

await check("files of every kind of name are made, listed and read", async () => {
  const { directoryClient: top } = await share.createDirectory("js-names");
  for (const name of NAMES) {
    await top.getFileClient(name).uploadData(Buffer.from(name));
  }
  const listed = (await all(top.listFilesAndDirectories())).map((one) => one.name).sort();
  expect(listed.join("\n") === [...NAMES].sort().join("\n"), listed);
  for (const name of NAMES) {
    expect((await top.getFileClient(name).downloadToBuffer()).toString() === name, name);
    await top.deleteFile(name);
  }
  await top.delete();
});

await check("ranges are written, cleared and read", async () => {
  const data = randomBytes(MIB);
  const file = root.getFileClient("js-ranges");
  await file.uploadData(data);
  await file.uploadRange(Buffer.from("in the middle"), 1000, 13);
  data.write("in the middle", 1000);
  await file.clearRange(512 * 8, 512 * 16);
  data.fill(0, 512 * 8, 512 * 24);
  expect((await file.downloadToBuffer()).equals(data), "another text");
  expect((await file.downloadToBuffer(900, 200)).equals(data.subarray(900, 1100)), "another range");
  await refused(() => file.uploadRange("behind", MIB - 1, 6), "InvalidRange", 416);
  await refused(() => file.download(MIB + 1, 1), "InvalidRange", 416);
  await file.resize(10);
  expect((await file.downloadToBuffer()).equals(data.subarray(0, 10)), "it was not cut");
  await file.delete();
});

await check("a file's ranges are listed", async () => {
  const file = root.getFileClient("js-sparse");
  await file.create(4 * MIB);
  await file.uploadRange(randomBytes(MIB), MIB, MIB);
  const { rangeList } = await file.getRangeList();
  expect(rangeList.length === 1 && rangeList[0].start === MIB && rangeList[0].end === 2 * MIB - 1, rangeList);
  await file.delete();
});

await check("a file's properties and headers are told and set", async () => {
  const file = await made("js-headers");
  await file.setHttpHeaders({ fileContentType: "text/plain", fileCacheControl: "no-store", fileContentLanguage: "de", fileContentDisposition: "inline" });
  const seen = await file.getProperties();
  expect(seen.contentType === "text/plain" && seen.cacheControl === "no-store" && seen.contentLanguage === "de", seen);
  const written = new Date("2021-03-04T05:06:07.000Z");
  await file.setProperties({ lastWriteTime: written });
  expect((await file.getProperties()).fileLastWriteOn.getTime() === written.getTime(), "another time");
  await file.delete();
});

await check("a file's metadata is kept", async () => {
  const file = await made("js-file-metadata");
  await file.setMetadata({ colour: "blue" });
  expect((await file.getProperties()).metadata?.colour === "blue", "it is not there");
  await file.delete();
});

await check("a file is renamed, over another only where that is asked for", async () => {
  await made("js-old name", "kept");
  await made("js-target", "other");
  const file = byHost.rootDirectoryClient.getFileClient("js-old name");
  await refused(() => file.rename("js-target"), "ResourceAlreadyExists", 409);
  const { destinationFileClient: to } = await file.rename("js-target", { replaceIfExists: true });
  expect((await to.downloadToBuffer()).toString() === "kept" && !(await file.exists()), "another text");
  await to.delete();
});

await check("a file is copied, and a copy that has ended is not aborted", async () => {
  const file = await made("js-original", "copied");
  const copy = root.getFileClient("js-copy");
  const { copyId, copyStatus } = await copy.startCopyFromURL(file.url);
  expect(copyId && ["success", "pending"].includes(copyStatus), copyStatus);
  for (let tries = 0; (await copy.getProperties()).copyStatus === "pending" && tries < 100; tries++) {
    await new Promise((done) => setTimeout(done, 50));
  }
  expect((await copy.downloadToBuffer()).toString() === "copied", "another text");
  await refused(() => copy.abortCopyFromURL(copyId), "NoPendingCopyOperation", 409);
  await copy.delete();
  await file.delete();
});

await check("a range is put from another file's URL", async () => {
  const file = await made("js-source", "0123456789");
  const to = root.getFileClient("js-destination");
  await to.create(10);
  const permissions = FileSASPermissions.parse("r");
  const sas = await file.generateSasUrl({ permissions, expiresOn: new Date(Date.now() + 5 * MINUTE) });
  await to.uploadRangeFromURL(sas, 2, 0, 5);
  expect((await to.downloadToBuffer(0, 5)).toString() === "23456", "another text");
  await to.delete();
  await file.delete();
});

await check("a file's lease keeps others out, and is changed, released and broken", async () => {
  const file = await made("js-leased");
  const lease = file.getShareLeaseClient();
  await lease.acquireLease();
  expect((await file.getProperties()).leaseState === "leased", "it is not leased");
  await refused(() => file.uploadRange("x", 0, 1), "LeaseIdMissing", 412);
  await file.uploadRange("x", 0, 1, { leaseAccessConditions: { leaseId: lease.leaseId } });
  await lease.changeLease("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
  await lease.releaseLease();
  await lease.acquireLease();
  await lease.breakLease();
  await file.delete();
});

await check("a file's handles are listed and closed", async () => {
  const file = await made("js-handles");
  expect((await all(file.listHandles())).length === 0, "somebody has it open");
  const closed = await file.forceCloseAllHandles();
  expect(closed.closedHandlesCount === 0, closed);
  await file.delete();
});

for (const [name, make] of [["a symbolic link", (file) => file.createSymbolicLink("js-a-file")], ["a hard link", (file) => file.createHardLink("js-a-file")],
                            ["a symbolic link's target", (file) => file.getSymbolicLink()]]) {
  await check(`${name} is of NFS shares`, () => refused(() => make(root.getFileClient("js-link")), "UnsupportedQueryParameter", 400));
}

await check("what is not there, or is something else, is refused with the service's codes", async () => {
  await made("js-a-file");
  await share.createDirectory("js-a-directory");
  await refused(() => root.getFileClient("nothing").download(), "ResourceNotFound", 404);
  await refused(() => share.getDirectoryClient("no").getFileClient("where").create(1), "ParentNotFound", 404);
  await refused(() => share.getDirectoryClient("js-a-file").delete(), "ResourceTypeMismatch", 409);
  await refused(() => root.getFileClient("js-a-directory").delete(), "ResourceTypeMismatch", 409);
});

// Who may.

await check("an account SAS lets in, as far as it says", async () => {
  const permissions = AccountSASPermissions.parse("rl");
  const values = { permissions, services: AccountSASServices.parse("f").toString(), resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
                   protocol: SASProtocol.HttpsAndHttp, expiresOn: new Date(Date.now() + 5 * MINUTE) };
  const sas = generateAccountSASQueryParameters(values, credential);
  const limited = new ShareServiceClient(`${URL_}?${sas}`, undefined, once);
  await made("js-sas", "seen");
  const file = limited.getShareClient(SHARE).rootDirectoryClient.getFileClient("js-sas");
  expect((await file.downloadToBuffer()).toString() === "seen", "another text");
  await refused(() => file.delete(), "AuthorizationPermissionMismatch", 403);
});
