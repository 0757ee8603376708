// Looks at what a build has made: the bundle is a program, and has every module; and the compiler is as new as the lock file says.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import semver from "semver";

const { sources } = JSON.parse(readFileSync("out/main.js.map", "utf8"));
const modules = readdirSync("out/types").filter((name) => name.endsWith(".js"));
const missing = modules.filter((name) => !sources.some((source) => source.endsWith(`/${name}`)));
if (missing.length > 0 || modules.length < 2) throw new Error(`the bundle lacks ${missing} of ${modules.length}`);
execFileSync(process.execPath, ["--check", "out/main.js"]);
const { version } = JSON.parse(readFileSync("node_modules/typescript/package.json", "utf8"));
if (!semver.satisfies(version, ">=5.9 <6")) throw new Error(`typescript ${version}`);
console.log(`built ${modules.length} modules`);
