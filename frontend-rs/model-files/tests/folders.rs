//! Hugging Face folders: safetensors in one file or in shards, and their JSON files.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::fs;
use std::path::Path;

use common::{config_json, f32_bytes, safetensors};
use serde_json::json;
use vllm_rs_model_files::{DType, Format, ModelFiles, TokenizerSource};

fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config_json().to_string()).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn refusal(path: &Path) -> String {
    ModelFiles::open(path).unwrap_err().to_string()
}

fn index(entries: &serde_json::Value) -> Vec<u8> {
    json!({"metadata": {}, "weight_map": entries})
        .to_string()
        .into_bytes()
}

fn one(name: &str, values: &[f32]) -> Vec<u8> {
    safetensors(&[(name, "F32", &[values.len()], f32_bytes(values))])
}

#[test]
fn plain_types_read_as_f32_and_bf16() {
    let values = [1.0f32, -2.5, 3.0e-3, 65504.0];
    let halves = values
        .iter()
        .flat_map(|value| half::f16::from_f32(*value).to_le_bytes())
        .collect();
    let brains = values
        .iter()
        .flat_map(|value| half::bf16::from_f32(*value).to_le_bytes())
        .collect();
    let file = safetensors(&[
        ("odd", "U8", &[1], vec![7]),
        ("b", "BF16", &[2, 2], brains),
        ("f", "F32", &[4], f32_bytes(&values)),
        ("h", "F16", &[4], halves),
    ]);
    let folder = folder(&[("model.safetensors", file)]);
    let model = ModelFiles::open(folder.path()).unwrap();
    assert_eq!(model.format(), Format::Safetensors);
    assert_eq!(model.config()["hidden_size"], 4);
    assert!(model.generation_config().is_empty());
    assert_eq!(model.tensor("b").unwrap().dtype, DType::BF16);
    assert_eq!(model.tensor("b").unwrap().shape, [2, 2]);
    for name in ["b", "f", "h"] {
        let mut wide = [0.0f32; 4];
        let mut narrow = [0u16; 4];
        model.read_f32(name, &mut wide).unwrap();
        model.read_bf16(name, &mut narrow).unwrap();
        for (index, value) in values.iter().enumerate() {
            assert!(
                (wide[index] - value).abs() <= value.abs() / 128.0,
                "{name} {index}: {}",
                wide[index]
            );
            assert_eq!(narrow[index], half::bf16::from_f32(wide[index]).to_bits());
        }
    }
    let text = model.read_f32("odd", &mut [0.0]).unwrap_err().to_string();
    assert_eq!(
        text,
        "tensor odd has type U8, which cannot be converted to float32"
    );
}

// covers: MODEL-07
#[test]
fn shards_are_mapped_and_a_missing_one_is_named() {
    let weight_map =
        json!({"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"});
    let folder = folder(&[
        ("model.safetensors.index.json", index(&weight_map)),
        ("model-00001-of-00002.safetensors", one("a", &[1.0, 2.0])),
        ("model-00002-of-00002.safetensors", one("b", &[3.0])),
        ("pytorch_model.bin", vec![0x80]),
    ]);
    let model = ModelFiles::open(folder.path()).unwrap();
    assert_eq!(model.tensor_names(), ["a", "b"]);
    let mut out = [0.0];
    model.read_f32("b", &mut out).unwrap();
    assert_eq!(out.map(f32::to_bits), [3.0f32.to_bits()]);
    fs::write(
        folder.path().join("model-00002-of-00002.safetensors"),
        one("c", &[3.0]),
    )
    .unwrap();
    let text = refusal(folder.path());
    assert!(
        text.ends_with("says that tensor b is in model-00002-of-00002.safetensors, which does not hold it")
    );
    fs::remove_file(folder.path().join("model-00002-of-00002.safetensors")).unwrap();
    let text = refusal(folder.path());
    assert!(
        text.contains("names shard model-00002-of-00002.safetensors (tensor b), which is missing"),
        "{text}"
    );
}

