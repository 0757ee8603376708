//! On which cores threads run. A thread that serves others is tied to one, and what it starts would be tied there with it: in its way, and on none of the
//! cores that are free.

use std::io;
use std::thread::Builder;

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Starts a thread that may run on every core that the process may use, whoever starts it.
pub fn start(thread: Builder, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let on_any_core = move || {
        if let Err(error) = allowed().and_then(|cores| Ok(sched_setaffinity(None, &cores)?)) {
            tracing::debug!(%error, "a thread stays on the core of the one that started it");
        }
        work();
    };
    thread.spawn(on_any_core).map(drop)
}

/// Ties this thread to one of the cores that the process may use: each index to another, as far as there are enough.
pub fn tie_to_core(index: usize) {
    if let Err(error) = allowed().and_then(|cores| Ok(sched_setaffinity(None, &one_of(&cores, index))?)) {
        tracing::debug!(%error, index, "a thread is not tied to a core");
    }
}

/// The cores that the process may use: those of its first thread, which is tied to none.
fn allowed() -> io::Result<CpuSet> {
    Ok(sched_getaffinity(Some(getpid()))?)
}

fn one_of(cores: &CpuSet, index: usize) -> CpuSet {
    let mut one = CpuSet::new();
    let count = cores.count().max(1) as usize;
    let chosen = (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).nth(index % count);
    chosen.into_iter().for_each(|core| one.set(core));
    one
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn set_of(cores: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        set
    }

    #[test]
    fn each_index_has_one_of_the_cores_that_are_allowed() {
        let cores = set_of(&[4, 6, 900]);
        let chosen: Vec<CpuSet> = (0..4).map(|index| one_of(&cores, index)).collect();
        assert_eq!(chosen, [set_of(&[4]), set_of(&[6]), set_of(&[900]), set_of(&[4])]);
    }

    #[test]
    fn what_a_tied_thread_starts_may_run_on_every_core() {
        let (tell, told) = channel();
        let tied = std::thread::spawn(move || {
            tie_to_core(0);
            let own = sched_getaffinity(None).unwrap();
            start(Builder::new(), move || tell.send((own, sched_getaffinity(None).unwrap())).unwrap()).unwrap();
        });
        tied.join().unwrap();
        let (of_tied, of_started) = told.recv().unwrap();
        assert_eq!(of_tied, one_of(&allowed().unwrap(), 0));
        assert_eq!(of_started, allowed().unwrap());
    }
}
