//! What is said of repeated measurements: medians, ratios pair by pair, and how far they lie apart.

/// The middle of some numbers and how far they reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle one; the mean of the two in the middle where their number is even.
    pub(crate) median: f64,
    /// The lowest.
    pub(crate) low: f64,
    /// The highest.
    pub(crate) high: f64,
}

impl Spread {
    /// Of these numbers; `None` where there are none. What is no number (0/0) is left out.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Spread { median: f64::midpoint(lower, upper), low, high })
    }

    /// Half of what lies between the lowest and the highest: how far chance moves one of them.
    pub(crate) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The median alone; `None` where there are no numbers.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// What was done next to what it is compared with, pair by pair: the quotients of those pairs whose second is above 0.
pub(crate) fn ratios(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Spread> {
    Spread::of(pairs.into_iter().filter(|(_, base)| *base > 0.0).map(|(value, base)| value / base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_between_the_two_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn a_spread_reaches_from_the_lowest_to_the_highest() {
        let spread = Spread::of([1.1, 0.9, 1.0]).unwrap();
        assert_eq!(spread, Spread { median: 1.0, low: 0.9, high: 1.1 });
        assert!((spread.half_width() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn ratios_are_of_pairs_not_of_medians() {
        // The medians are 20 and 10, but no pair has twice as much as its other.
        let pairs = [(10.0, 10.0), (20.0, 20.0), (30.0, 5.0)];
        assert_eq!(ratios(pairs), Some(Spread { median: 1.0, low: 1.0, high: 6.0 }));
    }

    #[test]
    fn what_has_no_base_has_no_ratio() {
        assert_eq!(ratios([(1.0, 0.0)]), None);
        assert_eq!(ratios([(1.0, 0.0), (3.0, 2.0)]).map(|spread| spread.median), Some(1.5));
        assert_eq!(median([f64::NAN, 2.0]), Some(2.0));
    }
}
