//! `GET /v1/models` and `GET /v1/models/{name}`.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::model::Model;
use crate::state::AppState;

fn card(model: &Model, name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": model.created_unix_s,
        "owned_by": "vllm-rs",
        "root": model.root,
        "parent": null,
        "max_model_len": model.max_model_len.get(),
        "permission": [],
    })
}

pub async fn list(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    let model = &state.model()?.model;
    let cards: Vec<Value> = model.names.iter().map(|name| card(model, name)).collect();
    Ok(Json(json!({"object": "list", "data": cards})))
}

pub async fn retrieve(
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let model = &state.model()?.model;
    if model.names.contains(&name) {
        return Ok(Json(card(model, &name)));
    }
    Err(ApiError::ModelNotFound {
        given: name.chars().take(200).collect(),
        served: model.names.join(", "),
    })
}
