//! Progress of long steps on standard error: a spinner with the latest detail
//! on a terminal, one line a step otherwise.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A step that has started and shows that it is alive.
#[derive(Debug)]
pub struct Step {
    bar: ProgressBar,
    name: String,
    started: Instant,
}

impl Step {
    /// Starts showing `name` ("building the kernel").
    pub fn start(name: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg:.dim}")
                .expect("the template is constant and valid"),
        );
        bar.set_prefix(name.to_owned());
        if bar.is_hidden() {
            eprintln!("  {name} ...");
        } else {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Self {
            bar,
            name: name.to_owned(),
            started: Instant::now(),
        }
    }

    /// Shows what the step is doing now; the last one wins.
    pub fn detail(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Ends the step with one line saying what came of it and how long it took.
    pub fn done(self, result: &str) {
        let took = self.started.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        eprintln!("  {}: {result} ({took:.1} s)", self.name);
    }

    /// Ends the step without a trace on a terminal.
    pub fn clear(self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        // An early return must not leave the spinner over the error message.
        self.bar.finish_and_clear();
    }
}
