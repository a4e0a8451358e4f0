//! What holds for every route: errors, keys, probes, metrics, limits.

mod common;

use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use common::fake_engine::{Ending, FakeEngine};
use common::{TestServer, json_of, post_request, text_of};
use serde_json::{Value, json};
use vllm_rs_flags::{Config, Secret};
use vllm_rs_server::app;
use vllm_rs_server::limits::Limits;
use vllm_rs_server::state::AppState;

const CHAT: &str = "/v1/chat/completions";

fn chat() -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})
}

async fn raw(
    server: &TestServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: &str,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type);
    json_of(
        server
            .send(request.body(Body::from(body.to_owned())).expect("valid"))
            .await,
    )
    .await
}

#[tokio::test]
async fn every_mistake_has_the_same_shape() {
    let server = TestServer::new();
    let deep = format!("{{\"messages\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let json = "application/json";
    for (method, path, content_type, body, status) in [
        ("POST", CHAT, json, "{", 400),
        ("POST", CHAT, json, "[]", 400),
        ("POST", CHAT, json, deep.as_str(), 400),
        ("POST", CHAT, json, "{\"messages\": 1e999}", 400),
        ("POST", CHAT, "text/plain", "{}", 415),
        ("GET", CHAT, json, "", 405),
        ("POST", "/v1/nothing", json, "{}", 404),
        ("GET", "/v1/models/none", json, "", 404),
    ] {
        let (given, answer) = raw(&server, method, path, content_type, body).await;
        assert_eq!(given.as_u16(), status, "{method} {path}");
        let error = &answer["error"];
        assert_eq!(error["code"], status);
        assert!(error["message"].is_string() && error["type"].is_string() && error.get("param").is_some());
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_413() {
    let mut config = Config::default();
    config.frontend.max_request_bytes = 1024;
    let server = TestServer::with(&config, FakeEngine::default());
    let body = json!({"prompt": "x".repeat(2000)});
    let (status, answer) = server.post("/v1/completions", &body).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(
        answer["error"]["message"]
            .as_str()
            .expect("text")
            .contains("1024")
    );
}

#[tokio::test]
async fn a_key_guards_every_route_but_the_probes() {
    // covers: API-13
    let mut config = Config::default();
    config.frontend.api_key = vec![Secret::new("s3cret")];
    let server = TestServer::with(&config, FakeEngine::writing("a"));
    for path in ["/v1/models", "/metrics", "/version", "/load", "/nothing"] {
        assert_eq!(server.get(path).await.0, StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/tokenize", "/detokenize", CHAT, "/v1/completions"] {
        assert_eq!(
            server.post(path, &json!({})).await.0,
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
    }
    for path in ["/health", "/live", "/ready", "/ping"] {
        assert_eq!(server.get(path).await.0, StatusCode::OK, "{path}");
    }
    let mut request = post_request(CHAT, &chat());
    request
        .headers_mut()
        .insert(header::AUTHORIZATION, "Bearer s3cret".parse().expect("ascii"));
    assert_eq!(server.send(request).await.status(), StatusCode::OK);
    // Without keys any key works.
    let mut request = post_request(CHAT, &chat());
    request
        .headers_mut()
        .insert(header::AUTHORIZATION, "Bearer EMPTY".parse().expect("ascii"));
    assert_eq!(TestServer::new().send(request).await.status(), StatusCode::OK);
}

async fn probes(state: &AppState) -> (u16, u16, u16) {
    use tower::ServiceExt;
    let mut codes = Vec::new();
    for path in ["/live", "/health", "/ready"] {
        let request = Request::get(path).body(Body::empty()).expect("valid");
        let answer = app::router(state.clone(), &[])
            .oneshot(request)
            .await
            .expect("answered");
        codes.push(answer.status().as_u16());
    }
    (codes[0], codes[1], codes[2])
}

#[tokio::test]
async fn probes_tell_the_phases_apart() {
    // covers: API-09
    assert_eq!(probes(&AppState::new(&Config::default())).await, (200, 503, 503));
    let server = TestServer::new();
    assert_eq!(probes(&server.state).await, (200, 200, 200));
    server.state.set_draining();
    assert_eq!(probes(&server.state).await, (200, 200, 503));
    let (status, answer) = server.post(CHAT, &chat()).await;
    assert_eq!(
        (status, &answer["error"]["type"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("ServiceUnavailableError"))
    );
    *server.engine.down.lock().expect("no panic") = Some("dead".to_owned());
    assert_eq!(probes(&server.state).await, (200, 503, 503));
}

#[tokio::test]
async fn a_stalled_engine_fails_its_probes_but_work_is_taken() {
    let server = TestServer::new();
    server.engine.unhealthy.store(true, Relaxed);
    assert_eq!(probes(&server.state).await, (200, 503, 503));
    assert_eq!(server.post(CHAT, &chat()).await.0, StatusCode::OK);
    server.state.set_draining();
    assert_eq!(probes(&server.state).await, (200, 503, 503));
    assert_eq!(
        server.post(CHAT, &chat()).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn loading_refuses_work_and_says_when_to_come_back() {
    use tower::ServiceExt;
    let router = app::router(AppState::new(&Config::default()), &[]);
    let response = router
        .oneshot(post_request(CHAT, &chat()))
        .await
        .expect("answered");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn a_full_queue_is_429_with_retry_after() {
    let mut config = Config::default();
    config.scheduler.max_num_queued_reqs = 1;
    let server = TestServer::with(&config, FakeEngine::ending("a", Ending::Hang));
    let body = json!({"prompt": "a", "stream": true, "max_tokens": 1, "ignore_eos": true});
    let held = server.send(post_request("/v1/completions", &body)).await;
    let refused = server.send(post_request("/v1/completions", &body)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    assert_eq!(server.serving.metrics.admission_rejections.get(), 1);
    drop(held);
    assert_eq!(server.serving.admission.waiting_requests(), 0);
}

#[tokio::test]
async fn started_equals_finished_plus_running_on_the_metrics_page() {
    let server = TestServer::with(&Config::default(), FakeEngine::ending("abc", Ending::Hang));
    let hang = post_request(
        CHAT,
        &json!({"messages": [{"role": "user", "content": "x"}], "stream": true}),
    );
    let held = server.send(hang).await;
    let gone = server
        .send(post_request(
            CHAT,
            &json!({"messages": [{"role": "user", "content": "x"}], "stream": true}),
        ))
        .await;
    drop(gone);
    let request = Request::get("/metrics").body(Body::empty()).expect("valid");
    let page = text_of(server.send(request).await).await;
    let value = |name: &str| -> f64 {
        page.lines()
            .filter(|line| line.starts_with(name))
            .map(|line| {
                line.rsplit(' ')
                    .next()
                    .expect("value")
                    .parse::<f64>()
                    .expect("number")
            })
            .sum()
    };
    assert!((value("vllm_rs:requests_started_total") - 2.0).abs() < 1e-9);
    assert!((value("vllm:request_success_total") - 1.0).abs() < 1e-9);
    assert!((value("vllm_rs:requests_running") - 1.0).abs() < 1e-9);
    assert!(page.contains(
        "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"abort\"} 1"
    ));
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("name");
        let family = ["_bucket", "_count", "_sum"]
            .iter()
            .fold(name, |name, suffix| name.strip_suffix(suffix).unwrap_or(name));
        assert!(
            page.contains(&format!("# HELP {family} ")) || page.contains(&format!("# HELP {name} ")),
            "{name}"
        );
    }
    drop(held);
}

#[tokio::test]
async fn browsers_may_call_from_allowed_origins_only() {
    let mut config = Config::default();
    config.frontend.allowed_origins = vec!["https://a.example".to_owned()];
    let server = TestServer::with(&config, FakeEngine::default());
    let ask = |origin: &str| {
        Request::get("/version")
            .header(header::ORIGIN, origin)
            .body(Body::empty())
            .expect("valid")
    };
    let allow = header::ACCESS_CONTROL_ALLOW_ORIGIN;
    assert_eq!(
        server.send(ask("https://a.example")).await.headers()[&allow],
        "https://a.example"
    );
    assert!(
        !server
            .send(ask("https://b.example"))
            .await
            .headers()
            .contains_key(&allow)
    );
}

#[tokio::test]
async fn a_preflight_allows_the_headers_that_the_browser_asks_for() {
    let mut config = Config::default();
    config.frontend.allowed_origins = vec!["*".to_owned()];
    let server = TestServer::with(&config, FakeEngine::default());
    let preflight = Request::options(CHAT)
        .header(header::ORIGIN, "https://a.example")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            "authorization,content-type",
        )
        .body(Body::empty())
        .expect("valid");
    let answer = server.send(preflight).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(
        answer.headers()[header::ACCESS_CONTROL_ALLOW_HEADERS],
        "authorization,content-type"
    );
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_is_counted() {
    use futures::FutureExt;
    let server = TestServer::with(&Config::default(), FakeEngine::ending("a", Ending::Hang));
    let waiting = server.send(post_request(CHAT, &chat()));
    assert!(waiting.now_or_never().is_none(), "the engine never answers");
    let page = text_of(
        server
            .send(Request::get("/metrics").body(Body::empty()).expect("valid"))
            .await,
    )
    .await;
    let line = format!("http_requests_total{{handler=\"{CHAT}\",method=\"POST\",status=\"4xx\"}} 1");
    assert!(page.contains(&line), "{page}");
}

#[tokio::test]
async fn requests_on_their_way_in_are_bounded() {
    for (preparing_requests, preparing_bytes) in [(0, u64::MAX), (9, 1000)] {
        let limits = Limits {
            preparing_requests,
            preparing_bytes,
            ..Limits::default()
        };
        let server = TestServer::with_limits(&Config::default(), limits, FakeEngine::writing("a"));
        let long = json!({"prompt": "x".repeat(100_000)});
        let refused = server.send(post_request("/v1/completions", &long)).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.headers().contains_key(header::RETRY_AFTER));
        assert_eq!(server.serving.metrics.admission_rejections.get(), 1);
        assert_eq!(server.state.intake().requests(), 0);
    }
}

#[tokio::test]
async fn a_request_that_is_being_prepared_outlives_the_start_of_a_drain() {
    let server = TestServer::with(&Config::default(), FakeEngine::writing("a"));
    let (sender, receiver) = futures::channel::mpsc::unbounded::<Result<Vec<u8>, std::io::Error>>();
    let request = Request::post(CHAT)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from_stream(receiver))
        .expect("valid");
    let mut answer = std::pin::pin!(server.send(request));
    assert!(
        futures::poll!(answer.as_mut()).is_pending(),
        "its body is missing"
    );
    assert_eq!(server.state.busy(), 1);
    server.state.set_draining();
    let late = server.send(post_request(CHAT, &chat())).await;
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    sender
        .unbounded_send(Ok(chat().to_string().into_bytes()))
        .expect("still read");
    drop(sender);
    assert_eq!(answer.await.status(), StatusCode::OK);
    assert_eq!(server.state.busy(), 0);
}

#[tokio::test]
async fn the_request_id_is_the_client_s_or_a_new_one() {
    let server = TestServer::new();
    let ask = |id: &str| {
        Request::get("/version")
            .header("x-request-id", id)
            .body(Body::empty())
            .expect("valid")
    };
    assert_eq!(server.send(ask("abc-1")).await.headers()["x-request-id"], "abc-1");
    assert_eq!(server.send(ask("a b")).await.headers()["x-request-id"].len(), 32);
}
