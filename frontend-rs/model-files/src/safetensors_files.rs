//! A folder's safetensors files: one file, or shards with their index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::dtype::DType;
use crate::error::{ModelFileError, Result};
use crate::mapped;
use crate::tensors::{StoredTensor, TensorTable};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// All tensors of the folder, their files mapped.
pub(crate) fn read_folder(folder: &Path) -> Result<(TensorTable, Vec<Mmap>)> {
    let index = folder.join(INDEX);
    if let Some(content) = mapped::read_object(&index)? {
        return read_shards(folder, &index, &weight_map(&index, &content)?);
    }
    let file = folder.join(SINGLE);
    let file = if file.is_file() { file } else { only_file(folder)? };
    let mapping = mapped::map(&file)?;
    let mut table = TensorTable::default();
    for (name, tensor) in read_file(&file, &mapping, 0)? {
        table.insert(name, tensor);
    }
    Ok((table, vec![mapping]))
}

/// The only safetensors file under another name, or the reason why there is none.
fn only_file(folder: &Path) -> Result<PathBuf> {
    let names = list(folder)?;
    let mut found: Vec<&String> = names
        .iter()
        .filter(|name| has_extension(name, "safetensors"))
        .collect();
    match (found.pop(), found.len()) {
        (Some(name), 0) => return Ok(folder.join(name)),
        (Some(_), others) => {
            return Err(ModelFileError::NoIndex {
                path: folder.to_owned(),
                count: others + 1,
            });
        }
        (None, _) => {}
    }
    let pickle = ["bin", "pt", "pth", "ckpt"];
    let pickle = names.iter().find(|name| {
        pickle.iter().any(|extension| has_extension(name, extension)) && !name.starts_with("training_args")
    });
    match pickle {
        Some(name) => Err(ModelFileError::PickleOnly {
            path: folder.to_owned(),
            name: name.clone(),
        }),
        None => Err(ModelFileError::NoWeights {
            path: folder.to_owned(),
        }),
    }
}

/// File names in the folder, sorted.
pub(crate) fn list(folder: &Path) -> Result<Vec<String>> {
    let io = |source| ModelFileError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        if let Ok(name) = entry.map_err(io)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Tensor name → shard file name, from the index.
fn weight_map(index: &Path, content: &serde_json::Map<String, Value>) -> Result<BTreeMap<String, String>> {
    let problem = |problem: String| ModelFileError::Json {
        path: index.to_owned(),
        problem,
    };
    let Some(Value::Object(entries)) = content.get("weight_map") else {
        return Err(problem("has no object \"weight_map\"".to_owned()));
    };
    let mut map = BTreeMap::new();
    for (tensor, shard) in entries {
        let Value::String(shard) = shard else {
            return Err(problem(format!("weight_map entry {tensor:?} is not a file name")));
        };
        // A shard lies beside its index: anything else could read files the model has no business with.
        if Path::new(shard)
            .file_name()
            .is_none_or(|name| name != shard.as_str())
        {
            return Err(problem(format!(
                "weight_map entry {tensor:?}: {shard:?} is not a plain file name"
            )));
        }
        if !has_extension(shard, "safetensors") {
            return Err(problem(format!(
                "weight_map entry {tensor:?}: {shard:?} is no safetensors file"
            )));
        }
        map.insert(tensor.clone(), shard.clone());
    }
    if map.is_empty() {
        return Err(problem("\"weight_map\" is empty".to_owned()));
    }
    Ok(map)
}

fn read_shards(
    folder: &Path,
    index: &Path,
    weight_map: &BTreeMap<String, String>,
) -> Result<(TensorTable, Vec<Mmap>)> {
    let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, shard) in weight_map {
        shards.entry(shard).or_default().push(tensor);
    }
    let mut table = TensorTable::default();
    let mut mappings = Vec::new();
    for (shard, wanted) in shards {
        let path = folder.join(shard);
        if !path.is_file() {
            let (shard, tensor) = (shard.to_owned(), wanted[0].to_owned());
            return Err(ModelFileError::MissingShard {
                index: index.to_owned(),
                shard,
                tensor,
            });
        }
        let mapping = mapped::map(&path)?;
        let mut held = read_file(&path, &mapping, mappings.len())?;
        for tensor in wanted {
            let Some(stored) = held.remove(tensor) else {
                let (shard, tensor) = (shard.to_owned(), tensor.to_owned());
                return Err(ModelFileError::NotInShard {
                    index: index.to_owned(),
                    shard,
                    tensor,
                });
            };
            table.insert(tensor.to_owned(), stored);
        }
        mappings.push(mapping);
    }
    Ok((table, mappings))
}

/// The tensors of one file; the crate has checked all offsets against the header and the file.
fn read_file(path: &Path, bytes: &[u8], file: usize) -> Result<BTreeMap<String, StoredTensor>> {
    let invalid = |problem: String| ModelFileError::Safetensors {
        path: path.to_owned(),
        problem,
    };
    let parsed = SafeTensors::deserialize(bytes).map_err(|error| invalid(error.to_string()))?;
    let base = bytes.as_ptr() as usize;
    let mut tensors = BTreeMap::new();
    for (name, view) in parsed.iter() {
        let dtype = dtype(view.dtype());
        let dtype = dtype.ok_or_else(|| invalid(format!("tensor {name} has type {:?}", view.dtype())))?;
        let start = view.data().as_ptr() as usize - base;
        let range = start..start + view.data().len();
        let shape = view.shape().to_vec();
        let stored = StoredTensor {
            dtype,
            shape,
            file,
            range,
            interleaved_heads: None,
        };
        tensors.insert(name.to_owned(), stored);
    }
    Ok(tensors)
}

fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool,
        Dtype::F8_E4M3 => DType::F8_E4M3,
        Dtype::F8_E5M2 => DType::F8_E5M2,
        _ => return None,
    })
}
