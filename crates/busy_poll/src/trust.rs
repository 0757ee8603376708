//! Whether busy polling pays, as far as the last idle times tell.

/// Turns that are let pass at the most before a thread polls again: polling in vain then costs it next to nothing.
const REST_MAX: u32 = 255;

/// Trust in busy polling. It is there to begin with.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Turns to let pass after the next time in vain.
    rest: u32,
    /// Turns still to let pass.
    left: u32,
}

impl Trust {
    /// Whether to poll in this turn.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Polling has paid, or was in vain: then it rests, for twice as long as the last time.
    pub(crate) fn learn(&mut self, paid: bool) {
        if paid {
            self.rest /= 2;
        } else {
            self.rest = (self.rest * 2 + 1).min(REST_MAX);
            self.left = self.rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns until it looks again.
    fn rests(trust: &mut Trust) -> usize {
        std::iter::repeat_with(|| trust.is_due()).take_while(|is_due| !is_due).count()
    }

    #[test]
    fn what_is_in_vain_is_tried_less_and_less_and_what_pays_more_and_more() {
        let mut trust = Trust::default();
        assert_eq!(rests(&mut trust), 0);
        let in_vain: Vec<usize> = (0..10)
            .map(|_| {
                trust.learn(false);
                rests(&mut trust)
            })
            .collect();
        assert_eq!(in_vain, [1, 3, 7, 15, 31, 63, 127, 255, 255, 255]);
        (0..8).for_each(|_| trust.learn(true));
        assert_eq!(rests(&mut trust), 0);
        trust.learn(false);
        assert_eq!(rests(&mut trust), 1);
    }
}
