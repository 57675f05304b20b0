//! The kernel patch as a series of steps: which files, patches and pieces of files belong to which
//! (`kernel-patch/series.toml`), and what the tree looks like behind each.
//!
//! A file belongs to the step that brings it. What a later step adds to it is a *section*: a text
//! that stands in the file once, and that the file lacks until then.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Patch;

/// The manifest's name beside `linux/` and `patches/`.
pub const MANIFEST: &str = "series.toml";

/// The steps, as the manifest says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The cover letter.
    pub cover: Letter,
    /// The steps, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// A letter: subject without prefix, and text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Letter {
    /// Subject line, without `[PATCH]`.
    pub subject: String,
    /// What follows it.
    pub body: String,
}

/// One step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Subject line, with the subsystem in front.
    pub subject: String,
    /// Why.
    pub body: String,
    /// Whole files below `linux/` that the step brings; a name that ends with `/` means all that
    /// are in the folder.
    #[serde(default)]
    pub files: Vec<String>,
    /// Names of patches in `patches/`, in the order in which they apply.
    #[serde(default)]
    pub patches: Vec<String>,
    /// What it adds to files of earlier steps.
    #[serde(default, rename = "section")]
    pub sections: Vec<Section>,
}

/// A piece of a file that an earlier step brings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The file, below `linux/`.
    pub file: String,
    /// The text, which stands in it once.
    pub text: String,
}

impl Step {
    fn brings(&self, path: &str) -> bool {
        self.files.iter().any(|name| match name.strip_suffix('/') {
            Some(_) => path.starts_with(name.as_str()),
            None => name == path,
        })
    }

    /// Whether all that it brings are programs that test the kernel.
    pub fn is_of_programs(&self) -> bool {
        let programs = |name: &String| name.starts_with("tools/testing/selftests/");
        !self.files.is_empty() && self.files.iter().all(programs)
    }
}

