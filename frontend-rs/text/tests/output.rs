//! Streamed text equals text made at once, for every kind of tokenizer.

// A test that cannot go on may stop here.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use vllm_rs_text::{Detokenizer, OutputOptions, OutputProcessor, Tokenizer};

use common::{one_of_each_kind, tokenizer};

/// Token ids at random, in random chunks: many special and byte tokens, some real text.
fn any_tokens() -> impl Strategy<Value = (usize, Vec<Vec<u32>>)> {
    let token = prop_oneof![0..8_u32, 3..262_u32, 0..1600_u32];
    let text = prop_oneof![
        Just("你好, мир! 😀👍🏽"),
        Just("e\u{301} क्ष ﷺ 한국"),
        Just("  a\n\tb  "),
        Just("🇫🇷x")
    ];
    let chunk = prop_oneof![
        2 => proptest::collection::vec(token, 0..6).prop_map(|ids| (ids, "")),
        1 => text.prop_map(|text| (Vec::new(), text)),
    ];
    (0..3_usize, proptest::collection::vec(chunk, 0..12)).prop_map(|(kind, chunks)| {
        let encode = |(ids, text): (Vec<u32>, &str)| {
            if text.is_empty() {
                ids
            } else {
                one_of_each_kind()[kind].encode(text, false).unwrap()
            }
        };
        (kind, chunks.into_iter().map(encode).collect())
    })
}

