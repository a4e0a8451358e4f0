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
use crate::request::body::WorkBody;
use crate::request::fields::Fields;
use crate::request::intake::Departure;
use crate::request::stream_options::StreamOptions;
use crate::routes::common::{log_request, log_station};
use crate::sse;
use crate::state::AppState;
use response::AnswerShape;

pub use types::TemplateFields;
pub use validate::{messages as check_messages, template as parse_template};

/// A request made ready off the threads that accept and write.
struct Prepared {
    plan: GenerationPlan,
    shape: AnswerShape,
    stream: StreamOptions,
    ignored: Vec<String>,
}

fn prepare(
    fields: Fields,
    departure: &Departure,
    state: &AppState,
    http_id: &RequestId,
    arrival: Instant,
) -> Result<Prepared, ApiError> {
    let serving = state.model()?;
    let context = validate::Context {
        model: &serving.model,
        limits: &serving.limits,
        force_include_usage: state.force_include_usage(),
        http_id: &http_id.0,
    };
    let mut chat = validate::parse(fields, context)?;
    log_station(&chat.id, "received", arrival, None);
    let (role, opening) = convert::opening(&chat);
    let prompt = convert::prompt_tokens(&serving.model, &mut chat, departure)?;
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
    let plan = GenerationPlan::new(
        &serving.model,
        chat.id,
        arrival,
        vec![prompt],
        chat.sampling,
        asked,
    )?;
    Ok(Prepared {
        plan,
        shape,
        stream: chat.stream,
        ignored: chat.ignored,
    })
}

pub async fn chat_completions(
    State(state): State<AppState>,
    Extension(http_id): Extension<RequestId>,
    work: WorkBody,
) -> Result<Response, ApiError> {
    let arrival = Instant::now();
    let WorkBody { serving, body } = work;
    let with = state.clone();
    let (prepared, ticket) = body
        .prepare(move |fields, departure| prepare(fields, departure, &with, &http_id, arrival))
        .await?;
    let Prepared {
        plan,
        shape,
        stream,
        ignored,
    } = prepared;
    log_request(&state, &plan);
    let generation = generate::start(&serving, plan)?;
    drop(ticket);
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
