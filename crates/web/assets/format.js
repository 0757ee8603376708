// Numbers, sizes and times for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(number) {
  if (number === null || number === undefined) return "unknown";
  let unit = 0;
  while (number >= 1024 && unit + 1 < UNITS.length) {
    number /= 1024;
    unit += 1;
  }
  return `${rounded(number)} ${UNITS[unit]}`;
}

// Three digits, or as many as a whole number has.
export function rounded(number) {
  if (number === null || number === undefined) return "-";
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size < 0.01) return "< 0.01";
  const digits = size < 10 ? 2 : size < 100 ? 1 : 0;
  return number.toLocaleString("en", { maximumFractionDigits: digits });
}

export function whole(number) {
  return number === null || number === undefined ? "-" : Math.round(number).toLocaleString("en");
}

export function millis(number) {
  return number === null || number === undefined ? "-" : `${rounded(number)} ms`;
}

export function mibs(number) {
  return `${rounded(number)} MiB/s`;
}

export function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([length]) => seconds >= length);
  if (at < 0) return "0 s";
  const [length, unit] = parts[at];
  const first = `${Math.floor(seconds / length)} ${unit}`;
  const next = parts[at + 1];
  const rest = next ? Math.floor((seconds % length) / next[0]) : 0;
  return rest ? `${first} ${rest} ${next[1]}` : first;
}

// A time of day, here.
export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB");
}

export function date(milliseconds) {
  return `${new Date(milliseconds).toLocaleDateString("en-CA")} ${clock(milliseconds)}`;
}

export function speed(bits) {
  return bits >= 1e9 ? `${rounded(bits / 1e9)} Gbit/s` : `${rounded(bits / 1e6)} Mbit/s`;
}

export function many(count, one, several = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : several}`;
}

// The words for an access mask (MS-SMB2 2.2.13.1.1), as `multilane open-files` has them.
export function rights(access) {
  const known = [[0x80000001, "read"], [0x40000006, "write"], [0x00010000, "delete"]];
  const words = known.filter(([bits]) => (access & bits) !== 0).map(([, word]) => word);
  return words.length ? words.join(", ") : "attributes";
}
