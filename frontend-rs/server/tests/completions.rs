//! `/v1/completions`, `/tokenize` and `/detokenize` over a scripted engine.

mod common;

use axum::http::StatusCode;
use common::TestServer;
use common::fake_engine::FakeEngine;
use serde_json::{Value, json};
use vllm_rs_flags::Config;

const PATH: &str = "/v1/completions";

fn server(text: &str) -> TestServer {
    TestServer::with(&Config::default(), FakeEngine::writing(text))
}

#[tokio::test]
async fn every_form_of_prompt_gets_a_choice_of_its_own() {
    let server = server("xy");
    for (prompt, choices) in [
        (json!("ab"), 1),
        (json!(["ab", "c"]), 2),
        (json!([97, 98]), 1),
        (json!([[97], [98], [99]]), 3),
    ] {
        let (status, answer) = server.post(PATH, &json!({"prompt": prompt})).await;
        assert_eq!(status, StatusCode::OK);
        let list = answer["choices"].as_array().expect("list");
        assert_eq!(list.len(), choices);
        for (index, choice) in list.iter().enumerate() {
            assert_eq!(choice["index"], index);
            assert_eq!(choice["text"], "xy");
            assert_eq!(choice["finish_reason"], "stop");
        }
    }
}

#[tokio::test]
async fn choices_are_numbered_prompt_by_prompt() {
    let server = server("x");
    let (_, answer) = server
        .post(PATH, &json!({"prompt": ["a", "b"], "n": 2, "echo": true}))
        .await;
    let texts: Vec<&str> = answer["choices"]
        .as_array()
        .expect("list")
        .iter()
        .map(|choice| choice["text"].as_str().expect("text"))
        .collect();
    assert_eq!(texts, ["ax", "ax", "bx", "bx"]);
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 2, "completion_tokens": 8, "total_tokens": 10})
    );
}

#[tokio::test]
async fn echo_with_logprobs_scores_the_prompt_as_lm_eval_reads_it() {
    let body =
        json!({"prompt": [[97, 98, 99]], "echo": true, "logprobs": 1, "max_tokens": 1, "temperature": 0});
    let (status, answer) = server("z").post(PATH, &body).await;
    assert_eq!(status, StatusCode::OK);
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"], json!(["a", "b", "c", "z"]));
    assert_eq!(logprobs["token_logprobs"], json!([null, -0.5, -0.5, -0.5]));
    assert_eq!(logprobs["text_offset"], json!([0, 1, 2, 3]));
    assert_eq!(logprobs["top_logprobs"][0], Value::Null);
    assert_eq!(logprobs["top_logprobs"][1]["b"], -0.5);
    assert_eq!(answer["choices"][0]["text"], "abcz");
}

#[tokio::test]
async fn echo_with_no_tokens_gives_the_prompt_alone() {
    let (status, answer) = server("z")
        .post(PATH, &json!({"prompt": "ab", "echo": true, "max_tokens": 0}))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["choices"][0]["text"], "ab");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    let (status, _) = server("z")
        .post(PATH, &json!({"prompt": "ab", "max_tokens": 0}))
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_stream_equals_the_whole_answer() {
    let server = server("Grüße");
    let mut body = json!({"prompt": "q", "echo": true, "logprobs": 0, "return_token_ids": true});
    let (_, whole) = server.post(PATH, &body).await;
    body["stream"] = json!(true);
    let events = server.stream(PATH, &body).await;
    let chunks: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str(event).expect("JSON"))
        .collect();
    let join = |path: &str| -> Vec<Value> {
        chunks
            .iter()
            .filter_map(|chunk| chunk.pointer(path)?.as_array())
            .flatten()
            .cloned()
            .collect()
    };
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(whole["choices"][0]["text"], text);
    for field in [
        "/choices/0/token_ids",
        "/choices/0/logprobs/tokens",
        "/choices/0/logprobs/text_offset",
    ] {
        assert_eq!(
            whole.pointer(field).and_then(Value::as_array),
            Some(&join(field)),
            "{field}"
        );
    }
}

#[tokio::test]
async fn a_prompt_of_one_token_has_one_position_without_logprobs() {
    let server = server("z");
    let body = json!({"prompt": [[97]], "prompt_logprobs": 1, "max_tokens": 1});
    let (status, answer) = server.post(PATH, &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["choices"][0]["prompt_logprobs"], json!([null]));
    let (_, answer) = server
        .post(PATH, &json!({"prompt": [[97]], "max_tokens": 1}))
        .await;
    assert_eq!(answer["choices"][0]["prompt_logprobs"], Value::Null);
}

#[tokio::test]
async fn offsets_follow_the_text_through_special_tokens_and_parts_of_characters() {
    // a, <|im_start|>, both bytes of ü, b.
    let mut body = json!({"prompt": [97, 256, 0xC3, 0xBC, 98], "echo": true, "logprobs": 0});
    let server = server("Grüß!");
    let (status, answer) = server.post(PATH, &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "a<|im_start|>übGrüß!");
    // The last is the end token, which writes nothing.
    let expected = json!([0, 1, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20]);
    assert_eq!(choice["logprobs"]["text_offset"], expected);
    body["stream"] = json!(true);
    let events = server.stream(PATH, &body).await;
    let streamed: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str::<Value>(event).expect("JSON"))
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["text_offset"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(json!(streamed), expected);
}

