//! A timer of the kernel, which wakes within microseconds. The runtime's own timers count in milliseconds, which would be part of every
//! latency that is counted from a schedule.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// For one waiter at a time.
#[derive(Debug, Default)]
pub(super) struct Timer(Option<AsyncFd<OwnedFd>>);

impl Timer {
    /// Waits until then; with the runtime's timers where the kernel has no other one to give.
    pub(super) async fn wait_until(&mut self, at: Instant) {
        if self.precise(at).await.is_err() {
            tokio::time::sleep_until(at.into()).await;
        }
    }

    async fn precise(&mut self, at: Instant) -> io::Result<()> {
        let timer = match &self.0 {
            Some(timer) => timer,
            None => {
                let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                #[expect(deprecated, reason = "an OwnedFd is the same descriptor for as long as it lives")]
                let timer = AsyncFd::new(timer)?;
                self.0.insert(timer)
            }
        };
        let rest = at.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(());
        }
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &once_after(rest))?;
        loop {
            let mut ready = timer.readable().await?;
            // Setting the timer clears what a wait that was given up has left.
            if ready.try_io(|timer| Ok(rustix::io::read(timer, &mut [0; 8])?)).is_ok() {
                return Ok(());
            }
        }
    }
}

fn once_after(rest: Duration) -> Itimerspec {
    let after =
        Timespec { tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(rest.subsec_nanos()) };
    Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_is_not_early_and_can_be_used_again() {
        let mut timer = Timer::default();
        for _ in 0..3 {
            let at = Instant::now() + Duration::from_micros(300);
            timer.wait_until(at).await;
            assert!(Instant::now() >= at);
        }
        timer.wait_until(Instant::now()).await;
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_does_not_end_the_next_one() {
        let mut timer = Timer::default();
        let short = Instant::now() + Duration::from_micros(50);
        tokio::select! {
            biased;
            () = timer.wait_until(short) => unreachable!("it has just begun"),
            () = std::future::ready(()) => {}
        }
        let at = Instant::now() + Duration::from_millis(1);
        timer.wait_until(at).await;
        assert!(Instant::now() >= at);
    }
}
