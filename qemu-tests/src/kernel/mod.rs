//! The kernel, from Debian's source to a cached `bzImage`.
//!
//! ```text
//! <cache>/source.lock, sources.json        tarball digests by stamp
//! <cache>/tree/<base>/linux                the base with the patch on top, kept for incremental builds
//! <cache>/tree/<base>/orig, manifest.json  what the patch replaced in it
//! <cache>/tree/<base>/build-<config>       make O= output, one a configuration
//! <cache>/series/<base>/                   the same for the steps of the series, see `mails`
//! <cache>/kernel/<key>/                    finished outputs; appear whole, by rename
//! ```
//!
//! `<key>` is a SHA-256 of everything that goes in, so a finished output is
//! never stale and needs no lock to be used. The trees are an optimisation: one
//! that is damaged or of other making is thrown away.

mod base;
mod build;
mod config;
pub mod mails;
mod patch;
pub mod series;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::digest::Key;
use crate::{lock, paths, process};

pub use base::{Base, DEFAULT_SOURCE};
pub use build::{in_build_tree, kbuild};
pub use config::{Config, Goal, Needs, Requirement, for_guests, parse_fragment, unmet};
pub use patch::Patch;

/// Names the configuration of guests that do not ask for one themselves: how `cargo xtask test
/// --kernel` has the tests run on another kernel.
pub const VARIABLE: &str = "BOOTMARK_KERNEL";

/// The configuration of guests that do not ask for one: `small`, unless [`VARIABLE`] says otherwise.
pub fn default_config() -> String {
    std::env::var(VARIABLE)
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "small".to_owned())
}

/// Counted up when the builder makes something else of the same inputs.
const BUILDER_VERSION: u32 = 1;

/// A finished kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The folder of all outputs.
    pub dir: PathBuf,
    /// What QEMU boots; of a configuration for [`Goal::Objects`] the archive of the objects.
    pub image: PathBuf,
    /// The full `.config`.
    pub config: PathBuf,
    /// Symbol addresses (the kernel is not randomised).
    pub system_map: PathBuf,
}

impl Kernel {
    fn at(dir: PathBuf) -> Self {
        Self {
            image: dir.join("bzImage"),
            config: dir.join("config"),
            system_map: dir.join("System.map"),
            dir,
        }
    }

    /// Whether the option is built in.
    ///
    /// # Errors
    /// When the kernel's configuration cannot be read.
    pub fn has(&self, option: &str) -> Result<bool> {
        let text = std::fs::read_to_string(&self.config)
            .with_context(|| format!("cannot read {}", self.config.display()))?;
        Ok(text.lines().any(|line| line == format!("{option}=y")))
    }
}

/// All that decides a kernel build.
#[derive(Debug, Clone)]
pub struct Inputs {
    base: Base,
    patch: Patch,
    config: Config,
    compiler: String,
}

impl Inputs {
    /// Reads the inputs: the source's identity, the patch, the fragments, the
    /// compiler's version. `source` is a 6.12 tree or tarball, by default
    /// Debian's.
    ///
    /// # Errors
    /// When one of them is missing or is not what it should be.
    pub fn read(source: Option<&Path>, config: &str) -> Result<Self> {
        Ok(Self {
            base: Base::identify(source)?,
            patch: Patch::read(&paths::kernel_patch())?,
            config: Config::read(&paths::kernel_patch().join("configs"), config)?,
            compiler: process::output(std::process::Command::new("gcc").arg("--version"))?
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        })
    }

    /// The kernel patch among them.
    pub fn patch(&self) -> &Patch {
        &self.patch
    }

    /// The key of the outputs.
    pub fn key(&self) -> String {
        let mut key = Key::new("kernel");
        key.item("builder", &BUILDER_VERSION.to_le_bytes());
        key.item("base", self.base.id().as_bytes());
        key.item("compiler", self.compiler.as_bytes());
        self.patch.add_to(&mut key);
        self.config.add_to(&mut key);
        key.finish()
    }
}

/// Gives the kernel of the configuration `config` (a name of
/// `kernel-patch/configs`: `small`, `off`, ...), building it when it is not in the cache.
///
/// # Errors
/// When the source is missing or is not 6.12, the patch does not apply, an
/// option of the fragments does not hold, or the build fails.
pub fn kernel(source: Option<&Path>, config: &str) -> Result<Kernel> {
    let inputs = Inputs::read(source, config)?;
    let cache = paths::cache()?;
    let dir = cache.join("kernel").join(inputs.key());
    if dir.join("bzImage").exists() {
        return Ok(Kernel::at(dir));
    }
    let _lock = lock::exclusive(&cache.join("kernel.lock"), "is building a kernel")?;
    // The other run may have built this very kernel.
    if !dir.join("bzImage").exists() {
        build::build(&inputs, &cache, &dir)?;
    }
    Ok(Kernel::at(dir))
}

/// Refuses a source that is not Linux 6.12 by its top Makefile.
fn check_version(makefile: &Path) -> Result<()> {
    let text = std::fs::read_to_string(makefile).with_context(|| {
        format!(
            "{} cannot be read: this is no kernel source",
            makefile.display()
        )
    })?;
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    match (value("VERSION").as_deref(), value("PATCHLEVEL").as_deref()) {
        (Some("6"), Some("12")) => Ok(()),
        (version, level) => bail!(
            "{} says Linux {}.{}: the patch is for 6.12; give another tree with --kernel-source",
            makefile.display(),
            version.unwrap_or("?"),
            level.unwrap_or("?")
        ),
    }
}
