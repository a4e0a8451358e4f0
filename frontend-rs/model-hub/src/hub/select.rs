//! Which files of a repository are a model: never code, never pickles.

use super::HubName;
use super::api::HubFile;
use crate::error::{ResolveError, Result};

/// The files to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) files: Vec<HubFile>,
    /// The GGUF file that is the model by itself.
    pub(super) gguf: Option<String>,
}

impl Selection {
    pub(super) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }
}

/// Chooses among the files at the top of the repository.
pub(super) fn choose(name: &HubName, files: &[HubFile]) -> Result<Selection> {
    let repo = || name.repo.clone();
    let top: Vec<&HubFile> = files.iter().filter(|file| is_plain(&file.name)).collect();
    let weights: Vec<&HubFile> = top
        .iter()
        .copied()
        .filter(|file| file.name.ends_with(".safetensors"))
        .collect();
    if name.variant.is_some() || weights.is_empty() {
        let mut matching: Vec<&HubFile> = top.iter().copied().filter(|file| is_gguf(&file.name)).collect();
        let all: Vec<String> = matching.iter().map(|file| file.name.clone()).collect();
        if let Some(variant) = &name.variant {
            let variant = variant.to_lowercase();
            matching.retain(|file| file.name.to_lowercase().contains(&variant));
        }
        return match matching.as_slice() {
            [file] => Ok(Selection {
                files: vec![(*file).clone()],
                gguf: Some(file.name.clone()),
            }),
            _ if !all.is_empty() => Err(ResolveError::ChooseGguf {
                repo: repo(),
                files: all,
            }),
            _ => Err(match top.iter().find(|file| is_pickle(&file.name)) {
                Some(file) => ResolveError::PickleOnly {
                    repo: repo(),
                    file: file.name.clone(),
                },
                None => ResolveError::NoWeights { repo: repo() },
            }),
        };
    }
    // Some repositories carry the weights twice, under the original and the Hugging Face names.
    let standard = weights.iter().any(|file| file.name.starts_with("model"));
    let wanted = |file: &&&HubFile| !standard || file.name.starts_with("model");
    let weights = weights.iter().filter(wanted).copied();
    let rest = top.iter().copied().filter(|file| is_description(&file.name));
    Ok(Selection {
        files: rest.chain(weights).cloned().collect(),
        gguf: None,
    })
}

/// A name in the top folder that is no path and hides nothing.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0', '?', '#', '%'])
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_gguf(name: &str) -> bool {
    extension(name).eq_ignore_ascii_case("gguf")
}

fn is_pickle(name: &str) -> bool {
    ["bin", "pt", "pth", "ckpt"].contains(&extension(name)) && !name.starts_with("training_args")
}

fn is_description(name: &str) -> bool {
    let tokenizer = name.starts_with("tokenizer") && extension(name) == "json";
    let template = name.starts_with("chat_template") && ["json", "jinja"].contains(&extension(name));
    let plain = [
        "config.json",
        "generation_config.json",
        "special_tokens_map.json",
        "model.safetensors.index.json",
    ];
    tokenizer || template || plain.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_names(name: &str, files: &[&str]) -> Result<Vec<String>> {
        let files: Vec<HubFile> = files
            .iter()
            .map(|name| HubFile {
                name: (*name).to_owned(),
                size_bytes: 1,
                sha256: None,
            })
            .collect();
        let selection = choose(&HubName::parse(name).unwrap(), &files)?;
        Ok(selection.files.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn a_model_is_its_descriptions_and_its_safetensors() {
        let files = [
            "README.md",
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "modeling_x.py",
            "chat_template.jinja",
            "model.safetensors.index.json",
            "model-00001-of-00001.safetensors",
            "consolidated.safetensors",
            "pytorch_model.bin",
            "../evil.json",
            "original/config.json",
            "model.gguf",
        ];
        let chosen = choose_names("a/b", &files).unwrap();
        let expected = [
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "model.safetensors.index.json",
            "model-00001-of-00001.safetensors",
        ];
        assert_eq!(chosen, expected);
        assert_eq!(choose_names("a/b:gguf", &files).unwrap(), ["model.gguf"]);
    }

    #[test]
    fn among_several_gguf_files_one_must_be_chosen() {
        let files = ["x-Q4_0.gguf", "x-Q8_0.gguf", "config.json"];
        assert_eq!(choose_names("a/b:q8_0", &files).unwrap(), ["x-Q8_0.gguf"]);
        for name in ["a/b", "a/b:Q5_K"] {
            let text = choose_names(name, &files).unwrap_err().to_string();
            assert!(
                text.contains("choose one as a/b:NAME") && text.contains("x-Q4_0.gguf, x-Q8_0.gguf"),
                "{text}"
            );
        }
    }

    #[test]
    fn pickles_are_refused_before_anything_is_fetched() {
        let text = choose_names("a/b", &["config.json", "pytorch_model.bin"])
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("only in pytorch_model.bin") && text.contains("safe_serialization=True"),
            "{text}"
        );
        assert!(matches!(
            choose_names("a/b", &["config.json"]),
            Err(ResolveError::NoWeights { .. })
        ));
    }
}
