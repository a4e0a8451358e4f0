//! What kind of name it is, and who knows it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::embedded::EmbeddedModel;
use crate::error::{ResolveError, Result};
use crate::hub::{self, HubName};
use crate::options::ResolveOptions;
use crate::progress::Progress;

/// The model that `serve` without a name serves.
pub const DEFAULT_MODEL: &str = EmbeddedModel::SMOLLM2.name;

/// The local path of the model `name`, fetched first if need be. `progress` sees the bytes arrive and
/// may answer `false` to stop.
///
/// An existing file or folder always wins; then the built-in name; then the hub.
pub fn resolve(
    name: &str,
    options: &ResolveOptions,
    progress: &dyn Fn(Progress<'_>) -> bool,
) -> Result<PathBuf> {
    let path = expand_home(name);
    if !name.is_empty() && path.exists() {
        return Ok(path);
    }
    if name == EmbeddedModel::SMOLLM2.name {
        return EmbeddedModel::SMOLLM2.fetch(options, progress);
    }
    if looks_like_path(name) {
        let near = near_in_folder(&path);
        return Err(ResolveError::NoSuchPath { path, near });
    }
    match HubName::parse(name) {
        Some(hub_name) => hub::fetch(&hub_name, options, progress),
        None => Err(ResolveError::UnknownName {
            name: name.to_owned(),
            built_in: EmbeddedModel::SMOLLM2.name,
            near: near_known(name, options),
        }),
    }
}

fn expand_home(name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    }
}

fn looks_like_path(name: &str) -> bool {
    let starts = ["/", "./", "../", "~/"]
        .iter()
        .any(|start| name.starts_with(start));
    let gguf = Path::new(name)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    starts || gguf || name.ends_with('/')
}

/// Entries beside a missing path whose names are much like it.
fn near_in_folder(path: &Path) -> Vec<String> {
    let Some(wanted) = path.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let near = nearest(wanted, names.take(10_000).collect());
    near.into_iter()
        .map(|name| folder.join(name).display().to_string())
        .collect()
}

/// Built-in and cached names much like `name`.
pub(crate) fn near_known(name: &str, options: &ResolveOptions) -> Vec<String> {
    let mut known = hub::cached_names(&options.cache_dir);
    known.push(EmbeddedModel::SMOLLM2.name.to_owned());
    nearest(name, known)
}

/// At most two of `known`, best first; a name is near if two thirds of it agree, in any case, or if one
/// holds the other.
fn nearest(wanted: &str, known: Vec<String>) -> Vec<String> {
    const NEAR: f64 = 0.67;
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, String)> = known
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let holds = wanted.len() >= 4 && (lower.contains(&wanted) || wanted.contains(&lower));
            (
                if holds {
                    1.0
                } else {
                    strsim::normalized_damerau_levenshtein(&wanted, &lower)
                },
                name,
            )
        })
        .filter(|(score, _)| *score >= NEAR)
        .collect();
    scored.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    scored.into_iter().take(2).map(|(_, name)| name).collect()
}
