//! `POST /detokenize`: the text of token ids.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::common::model_name;
use crate::error::ApiError;
use crate::generate::params::check_ids;
use crate::limits;
use crate::observe::report_ignored;
use crate::request::body::JsonBody;
use crate::request::fields::Fields;
use crate::state::AppState;

fn answer(mut body: Fields, state: &AppState) -> Result<(Value, Vec<String>), ApiError> {
    let model = &state.model()?.model;
    model_name(&mut body, model)?;
    let tokens = body
        .token_ids("tokens")?
        .ok_or_else(|| ApiError::invalid("tokens", "tokens is required"))?;
    limits::check("tokens", "tokens", state.limits().detokenize_tokens, tokens.len())?;
    // The tokenizer may name more tokens than the model has.
    let known = model.vocab_size.max(model.tokenizer.vocab_size() as u32);
    check_ids("tokens", tokens.iter().copied(), known)?;
    let answer = json!({"prompt": model.decode(&tokens, false)?});
    Ok((answer, body.ignored()))
}

pub async fn detokenize(State(state): State<AppState>, body: JsonBody) -> Result<Response, ApiError> {
    let ((answer, ignored), _ticket) = body.prepare(move |fields, _| answer(fields, &state)).await?;
    let mut response = Json(answer).into_response();
    report_ignored(&mut response, &ignored);
    Ok(response)
}
