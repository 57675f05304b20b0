//! The guard that ends a span.

use core::marker::PhantomData;

use crate::abi::Descriptor;
use crate::emit::record_end;

/// A span under way; dropping it writes the end record. Made by [`span!`](crate::span!).
///
/// It stays on the thread that made it, since begin and end are paired within a thread.
#[must_use = "a span ends when its guard is dropped: bind it to a name, not to `_`"]
#[derive(Debug)]
pub struct Span {
    /// The end's descriptor; none when the marker was off at the beginning.
    end: Option<&'static Descriptor>,
    /// What [`emit`](crate::emit::emit) returned for the begin: the time-stamp of its record, 0 when it
    /// could not be written.
    begin: u64,
    /// 0, or a negative errno.
    ret: i32,
    not_send: PhantomData<*mut ()>,
}

impl Span {
    /// A span whose marker is off.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn off() -> Self {
        Self {
            end: None,
            begin: 0,
            ret: 0,
            not_send: PhantomData,
        }
    }

    /// A span whose marker was on.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn begun(end: &'static Descriptor, begin: u64) -> Self {
        Self {
            end: Some(end),
            begin,
            ret: 0,
            not_send: PhantomData,
        }
    }

    /// Notes that what the span covers failed, with an errno such as `libc::EIO` (its sign does not
    /// matter). The end record carries it; the last call counts, and 0 takes an earlier one back.
    #[inline(always)]
    pub fn fail(&mut self, errno: i32) {
        self.ret = if errno > 0 { -errno } else { errno };
    }

    /// Notes the error of a result, if it is one, and hands the result on.
    ///
    /// ```
    /// fn read_config() -> std::io::Result<String> {
    ///     let mut span = markers::span!("init", "config");
    ///     span.result(std::fs::read_to_string("/proc/cmdline"))
    /// }
    /// # read_config().unwrap();
    /// ```
    #[inline(always)]
    pub fn result<T, E: ErrorNumber>(&mut self, result: Result<T, E>) -> Result<T, E> {
        if let Err(error) = &result {
            self.fail(error.error_number());
        }
        result
    }
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(end) = self.end {
            record_end(end, self.begin, self.ret);
        }
    }
}

/// Errors that have an errno.
pub trait ErrorNumber {
    /// The errno; [`EIO`] for an error that has none.
    fn error_number(&self) -> i32;
}

/// What an error without an errno counts as.
pub const EIO: i32 = 5;

impl ErrorNumber for i32 {
    fn error_number(&self) -> i32 {
        *self
    }
}

impl ErrorNumber for rustix::io::Errno {
    fn error_number(&self) -> i32 {
        self.raw_os_error()
    }
}

#[cfg(any(feature = "std", test))]
impl ErrorNumber for std::io::Error {
    fn error_number(&self) -> i32 {
        self.raw_os_error().unwrap_or(EIO)
    }
}

impl<E: ErrorNumber + ?Sized> ErrorNumber for &E {
    fn error_number(&self) -> i32 {
        (**self).error_number()
    }
}
