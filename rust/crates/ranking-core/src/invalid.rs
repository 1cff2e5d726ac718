//! What is said of arguments that a loop could not trust.

use std::fmt;

/// Arguments that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(String);

impl Invalid {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Refuse a slice of another length.
pub(crate) fn check_length(name: &str, length: usize, wanted: usize) -> Result<(), Invalid> {
    if length == wanted {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "{name} has {length} elements; wanted are {wanted}."
    )))
}

/// Refuse a pointer array that does not rise from 0 to `end` in `length` steps.
pub(crate) fn check_pointer(
    name: &str,
    mut positions: impl ExactSizeIterator<Item = usize>,
    length: usize,
    end: usize,
) -> Result<(), Invalid> {
    check_length(name, positions.len(), length.saturating_add(1))?;
    let mut last = 0;
    let starts = positions.next() == Some(0);
    let rises = positions.all(|position| std::mem::replace(&mut last, position) <= position);
    if starts && rises && last == end {
        return Ok(());
    }
    Err(Invalid::new(format!("{name} must rise from 0 to {end}.")))
}