#[test]
fn an_index_cannot_point_elsewhere() {
    for shard in [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a/b.safetensors",
        "..",
        "",
    ] {
        let folder = folder(&[("model.safetensors.index.json", index(&json!({"a": shard})))]);
        assert!(
            refusal(folder.path()).contains("is not a plain file name"),
            "{shard}"
        );
    }
    let folder = folder(&[(
        "model.safetensors.index.json",
        index(&json!({"a": "pytorch_model.bin"})),
    )]);
    assert!(refusal(folder.path()).contains("is no safetensors file"));
}

#[test]
fn pickle_weights_are_refused_with_a_conversion_hint() {
    for name in [
        "pytorch_model.bin",
        "pytorch_model-00001-of-00002.bin",
        "consolidated.00.pth",
    ] {
        let folder = folder(&[(name, vec![0x80, 2])]);
        let text = refusal(folder.path());
        assert!(text.contains(name) && text.contains("may run code"), "{text}");
        assert!(text.contains("safe_serialization=True"), "{text}");
    }
}

#[test]
fn incomplete_folders_say_what_is_missing() {
    let empty = tempfile::tempdir().unwrap();
    assert!(refusal(empty.path()).ends_with("the folder has no config.json and no .gguf file"));
    assert!(refusal(&empty.path().join("nowhere")).ends_with("no such file or folder"));
    assert!(refusal(folder(&[]).path()).contains("no weights: expected model.safetensors"));
    let loose = folder(&[
        ("a.safetensors", one("a", &[1.0])),
        ("b.safetensors", one("b", &[1.0])),
    ]);
    assert!(refusal(loose.path()).contains("2 *.safetensors files but no model.safetensors.index.json"));
    let single = folder(&[("weights.safetensors", one("a", &[1.0]))]);
    assert_eq!(ModelFiles::open(single.path()).unwrap().tensor_names(), ["a"]);
    let text = refusal(&single.path().join("config.json"));
    assert!(text.contains("not a model: give a folder"), "{text}");
}

#[test]
fn configurations_that_do_not_parse_say_where() {
    let cases = [
        ("{\"architectures\": [", "not valid JSON: EOF"),
        ("[1]", "expected a JSON object at the top"),
        ("{}", "field \"architectures\" is missing"),
        (
            "{\"architectures\": \"Llama\"}",
            "field \"architectures\" is not a list of names",
        ),
    ];
    for (content, expected) in cases {
        let folder = folder(&[
            ("config.json", content.into()),
            ("model.safetensors", one("a", &[1.0])),
        ]);
        let text = refusal(folder.path());
        assert!(
            text.contains("config.json: ") && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn broken_safetensors_files_are_refused() {
    let good = one("a", &[1.0, 2.0]);
    let longer = [&good[..], &[0]].concat();
    let absurd = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    for content in [
        vec![],
        good[..good.len() - 1].to_vec(),
        longer,
        absurd,
        vec![b'x'; 100],
    ] {
        let folder = folder(&[("model.safetensors", content)]);
        assert!(refusal(folder.path()).contains("model.safetensors: not a valid safetensors file: "));
    }
}

#[test]
fn tokenizer_files_and_templates_are_found() {
    let files = folder(&[("tokenizer.json", b"{}".to_vec())]);
    let source = |path: &Path| match TokenizerSource::open(path).unwrap() {
        TokenizerSource::HfJson {
            chat_template,
            config,
            tokenizer_json,
        } => {
            assert!(tokenizer_json.is_file());
            (chat_template, config)
        }
        TokenizerSource::Gguf(_) => panic!("not a GGUF file"),
    };
    assert_eq!(source(files.path()), (None, json!({})));
    let named = json!({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]});
    fs::write(files.path().join("tokenizer_config.json"), named.to_string()).unwrap();
    assert_eq!(source(files.path()).0.as_deref(), Some("D"));
    fs::write(files.path().join("chat_template.jinja"), "J").unwrap();
    assert_eq!(source(files.path()).0.as_deref(), Some("J"));
    let older = folder(&[("tokenizer.model", vec![1])]);
    let text = TokenizerSource::open(older.path()).unwrap_err().to_string();
    assert!(
        text.contains("has tokenizer.model but no tokenizer.json; make one with"),
        "{text}"
    );
}
