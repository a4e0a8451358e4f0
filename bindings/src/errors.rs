//! The crates' error enums as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    vllm_rs._rust,
    ModelFileError,
    PyValueError,
    "A model file is missing, malformed or unusable."
);
create_exception!(
    vllm_rs._rust,
    TokenizerError,
    PyValueError,
    "A tokenizer cannot be built or used."
);
create_exception!(
    vllm_rs._rust,
    ChatTemplateError,
    PyValueError,
    "A conversation cannot become a prompt."
);
create_exception!(
    vllm_rs._rust,
    ModelResolveError,
    PyRuntimeError,
    "A model name leads to no local files."
);

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ModelFileError", py.get_type::<ModelFileError>())?;
    module.add("TokenizerError", py.get_type::<TokenizerError>())?;
    module.add("ChatTemplateError", py.get_type::<ChatTemplateError>())?;
    module.add("ModelResolveError", py.get_type::<ModelResolveError>())
}

/// Takes an error by value, for `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands errors over by value")]
pub(crate) fn model_file(error: vllm_rs_model_files::ModelFileError) -> PyErr {
    ModelFileError::new_err(error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "map_err hands errors over by value")]
pub(crate) fn tokenizer(error: vllm_rs_text::TokenizerError) -> PyErr {
    TokenizerError::new_err(error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "map_err hands errors over by value")]
pub(crate) fn chat_template(error: std::sync::Arc<vllm_rs_text::ChatTemplateError>) -> PyErr {
    ChatTemplateError::new_err(error.to_string())
}
