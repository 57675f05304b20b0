//! Medians and spreads.

use serde::Serialize;

/// Median and tenth and ninetieth percentile of a measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The tenth percentile.
    pub p10: f64,
    /// The ninetieth percentile.
    pub p90: f64,
}

impl Spread {
    /// Of at least one value; not a number when there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self {
            median: quantile(&values, 0.5),
            p10: quantile(&values, 0.1),
            p90: quantile(&values, 0.9),
        }
    }
}

/// Between the two nearest of the sorted values, in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = part * last as f64;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!(spread.median, 3.0);
        assert!((spread.p10 - 1.4).abs() < 1e-9);
        assert!((spread.p90 - 4.6).abs() < 1e-9);
        assert_eq!(Spread::of([7.0]).p90, 7.0);
        assert!(Spread::of([]).median.is_nan());
    }
}
