use std::ffi::OsString;

use clap::Parser;
use proptest::prelude::*;

use crate::{Config, Dtype, FLAGS, FlagError, ServeArgs, prepare};

#[derive(Parser)]
#[command(name = "vllm-rs")]
enum Cli {
    Serve(Box<ServeArgs>),
}

#[derive(Debug)]
enum Failure {
    Flag(FlagError),
    Clap(String),
}

fn parse_with(args: &[&str], env: &[(&str, &str)]) -> Result<Config, Failure> {
    let line = ["vllm-rs", "serve"].iter().chain(args).map(OsString::from);
    let lookup = |name: &str| {
        env.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| OsString::from(value))
    };
    let prepared = prepare(line, lookup).map_err(Failure::Flag)?;
    let Cli::Serve(parsed) =
        Cli::try_parse_from(prepared).map_err(|error| Failure::Clap(error.to_string()))?;
    let config = parsed.resolve().map_err(Failure::Flag)?;
    config.validate().map_err(Failure::Flag)?;
    Ok(config)
}

fn parse(args: &[&str]) -> Config {
    parse_with(args, &[]).unwrap()
}

fn message(args: &[&str]) -> String {
    match parse_with(args, &[]).unwrap_err() {
        Failure::Flag(error) => error.to_string(),
        Failure::Clap(text) => text,
    }
}

#[test]
fn no_arguments_give_the_defaults() {
    assert_eq!(parse(&[]), Config::default());
}

/// A value other than the default for every flag.
fn other_value(flag: &str) -> Option<Vec<String>> {
    let fixed = match flag {
        "model" => return Some(vec!["--model=org/other".into()]),
        "trust-remote-code" | "data-parallel-size" => return None, // only their defaults are usable
        "dtype" | "kv-cache-dtype" => "float32",
        "load-format" => "gguf",
        "block-size" => "32",
        "scheduling-policy" => "priority",
        "device" => "torch",
        "cpu-isa" => "scalar",
        "log-level" => "DEBUG",
        "log-format" => "json",
        "gpu-memory-utilization" => "0.5",
        "max-num-batched-tokens" => "1K",
        "shutdown-timeout" | "decode-latency-target-ms" => "1.5",
        "engine-stall-timeout" | "engine-kill-timeout" => "99.5",
        "data-parallel-size-local" => "0",
        "host" => "localhost",
        _ => "",
    };
    if !fixed.is_empty() {
        return Some(vec![format!("--{flag}={fixed}")]);
    }
    let default = parse(&[]).to_fields();
    let field = flag.replace('-', "_");
    let text = match default.get(&field)? {
        serde_json::Value::Bool(true) if flag == "disable-log-requests" => "--enable-log-requests".to_owned(),
        serde_json::Value::Bool(true) => format!("--no-{flag}"),
        serde_json::Value::Bool(false) => format!("--{flag}"),
        serde_json::Value::Number(number) => format!("--{flag}={}", number.as_u64()? + 1),
        serde_json::Value::Null if flag.contains("max-") || flag.contains("bytes") || flag == "seed" => {
            format!("--{flag}=2048")
        }
        serde_json::Value::Null if flag == "cpu-threads" => format!("--{flag}=2"),
        _ => format!("--{flag}=x"),
    };
    Some(vec![text])
}

impl Config {
    fn to_fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let sections = serde_json::to_value(self).unwrap();
        sections
            .as_object()
            .unwrap()
            .values()
            .flat_map(|section| section.as_object().unwrap().clone())
            .collect()
    }
}

// covers: ARCH-12
#[test]
fn each_flag_changes_its_own_field_and_no_other() {
    let default = parse(&[]).to_fields();
    let mut checked = 0;
    for (flag, _) in FLAGS {
        let Some(args) = other_value(flag) else { continue };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let changed: Vec<String> = parse(&args)
            .to_fields()
            .into_iter()
            .filter(|(field, value)| default[field] != *value)
            .map(|(field, _)| field)
            .collect();
        assert_eq!(changed, [flag.replace('-', "_")], "{args:?}");
        checked += 1;
    }
    assert_eq!(checked, FLAGS.len() - 2);
}