#[tokio::test]
async fn a_stream_counts_cached_tokens_as_a_whole_answer_does() {
    let mut config = Config::default();
    config.frontend.enable_prompt_tokens_details = true;
    let server = TestServer::with(&config, FakeEngine::writing("xy"));
    let mut body = json!({"prompt": ["abcdef", "ghijkl"], "n": 2, "temperature": 1});
    let (_, whole) = server.post(PATH, &body).await;
    assert_eq!(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 8);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let events = server.stream(PATH, &body).await;
    let last: Value = serde_json::from_str(&events[events.len() - 2]).expect("JSON");
    assert_eq!(last["usage"], whole["usage"]);
}

#[tokio::test]
async fn sampling_reaches_the_engine_as_it_was_asked() {
    let server = server("a");
    let body = json!({
        "prompt": "a", "temperature": 0.005, "top_k": -1, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 1.2,
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "stop_token_ids": [5], "min_tokens": 2,
        "logit_bias": {"7": 200, "8": -1.5}, "allowed_token_ids": [1, 2], "bad_words": ["no"], "priority": -3,
        "cache_salt": "s", "prompt_logprobs": 2, "ignore_eos": false
    });
    let (status, answer) = server.post(PATH, &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let request = server.engine.last_request();
    let params = request.sampling_params.expect("parameters");
    assert!((params.temperature - 0.01).abs() < 1e-12);
    assert_eq!(
        (params.top_k, params.min_tokens, params.max_tokens),
        (0, 2, Some(16))
    );
    assert_eq!(params.eos_token_id, Some(257));
    assert_eq!(
        params.all_stop_token_ids.into_iter().collect::<Vec<_>>(),
        [5, 257]
    );
    assert_eq!(params.logit_bias.expect("bias"), [(7, 100.0), (8, -1.5)].into());
    assert_eq!(
        params.bad_words_token_ids,
        Some(vec![vec![110, 111], vec![32, 110, 111]])
    );
    assert_eq!(params.skip_reading_prefix_cache, Some(true));
    assert_eq!((request.priority, request.cache_salt.as_deref()), (-3, Some("s")));
}

#[tokio::test]
async fn ids_beyond_the_vocabulary_never_reach_the_engine() {
    let server = server("a");
    for (param, body) in [
        ("prompt", json!({"prompt": [258]})),
        ("stop_token_ids", json!({"prompt": "a", "stop_token_ids": [258]})),
        ("logit_bias", json!({"prompt": "a", "logit_bias": {"258": 1}})),
        (
            "allowed_token_ids",
            json!({"prompt": "a", "allowed_token_ids": [258]}),
        ),
        ("suffix", json!({"prompt": "a", "suffix": "b"})),
        ("best_of", json!({"prompt": "a", "best_of": 2})),
        ("prompt", json!({"prompt": ""})),
        ("prompt", json!({"prompt": vec!["a"; 65]})),
        ("prompt", json!({"prompt": "a".repeat(100_000)})),
        (
            "bad_words",
            json!({"prompt": "a", "bad_words": ["b".repeat(256)]}),
        ),
        ("top_p", json!({"prompt": "a", "top_p": 1e-50})),
        ("logprobs", json!({"prompt": "a", "logprobs": -1})),
    ] {
        let (status, answer) = server.post(PATH, &body).await;
        assert_eq!(
            (status, answer["error"]["param"].as_str()),
            (StatusCode::BAD_REQUEST, Some(param)),
            "{body}"
        );
    }
    assert!(server.engine.requests.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn truncation_keeps_the_end_of_the_prompt() {
    let server = server("a");
    server
        .post(PATH, &json!({"prompt": "abcdef", "truncate_prompt_tokens": 2}))
        .await;
    assert_eq!(
        server.engine.last_request().prompt_token_ids,
        Some(vec![101, 102])
    );
    // -1 leaves room for the answer, whose length the API gives as 16 when the request does not.
    for (max_tokens, kept) in [(Value::Null, 240), (json!(100), 156)] {
        let body = json!({"prompt": "a".repeat(300), "truncate_prompt_tokens": -1, "max_tokens": max_tokens});
        let (status, answer) = server.post(PATH, &body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let prompt = server.engine.last_request().prompt_token_ids.expect("a prompt");
        assert_eq!(prompt.len(), kept);
    }
}

#[tokio::test]
async fn a_text_too_long_to_tokenise_is_refused() {
    let text = "a ".repeat(3 << 20);
    for body in [
        json!({"prompt": text}),
        json!({"prompt": text, "truncate_prompt_tokens": 4}),
    ] {
        for path in ["/tokenize", PATH] {
            let (status, answer) = server("").post(path, &body).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert_eq!(answer["error"]["param"], "prompt");
        }
    }
}

#[tokio::test]
async fn tokenize_and_detokenize_are_each_other_s_inverse() {
    let server = server("");
    let (status, answer) = server
        .post(
            "/tokenize",
            &json!({"prompt": "Grüße", "return_token_strs": true}),
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (answer["count"].as_u64(), answer["max_model_len"].as_u64()),
        (Some(7), Some(256))
    );
    assert_eq!(answer["token_strs"][0], "G");
    let (_, text) = server
        .post("/detokenize", &json!({"tokens": answer["tokens"]}))
        .await;
    assert_eq!(text, json!({"prompt": "Grüße"}));
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    let (status, answer) = server.post("/tokenize", &chat).await;
    assert_eq!(
        (status, answer["tokens"][0].as_u64()),
        (StatusCode::OK, Some(256))
    );
    let (status, answer) = server.post("/tokenize", &json!({})).await;
    assert_eq!(
        (status, answer["error"]["param"].as_str()),
        (StatusCode::BAD_REQUEST, Some("messages"))
    );
}
