//! Fetching from a hub: progress, resuming after a kill, starting again offline.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::cell::RefCell;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{FakeHub, Fault};
use vllm_rs_model_hub::{ResolveError, ResolveOptions, TerminalProgress, resolve};

const WEIGHTS: &str = "model.safetensors";

fn weights() -> Vec<u8> {
    (0..3_000_000u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn hub() -> FakeHub {
    FakeHub::start(&[
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", b"{\"t\": 1}".to_vec()),
        (WEIGHTS, weights()),
        ("pytorch_model.bin", vec![0; 10]),
        ("modeling.py", b"evil".to_vec()),
    ])
}

fn options(hub: &FakeHub, cache: &Path) -> ResolveOptions {
    let mut options = ResolveOptions::from_env().with_flags(Some(cache), None);
    options.hub_endpoint.clone_from(&hub.endpoint);
    options.offline = false;
    options.hub_token = None;
    options
}

fn fetch(options: &ResolveOptions) -> Result<PathBuf, ResolveError> {
    resolve("org/model", options, &|_| true)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Run as a process of its own by the test below, which kills it.
#[test]
#[ignore = "the child of resume_after_a_kill"]
fn child_that_fetches() {
    let options = ResolveOptions::from_env();
    let bar = TerminalProgress::new();
    resolve("org/model", &options, &|progress| bar.report(progress)).unwrap();
}

// covers: MODEL-12 ENV-06 CLI-16
#[test]
fn progress_is_shown_a_killed_fetch_is_resumed_and_the_second_start_is_offline() {
    let hub = hub();
    let cache = tempfile::tempdir().unwrap();
    hub.set_fault(WEIGHTS, Some(Fault::StallAt(1_000_000)));
    let shown = cache.path().join("shown");
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child_that_fetches", "--ignored", "--nocapture"])
        .env("HF_ENDPOINT", format!("{}/", hub.endpoint))
        .env("HF_TOKEN", "secret")
        .env("VLLM_RS_CACHE", cache.path())
        .env_remove("HF_HUB_OFFLINE")
        .stdout(Stdio::null())
        .stderr(fs::File::create(&shown).unwrap())
        .spawn()
        .unwrap();
    hub.stalled.recv().unwrap();
    let partial = cache.path().join("hub/org--model/c0ffee.partial").join(WEIGHTS);
    while fs::metadata(&partial).map_or(0, |metadata| metadata.len()) < 1_000_000 {
        assert!(child.try_wait().unwrap().is_none(), "the child ended early");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = fs::read_to_string(shown).unwrap();
    assert!(shown.contains("fetching org/model: 0.9 MB of 3.0 MB"), "{shown}");
    let requests = hub.take_requests();
    assert!(
        requests[0].starts_with("/api/models/org/model/revision/main"),
        "{requests:?}"
    );
    assert!(
        requests.iter().all(|request| request.ends_with("authorised")),
        "{requests:?}"
    );

    hub.set_fault(WEIGHTS, None);
    let seen = RefCell::new(Vec::new());
    let options = options(&hub, cache.path());
    let report = |progress: vllm_rs_model_hub::Progress<'_>| {
        seen.borrow_mut()
            .push((progress.done_bytes, progress.total_bytes));
        true
    };
    let path = resolve("org/model", &options, &report).unwrap();
    let requests = hub.take_requests();
    assert!(
        requests.contains(&format!("/org/model/resolve/c0ffee/{WEIGHTS} from 1000000")),
        "{requests:?}"
    );
    assert_eq!(
        requests.len(),
        2,
        "the listing and the rest of one file: {requests:?}"
    );
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights());
    assert_eq!(names(&path), ["config.json", WEIGHTS, "tokenizer.json"]);
    let seen = seen.into_inner();
    let total = 2 + 8 + weights().len() as u64;
    assert!(seen.is_sorted() && seen.len() > 4, "{seen:?}");
    assert!(seen.iter().any(|(done, _)| (1_000_000..total).contains(done)));
    assert_eq!(seen.last(), Some(&(total, total)));

    let mut offline = options.clone();
    offline.offline = true;
    assert_eq!(fetch(&offline).unwrap(), path);
    let mut elsewhere = options;
    elsewhere.hub_endpoint = "http://127.0.0.1:9".to_owned();
    assert_eq!(fetch(&elsewhere).unwrap(), path, "what is cached needs no hub");
    assert!(hub.take_requests().is_empty());
}

// covers: CLI-16
#[test]
fn a_target_folder_gets_the_files_themselves_and_is_brought_up_to_date() {
    let hub = hub();
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("mine");
    let mut options = options(&hub, cache.path());
    options.target_dir = Some(folder.clone());
    assert_eq!(fetch(&options).unwrap(), folder);
    assert_eq!(names(&folder), ["config.json", WEIGHTS, "tokenizer.json"]);
    hub.state
        .lock()
        .unwrap()
        .files
        .insert("config.json".to_owned(), b"[]".to_vec());
    hub.take_requests();
    fetch(&options).unwrap();
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), b"[]");
    assert!(
        !hub.take_requests()
            .iter()
            .any(|request| request.contains(WEIGHTS))
    );
}

