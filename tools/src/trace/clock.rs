//! Readings of the trace clock as nanoseconds since boot.

use bootbuf::abi::{CLOCK_BOOTTIME, MetaClock};

const NSECS: i128 = 1_000_000_000;

/// The trace clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// `bootbuf::abi::CLOCK_TSC` and the like.
    pub kind: u32,
    /// Ticks a second, never 0.
    pub freq_hz: u64,
    reading: u64,
    boottime_ns: i64,
    realtime_ns: i64,
}

impl Default for Clock {
    /// Nanoseconds since boot: what the kernel falls back to.
    fn default() -> Self {
        Self {
            kind: CLOCK_BOOTTIME,
            freq_hz: NSECS as u64,
            reading: 0,
            boottime_ns: 0,
            realtime_ns: 0,
        }
    }
}

impl Clock {
    /// From a record of the meta stream; `None` when it holds no frequency.
    pub fn from_meta(meta: &MetaClock) -> Option<Self> {
        (meta.freq_hz != 0).then_some(Self {
            kind: meta.clock,
            freq_hz: meta.freq_hz,
            reading: meta.reading,
            boottime_ns: meta.boottime_ns,
            realtime_ns: meta.realtime_ns,
        })
    }

    /// Nanoseconds of `CLOCK_BOOTTIME` at a reading.
    pub fn ns(&self, reading: u64) -> i64 {
        let ticks = i128::from(reading) - i128::from(self.reading);
        let ns = (ticks * NSECS).div_euclid(self.freq_hz.into()) + i128::from(self.boottime_ns);
        ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Nanoseconds between two readings.
    pub fn span_ns(&self, begin: u64, end: u64) -> u64 {
        let ns = i128::from(end.saturating_sub(begin)) * NSECS / i128::from(self.freq_hz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// What CTF calls the clock's offset: seconds, and ticks below a second, to be added to a
    /// reading to get the time since boot.
    pub fn ctf_offset(&self) -> (i64, u64) {
        let freq = i128::from(self.freq_hz);
        let ticks =
            (i128::from(self.boottime_ns) * freq).div_euclid(NSECS) - i128::from(self.reading);
        (ticks.div_euclid(freq) as i64, ticks.rem_euclid(freq) as u64)
    }

    /// `CLOCK_REALTIME` at boot in nanoseconds, when the kernel knew it.
    pub fn boot_realtime_ns(&self) -> Option<i64> {
        (self.realtime_ns != 0).then(|| self.realtime_ns.saturating_sub(self.boottime_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_boot() {
        let clock = Clock {
            kind: 1,
            freq_hz: 2_000_000_000,
            reading: 10_000_000_000,
            boottime_ns: 1_500_000_000,
            realtime_ns: 0,
        };
        assert_eq!(clock.ns(10_000_000_000), 1_500_000_000);
        assert_eq!(clock.ns(7_000_000_000), 0);
        assert_eq!(clock.ns(6_999_999_998), -1);
        let (seconds, ticks) = clock.ctf_offset();
        assert_eq!((seconds, ticks), (-4, 1_000_000_000));
        assert_eq!(clock.span_ns(10, 30), 10);
        assert_eq!(clock.span_ns(30, 10), 0);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let clock = Clock {
            freq_hz: 1,
            reading: u64::MAX,
            boottime_ns: i64::MIN,
            ..Clock::default()
        };
        assert_eq!(clock.ns(0), i64::MIN);
        assert_eq!(clock.span_ns(0, u64::MAX), u64::MAX);
        clock.ctf_offset();
    }
}
