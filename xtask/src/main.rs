//! Development tasks: `cargo xtask test` runs every check this project has; docs/TESTING.md explains them.

#[cfg(test)]
mod claims;
mod edges;
mod layers;
mod package;
mod run;
mod spec;
mod style;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask test [--only PART,PART…]
       cargo xtask edges
       cargo xtask spec [SECTION | --write]
       cargo xtask package [deb] [rpm] [oci] [sbom] [--program FILE] [--version VERSION]

spec prints which section of MS-SMB2 3.3 and MS-FSA 2.1.5 is enforced and tested where, or every place for one section; with --write it
writes docs/SPECIFICATION.md.

package makes, in target/package, packages for Debian (deb) and Fedora (rpm), a container image (oci) and the list of what is built in (sbom), or all
of them; with --program of a program that was built before.

parts of the test, in their order:
  edges        which of our crates, and of the server's folders, may depend on which; the table of the specification
  fmt          formatting
  clippy       lints, as errors
  style        spelling, Python, licenses, the Rust beside the workspace, subjects of commits
  unit         every crate's own tests
  build        the release build
  fuzz         each fuzz target for a few seconds
  conformance  foreign clients and suites against the built server
and, where they are named only:
  backups      backups while everything changes, for an hour: each restores to a server that serves
  bounds       what peers can make the built server hold
  kernel-hour  the kernel's client and fsx for an hour
  metadata-cache  what metadata caching gives and costs, on CephFS and with a million names, too
  packages     the packages installed, served from, upgraded and removed; built twice, in different places, to the same bytes
  soak         an hour of work with cuts, attacks and a disk that hangs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => test::run(&test::PARTS),
        ["test", "--only", names] => match test::chosen(names) {
            Ok(parts) => test::run(&parts),
            Err(unknown) => refuse(&unknown.to_string()),
        },
        ["spec"] => spec::table(false),
        ["spec", "--write"] => spec::table(true),
        ["spec", section] => spec::print_places(section),
        ["package", words @ ..] => match package::Plan::read(words) {
            Ok(plan) => plan.carry_out(),
            Err(broken) => refuse(&broken.to_string()),
        },
        ["edges"] => test::run(&[test::Part::Edges]),
        _ => refuse("what is to be done?"),
    }
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("{reason}\n\n{USAGE}");
    ExitCode::from(2)
}
