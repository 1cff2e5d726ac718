//! The loops of `ranking_core` as the module `ranking_rust._core`, with one submodule per family.
//!
//! Every function borrows its arrays, releases the GIL and calls the core. What does not fit raises
//! `ValueError` or `TypeError`.

mod alternating;
mod arguments;
mod bilinear;
mod domination;
mod factored;
mod item_item;
mod listwise;
mod native;
mod pairwise_lists;
mod random;
mod sampling;
mod shared_lists;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;
    use pyo3::types::PyDict;
    use ranking_core::constants;

    #[pymodule_export]
    use crate::alternating::alternating;
    #[pymodule_export]
    use crate::bilinear::bilinear;
    #[pymodule_export]
    use crate::domination::domination;
    #[pymodule_export]
    use crate::factored::factored;
    #[pymodule_export]
    use crate::item_item::item_item;
    #[pymodule_export]
    use crate::listwise::listwise;
    #[pymodule_export]
    use crate::pairwise_lists::pairwise_lists;
    #[pymodule_export]
    use crate::random::random;
    #[pymodule_export]
    use crate::shared_lists::shared_lists;

    #[pyfunction]
    fn describe(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let description = PyDict::new(py);
        description.set_item("abi", constants::ABI)?;
        description.set_item("lanes", constants::LANES)?;
        description.set_item("block", constants::BLOCK)?;
        description.set_item("rng", constants::RNG)?;
        description.set_item("exp", constants::EXP)?;
        description.set_item("threads", "rayon")?;
        description.set_item("instructions", ranking_core::instructions())?;
        Ok(description)
    }
}
