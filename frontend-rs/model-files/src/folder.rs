//! A Hugging Face folder's JSON files and tokenizer data.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{ModelFileError, Result};
use crate::mapped;
use crate::safetensors_files::{has_extension, list};
use crate::tokenizer_source::TokenizerSource;

/// What a path that names a model turns out to be.
pub(crate) enum Place {
    /// A folder with `config.json`.
    Folder(PathBuf),
    /// A GGUF file.
    Gguf(PathBuf),
}

impl Place {
    /// A folder that holds one GGUF file and no `config.json` stands for that file.
    pub(crate) fn find(path: &Path) -> Result<Self> {
        let not_found = || ModelFileError::NotFound {
            path: path.to_owned(),
        };
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => not_found(),
            _ => ModelFileError::Io {
                path: path.to_owned(),
                source: error,
            },
        })?;
        if metadata.is_file() {
            return Ok(Self::Gguf(path.to_owned()));
        }
        if !metadata.is_dir() {
            return Err(ModelFileError::NotAModel {
                path: path.to_owned(),
            });
        }
        if path.join("config.json").is_file() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let mut names = list(path)?;
        names.retain(|name| has_extension(name, "gguf"));
        match names.as_slice() {
            [] => Err(ModelFileError::NoConfig {
                path: path.to_owned(),
            }),
            [name] => Ok(Self::Gguf(path.join(name))),
            _ => Err(ModelFileError::SeveralGguf {
                path: path.to_owned(),
                names,
            }),
        }
    }
}

/// `config.json`, with the fields that every reader relies on checked.
pub(crate) fn read_config(folder: &Path) -> Result<Map<String, Value>> {
    let path = folder.join("config.json");
    let config = mapped::read_object(&path)?;
    let config = config.ok_or_else(|| ModelFileError::NoConfig {
        path: folder.to_owned(),
    })?;
    let problem = |problem: &str| ModelFileError::Json {
        path: path.clone(),
        problem: problem.to_owned(),
    };
    match config.get("architectures") {
        Some(Value::Array(names)) if !names.is_empty() && names.iter().all(Value::is_string) => Ok(config),
        Some(_) => Err(problem("field \"architectures\" is not a list of names")),
        None => Err(problem(
            "field \"architectures\" is missing: it names the model's class",
        )),
    }
}

/// `generation_config.json`, empty where there is none.
pub(crate) fn read_generation_config(folder: &Path) -> Result<Map<String, Value>> {
    Ok(mapped::read_object(&folder.join("generation_config.json"))?.unwrap_or_default())
}

/// The tokenizer files of a folder.
pub(crate) fn tokenizer_source(folder: &Path) -> Result<TokenizerSource> {
    let tokenizer_json = folder.join("tokenizer.json");
    if !tokenizer_json.is_file() {
        return Err(ModelFileError::NoTokenizer {
            path: folder.to_owned(),
            problem: way_out(folder),
        });
    }
    let config = mapped::read_object(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let own_file = mapped::read_text(&folder.join("chat_template.jinja"))?;
    let chat_template = own_file.or_else(|| default_template(config.get("chat_template")));
    Ok(TokenizerSource::HfJson {
        tokenizer_json,
        config: Value::Object(config),
        chat_template,
    })
}

/// A template is a string, or a list of named ones of which `default` is meant.
fn default_template(template: Option<&Value>) -> Option<String> {
    match template? {
        Value::String(text) => Some(text.clone()),
        Value::Array(named) => named
            .iter()
            .find(|entry| entry["name"] == "default")
            .and_then(|entry| entry["template"].as_str())
            .map(str::to_owned),
        _ => None,
    }
}

fn way_out(folder: &Path) -> String {
    let older = ["tokenizer.model", "vocab.json", "vocab.txt"]
        .iter()
        .find(|name| folder.join(name).is_file());
    match older {
        None => "the folder has no tokenizer.json".to_owned(),
        Some(older) => format!(
            "the folder has {older} but no tokenizer.json; make one with: python -c \"from transformers import \
             AutoTokenizer as T; T.from_pretrained('{0}').save_pretrained('{0}')\"",
            folder.display()
        ),
    }
}
