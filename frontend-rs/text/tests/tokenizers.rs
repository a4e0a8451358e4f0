//! Tokenizers of every source against `transformers`.

// A test that cannot go on may stop here.
#![allow(clippy::unwrap_used)]

mod common;

use serde_json::Value;
use vllm_rs_model_files::TokenizerSource;
use vllm_rs_text::{Detokenizer, Tokenizer};

use common::{fixture, fixture_path, from_gguf, gguf_source, ids, strings, tokenizer, tokenizers_fixture};

/// Compares with a list of ids, or with the count, head and checksum of a very long one.
fn same(actual: &[u32], expected: &Value) -> bool {
    if expected.is_array() {
        return actual == ids(expected);
    }
    let weigh = |(place, &id): (usize, &u32)| (place as u64 + 1) * u64::from(id);
    let checksum = actual.iter().enumerate().map(weigh).sum::<u64>() % (1 << 32);
    let head = ids(&expected["head"]);
    expected["count"] == actual.len() && actual.starts_with(&head) && expected["checksum"] == checksum
}

fn check_case(case: &Value, texts: &[String]) {
    let name = case["name"].as_str().unwrap();
    let tokenizer = tokenizer(name);
    let expected = case["ids"].as_array().unwrap();
    assert_eq!(expected.len(), texts.len());
    assert!(texts.len() >= 300);
    let wrong: Vec<&String> = texts
        .iter()
        .zip(expected)
        .filter(|(text, expected)| !same(&tokenizer.encode(text, false).unwrap(), expected))
        .map(|(text, _)| text)
        .collect();
    assert!(
        wrong.is_empty(),
        "{name}: {} of {} texts differ: {wrong:?}",
        wrong.len(),
        texts.len()
    );
    for sample in case["decode"].as_array().unwrap() {
        let (ids, skip) = (ids(&sample["ids"]), sample["skip"].as_bool().unwrap());
        let expected = sample["text"].as_str().unwrap();
        assert_eq!(tokenizer.decode(&ids, skip).unwrap(), expected, "{name}: {ids:?}");
        let (mut text, mut detokenizer) = (
            String::new(),
            Detokenizer::new(tokenizer.clone(), &[], skip, true),
        );
        for &id in &ids {
            detokenizer.push(id, &mut text);
        }
        detokenizer.finish(&mut text);
        assert_eq!(text, expected, "{name}, token by token: {ids:?}");
    }
}

// covers: MODEL-14
#[test]
fn every_source_and_kind_equals_transformers() {
    let texts = strings(&fixture("torture.json"));
    let fixture = tokenizers_fixture();
    for case in ["cases", "folders"]
        .iter()
        .flat_map(|part| fixture[part].as_array().unwrap())
    {
        check_case(case, &texts);
    }
}

#[test]
fn a_folder_adds_its_begin_token_and_forgets_its_stored_truncation() {
    for case in tokenizers_fixture()["folders"].as_array().unwrap() {
        let tokenizer = tokenizer(case["name"].as_str().unwrap());
        assert_eq!(
            tokenizer.encode("hello world", true).unwrap(),
            ids(&case["with_special"])
        );
    }
    let tokenizer = tokenizer("hf_byte_level");
    assert!(tokenizer.encode(&"word ".repeat(50), false).unwrap().len() > 5);
    assert_eq!(tokenizer.bos_token_id(), tokenizer.token_to_id("<|im_start|>"));
    assert_eq!(
        tokenizer.eos_token_ids(),
        [tokenizer.token_to_id("<|im_end|>").unwrap()]
    );
    assert!(tokenizer.is_special(3), "declared only in tokenizer_config.json");
}

#[test]
fn a_gguf_file_decides_about_begin_and_end_tokens() {
    let encode = |model: &str, add_bos: Option<bool>, add_eos: Option<bool>| {
        let mut source = gguf_source(model, None);
        (source.add_bos_token, source.add_eos_token) = (add_bos, add_eos);
        let tokenizer = from_gguf(source);
        let plain = tokenizer.encode("hello", false).unwrap();
        let whole = tokenizer.encode("hello", true).unwrap();
        let from = usize::from(whole.first() == Some(&1));
        assert_eq!(whole[from..from + plain.len()], plain);
        (whole.first() == Some(&1), whole.last() == Some(&2))
    };
    assert_eq!(encode("byte_level", None, None), (false, false));
    assert_eq!(encode("byte_level", Some(true), Some(true)), (true, true));
    assert_eq!(encode("sentencepiece", None, None), (true, false));
    assert_eq!(encode("sentencepiece", Some(false), None), (false, false));
}

