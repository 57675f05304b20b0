//! The macros that place markers in programs.

/// Records a point in time with typed, named fields.
///
/// ```
/// # let (path, flags, phase, error) = ("/run", 0x6_u64, 1_u8, 0);
/// use markers::marker;
///
/// marker!("init", "started");
/// marker!("init", "mounted", target: str = path, flags: u64 [hex] = flags);
/// marker!("init", "probe", level = debug, ret: i32 [errno] = error);
/// marker!("init", "phase", to: u8 [enum "mount", "switch"] = phase);
/// // Short for `path: str = path`.
/// marker!("init", "opened", path: str);
/// ```
///
/// The arguments are provider and name (constant `&str`: ASCII letters, digits, `_`, `-`, `.`; at most
/// 23 and 39 octets), an optional `level = ...` and at most 8 fields, each `name: type [hint] = value`.
///
/// | type | value | hints |
/// | --- | --- | --- |
/// | `u8` `u16` `u32` `u64` `i8` `i16` `i32` `i64` | of that type | `[hex]`, `[errno]`, `[ns]`, `[size]`, `[enum "label of 0", "label of 1", ...]` |
/// | `f32` `f64` `bool` | of that type | |
/// | `str` | `&str` or what dereferences to it; cut after 480 octets | |
/// | `bytes` | `&[u8]` likewise | |
/// | `clock` | `u64`, a raw reading of the trace clock | |
///
/// Levels are `emergency`, `alert`, `critical`, `error`, `warning`, `notice`, `info` (if none is given)
/// and `debug`.
///
/// While the marker is off, which it is until the kernel turns it on, it costs one load with compare
/// and one branch not taken, and no value is evaluated. What exceeds a limit does not compile.
#[macro_export]
macro_rules! marker {
    ($provider:expr, $name:expr, level = $level:ident $(, $field:ident : $ty:ident $([$($hint:tt)+])? $(= $value:expr)?)* $(,)?) => {
        $crate::__point!(KIND_INSTANT, $level, $provider, $name, $({$field, $ty, [$($($hint)+)?], ($($value)?)})*)
    };
    ($provider:expr, $name:expr $(, $field:ident : $ty:ident $([$($hint:tt)+])? $(= $value:expr)?)* $(,)?) => {
        $crate::__point!(KIND_INSTANT, info, $provider, $name, $({$field, $ty, [$($($hint)+)?], ($($value)?)})*)
    };
}

/// Records the value of one or more quantities that change over time; charts draw them as curves.
///
/// ```
/// # let (free, used) = (1_u64, 2_u64);
/// markers::counter!("init", "memory", free: u64 [size] = free, used: u64 [size] = used);
/// ```
///
/// As [`marker!`](crate::marker!), with at least one field that is a number.
#[macro_export]
macro_rules! counter {
    ($provider:expr, $name:expr, level = $level:ident $(, $field:ident : $ty:ident $([$($hint:tt)+])? $(= $value:expr)?)* $(,)?) => {
        $crate::__point!(KIND_COUNTER, $level, $provider, $name, $({$field, $ty, [$($($hint)+)?], ($($value)?)})*)
    };
    ($provider:expr, $name:expr $(, $field:ident : $ty:ident $([$($hint:tt)+])? $(= $value:expr)?)* $(,)?) => {
        $crate::__point!(KIND_COUNTER, info, $provider, $name, $({$field, $ty, [$($($hint)+)?], ($($value)?)})*)
    };
}

