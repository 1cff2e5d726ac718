//! Memory that may be refused. It is the only error of a loop: Python has checked the arguments.

/// The system has no memory left. Loops unwind with it, where a plain vector would abort the
/// process, and the bindings raise it.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory;

/// Reserve memory for `more` elements.
pub(crate) fn reserve<T>(vector: &mut Vec<T>, more: usize) {
    if vector.try_reserve(more).is_err() {
        std::panic::resume_unwind(Box::new(OutOfMemory));
    }
}

/// Lengthen a vector to at least `length` elements.
pub(crate) fn lengthen<T: Copy>(vector: &mut Vec<T>, length: usize, value: T) {
    if let Some(missing) = length.checked_sub(vector.len()) {
        reserve(vector, missing);
        vector.resize(length, value);
    }
}

/// A vector of `length` equal elements.
pub(crate) fn filled<T: Copy>(length: usize, value: T) -> Vec<T> {
    let mut vector = Vec::new();
    lengthen(&mut vector, length, value);
    vector
}
