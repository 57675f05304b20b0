//! Names of errno values, as Linux on x86-64 has them.

/// The names from 1 on. One text, since a table of strings would have to be relocated in every
/// program. `-` is a number that has none.
const NAMES: &str = "\
EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES \
EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY \
ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK \
ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH \
ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME \
ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG \
EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ \
ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT \
EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE \
EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN \
ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY \
EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM \
EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD \
ENOTRECOVERABLE ERFKILL EHWPOISON";

/// The name of an errno.
pub fn name(errno: u32) -> Option<&'static str> {
    let index = usize::try_from(errno).ok()?.checked_sub(1)?;
    NAMES
        .split_ascii_whitespace()
        .nth(index)
        .filter(|name| name.len() > 1)
}

/// The errno of a name; `EWOULDBLOCK`, `EDEADLOCK` and `ENOTSUP` are other names of `EAGAIN`, `EDEADLK`
/// and `EOPNOTSUPP`.
pub fn number(name: &str) -> Option<u32> {
    let name = match name {
        "EWOULDBLOCK" => "EAGAIN",
        "EDEADLOCK" => "EDEADLK",
        "ENOTSUP" => "EOPNOTSUPP",
        other => other,
    };
    if !name.starts_with('E') {
        return None;
    }
    (1..)
        .zip(NAMES.split_ascii_whitespace())
        .find(|(_, known)| *known == name)
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(name(1), Some("EPERM"));
        assert_eq!(name(38), Some("ENOSYS"));
        assert_eq!(name(41), None);
        assert_eq!(name(61), Some("ENODATA"));
        assert_eq!(name(110), Some("ETIMEDOUT"));
        assert_eq!(name(133), Some("EHWPOISON"));
        assert_eq!(name(0), None);
        assert_eq!(name(134), None);
        for errno in 1..134 {
            if let Some(name) = name(errno) {
                assert_eq!(number(name), Some(errno));
            }
        }
        assert_eq!(number("EWOULDBLOCK"), number("EAGAIN"));
        assert_eq!(number("-"), None);
        assert_eq!(number("ENOTHING"), None);
    }
}
