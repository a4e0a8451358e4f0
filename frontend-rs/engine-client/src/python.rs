//! Which Python runs the engine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// No Python with the engine package was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PythonError {
    #[error("VLLM_RS_PYTHON names {path}, which is not a file")]
    NotAFile { path: String },
    #[error(
        "no Python with the package vllm_rs found (looked at {tried}); set VLLM_RS_PYTHON to the interpreter \
         of the environment it is installed in"
    )]
    NotFound { tried: String },
}

/// `VLLM_RS_PYTHON`; else the interpreter beside this binary, links resolved; else that of the active
/// or local virtual environment; else a `python3` on the path that can import the package.
pub fn find_python() -> Result<PathBuf, PythonError> {
    if let Some(path) = env::var_os("VLLM_RS_PYTHON")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
    {
        return if path.is_file() {
            Ok(path)
        } else {
            Err(PythonError::NotAFile {
                path: path.display().to_string(),
            })
        };
    }
    let beside = env::current_exe()
        .and_then(|binary| binary.canonicalize())
        .ok()
        .and_then(|binary| binary.parent().map(Path::to_path_buf));
    let environments = [
        env::var_os("VIRTUAL_ENV").map(PathBuf::from),
        Some(PathBuf::from(".venv")),
    ];
    let fixed = beside
        .into_iter()
        .chain(environments.into_iter().flatten().map(|root| root.join("bin")))
        .flat_map(|folder| ["python", "python3"].map(|name| folder.join(name)))
        .filter(|path| path.is_file());
    let path_variable = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path_variable).map(|folder| folder.join("python3"));
    choose(fixed.chain(on_path.filter(|path| path.is_file())), can_import)
}

/// The first candidate that passes; the error names all that were tried.
fn choose(
    candidates: impl Iterator<Item = PathBuf>,
    can_import: impl Fn(&Path) -> bool,
) -> Result<PathBuf, PythonError> {
    let mut tried: Vec<String> = Vec::new();
    for candidate in candidates {
        if can_import(&candidate) {
            return Ok(candidate);
        }
        let name = candidate.display().to_string();
        if !tried.contains(&name) {
            tried.push(name);
        }
    }
    let tried = if tried.is_empty() {
        "the PATH".to_owned()
    } else {
        tried.join(", ")
    };
    Err(PythonError::NotFound { tried })
}

/// Finds the package without running it: importing would load native code.
fn can_import(python: &Path) -> bool {
    let code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm_rs') is None)";
    Command::new(python)
        .args(["-c", code])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_candidate_with_the_package_wins() {
        let candidates = || ["a", "b", "b", "c"].into_iter().map(PathBuf::from);
        assert_eq!(
            choose(candidates(), |path| path != Path::new("a")),
            Ok(PathBuf::from("b"))
        );
        let none = choose(candidates(), |_| false);
        assert_eq!(
            none,
            Err(PythonError::NotFound {
                tried: "a, b, c".to_owned()
            })
        );
    }
}
