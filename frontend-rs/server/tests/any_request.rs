//! Whatever JSON arrives, the answer is a success or a declared client error: never a 5xx, never a panic.

mod common;

use common::TestServer;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const FIELDS: [&str; 40] = [
    "model",
    "messages",
    "prompt",
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stop_token_ids",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
    "stream",
    "stream_options",
    "echo",
    "tools",
    "tool_choice",
    "response_format",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template_kwargs",
    "documents",
    "priority",
    "cache_salt",
    "truncate_prompt_tokens",
    "return_token_ids",
    "request_id",
    "tokens",
    "repetition_penalty",
    "presence_penalty",
    "ignore_eos",
    "reasoning_effort",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..40).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        (-2.0..3.0).prop_map(|number: f64| json!(number)),
        ".{0,12}".prop_map(Value::from),
        Just(json!("tiny")),
        Just(json!({"role": "user", "content": "hi"})),
        Just(json!({"type": "text", "text": "hi"})),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a-z0-9_]{1,8}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Value> {
    let pairs = prop::collection::vec((prop::sample::select(&FIELDS[..]), any_value()), 0..6);
    (pairs, any::<bool>()).prop_map(|(pairs, valid_base)| {
        let mut body = Map::new();
        if valid_base {
            body.insert("messages".to_owned(), json!([{"role": "user", "content": "hi"}]));
            body.insert("prompt".to_owned(), json!("hi"));
        }
        body.extend(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(body)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_body_makes_the_server_fail(
        body in any_body(),
        path in prop::sample::select(vec!["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"]),
    ) {
        thread_local! {
            static RUNTIME: (tokio::runtime::Runtime, TestServer) = (
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"),
                TestServer::new(),
            );
        }
        RUNTIME.with(|(runtime, server)| {
            let response = runtime.block_on(server.send(common::post_request(path, &body)));
            let status = response.status().as_u16();
            prop_assert!(matches!(status, 200 | 400 | 404), "{status} for {body}");
            let text = runtime.block_on(common::text_of(response));
            if status != 200 {
                let error: Value = serde_json::from_str(&text).expect("JSON");
                prop_assert!(error["error"]["message"].is_string());
            }
            prop_assert_eq!(server.serving.running(), 0);
            Ok(())
        })?;
    }
}
