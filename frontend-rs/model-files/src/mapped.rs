//! Read-only mappings of files, and small JSON files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use memmap2::Mmap;
use serde_json::{Map, Value};

use crate::error::{ModelFileError, Result};

/// Larger than any configuration or index; tokenizer files are read elsewhere.
const JSON_LIMIT_BYTES: u64 = 256 << 20;

/// Maps `path` for reading.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let io = |source| ModelFileError::Io {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        return Err(ModelFileError::NotAModel {
            path: path.to_owned(),
        });
    }
    // SAFETY: the mapping is private and read-only, and all reads are of bytes, which any content is
    // valid for. A file that another process truncates while it is mapped raises SIGBUS, as with every
    // mapped model format; model files are written under another name and renamed, never in place.
    #[expect(unsafe_code, reason = "mapping a file cannot be expressed safely")]
    unsafe { Mmap::map(&file) }.map_err(io)
}

/// A text file of bounded size, or `None` where there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>> {
    let io = |source| ModelFileError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let mut text = Vec::new();
    file.take(JSON_LIMIT_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(io)?;
    let size_bytes = text.len() as u64;
    if size_bytes > JSON_LIMIT_BYTES {
        let limit_bytes = JSON_LIMIT_BYTES;
        return Err(ModelFileError::TooLarge {
            path: path.to_owned(),
            size_bytes,
            limit_bytes,
        });
    }
    let text = String::from_utf8(text);
    let problem = "not valid UTF-8".to_owned();
    text.map(Some).map_err(|_| ModelFileError::Json {
        path: path.to_owned(),
        problem,
    })
}

/// A JSON object from `path`, or `None` where there is no such file.
pub(crate) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    let Some(text) = read_text(path)? else {
        return Ok(None);
    };
    let problem = |problem: String| ModelFileError::Json {
        path: path.to_owned(),
        problem,
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(problem("expected a JSON object at the top".to_owned())),
        Err(error) => Err(problem(format!("not valid JSON: {error}"))),
    }
}
