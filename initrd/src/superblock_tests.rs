//! Superblocks made by the real programs where the build machine has them, by hand elsewhere, and
//! hostile ones.

use super::*;
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

fn of_bytes(bytes: &[u8]) -> Option<Superblock> {
    probe(|at, buf| {
        let from = usize::try_from(at).unwrap().min(bytes.len());
        let n = buf.len().min(bytes.len() - from);
        buf[..n].copy_from_slice(&bytes[from..from + n]);
        Ok(n)
    })
    .unwrap()
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn mke2fs(fstype: &str) -> Superblock {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let status = Command::new("mke2fs")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-F", "-t", fstype, "-L", "my disk"])
        .args(["-U", "01234567-89ab-cdef-0123-456789ABCDEF"])
        .arg(&path)
        .status()
        .expect("mke2fs (package e2fsprogs) is needed");
    assert!(status.success());
    let file = File::open(&path).unwrap();
    probe(|at, buf| file.read_at(buf, at)).unwrap().unwrap()
}

#[test]
fn ext_file_systems_of_mke2fs() {
    for fstype in ["ext2", "ext3", "ext4"] {
        let sb = mke2fs(fstype);
        assert_eq!(sb.fstype, fstype);
        assert_eq!(sb.label.as_deref(), Some("my disk"));
        assert_eq!(
            sb.uuid.as_deref(),
            Some("01234567-89ab-cdef-0123-456789abcdef")
        );
        assert!(sb.mountable);
    }
}

#[test]
fn others_by_hand() {
    let mut xfs = vec![0; 4096];
    put(&mut xfs, 0, b"XFSB");
    put(&mut xfs, 32, &[0x11; 16]);
    put(&mut xfs, 108, b"data");
    let sb = of_bytes(&xfs).unwrap();
    assert_eq!((sb.fstype, sb.label.as_deref()), ("xfs", Some("data")));
    assert_eq!(
        sb.uuid.as_deref(),
        Some("11111111-1111-1111-1111-111111111111")
    );

    let mut btrfs = vec![0; 70 << 10];
    put(&mut btrfs, (64 << 10) + 64, b"_BHRfS_M");
    put(&mut btrfs, (64 << 10) + 299, b"pool");
    let sb = of_bytes(&btrfs).unwrap();
    assert_eq!((sb.fstype, sb.label.as_deref()), ("btrfs", Some("pool")));
    assert_eq!(sb.uuid, None);

    let mut fat = vec![0; 4096];
    put(&mut fat, 510, &[0x55, 0xaa]);
    put(&mut fat, 82, b"FAT32   ");
    put(&mut fat, 67, &0xdead_beef_u32.to_le_bytes());
    put(&mut fat, 71, b"EFI        ");
    let sb = of_bytes(&fat).unwrap();
    assert_eq!(
        (sb.fstype, sb.label.as_deref(), sb.uuid.as_deref()),
        ("vfat", Some("EFI"), Some("DEAD-BEEF"))
    );

    let mut swap = vec![0; 4096];
    put(&mut swap, 4086, b"SWAPSPACE2");
    assert!(!of_bytes(&swap).unwrap().mountable);
}

#[test]
fn nothing_known() {
    assert_eq!(of_bytes(&[]), None);
    assert_eq!(of_bytes(&vec![0; 1 << 17]), None);
    assert_eq!(of_bytes(&vec![0xff; 1 << 17]), None);
}

#[test]
fn a_device_that_ends_inside_the_superblock() {
    let mut image = vec![0; 4096];
    put(&mut image, 1024 + 0x38, &[0x53, 0xef]);
    for len in 0..image.len() {
        let _ = of_bytes(&image[..len]);
    }
    assert_eq!(of_bytes(&image[..1024 + 0x70]), None);
    assert_eq!(of_bytes(&image[..1024 + 0x88]).unwrap().label, None);
}

#[test]
fn read_errors_are_passed_on() {
    let error = probe(|_, _| Err(io::Error::from_raw_os_error(5))).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
}

proptest! {
    #[test]
    fn hostile_octets_behind_a_good_magic(
        noise in proptest::collection::vec(any::<u8>(), 0..6000),
        which in 0..7_usize,
    ) {
        let (at, magic): (usize, &[u8]) = [
            (1024 + 0x38, &b"\x53\xef"[..]),
            (0, b"XFSB"),
            (1024, b"\xe2\xe1\xf5\xe0"),
            (0, b"LUKS\xba\xbe"),
            (510, b"\x55\xaa"),
            (4086, b"SWAPSPACE2"),
            (0, b"hsqs"),
        ][which];
        let mut image = noise;
        if image.len() >= at + magic.len() {
            put(&mut image, at, magic);
        }
        let _ = of_bytes(&image);
    }
}
