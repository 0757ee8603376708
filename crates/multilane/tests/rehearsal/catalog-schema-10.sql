-- A catalog as a program with schema 10 has made it: account `local`, user `alice` with the password `a secret`, one share in the data folder.
CREATE TABLE migration (version INTEGER PRIMARY KEY) STRICT;
CREATE TABLE setting (
name TEXT PRIMARY KEY,
value TEXT NOT NULL
) STRICT;

CREATE TABLE principal (
relative_id INTEGER PRIMARY KEY AUTOINCREMENT,
folded_name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO sqlite_sequence (name, seq) VALUES ('principal', 999);

CREATE TABLE account (
relative_id INTEGER PRIMARY KEY REFERENCES principal ON DELETE CASCADE,
name TEXT NOT NULL UNIQUE,
kind TEXT NOT NULL CHECK (kind IN ('FileStorage', 'StorageV2')),
key1 TEXT NOT NULL,
key2 TEXT NOT NULL
) STRICT;

CREATE TABLE user (
relative_id INTEGER PRIMARY KEY REFERENCES principal ON DELETE CASCADE,
name TEXT NOT NULL,
account INTEGER NOT NULL REFERENCES account,
nt_hash BLOB NOT NULL CHECK (length(nt_hash) = 16)
) STRICT;

CREATE TABLE share (
id INTEGER PRIMARY KEY AUTOINCREMENT,
name TEXT NOT NULL,
folded_name TEXT NOT NULL UNIQUE,
account INTEGER NOT NULL REFERENCES account,
folder TEXT,
ram_bytes INTEGER CHECK (ram_bytes > 0),
quota_gib INTEGER CHECK (quota_gib > 0),
read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
seal_required INTEGER NOT NULL CHECK (seal_required IN (0, 1)),
comment TEXT NOT NULL,
CHECK ((folder IS NULL) <> (ram_bytes IS NULL))
) STRICT;
INSERT INTO migration (version) VALUES (1);
ALTER TABLE account ADD COLUMN multichannel INTEGER NOT NULL DEFAULT 0 CHECK (multichannel IN (0, 1));
INSERT INTO migration (version) VALUES (2);
ALTER TABLE share ADD COLUMN continuous INTEGER NOT NULL DEFAULT 0 CHECK (continuous IN (0, 1));
INSERT INTO migration (version) VALUES (3);
ALTER TABLE share ADD COLUMN access_based INTEGER NOT NULL DEFAULT 0 CHECK (access_based IN (0, 1));
INSERT INTO migration (version) VALUES (4);
ALTER TABLE share ADD COLUMN file_mode INTEGER CHECK (file_mode BETWEEN 0 AND 511);
ALTER TABLE share ADD COLUMN directory_mode INTEGER CHECK (directory_mode BETWEEN 0 AND 511);
INSERT INTO migration (version) VALUES (5);
ALTER TABLE account ADD COLUMN sku TEXT;
ALTER TABLE account ADD COLUMN location TEXT;
ALTER TABLE account ADD COLUMN metadata_caching INTEGER NOT NULL DEFAULT 1 CHECK (metadata_caching IN (0, 1));
CREATE TABLE feature (
name TEXT PRIMARY KEY,
registered_from INTEGER NOT NULL
) STRICT;
INSERT INTO migration (version) VALUES (6);
CREATE TABLE provision (
share INTEGER PRIMARY KEY REFERENCES share ON DELETE CASCADE,
model TEXT NOT NULL CHECK (model IN ('v1', 'v2')),
gib INTEGER NOT NULL CHECK (gib > 0),
iops INTEGER CHECK (iops > 0),
mibps INTEGER CHECK (mibps > 0),
gib_increased INTEGER NOT NULL,
iops_increased INTEGER NOT NULL,
mibps_increased INTEGER NOT NULL,
CHECK ((model = 'v2') = (iops IS NOT NULL) AND (model = 'v2') = (mibps IS NOT NULL))
) STRICT;
ALTER TABLE share ADD COLUMN iops_max INTEGER CHECK (iops_max > 0);
ALTER TABLE share ADD COLUMN mibps_max INTEGER CHECK (mibps_max > 0);
ALTER TABLE share ADD COLUMN user_iops_max INTEGER CHECK (user_iops_max > 0);
ALTER TABLE share ADD COLUMN user_mibps_max INTEGER CHECK (user_mibps_max > 0);
INSERT INTO migration (version) VALUES (7);
ALTER TABLE share ADD COLUMN believed_ms INTEGER DEFAULT 1000 CHECK (believed_ms BETWEEN 0 AND 60000);
UPDATE share SET believed_ms = NULL WHERE folder IS NULL;
INSERT INTO migration (version) VALUES (8);
ALTER TABLE share ADD COLUMN audit TEXT NOT NULL DEFAULT 'none';
INSERT INTO migration (version) VALUES (9);
CREATE TABLE operator (
folded_name TEXT PRIMARY KEY,
name TEXT NOT NULL,
rounds INTEGER NOT NULL CHECK (rounds > 0),
salt BLOB NOT NULL CHECK (length(salt) = 16),
hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO migration (version) VALUES (10);
INSERT INTO setting (name, value) VALUES ('machine_sid', '1-2-3'), ('server_guid', '00112233445566778899aabbccddeeff');
INSERT INTO principal (relative_id, folded_name) VALUES (1000, 'LOCAL'), (1001, 'ALICE');
INSERT INTO account (relative_id, name, kind, key1, key2) VALUES (1000, 'local', 'FileStorage', 'MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMQ==', 'MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMg==');
INSERT INTO user (relative_id, name, account, nt_hash) VALUES (1001, 'alice', 1000, x'01610ca63fc6868f0391c63f9abb3e02');
INSERT INTO share (name, folded_name, account, folder, read_only, seal_required, comment)
VALUES ('share', 'SHARE', 1000, 'DATA/share', 0, 0, '');
