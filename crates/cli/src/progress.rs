//! Progress bars with rate and remaining time, shown only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for `total` units of `unit`, on standard error if that is a terminal.
pub fn bar(total: u64, doing: &str, unit: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let (done, rate) = if unit == "bytes" {
        ("{bytes}/{total_bytes}", "{binary_bytes_per_sec}")
    } else {
        ("{human_pos}/{human_len}", "{per_sec}")
    };
    let template = format!("{doing} [{{bar:32}}] {{percent}} % {done} {unit}, {rate}, {{eta}} left");
    // If the template did not parse, the default bar would do.
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Runs work that reports the bytes done and the total bytes, and shows them in a bar meanwhile.
pub fn with_bytes_bar<T>(doing: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let bar = bar(0, doing, "bytes");
    let outcome = work(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    outcome
}

/// Formats a number with a space between groups of thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// How many there are of something: `1 row`, `2 rows`.
pub fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", thousands(number), if number == 1 { "" } else { "s" })
}