/// Begins a span and returns the [`Span`](crate::Span) that ends it when it is dropped.
///
/// ```
/// # fn mount(_: &str) -> Result<(), i32> { Ok(()) }
/// # let target = "/run";
/// use markers::span;
///
/// let mut span = span!("init", "mount", target: str = target);
/// if let Err(errno) = mount(target) {
///     span.fail(errno);
/// }
/// drop(span);
/// ```
///
/// The arguments are those of [`marker!`](crate::marker!); the fields belong to the begin record. The
/// end record holds the begin's time-stamp and the errno given to [`Span::fail`](crate::Span::fail).
/// A marker that is off at the beginning writes no end, and its guard costs nothing but the test for that.
#[macro_export]
macro_rules! span {
    ($provider:expr, $name:expr, level = $level:ident $(, $field:ident : $ty:ident $([$($hint:tt)+])? $(= $value:expr)?)* $(,)?) => {
        $crate::__span!($level, $provider, $name, $({$field, $ty, [$($($hint)+)?], ($($value)?)})*)
    };
    ($provider:expr, $name:expr $(, $field:ident : $ty:ident $([$($hint:tt)+])? $(= $value:expr)?)* $(,)?) => {
        $crate::__span!(info, $provider, $name, $({$field, $ty, [$($($hint)+)?], ($($value)?)})*)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __point {
    ($kind:ident, $level:ident, $provider:expr, $name:expr, $({$field:ident, $ty:ident, $hint:tt, $value:tt})*) => {{
        let (marker, enabled) = $crate::__descriptor!($kind, $level, $provider, $name,
            &[$($crate::__field!($field, $ty, $hint)),*]);
        if enabled() {
            $crate::__private::emit(marker, ($($crate::__value!($field, $ty, $value),)*));
        }
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __span {
    ($level:ident, $provider:expr, $name:expr, $({$field:ident, $ty:ident, $hint:tt, $value:tt})*) => {{
        let (begin, enabled) = $crate::__descriptor!(KIND_SPAN_BEGIN, $level, $provider, $name,
            &[$($crate::__field!($field, $ty, $hint)),*]);
        let (end, _) = $crate::__descriptor!(KIND_SPAN_END, $level, $provider, $name,
            &$crate::__private::SPAN_END_FIELDS);
        if enabled() {
            $crate::Span::begun(end, $crate::__private::emit(begin, ($($crate::__value!($field, $ty, $value),)*)))
        } else {
            $crate::Span::off()
        }
    }};
}

/// The static lives in a block of its own, because names of items in macros are visible to the
/// expressions that callers pass.
#[doc(hidden)]
#[macro_export]
macro_rules! __descriptor {
    ($kind:ident, $level:ident, $provider:expr, $name:expr, $fields:expr) => {{
        #[$crate::__private::linkme::distributed_slice($crate::__private::BOOTMARK)]
        #[linkme(crate = $crate::__private::linkme)]
        static __BOOTMARK_DESCRIPTOR: $crate::abi::Descriptor =
            $crate::__private::descriptor(&$crate::__private::Spec {
                provider: $provider,
                name: $name,
                kind: $crate::abi::$kind,
                level: $crate::__level!($level),
                line: ::core::line!(),
                fields: $fields,
            });

        #[inline(always)]
        fn enabled() -> bool {
            $crate::__enabled!(__BOOTMARK_DESCRIPTOR)
        }

        (&__BOOTMARK_DESCRIPTOR, enabled)
    }};
}

/// Whether the kernel has turned the marker on.
///
/// In assembly, because the compiler keeps the load of an atomic apart from the comparison, which is
/// one instruction and one register more, and because it may move or merge a load that is no atomic.
#[doc(hidden)]
#[cfg(not(feature = "dylib"))]
#[macro_export]
macro_rules! __enabled {
    ($descriptor:ident) => {{
        let mut enabled = false;
        // SAFETY: reads one aligned word of a static, as a relaxed atomic load would, and jumps to the
        // label or falls through; changes nothing but the flags.
        unsafe {
            ::core::arch::asm!(
                "cmpl $0, {descriptor} + {state}(%rip)",
                "jne {on}",
                descriptor = sym $descriptor,
                state = const $crate::__private::STATE_OFFSET,
                on = label { enabled = true; },
                options(att_syntax, readonly, nostack),
            );
        }
        enabled
    }};
}

#[doc(hidden)]
#[cfg(feature = "dylib")]
#[macro_export]
macro_rules! __enabled {
    ($descriptor:ident) => {
        $descriptor
            .state
            .load(::core::sync::atomic::Ordering::Relaxed)
            != 0
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    ($field:ident, $ty:ident, []) => {
        $crate::__field!(@ $field, $ty, HINT_NONE)
    };
    ($field:ident, $ty:ident, [hex]) => {
        $crate::__field!(@ $field, $ty, HINT_HEX)
    };
    ($field:ident, $ty:ident, [errno]) => {
        $crate::__field!(@ $field, $ty, HINT_ERRNO)
    };
    ($field:ident, $ty:ident, [ns]) => {
        $crate::__field!(@ $field, $ty, HINT_NSECS)
    };
    ($field:ident, $ty:ident, [size]) => {
        $crate::__field!(@ $field, $ty, HINT_SIZE)
    };
    ($field:ident, $ty:ident, [enum $($label:expr),+ $(,)?]) => {
        $crate::__field!(@ $field, $ty, HINT_ENUM $(, $label)+)
    };
    ($field:ident, $ty:ident, $hint:tt) => {
        ::core::compile_error!(::core::concat!(
            "field `", ::core::stringify!($field), "`: unknown hint `", ::core::stringify!($hint),
            "`; there are [hex], [errno], [ns], [size] and [enum \"label of 0\", \"label of 1\", ...]"
        ))
    };
    (@ $field:ident, $ty:ident, $hint:ident $(, $label:expr)*) => {
        $crate::__private::FieldSpec {
            name: ::core::stringify!($field),
            ty: $crate::__type!($field, $ty),
            hint: $crate::abi::$hint,
            labels: &[$($label),*],
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __value {
    ($field:ident, $ty:ident, ()) => {
        $crate::__private::value::$ty($field)
    };
    ($field:ident, $ty:ident, ($value:expr)) => {
        $crate::__private::value::$ty($value)
    };
}

#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __type {
    ($field:ident, u8) => { $crate::abi::TYPE_U8 };
    ($field:ident, u16) => { $crate::abi::TYPE_U16 };
    ($field:ident, u32) => { $crate::abi::TYPE_U32 };
    ($field:ident, u64) => { $crate::abi::TYPE_U64 };
    ($field:ident, i8) => { $crate::abi::TYPE_I8 };
    ($field:ident, i16) => { $crate::abi::TYPE_I16 };
    ($field:ident, i32) => { $crate::abi::TYPE_I32 };
    ($field:ident, i64) => { $crate::abi::TYPE_I64 };
    ($field:ident, f32) => { $crate::abi::TYPE_F32 };
    ($field:ident, f64) => { $crate::abi::TYPE_F64 };
    ($field:ident, bool) => { $crate::abi::TYPE_BOOL };
    ($field:ident, str) => { $crate::abi::TYPE_STR };
    ($field:ident, bytes) => { $crate::abi::TYPE_BYTES };
    ($field:ident, clock) => { $crate::abi::TYPE_CLOCK };
    ($field:ident, $ty:ident) => {
        ::core::compile_error!(::core::concat!(
            "field `", ::core::stringify!($field), "`: unknown type `", ::core::stringify!($ty),
            "`; there are u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool str bytes clock"
        ))
    };
}

#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __level {
    (emergency) => { 0 };
    (alert) => { 1 };
    (critical) => { 2 };
    (error) => { 3 };
    (warning) => { 4 };
    (notice) => { 5 };
    (info) => { 6 };
    (debug) => { 7 };
    ($level:ident) => {
        ::core::compile_error!(::core::concat!(
            "unknown level `", ::core::stringify!($level),
            "`; there are emergency alert critical error warning notice info debug"
        ))
    };
}

/// Its items, when this crate is built without `std`; for libraries that must say what they do without.
#[doc(hidden)]
#[cfg(not(feature = "std"))]
#[macro_export]
macro_rules! without_std {
    ($($item:item)*) => { $($item)* };
}

#[doc(hidden)]
#[cfg(feature = "std")]
#[macro_export]
macro_rules! without_std {
    ($($item:item)*) => {};
}
