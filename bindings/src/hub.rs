//! `resolve_model`.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use vllm_rs_model_hub as hub;

use crate::errors::ModelResolveError;

#[pyfunction]
#[pyo3(signature = (name, download_dir=None, revision=None, progress=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn resolve_model(
    py: Python<'_>,
    name: String,
    download_dir: Option<PathBuf>,
    revision: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<OsString> {
    let executable: Option<PathBuf> = py.import("sys")?.getattr("executable")?.extract()?;
    let mut options =
        hub::ResolveOptions::from_env().with_flags(download_dir.as_deref(), revision.as_deref());
    options.python = executable.filter(|path| !path.as_os_str().is_empty());
    let (resolved, raised) = py.detach(|| {
        let raised = RefCell::new(None);
        let report = |at: hub::Progress<'_>| match call(progress.as_ref(), at) {
            Ok(()) => true,
            Err(error) => {
                *raised.borrow_mut() = Some(error);
                false
            }
        };
        (hub::resolve(&name, &options, &report), raised.into_inner())
    });
    // What the caller's own function (or Ctrl-C) raised says more than "interrupted".
    match (raised, resolved) {
        (Some(error), _) => Err(error),
        (None, resolved) => resolved
            .map(PathBuf::into_os_string)
            .map_err(|error| ModelResolveError::new_err(error.to_string())),
    }
}

fn call(progress: Option<&Py<PyAny>>, at: hub::Progress<'_>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1(py, (at.done_bytes, at.total_bytes))?;
        }
        Ok(())
    })
}
