//! Where things are: the workspace, its build outputs, and the cache outside it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The top folder of the checkout.
///
/// The programs of this crate only ever run from the checkout that built them,
/// so the place is known at compile time.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies inside the workspace")
}

/// The folder of the kernel patch.
pub fn kernel_patch() -> PathBuf {
    workspace().join("kernel-patch")
}

/// Build outputs that belong to this checkout (images, guest programs, test runs).
///
/// It does not follow `CARGO_TARGET_DIR`: that one names where *host* builds
/// go, and several may share one checkout.
pub fn target() -> PathBuf {
    workspace().join("target")
}

/// Build outputs that all checkouts of one user share.
///
/// `$BOOTMARK_CACHE`, else `$XDG_CACHE_HOME/bootmark`, else `~/.cache/bootmark`.
///
/// # Errors
/// When none of the three variables is usable, or the folder cannot be made.
pub fn cache() -> Result<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let dir = if let Some(dir) = env::var_os("BOOTMARK_CACHE").filter(|v| !v.is_empty()) {
        let dir = PathBuf::from(dir);
        if !dir.is_absolute() {
            bail!(
                "BOOTMARK_CACHE is {}: it must be an absolute path",
                dir.display()
            );
        }
        dir
    } else if let Some(dir) = absolute("XDG_CACHE_HOME") {
        dir.join("bootmark")
    } else if let Some(home) = absolute("HOME") {
        home.join(".cache/bootmark")
    } else {
        bail!("no place for the build cache: set BOOTMARK_CACHE to an absolute path");
    };
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("cannot make the build cache {}", dir.display()))?;
    Ok(dir)
}
