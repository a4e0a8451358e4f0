//! `POST /v1/chat/completions`.

mod convert;
mod response;
mod stream;
mod types;
mod validate;

use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;

use crate::error::ApiError;
use crate::generate::{self, GenerationPlan};
use crate::observe::{RequestId, report_ignored};
use crate::request::body::JsonFields;
use crate::routes::common::{log_request, log_station, offload};
use crate::sse;
use crate::state::AppState;
use response::AnswerShape;

pub use convert::text_bytes;
pub use types::TemplateFields;
pub use validate::{messages as check_messages, template as parse_template};

pub async fn chat_completions(
    State(state): State<AppState>,
    Extension(http_id): Extension<RequestId>,
    JsonFields(body): JsonFields,
) -> Result<Response, ApiError> {
    let arrival = Instant::now();
    let serving = state.ready()?;
    let context = validate::Context {
        model: &serving.model,
        limits: &serving.limits,
        force_include_usage: state.force_include_usage(),
        http_id: &http_id.0,
    };
    let mut chat = validate::parse(body, context)?;
    log_station(&chat.id, "received", arrival, None);

    let (role, opening) = convert::opening(&chat);
    let text_bytes = convert::text_bytes(&chat.messages);
    let model = serving.model.clone();
    let (chat, prompt) = offload(text_bytes, move || {
        let prompt = convert::prompt_tokens(&model, &mut chat)?;
        Ok((chat, prompt))
    })
    .await?;
    log_station(&chat.id, "tokenised", arrival, Some(prompt.len()));

    let shape = AnswerShape {
        id: chat.id.clone(),
        created_unix_s: generate::start::unix_seconds() as u64,
        model: chat.model.clone(),
        role,
        opening,
        top_logprobs: chat.top_logprobs,
        return_token_ids: chat.sampling.return_token_ids,
        tokens_as_ids: chat.sampling.return_tokens_as_token_ids,
        show_cached_tokens: state.prompt_tokens_details(),
    };
    let asked = convert::asked(&chat);
    let (stream, ignored) = (chat.stream, chat.ignored);
    let plan = GenerationPlan {
        request_id: chat.id,
        arrival,
        prompts: vec![prompt],
        sampling: chat.sampling,
        asked,
    };
    log_request(&state, &plan);
    let generation = generate::start(&serving, plan)?;
    let mut response = if stream.stream {
        let prompt = generation.prompts[0].clone();
        let events = stream::ChatEvents::new(serving.model.clone(), shape, stream, prompt, generation.n);
        sse::response(generation.choices, events)
    } else {
        response::collect(generation, shape, &serving.model).await?
    };
    report_ignored(&mut response, &ignored);
    Ok(response)
}
