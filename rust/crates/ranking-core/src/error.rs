//! The error of every loop, and the checks that several loops share.

use std::collections::TryReserveError;
use std::fmt;

/// Why a loop could not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Arguments do not fit together.
    Argument(String),
    /// The system has no memory left.
    Memory,
}

impl Error {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::Argument(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(message) => f.write_str(message),
            Self::Memory => f.write_str("out of memory"),
        }
    }
}

impl std::error::Error for Error {}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Self::Memory
    }
}

/// Refuse a slice of another length.
pub(crate) fn check_length(name: &str, length: usize, expected: usize) -> Result<(), Error> {
    if length == expected {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{name} has {length} elements, expected {expected}"
    )))
}

/// Refuse a pointer array that does not rise from 0 to `end` in `length` steps.
pub(crate) fn check_pointer(
    name: &str,
    mut positions: impl ExactSizeIterator<Item = usize>,
    length: usize,
    end: usize,
) -> Result<(), Error> {
    check_length(name, positions.len(), length.saturating_add(1))?;
    let mut last = 0;
    let starts = positions.next() == Some(0);
    let rises = positions.all(|position| std::mem::replace(&mut last, position) <= position);
    if starts && rises && last == end {
        return Ok(());
    }
    Err(Error::argument(format!("{name} must rise from 0 to {end}")))
}

/// Lengthen a vector to at least `length` elements.
pub(crate) fn lengthen<T: Copy>(
    vector: &mut Vec<T>,
    length: usize,
    value: T,
) -> Result<(), TryReserveError> {
    if let Some(missing) = length.checked_sub(vector.len()) {
        vector.try_reserve(missing)?;
        vector.resize(length, value);
    }
    Ok(())
}

/// A vector of `length` equal elements.
pub(crate) fn filled<T: Copy>(length: usize, value: T) -> Result<Vec<T>, TryReserveError> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(length)?;
    vector.resize(length, value);
    Ok(vector)
}