fn options(stop: &[String], include: bool, skip: bool) -> OutputOptions {
    OutputOptions {
        stop: stop.to_vec(),
        include_stop_str_in_output: include,
        skip_special_tokens: skip,
        ..OutputOptions::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn joined_deltas_equal_one_shot_decoding((kind, chunks) in any_tokens(), skip: bool) {
        let tokenizer = &one_of_each_kind()[kind];
        let ids: Vec<u32> = chunks.concat();
        let mut processor = OutputProcessor::new(tokenizer, &[], options(&[], false, skip));
        let mut text = String::new();
        for chunk in &chunks {
            let delta = processor.push(chunk);
            prop_assert_eq!(delta.tokens_used, chunk.len());
            text.push_str(&delta.text);
        }
        text.push_str(&processor.finish().text);
        prop_assert_eq!(&text, &tokenizer.decode(&ids, skip).unwrap());
        prop_assert_eq!(processor.text(), text);
    }

    #[test]
    fn stop_strings_cut_the_text_the_same_in_any_chunking(
        (kind, chunks) in any_tokens(),
        stop in proptest::collection::vec("[a-z 你😀\n,]{1,3}", 0..4),
        include: bool,
    ) {
        let tokenizer = &one_of_each_kind()[kind];
        let whole = tokenizer.decode(&chunks.concat(), true).unwrap();
        let found = stop.iter().filter_map(|s| Some((whole.find(s.as_str())?, s.len()))).min();
        let expected = match found {
            Some((start, length)) if include => &whole[..start + length],
            Some((start, _)) => &whole[..start],
            None => &whole,
        };
        let mut processor = OutputProcessor::new(tokenizer, &[], options(&stop, include, true));
        let mut stopped = false;
        for chunk in &chunks {
            let delta = processor.push(chunk);
            prop_assert!(delta.tokens_used == chunk.len() || stopped || delta.stop.is_some());
            stopped |= delta.stop.is_some();
        }
        stopped |= processor.finish().stop.is_some();
        prop_assert_eq!(processor.text(), expected);
        prop_assert_eq!(stopped, found.is_some());
    }
}

fn run(tokenizer: &Tokenizer, options: OutputOptions, chunks: &[&[u32]]) -> (Vec<String>, Option<usize>) {
    let mut processor = OutputProcessor::new(tokenizer, &[], options);
    let (mut deltas, mut stop) = (Vec::new(), None);
    for chunk in chunks {
        let delta = processor.push(chunk);
        deltas.push(delta.text);
        stop = stop.or(delta.stop);
    }
    let last = processor.finish();
    deltas.push(last.text);
    (deltas, stop.or(last.stop))
}

#[test]
fn a_character_is_shown_once_all_its_bytes_are_there() {
    let tokenizer = tokenizer("smollm");
    let byte = |byte: u8| {
        (6..262)
            .find(|&id| tokenizer.token_text(id).bytes == [byte])
            .unwrap()
    };
    let ids: Vec<u32> = "é😀".bytes().map(byte).collect();
    let chunks: Vec<&[u32]> = ids.chunks(1).collect();
    let (deltas, _) = run(&tokenizer, OutputOptions::default(), &chunks);
    assert_eq!(deltas, ["", "é", "", "", "", "😀", ""]);
    let (deltas, _) = run(&tokenizer, OutputOptions::default(), &[&ids[..1], &ids[2..4]]);
    assert_eq!(deltas.concat(), "\u{FFFD}\u{FFFD}");
}

#[test]
fn the_answer_keeps_the_space_that_a_text_of_its_own_would_lose() {
    let tokenizer = tokenizer("spm");
    let answer = tokenizer.encode("the end", false).unwrap();
    let prompt = tokenizer.encode("this is", true).unwrap();
    let joined = |prompt: &[u32]| {
        let mut text = String::new();
        let mut detokenizer = Detokenizer::new(tokenizer.clone(), prompt, true, true);
        for &id in &answer {
            detokenizer.push(id, &mut text);
        }
        detokenizer.finish(&mut text);
        text
    };
    assert_eq!(joined(&[]), "the end");
    assert_eq!(joined(&prompt[..1]), "the end", "a begin token writes nothing");
    assert_eq!(joined(&prompt), " the end");
}

#[test]
fn the_minimum_number_of_tokens_guards_stop_strings() {
    let tokenizer = tokenizer("smollm");
    let ids: Vec<u32> = "ababab"
        .chars()
        .flat_map(|c| tokenizer.encode(&c.to_string(), false).unwrap())
        .collect();
    assert_eq!(ids.len(), 6);
    let text = |min_tokens: usize| {
        let options = OutputOptions {
            stop: vec!["ab".to_owned()],
            min_tokens,
            ..OutputOptions::default()
        };
        run(&tokenizer, options, &[&ids]).0.concat()
    };
    assert_eq!(
        [text(0), text(1), text(2), text(3), text(4), text(6)],
        ["", "", "ab", "ab", "abab", "ababab"]
    );
}

#[test]
fn a_stop_token_is_left_out_of_the_text_unless_asked_for() {
    let tokenizer = tokenizer("smollm");
    let mut ids = tokenizer.encode("yes!", false).unwrap();
    let text = |include: bool| {
        let options = options(&[], include, true);
        let mut processor = OutputProcessor::new(&tokenizer, &[], options);
        let delta = processor.push_stopped(&ids);
        assert_eq!(delta.tokens_used, ids.len());
        delta.text
    };
    assert_eq!(text(true), "yes!");
    assert!("yes!".starts_with(&text(false)) && text(false).len() < 4);
    ids.push(2);
    let mut processor = OutputProcessor::new(&tokenizer, &[], OutputOptions::default());
    assert_eq!(processor.push_stopped(&ids).text, "yes!");
}

// covers: ENG-19
#[test]
fn a_token_costs_the_same_after_ten_thousand_others() {
    let kinds = ["smollm", "spm", "hf_unigram"].map(tokenizer);
    for tokenizer in &kinds {
        let text = "naïve 你好 😀 streaming, word by word. ".repeat(2000);
        let ids = &tokenizer.encode(&text, false).unwrap()[..10_100];
        let mut best = [Duration::MAX; 2];
        let mut whole = String::new();
        // The best of several runs, because other work shares the machine.
        for _ in 0..7 {
            let mut processor =
                OutputProcessor::new(tokenizer, &[], options(&["never".to_owned()], false, true));
            for (number, hundred) in ids.chunks(100).enumerate() {
                let started = Instant::now();
                for id in hundred {
                    processor.push(std::slice::from_ref(id));
                }
                match number {
                    1 => best[0] = best[0].min(started.elapsed()),
                    100 => best[1] = best[1].min(started.elapsed()),
                    _ => {}
                }
            }
            processor.finish();
            whole = processor.text().to_owned();
        }
        assert_eq!(whole, tokenizer.decode(ids, true).unwrap());
        assert!(best[1] < best[0] * 4, "{best:?} for 100 tokens, early and late");
    }
}
