//! Probes. None of them touches the engine: they read what is known.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::build_info;
use crate::state::{AppState, Phase};

fn report(phase: &Phase, healthy: bool) -> (StatusCode, Json<Value>) {
    let status = if healthy {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut body = json!({"status": phase.name()});
    if let Some(detail) = phase.detail() {
        body["detail"] = json!(detail);
    }
    (status, Json(body))
}

/// `GET /live`: the process runs.
pub async fn live() -> StatusCode {
    StatusCode::OK
}

/// `GET /health`: the engine is up and well, also while the server drains.
pub async fn health(State(state): State<AppState>) -> (StatusCode, Json<Value>) {
    let phase = state.phase();
    report(&phase, matches!(phase, Phase::Ready | Phase::Draining))
}

/// `GET /ready`: new work is welcome.
pub async fn ready(State(state): State<AppState>) -> (StatusCode, Json<Value>) {
    let phase = state.phase();
    report(&phase, phase == Phase::Ready)
}

/// `GET /version`.
pub async fn version() -> Json<Value> {
    Json(json!({"version": build_info::VERSION, "build_id": build_info::BUILD_ID}))
}

/// `GET /load`: sequences that run or wait.
pub async fn load(State(state): State<AppState>) -> Json<Value> {
    Json(json!({"server_load": state.serving().map_or(0, |serving| serving.running())}))
}