impl Series {
    /// Reads `dir/series.toml` and checks it against the patch in `dir`.
    ///
    /// # Errors
    /// When a file or patch has no step or two, a step names what there is not, or a section does
    /// not stand in its file exactly once. All mistakes are named.
    pub fn read(dir: &Path, patch: &Patch) -> Result<Self> {
        let path = dir.join(MANIFEST);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, patch).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str, patch: &Patch) -> Result<Self> {
        let series: Self = toml::from_str(text)?;
        let mut mistakes = String::new();
        for path in patch.overlay().keys() {
            match series.steps.iter().filter(|step| step.brings(path)).count() {
                0 => writeln!(
                    mistakes,
                    "no step brings linux/{path}: name it under `files` of the step it belongs to"
                )?,
                1 => {}
                n => writeln!(mistakes, "{n} steps bring linux/{path}")?,
            }
        }
        for (name, _) in patch.patches() {
            let steps = series.steps.iter();
            match steps.filter(|step| step.patches.contains(name)).count() {
                0 => writeln!(
                    mistakes,
                    "no step has patches/{name}: name it under `patches` of the step whose \
                     functions it calls"
                )?,
                1 => {}
                n => writeln!(mistakes, "{n} steps have patches/{name}")?,
            }
        }
        for (number, step) in series.steps.iter().enumerate() {
            series.check_step(number, step, patch, &mut mistakes)?;
        }
        if !mistakes.is_empty() {
            bail!("the steps do not fit the patch:\n{}", mistakes.trim_end());
        }
        Ok(series)
    }

    fn check_step(
        &self,
        number: usize,
        step: &Step,
        patch: &Patch,
        mistakes: &mut String,
    ) -> Result<()> {
        let subject = &step.subject;
        for name in &step.files {
            let exists = match name.strip_suffix('/') {
                Some(_) => patch.overlay().keys().any(|path| path.starts_with(name)),
                None => patch.overlay().contains_key(name),
            };
            if !exists {
                writeln!(mistakes, "`{subject}`: there is no linux/{name}")?;
            }
        }
        for name in &step.patches {
            if !patch.patches().iter().any(|(known, _)| known == name) {
                writeln!(mistakes, "`{subject}`: there is no patches/{name}")?;
            }
        }
        for Section { file, text } in &step.sections {
            if !self.steps[..number].iter().any(|step| step.brings(file)) {
                writeln!(
                    mistakes,
                    "`{subject}`: no earlier step brings linux/{file}, which a section is for"
                )?;
                continue;
            }
            let found = patch.overlay().get(file).map_or(0, |bytes| {
                String::from_utf8_lossy(bytes).matches(text).count()
            });
            if found != 1 || text.is_empty() {
                writeln!(
                    mistakes,
                    "`{subject}`: this section stands in linux/{file} {found} times instead of \
                     once:\n{text}"
                )?;
            }
        }
        Ok(())
    }

    /// The patch as far as the step `number` (from 0) goes, and no further.
    ///
    /// # Errors
    /// When sections of one file reach into each other.
    pub fn up_to(&self, number: usize, patch: &Patch) -> Result<Patch> {
        let (done, later) = self.steps.split_at(number + 1);
        let mut overlay: BTreeMap<String, Vec<u8>> = patch
            .overlay()
            .iter()
            .filter(|(path, _)| done.iter().any(|step| step.brings(path)))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect();
        for Section { file, text } in later.iter().flat_map(|step| &step.sections) {
            let Some(bytes) = overlay.get_mut(file) else {
                continue;
            };
            let whole = String::from_utf8(std::mem::take(bytes))
                .with_context(|| format!("linux/{file} is no text"))?;
            if !whole.contains(text) {
                bail!("sections of linux/{file} reach into each other:\n{text}");
            }
            *bytes = whole.replacen(text, "", 1).into_bytes();
        }
        let names = done.iter().flat_map(|step| &step.patches);
        let patches = patch.patches();
        let patches = names
            .filter_map(|name| patches.iter().find(|(known, _)| known == name))
            .cloned()
            .collect();
        Ok(Patch::part(overlay, patches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    const DIFF: &str = "--- a/fork.c\n+++ b/fork.c\n@@ -1,2 +1,3 @@\n one\n+hook\n two\n";

    fn patch(files: &[(&str, &str)]) -> Patch {
        Patch::part(
            files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
                .collect(),
            vec![("1.patch".to_owned(), DIFF.to_owned())],
        )
    }

    const TWO: &str = r#"
        [cover]
        subject = "all"
        body = "why"
        [[step]]
        subject = "a: first"
        body = "why"
        files = ["a/Makefile", "a/one.c"]
        [[step]]
        subject = "a: second"
        body = "why"
        files = ["a/b/"]
        patches = ["1.patch"]
        section = [{ file = "a/Makefile", text = "obj-y += b/\n" }]
    "#;

    fn files() -> Vec<(&'static str, &'static str)> {
        vec![
            ("a/Makefile", "obj-y += one.o\nobj-y += b/\n"),
            ("a/b/two.c", "two"),
            ("a/one.c", "one"),
        ]
    }

    fn refused(text: &str, files: &[(&str, &str)]) -> String {
        format!("{:#}", Series::parse(text, &patch(files)).unwrap_err())
    }

    #[test]
    fn steps_add_up() {
        let whole = patch(&files());
        let series = Series::parse(TWO, &whole).unwrap();
        let first = series.up_to(0, &whole).unwrap();
        assert_eq!(first.overlay()["a/Makefile"], b"obj-y += one.o\n");
        assert_eq!(first.overlay().len(), 2);
        assert!(first.patches().is_empty());
        let last = series.up_to(1, &whole).unwrap();
        assert_eq!(last.overlay(), whole.overlay());
        assert_eq!(last.patches(), whole.patches());
    }

    #[test]
    fn every_mistake_is_named() {
        let mut more = files();
        more.push(("a/three.c", "three"));
        assert!(refused(TWO, &more).contains("no step brings linux/a/three.c"));
        let error = refused(TWO, &files()[..1]);
        assert!(
            error.contains("there is no linux/a/one.c") && error.contains("there is no linux/a/b/"),
            "{error}"
        );
        let twice = TWO.replace("a/b/\"", "a/b/\", \"a/one.c\"");
        assert!(refused(&twice, &files()).contains("2 steps bring linux/a/one.c"));
        let without = TWO.replace("patches = [\"1.patch\"]", "");
        assert!(refused(&without, &files()).contains("no step has patches/1.patch"));
        let gone = TWO.replace("b/\\n\" }", "c/\\n\" }");
        assert!(refused(&gone, &files()).contains("0 times instead of once"));
        let early = TWO.replace("a/Makefile\", text", "a/b/two.c\", text");
        assert!(refused(&early, &files()).contains("no earlier step brings linux/a/b/two.c"));
        assert!(refused(&TWO.replace("body", "bodi"), &files()).contains("bodi"));
    }

    #[test]
    fn the_manifest_fits_the_patch() {
        let dir = paths::kernel_patch();
        let patch = Patch::read(&dir).unwrap();
        let series = Series::read(&dir, &patch).unwrap();
        let last = series.up_to(series.steps.len() - 1, &patch).unwrap();
        assert_eq!(last.overlay(), patch.overlay());
        for step in &series.steps {
            assert!(step.subject.len() <= 65, "{}", step.subject);
            let long = step.body.lines().find(|line| line.len() > 75);
            assert_eq!(long, None, "{}", step.subject);
        }
    }
}
