//! Buffers that cross the border: mapped bytes out, results in.

use std::ffi::c_int;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::{Bound, ffi};

/// Fills a buffer view with read-only bytes that `owner` keeps alive.
///
/// # Safety
/// `view` is the pointer that Python passed to `__getbuffer__`, and `bytes` live as long as `owner`.
#[expect(unsafe_code, reason = "the buffer protocol is a C interface")]
pub(crate) unsafe fn export_bytes(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let length = isize::try_from(bytes.len())?;
    let start = bytes.as_ptr().cast_mut().cast();
    // SAFETY: `view` is valid by the contract above; Python checks the flags against "read-only", takes
    // a reference to `owner` and never writes through a read-only view.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, length, 1, flags) };
    if filled == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(owner.py()))
    }
}

/// Calls `fill` with the elements of the writable, C-contiguous buffer `out`, the interpreter released.
pub(crate) fn fill_buffer<T: Element + Send, R: Send>(
    out: &Bound<'_, PyAny>,
    fill: impl FnOnce(&mut [T]) -> R + Send,
) -> PyResult<R> {
    let buffer = PyBuffer::<T>::get(out)?;
    if buffer.readonly() {
        return Err(PyBufferError::new_err(
            "out is read-only: a writable buffer is needed",
        ));
    }
    let Some(mut elements) = buffer.as_slice_ptr() else {
        return Err(PyBufferError::new_err("out is not C-contiguous"));
    };
    // SAFETY: the view holds the memory for its whole life (an exporter may neither move nor free it
    // while a view exists), `get` has checked element size and alignment, and the caller hands `out`
    // over for this call alone.
    #[expect(unsafe_code, reason = "a buffer's memory is reached by pointer")]
    let elements = unsafe { elements.as_mut() };
    let result = out.py().detach(|| fill(elements));
    drop(buffer);
    Ok(result)
}
