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

    /// `CLOCK_REALTIME` at the zero of `CLOCK_BOOTTIME` in nanoseconds, when the kernel knew it.
    pub fn boot_realtime_ns(&self) -> Option<i64> {
        (self.realtime_ns != 0).then(|| self.realtime_ns.saturating_sub(self.boottime_ns))
    }

    /// What a CTF reader should call zero, for a trace that begins with the reading `earliest`.
    /// Readers do not like times before it, and the kernel's first events are before its own clock's
    /// zero.
    pub fn ctf_zero(&self, earliest: u64) -> CtfZero {
        let first = self.ns(earliest);
        match self.boot_realtime_ns() {
            Some(boot) if boot.saturating_add(first) >= 0 => CtfZero::Epoch,
            _ if first >= 0 => CtfZero::Boot,
            _ => CtfZero::Reading,
        }
    }

    /// What CTF calls the clock's offset: seconds, and ticks below a second, to be added to a
    /// reading to get the time since zero.
    pub fn ctf_offset(&self, zero: CtfZero) -> (i64, u64) {
        let at_reading = match zero {
            CtfZero::Reading => return (0, 0),
            CtfZero::Boot => self.boottime_ns,
            CtfZero::Epoch => self.realtime_ns,
        };
        let freq = i128::from(self.freq_hz);
        let ticks = (i128::from(at_reading) * freq).div_euclid(NSECS) - i128::from(self.reading);
        (ticks.div_euclid(freq) as i64, ticks.rem_euclid(freq) as u64)
    }
}

/// The zero of the clock in the CTF metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtfZero {
    /// 1970-01-01: times are times of day.
    Epoch,
    /// The zero of `CLOCK_BOOTTIME`.
    Boot,
    /// The zero of the clock's readings: for the TSC, the machine's reset.
    Reading,
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
        let (seconds, ticks) = clock.ctf_offset(CtfZero::Boot);
        assert_eq!((seconds, ticks), (-4, 1_000_000_000));
        assert_eq!(clock.span_ns(10, 30), 10);
        assert_eq!(clock.span_ns(30, 10), 0);

        let known = Clock {
            realtime_ns: 1_700_000_001_500_000_000,
            ..clock
        };
        assert_eq!(
            known.ctf_offset(CtfZero::Epoch),
            (1_699_999_996, 1_000_000_000)
        );
    }

    #[test]
    fn nothing_is_before_zero_for_ctf() {
        let clock = Clock {
            kind: 1,
            freq_hz: 1_000_000_000,
            reading: 5_000_000_000,
            boottime_ns: 2_000_000_000,
            realtime_ns: 0,
        };
        assert_eq!(clock.ctf_zero(3_000_000_000), CtfZero::Boot);
        assert_eq!(clock.ctf_zero(2_999_999_999), CtfZero::Reading);
        let known = Clock {
            realtime_ns: 1_000_000_000_000,
            ..clock
        };
        assert_eq!(known.ctf_zero(1), CtfZero::Epoch);
        assert_eq!(known.ctf_offset(CtfZero::Epoch), (995, 0));
        assert_eq!(known.boot_realtime_ns(), Some(998_000_000_000));
        // A machine whose battery is empty.
        let unset = Clock {
            realtime_ns: 2_000_000_000,
            ..clock
        };
        assert_eq!(unset.ctf_zero(2_000_000_000), CtfZero::Reading);
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
        for zero in [CtfZero::Boot, CtfZero::Epoch] {
            clock.ctf_offset(zero);
        }
        clock.ctf_zero(0);
    }
}
