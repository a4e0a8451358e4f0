//! `POST /detokenize`: the text of token ids.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::common::{model_name, offload};
use crate::error::ApiError;
use crate::generate::params::check_ids;
use crate::limits;
use crate::observe::report_ignored;
use crate::request::body::JsonFields;
use crate::state::AppState;

pub async fn detokenize(
    State(state): State<AppState>,
    JsonFields(mut body): JsonFields,
) -> Result<Response, ApiError> {
    let model = state.model()?.model.clone();
    model_name(&mut body, &model)?;
    let tokens = body
        .token_ids("tokens")?
        .ok_or_else(|| ApiError::invalid("tokens", "tokens is required"))?;
    limits::check("tokens", "tokens", state.limits().detokenize_tokens, tokens.len())?;
    check_ids("tokens", tokens.iter().copied(), model.vocab_size)?;
    let ignored = body.ignored();
    let answer = offload(tokens.len() * 4, move || {
        Ok(json!({"prompt": model.decode(&tokens, false)?}))
    })
    .await?;
    let mut response = Json(answer).into_response();
    report_ignored(&mut response, &ignored);
    Ok(response)
}