#[test]
fn broken_connections_are_gone_on_from() {
    let hub = hub();
    let cache = tempfile::tempdir().unwrap();
    hub.set_fault(WEIGHTS, Some(Fault::BreakAt(500_000)));
    let error = fetch(&options(&hub, cache.path())).unwrap_err().to_string();
    assert!(error.contains("HF_ENDPOINT"), "{error}");
    let ranges = hub
        .take_requests()
        .iter()
        .filter(|request| request.ends_with("from 500000"))
        .count();
    assert!(ranges >= 2, "it went on from what it had");
    hub.set_fault(WEIGHTS, None);
    let path = fetch(&options(&hub, cache.path())).unwrap();
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights());
}

#[test]
fn wrong_bytes_are_never_given_the_files_name() {
    let hub = hub();
    let cache = tempfile::tempdir().unwrap();
    hub.set_fault(WEIGHTS, Some(Fault::Garble));
    let error = fetch(&options(&hub, cache.path())).unwrap_err();
    assert!(matches!(error, ResolveError::Corrupt { .. }), "{error}");
    hub.set_fault(WEIGHTS, None);
    let path = fetch(&options(&hub, cache.path())).unwrap();
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights());
}

#[test]
fn failures_say_what_to_do() {
    let hub = hub();
    let cache = tempfile::tempdir().unwrap();
    let mut options = options(&hub, cache.path());
    let text =
        |name: &str, options: &ResolveOptions| resolve(name, options, &|_| true).unwrap_err().to_string();
    fetch(&options).unwrap();
    let unknown = text("org/modle", &options);
    assert!(
        unknown.contains("has no model \"org/modle\"") && unknown.ends_with("did you mean org/model?"),
        "{unknown}"
    );
    assert!(text("smolm2", &options).ends_with("did you mean smollm2?"));
    options.offline = true;
    assert!(text("org/other", &options).contains("HF_HUB_OFFLINE is set"));
    assert!(text("smollm2", &options).contains("HF_HUB_OFFLINE is set"));
    options.offline = false;
    options.hub_endpoint = "http://127.0.0.1:9".to_owned();
    assert!(text("org/other", &options).contains("HF_ENDPOINT"));
    let stopped = options.clone();
    let stopped = ResolveOptions {
        hub_endpoint: hub.endpoint.clone(),
        refresh: true,
        ..stopped
    };
    let error = resolve("org/model", &stopped, &|_| false).unwrap_err();
    assert!(matches!(error, ResolveError::Interrupted { .. }));
}

#[test]
fn an_existing_path_always_wins_and_a_missing_one_names_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let options = ResolveOptions::from_env().with_flags(Some(folder.path()), None);
    let file = folder.path().join("my-model.gguf");
    fs::write(&file, b"GGUF").unwrap();
    assert_eq!(
        resolve(file.to_str().unwrap(), &options, &|_| true).unwrap(),
        file
    );
    let typo = folder.path().join("my-modle.gguf");
    let text = resolve(typo.to_str().unwrap(), &options, &|_| true)
        .unwrap_err()
        .to_string();
    assert!(
        text.ends_with(&format!("did you mean {}?", file.display())),
        "{text}"
    );
    let text = resolve("", &options, &|_| true).unwrap_err().to_string();
    assert!(text.starts_with("\"\" is not a model"), "{text}");
}
