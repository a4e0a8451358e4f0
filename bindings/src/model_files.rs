//! `ModelFiles` and `TensorView`.

use std::ffi::{OsString, c_int};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use vllm_rs_model_files as files;

use crate::buffers;
use crate::errors;
use crate::json;

#[pyclass(module = "vllm_rs._rust", frozen)]
pub(crate) struct ModelFiles {
    inner: Arc<files::ModelFiles>,
}

#[pymethods]
impl ModelFiles {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner = py
            .detach(|| files::ModelFiles::open(&path))
            .map_err(errors::model_file)?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    #[getter]
    fn path(&self) -> OsString {
        self.inner.path().as_os_str().to_owned()
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.inner.format().name()
    }

    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        json::to_dict(py, self.inner.config())
    }

    #[getter]
    fn generation_config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        json::to_dict(py, self.inner.generation_config())
    }

    #[getter]
    fn total_bytes(&self) -> u64 {
        self.inner.total_bytes()
    }

    fn tensor_names(&self) -> Vec<String> {
        self.inner.tensor_names().to_vec()
    }

    fn tensor(&self, name: String) -> PyResult<TensorView> {
        self.inner.tensor(&name).map_err(errors::model_file)?;
        Ok(TensorView {
            model: Arc::clone(&self.inner),
            name,
        })
    }

    fn read_f32(&self, name: &str, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let read = |out: &mut [f32]| self.inner.read_f32(name, out);
        buffers::fill_buffer(out, read)?.map_err(errors::model_file)
    }

    fn read_bf16(&self, name: &str, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let read = |out: &mut [u16]| self.inner.read_bf16(name, out);
        buffers::fill_buffer(out, read)?.map_err(errors::model_file)
    }

    fn __repr__(&self) -> String {
        let count = self.inner.tensor_names().len();
        format!(
            "ModelFiles('{}', {}, {count} tensors)",
            self.inner.path().display(),
            self.inner.format().name()
        )
    }
}

#[pyclass(module = "vllm_rs._rust", frozen)]
pub(crate) struct TensorView {
    model: Arc<files::ModelFiles>,
    name: String,
}

impl TensorView {
    fn tensor(&self) -> PyResult<files::TensorRef<'_>> {
        self.model.tensor(&self.name).map_err(errors::model_file)
    }
}

#[pymethods]
impl TensorView {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        Ok(self.tensor()?.dtype.name())
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor()?.shape)
    }

    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        Ok(self.tensor()?.bytes.len())
    }

    #[getter]
    fn interleaved_heads(&self) -> PyResult<Option<usize>> {
        Ok(self.tensor()?.interleaved_heads)
    }

    /// # Safety
    /// Called by Python's buffer protocol only, with a valid `view`.
    #[expect(unsafe_code, reason = "the buffer protocol is a C interface")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = slf.get().tensor()?.bytes;
        // SAFETY: the mapped bytes live as long as the model, which this object holds.
        unsafe { buffers::export_bytes(slf.as_any(), bytes, view, flags) }
    }

    fn __repr__(&self) -> PyResult<String> {
        let tensor = self.tensor()?;
        Ok(format!(
            "TensorView({:?}, {}, {:?})",
            self.name, tensor.dtype, tensor.shape
        ))
    }
}