#[test]
fn the_space_before_the_text_is_the_files_choice() {
    let mut source = gguf_source("sentencepiece", None);
    source.add_space_prefix = Some(false);
    let tokenizer = from_gguf(source);
    let ids = tokenizer.encode("the end", false).unwrap();
    assert!(!tokenizer.id_to_token(ids[0]).unwrap().starts_with('▁'));
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "the end");
}

#[test]
fn special_tokens_written_in_the_text_are_recognised() {
    let tokenizer = tokenizer("smollm");
    assert_eq!(tokenizer.encode("<|im_start|><|im_end|>", false).unwrap(), [1, 2]);
    assert_eq!(tokenizer.special_token_ids(), [0, 1, 2, 3, 4]);
    let think = tokenizer.token_to_id("<think>").unwrap();
    assert_eq!(tokenizer.encode("<think>", false).unwrap(), [think]);
    assert_eq!(tokenizer.decode(&[1, think, 2], true).unwrap(), "<think>");
}

#[test]
fn a_contradictory_vocabulary_is_refused_in_words() {
    let refuse = |change: &dyn Fn(&mut vllm_rs_model_files::GgufTokenizer)| {
        let mut source = gguf_source("byte_level", Some("smollm"));
        change(&mut source);
        Tokenizer::from_source(TokenizerSource::Gguf(Box::new(source)))
            .unwrap_err()
            .to_string()
    };
    assert!(
        refuse(&|s| s.model = "bert".to_owned()).contains("'bert' is not supported (supported: gpt2, llama)")
    );
    assert!(refuse(&|s| s.pre = Some("klingon".to_owned())).contains("'klingon'"));
    assert!(refuse(&|s| s.eos_token_id = Some(9_999_999)).contains("eos_token_id is 9999999"));
    assert!(refuse(&|s| s.tokens.clear()).contains("empty"));
    assert!(refuse(&|s| s.token_types.truncate(3)).contains("token_type has 3 entries"));
    assert!(refuse(&|s| s.merges[0] = "nospace".to_owned()).contains("merges[0]"));
    assert!(refuse(&|s| s.merges[0] = "qqqq zzzz".to_owned()).contains("qqqq"));
}

#[test]
fn a_folder_or_a_missing_one_is_opened_by_path() {
    assert_eq!(
        Tokenizer::open(&fixture_path("hf_byte_level"))
            .unwrap()
            .vocab_size(),
        1500
    );
    assert!(
        Tokenizer::open(&fixture_path("nowhere"))
            .unwrap_err()
            .to_string()
            .contains("nowhere")
    );
}

#[test]
fn the_text_of_one_token_shows_its_bytes() {
    let (bytes, pieces) = (tokenizer("smollm"), tokenizer("spm"));
    let first = bytes.encode("😀", false).unwrap()[0];
    let text = bytes.token_text(first);
    assert!(text.bytes.starts_with(&[0xF0]) && std::str::from_utf8(&text.bytes).is_err());
    assert!(text.token.contains('\u{FFFD}'));
    let newline = pieces.token_text(pieces.token_to_id("<0x0A>").unwrap());
    assert_eq!(
        (newline.token.as_str(), newline.bytes.as_slice()),
        ("\n", &b"\n"[..])
    );
    assert!(pieces.token_text(u32::MAX).bytes.is_empty());
}

#[test]
fn the_begin_of_a_long_text_does_not_slow_its_end() {
    let tokenizer = tokenizer("smollm");
    let text = "The quick brown fox jumps over 13 lazy dogs.\n".repeat(4000);
    let ids = tokenizer.encode(&text, false).unwrap();
    assert!(ids.len() > 44_000);
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
}
