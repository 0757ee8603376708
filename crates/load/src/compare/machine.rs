//! What a comparison runs on.

use std::fs;
use std::thread::available_parallelism;

use serde::Serialize;

/// This machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// The congestion control of TCP connections that ask for no other. One that paces (bbr) costs what is not Multilane's and stays
    /// within the machine.
    pub congestion_control: String,
    /// Programs that wanted to run in the minute before, on average.
    pub load_before: f64,
}

impl Machine {
    /// As it is now. What the system does not tell stays empty.
    pub(crate) fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let uname = rustix::system::uname();
        let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory = memory.and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        let load = read("/proc/loadavg").split_whitespace().next().and_then(|load| load.parse().ok());
        Machine {
            cores: available_parallelism().map_or(1, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_bytes: memory.unwrap_or_default() << 10,
            kernel,
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().to_owned(),
            load_before: load.unwrap_or_default(),
        }
    }
}

/// What stands behind `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: A fast: one\n\nmodel name\t: another\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A fast: one"));
        assert_eq!(field(text, "model"), None);
    }
}
