//! `vllm_rs._rust`: what Python may call. One page; each class has a file of its own.
//!
//! The types and their documentation for Python readers are in `engine/vllm_rs/_rust.pyi`.

mod buffers;
mod errors;
mod hub;
mod json;
mod model_files;
mod output;
mod tokenizer;

use std::collections::BTreeMap;

use pyo3::prelude::*;

#[pymodule]
fn _rust(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<model_files::ModelFiles>()?;
    module.add_class::<model_files::TensorView>()?;
    module.add_class::<tokenizer::Tokenizer>()?;
    module.add_class::<output::OutputProcessor>()?;
    module.add_function(wrap_pyfunction!(hub::resolve_model, module)?)?;
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    errors::add_to(module)
}

/// What was built, from what.
#[pyfunction]
fn build_info() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("version", env!("CARGO_PKG_VERSION")),
        ("build_id", option_env!("VLLM_RS_BUILD_ID").unwrap_or("dev")),
        (
            "profile",
            if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
        ),
    ])
}