#[test]
fn the_engine_is_told_everything_but_the_frontend_section() {
    let config = parse(&["m", "--api-key=hush", "--dtype", "float"]);
    let json = config.engine_json();
    assert_eq!(json["model"]["dtype"], "float32");
    assert_eq!(json["model"]["model"], "m");
    assert!(json.get("frontend").is_none());
    assert!(!json.to_string().contains("hush"));
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn a_bool_has_two_spellings_and_the_later_one_wins() {
    let on = |args: &[&str]| parse(args).cache.enable_prefix_caching;
    assert!(!on(&["--no-enable-prefix-caching"]));
    assert!(on(&["--no-enable-prefix-caching", "--enable-prefix-caching"]));
    assert!(!on(&["--enable-prefix-caching", "--no-enable-prefix-caching"]));
    assert!(!on(&["--enable-prefix-caching=false"]));
}

#[test]
fn vllm_spellings_are_understood() {
    let config = parse(&[
        "--max_model_len",
        "4k",
        "-dpl",
        "0",
        "--served-model-name",
        "a",
        "b",
        "--log_level=WARN",
    ]);
    assert_eq!(config.model.max_model_len, Some(4000));
    assert_eq!(config.link.data_parallel_size_local, 0);
    assert_eq!(config.model.served_model_name, ["a", "b"]);
    assert_eq!(config.observability.log_level.as_str(), "warning");
    assert_eq!(parse(&["--max-model-len", "auto"]).model.max_model_len, None);
    assert_eq!(parse(&["--max-model-len", "-1"]).model.max_model_len, None);
    assert_eq!(parse(&["--max-model-len=1.5K"]).model.max_model_len, Some(1536));
    assert_eq!(
        parse(&["--dtype", "half", "--device", "torch"]).model.dtype,
        Dtype::Float16
    );
    assert_eq!(
        parse(&["--allowed-origins", r#"["http://a", "*"]"#])
            .frontend
            .allowed_origins,
        ["http://a", "*"]
    );
}

#[test]
fn flags_we_lack_are_refused_by_name_with_what_to_use() {
    let text = message(&["m", "--tensor-parallel-size", "2"]);
    assert!(
        text.contains("--tensor-parallel-size") && text.contains("one device"),
        "{text}"
    );
    assert!(message(&["-tp", "4"]).contains("--tensor-parallel-size"));
    assert!(message(&["--num_gpu_blocks_override=9"]).contains("--kv-cache-memory-bytes"));
    assert!(message(&["--enable-lora"]).contains("--enable-lora"));
    assert!(message(&["--trust-remote-code"]).contains("never run"));
    assert!(message(&["--dtype", "float16"]).contains("float16"));
    // Asking for what happens anyway is fine, and the value is not taken for the model.
    assert_eq!(parse(&["-tp", "1", "m", "--swap-space=4"]).model.model, "m");
    // After `--` everything is a value.
    assert_eq!(parse(&["--", "--enable-lora"]).model.model, "--enable-lora");
}

#[test]
fn a_bad_value_names_flag_range_and_value() {
    for (args, words) in [
        (vec!["--port", "70000"], ["--port", "0 to 65535", "70000"]),
        (vec!["--block-size", "17"], ["--block-size", "8, 16, 32", "17"]),
        (
            vec!["--gpu-memory-utilization", "1.5"],
            ["--gpu-memory-utilization", "at most 1", "1.5"],
        ),
        (vec!["--max-num-seqs", "0"], ["--max-num-seqs", "1 to", "0"]),
        (
            vec!["--kv-cache-memory-bytes", "4X"],
            ["--kv-cache-memory-bytes", "integer", "4X"],
        ),
        (vec!["--dtype", "int3"], ["--dtype", "bfloat16", "int3"]),
        (
            vec!["--max-num-seqs", "600"],
            ["--max-num-batched-tokens", "--max-num-seqs", "600"],
        ),
        (vec!["a", "--model", "b"], ["--model", "twice", "\"b\""]),
    ] {
        let text = message(&args);
        for word in words {
            assert!(text.contains(word), "{args:?}: {text}");
        }
    }
    assert!(
        message(&["--max-num-seq=3"]).contains("--max-num-seqs"),
        "clap suggests the near match"
    );
}

#[test]
fn listening_beyond_loopback_needs_a_key_or_a_word() {
    assert!(message(&["--host", "0.0.0.0"]).contains("--allow-unauthenticated"));
    for args in [
        &["--host", "0.0.0.0", "--api-key", "k"][..],
        &["--host", "0.0.0.0", "--allow-unauthenticated"],
        &["--host", "127.1.2.3"],
        &["--host", "::1"],
        &["--host", "localhost"],
        &["--host", "0.0.0.0", "--uds", "/run/x.sock"],
    ] {
        assert!(parse_with(args, &[]).is_ok(), "{args:?}");
    }
}

#[test]
fn kv_cache_space_in_gib_is_used_unless_the_flag_is_given() {
    let bytes =
        |args: &[&str], env: &[(&str, &str)]| parse_with(args, env).unwrap().cache.kv_cache_memory_bytes;
    let gib = [("VLLM_CPU_KVCACHE_SPACE", "2")];
    assert_eq!(bytes(&["m"], &gib), Some(2 << 30));
    assert_eq!(bytes(&["--kv-cache-memory-bytes", "1G"], &gib), Some(1 << 30));
    assert_eq!(bytes(&[], &[("VLLM_CPU_KVCACHE_SPACE", "0")]), None);
    let error = parse_with(&[], &[("VLLM_CPU_KVCACHE_SPACE", "lots")]).unwrap_err();
    assert!(
        matches!(error, Failure::Flag(FlagError::Invalid { flag, .. }) if flag == "VLLM_CPU_KVCACHE_SPACE")
    );
}

#[test]
fn other_subcommands_pass_through() {
    let args = ["vllm-rs", "pull", "--tensor-parallel-size"].map(OsString::from);
    assert_eq!(prepare(args.clone(), |_| None).unwrap(), args);
}

proptest! {
    #[test]
    fn any_command_line_is_parsed_or_refused(args in proptest::collection::vec("(-{0,2}[a-z_=-]{0,24}|.{0,8})", 0..6)) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let _ = parse_with(&args, &[]);
    }

    #[test]
    fn whole_numbers_survive_every_spelling(value in 1u64..=1_048_576) {
        let config = parse(&[&format!("--max-num-batched-tokens={}", value.max(64))]);
        prop_assert_eq!(config.scheduler.max_num_batched_tokens, value.max(64));
    }
}

#[test]
fn an_engine_is_not_killed_before_it_is_reported() {
    let with = |stall, kill| {
        let mut config = Config::default();
        (
            config.frontend.engine_stall_timeout,
            config.frontend.engine_kill_timeout,
        ) = (stall, kill);
        config.validate()
    };
    assert!(with(60.0, 300.0).is_ok() && with(60.0, 60.0).is_ok() && with(60.0, 0.0).is_ok());
    let error = with(60.0, 59.0).unwrap_err().to_string();
    assert!(
        error.contains("--engine-kill-timeout 59") && error.contains("--engine-stall-timeout 60"),
        "{error}"
    );
}
