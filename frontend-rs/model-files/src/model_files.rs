//! One model on disk, whatever its format.

use std::path::{Path, PathBuf};

use memmap2::Mmap;
use serde_json::{Map, Value};

use crate::dequant::{self, RowOrder, Rows};
use crate::dtype::DType;
use crate::error::{ModelFileError, Result};
use crate::folder::{self, Place};
use crate::gguf::{self, GgufError, GgufHeader};
use crate::mapped;
use crate::safetensors_files;
use crate::tensors::{StoredTensor, TensorTable};
use crate::tokenizer_source::TokenizerSource;

/// The format that the weights are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One GGUF file.
    Gguf,
    /// A folder with safetensors files.
    Safetensors,
}

impl Format {
    /// The name that `--load-format` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::Safetensors => "safetensors",
        }
    }
}

/// A tensor as it lies in its file.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Row-major shape; `[out_features, in_features]` for a linear layer.
    pub shape: &'a [usize],
    /// The mapped bytes, at any alignment.
    pub bytes: &'a [u8],
    /// For query and key projections of a llama GGUF: the number of heads whose rows the file
    /// interleaves (row `2 i + j` of a head is row `j × half + i` of the model). `bytes` are in the
    /// file's order; [`ModelFiles::read_f32`] and [`ModelFiles::read_bf16`] undo it.
    pub interleaved_heads: Option<usize>,
}

/// An open model: its configuration and its mapped tensors. Cheap to keep, safe to share.
#[derive(Debug)]
pub struct ModelFiles {
    path: PathBuf,
    format: Format,
    config: Map<String, Value>,
    generation_config: Map<String, Value>,
    tensors: TensorTable,
    mappings: Vec<Mmap>,
}

impl ModelFiles {
    /// Opens a folder with `config.json` and safetensors files, a GGUF file, or a folder that holds one.
    pub fn open(path: &Path) -> Result<Self> {
        match Place::find(path)? {
            Place::Folder(folder) => Self::open_folder(folder),
            Place::Gguf(file) => Self::open_gguf(file),
        }
    }

    fn open_folder(folder: PathBuf) -> Result<Self> {
        let config = folder::read_config(&folder)?;
        let generation_config = folder::read_generation_config(&folder)?;
        let (tensors, mappings) = safetensors_files::read_folder(&folder)?;
        let format = Format::Safetensors;
        Ok(Self {
            path: folder,
            format,
            config,
            generation_config,
            tensors,
            mappings,
        })
    }

    fn open_gguf(file: PathBuf) -> Result<Self> {
        let mapping = map_gguf(&file)?;
        let wrap = |source: GgufError| ModelFileError::Gguf {
            path: file.clone(),
            source,
        };
        let header = GgufHeader::parse(&mapping).map_err(wrap)?;
        let renamed = gguf::hf_tensors(&header).map_err(wrap)?;
        let config = gguf::hf_config(&header, &renamed, &mapping).map_err(wrap)?;
        let generation_config = gguf::hf_generation_config(&header).map_err(wrap)?;
        let mut tensors = TensorTable::default();
        for tensor in renamed {
            let stored = StoredTensor {
                dtype: tensor.dtype,
                shape: tensor.shape,
                file: 0,
                range: tensor.range,
                interleaved_heads: tensor.interleaved_heads,
            };
            tensors.insert(tensor.name, stored);
        }
        let mappings = vec![mapping];
        Ok(Self {
            path: file,
            format: Format::Gguf,
            config,
            generation_config,
            tensors,
            mappings,
        })
    }

    /// The folder or GGUF file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the weights are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The content of `config.json`; for a GGUF file its metadata under the same names.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// The content of `generation_config.json`, empty where there is none.
    pub fn generation_config(&self) -> &Map<String, Value> {
        &self.generation_config
    }

    /// Bytes of all tensors as stored.
    pub fn total_bytes(&self) -> u64 {
        self.tensors.total_bytes()
    }

