//! The kernel patch as a series of mails. That each step builds is `cargo xtask kernel-series
//! --check`'s to show: it takes as many kernels.

use std::fs;

use qemu_tests::kernel::mails;

#[test]
fn the_series_gives_the_tree_that_kernels_are_built_from() {
    let dir = tempfile::tempdir().unwrap();
    // What an earlier run left goes, and nothing else.
    fs::write(dir.path().join("0099-old.patch"), "").unwrap();
    fs::write(dir.path().join("notes"), "").unwrap();
    let mails = mails::write(None, dir.path()).unwrap();
    assert!(!dir.path().join("0099-old.patch").exists());
    assert!(dir.path().join("notes").exists());
    assert!(mails.files.len() > 10);

    let cover = fs::read_to_string(&mails.files[0]).unwrap();
    assert!(mails.files[0].ends_with("0000-cover-letter.patch"));
    assert!(!cover.contains("*** "), "{cover}");
    let count = mails.files.len() - 1;
    for (number, path) in mails.files.iter().enumerate().skip(1) {
        let mail = fs::read_to_string(path).unwrap();
        let name = path.display();
        let subject = format!("Subject: [PATCH {number:02}/{count}] ");
        assert!(mail.contains(&subject), "{name}");
        assert!(mail.contains("\nSigned-off-by: "), "{name}");
        assert!(
            mail.contains("\n---\n") && mail.contains(" changed, "),
            "{name}"
        );
    }

    mails::check_applies(None, &mails).unwrap();
    let complaints = mails::checkpatch(None, &mails).unwrap();
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn a_mail_too_few_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut mails = mails::write(None, dir.path()).unwrap();
    mails.files.pop();
    let error = format!("{:#}", mails::check_applies(None, &mails).unwrap_err());
    assert!(error.contains("do not add up"), "{error}");
}
