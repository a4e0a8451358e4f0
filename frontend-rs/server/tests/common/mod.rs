//! A tiny model and a scripted engine for tests of the routes.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

pub mod fake_engine;
pub mod tiny_model;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use vllm_rs_flags::Config;
use vllm_rs_server::app;
use vllm_rs_server::limits::Limits;
use vllm_rs_server::metrics::EngineMetrics;
use vllm_rs_server::state::{AppState, Serving};

use fake_engine::FakeEngine;

/// A server without sockets.
pub struct TestServer {
    pub router: axum::Router,
    pub state: AppState,
    pub engine: Arc<FakeEngine>,
    pub serving: Arc<Serving>,
}

impl TestServer {
    pub fn new() -> Self {
        Self::with(&Config::default(), FakeEngine::default())
    }

    pub fn with(config: &Config, engine: FakeEngine) -> Self {
        Self::with_limits(config, Limits::from_config(config), engine)
    }

    pub fn with_limits(config: &Config, limits: Limits, engine: FakeEngine) -> Self {
        let state = AppState::with_limits(config, limits.clone());
        let engine = Arc::new(engine);
        let model = Arc::new(tiny_model::model());
        let metrics = Arc::new(EngineMetrics::new("tiny", u64::from(model.max_model_len.get())));
        let serving = Arc::new(Serving::new(model, engine.clone(), metrics, limits));
        state.set_serving(serving.clone());
        let router = app::router(state.clone(), &config.frontend.allowed_origins);
        Self {
            router,
            state,
            engine,
            serving,
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Response {
        self.router
            .clone()
            .oneshot(request)
            .await
            .expect("the router always answers")
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).body(Body::empty()).expect("a valid request");
        json_of(self.send(request).await).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        json_of(self.send(post_request(path, body)).await).await
    }

    /// Posts and returns the `data:` payloads of the answer's events.
    pub async fn stream(&self, path: &str, body: &Value) -> Vec<String> {
        let response = self.send(post_request(path, body)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream; charset=utf-8"
        );
        let text = text_of(response).await;
        text.split("\n\n")
            .filter(|event| !event.is_empty())
            .map(|event| {
                event
                    .strip_prefix("data: ")
                    .expect("an event is one data line")
                    .to_owned()
            })
            .collect()
    }
}

pub fn post_request(path: &str, body: &Value) -> Request<Body> {
    Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .expect("a valid request")
}

pub async fn text_of(response: Response) -> String {
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a whole body")
        .to_bytes();
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

pub async fn json_of(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = text_of(response).await;
    let value = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).expect("JSON")
    };
    (status, value)
}