    /// Hugging Face names of all tensors; names that have none stay as the file has them.
    pub fn tensor_names(&self) -> &[String] {
        self.tensors.names()
    }

    /// Where this model's tokenizer data is.
    pub fn tokenizer_source(&self) -> Result<TokenizerSource> {
        TokenizerSource::open(&self.path)
    }

    /// A tensor by its Hugging Face name.
    pub fn tensor(&self, name: &str) -> Result<TensorRef<'_>> {
        let stored = self
            .tensors
            .get(name)
            .ok_or_else(|| ModelFileError::MissingTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                near: self.tensors.nearest(name),
            })?;
        Ok(TensorRef {
            dtype: stored.dtype,
            shape: &stored.shape,
            bytes: &self.mappings[stored.file][stored.range.clone()],
            interleaved_heads: stored.interleaved_heads,
        })
    }

    /// As [`Self::tensor`], refusing another shape than `expected`.
    pub fn tensor_of_shape(&self, name: &str, expected: &[usize]) -> Result<TensorRef<'_>> {
        let tensor = self.tensor(name)?;
        if tensor.shape == expected {
            return Ok(tensor);
        }
        Err(ModelFileError::Shape {
            path: self.path.clone(),
            name: name.to_owned(),
            found: tensor.shape.to_vec(),
            expected: expected.to_vec(),
        })
    }

    /// Converts a tensor to f32 in the model's row order, on all cores. `out` has one value per element.
    pub fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<()> {
        let rows = self.rows(name, out.len(), "float32")?;
        dequant::to_f32(rows, out);
        Ok(())
    }

    /// Converts a tensor to bf16 bits, rounded to nearest even, in the model's row order, on all cores.
    pub fn read_bf16(&self, name: &str, out: &mut [u16]) -> Result<()> {
        let rows = self.rows(name, out.len(), "bfloat16")?;
        dequant::to_bf16(rows, out);
        Ok(())
    }

    fn rows(&self, name: &str, given: usize, target: &'static str) -> Result<Rows<'_>> {
        let TensorRef {
            dtype,
            shape,
            bytes,
            interleaved_heads,
        } = self.tensor(name)?;
        if !dequant::is_supported(dtype) {
            return Err(ModelFileError::UnsupportedType {
                name: name.to_owned(),
                dtype: dtype.name(),
                target,
            });
        }
        let expected: usize = shape.iter().product();
        if given != expected {
            return Err(ModelFileError::OutputSize {
                name: name.to_owned(),
                expected,
                given,
            });
        }
        let order = interleaved_heads.map_or(RowOrder::AsStored, |heads| RowOrder::Interleaved {
            head_rows: shape[0] / heads,
        });
        // A bias is a column: one element per row.
        let row_elements = if order == RowOrder::AsStored {
            expected
        } else {
            expected / shape[0]
        };
        Ok(Rows {
            dtype,
            bytes,
            row_elements,
            order,
        })
    }
}

impl TokenizerSource {
    /// Finds the tokenizer data of the model at `path`; the weights are not looked at.
    pub fn open(path: &Path) -> Result<Self> {
        match Place::find(path)? {
            Place::Folder(folder) => folder::tokenizer_source(&folder),
            Place::Gguf(file) => {
                let wrap = |source: GgufError| ModelFileError::Gguf {
                    path: file.clone(),
                    source,
                };
                let mapping = map_gguf(&file)?;
                let header = GgufHeader::parse(&mapping).map_err(wrap)?;
                Ok(Self::Gguf(Box::new(gguf::tokenizer(&header).map_err(wrap)?)))
            }
        }
    }
}

/// Maps a single file, which must be a GGUF file: by its name or by its first bytes.
fn map_gguf(file: &Path) -> Result<Mmap> {
    let mapping = mapped::map(file)?;
    let named = file
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    if named || mapping.starts_with(gguf::MAGIC) {
        return Ok(mapping);
    }
    Err(ModelFileError::NotAModel {
        path: file.to_owned(),
    })
}
