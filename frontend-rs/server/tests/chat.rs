//! `/v1/chat/completions` over a scripted engine.

mod common;

use axum::http::StatusCode;
use common::TestServer;
use common::fake_engine::{Ending, FakeEngine};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use vllm_rs_flags::Config;

const PATH: &str = "/v1/chat/completions";

fn server(text: &str) -> TestServer {
    TestServer::with(&Config::default(), FakeEngine::writing(text))
}

fn ask(extra: &Value) -> Value {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut()
        .expect("object")
        .extend(extra.as_object().expect("object").clone());
    body
}

fn contents(events: &[String]) -> String {
    events
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|event| {
            event["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}

#[tokio::test]
async fn a_whole_answer_has_openai_s_shape() {
    let (status, answer) = server("Hello").post(PATH, &ask(&json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["object"], "chat.completion");
    assert!(answer["id"].as_str().expect("id").starts_with("chatcmpl-"));
    assert_eq!(
        answer["choices"][0]["message"],
        json!({"role": "assistant", "content": "Hello", "refusal": null})
    );
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 6);
    assert_eq!(
        answer["usage"]["total_tokens"].as_u64(),
        Some(answer["usage"]["prompt_tokens"].as_u64().expect("count") + 6)
    );
}

#[tokio::test]
async fn a_stream_carries_the_same_text_and_ends_with_done() {
    let server = server("Hello, wörld ✓");
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let events = server.stream(PATH, &ask(&options)).await;
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    assert_eq!(contents(&events), "Hello, wörld ✓");
    let first: Value = serde_json::from_str(&events[0]).expect("JSON");
    assert_eq!(
        first["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    let usage: Value = serde_json::from_str(&events[events.len() - 2]).expect("JSON");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], "Hello, wörld ✓".len() + 1);
    let last: Value = serde_json::from_str(&events[events.len() - 3]).expect("JSON");
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn a_stop_string_across_deltas_ends_the_sequence_in_the_engine() {
    let server = server("one two three four");
    let events = server
        .stream(PATH, &ask(&json!({"stream": true, "stop": ["o thr"]})))
        .await;
    assert_eq!(contents(&events), "one tw");
    let last: Value = serde_json::from_str(&events[events.len() - 2]).expect("JSON");
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["choices"][0]["stop_reason"], "o thr");
    assert_eq!(server.engine.stop_strings.load(Relaxed), 1);
    assert_eq!(server.engine.aborts.load(Relaxed), 0);
}

#[tokio::test]
async fn n_choices_become_n_requests_with_seeds_of_their_own() {
    let server = server("ab");
    let (status, answer) = server.post(PATH, &ask(&json!({"n": 3, "seed": 7}))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["choices"].as_array().expect("list").len(), 3);
    let requests = server.engine.requests.lock().expect("no panic");
    for (index, request) in requests.iter().enumerate() {
        let params = request.sampling_params.as_ref().expect("parameters");
        assert_eq!(params.seed, Some(7 + index as i64));
        assert_eq!(params.n, 1);
        assert!(request.request_id.starts_with(&format!("{index}_chatcmpl-")));
    }
}

#[tokio::test]
async fn a_request_without_a_seed_gets_one() {
    let server = server("a");
    server.post(PATH, &ask(&json!({}))).await;
    server.post(PATH, &ask(&json!({}))).await;
    let seeds: Vec<_> = server
        .engine
        .requests
        .lock()
        .expect("no panic")
        .iter()
        .map(|request| request.sampling_params.as_ref().and_then(|params| params.seed))
        .collect();
    assert!(seeds[0].is_some() && seeds[0] != seeds[1]);
}

#[tokio::test]
async fn log_probabilities_follow_the_tokens() {
    let (_, answer) = server("ab")
        .post(PATH, &ask(&json!({"logprobs": true, "top_logprobs": 2})))
        .await;
    let content = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .expect("list");
    assert_eq!(content[0]["token"], "a");
    assert_eq!(content[0]["bytes"], json!([97]));
    assert_eq!(content[0]["logprob"], -0.5);
    assert_eq!(content[0]["top_logprobs"].as_array().expect("list").len(), 2);
    assert_eq!(content[0]["top_logprobs"][0]["token"], "b");
}

#[tokio::test]
async fn the_context_limit_names_both_numbers() {
    let (status, answer) = server("a").post(PATH, &ask(&json!({"max_tokens": 250}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["error"]["param"], "max_tokens");
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("256") && message.contains("250"), "{message}");

    // covers: CLI-05
    let long = json!([{"role": "user", "content": "x".repeat(300)}]);
    let (status, answer) = server("a").post(PATH, &json!({"messages": long})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(
        message.contains("256 tokens") && message.contains("the prompt has 3"),
        "{message}"
    );
}

#[tokio::test]
async fn an_engine_that_dies_mid_stream_ends_it_with_an_error_event() {
    let server = TestServer::with(&Config::default(), FakeEngine::ending("abc", Ending::Die));
    let events = server.stream(PATH, &ask(&json!({"stream": true}))).await;
    assert_eq!(contents(&events), "abc");
    let error: Value = serde_json::from_str(&events[events.len() - 2]).expect("JSON");
    assert_eq!(error["error"]["code"], 500);
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    assert_eq!(server.serving.running(), 0);
}

#[tokio::test]
async fn an_engine_error_on_one_request_is_a_500_for_it() {
    let server = TestServer::with(&Config::default(), FakeEngine::ending("abc", Ending::Error));
    let (status, answer) = server.post(PATH, &ask(&json!({}))).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer["error"]["type"], "InternalServerError");
}

#[tokio::test]
async fn a_client_that_leaves_aborts_its_sequences() {
    let server = TestServer::with(&Config::default(), FakeEngine::ending("abc", Ending::Hang));
    let response = server
        .send(common::post_request(PATH, &ask(&json!({"stream": true, "n": 2}))))
        .await;
    assert_eq!(server.serving.running(), 2);
    drop(response);
    assert_eq!(server.engine.aborts.load(Relaxed), 2);
    assert_eq!(server.serving.running(), 0);
    assert_eq!(
        server.serving.metrics.requests_started.get(),
        server.serving.metrics.finished()
    );
}

#[tokio::test]
async fn aliases_answer_and_other_names_do_not_exist() {
    // covers: API-15
    let server = server("a");
    let (status, answer) = server.post(PATH, &ask(&json!({"model": "alias"}))).await;
    assert_eq!((status, &answer["model"]), (StatusCode::OK, &json!("alias")));
    let (status, answer) = server.post(PATH, &ask(&json!({"model": "other"}))).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["error"]["param"], "model");
}

#[tokio::test]
async fn fields_without_effect_are_reported() {
    let response = server("a")
        .send(common::post_request(PATH, &ask(&json!({"foo": 1, "user": "u"}))))
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-ignored-params"], "foo, user");
}

#[tokio::test]
async fn what_is_not_built_is_refused_by_name() {
    let server = server("a");
    for (field, value) in [
        ("tools", json!([])),
        ("response_format", json!({"type": "json_object"})),
        ("guided_json", json!({})),
        ("use_beam_search", json!(true)),
        ("chat_template", json!("x")),
    ] {
        let (status, answer) = server.post(PATH, &ask(&json!({field: value}))).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(answer["error"]["param"], field);
        assert!(
            answer["error"]["message"]
                .as_str()
                .expect("text")
                .contains("not supported yet")
        );
    }
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]);
    let (status, answer) = server.post(PATH, &json!({"messages": image})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["error"]["param"], "messages[0].content[0].type");
}

#[tokio::test]
async fn continuing_the_last_message_leaves_it_open() {
    let server = server("!");
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well"}]);
    let body = json!({"messages": messages, "continue_final_message": true, "echo": true});
    let (status, answer) = server.post(PATH, &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["choices"][0]["message"]["content"], "Well!");
    let prompt = server.engine.last_request().prompt_token_ids.expect("ids");
    assert_eq!(prompt.last(), Some(&u32::from(b'l')));
}
