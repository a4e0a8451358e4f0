//! `POST /v1/completions`.

mod choice;
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
use crate::state::{AppState, Serving};
use choice::{AnswerShape, ChoiceState};
use types::CompletionBody;

fn answer_shape(body: &CompletionBody, state: &AppState) -> AnswerShape {
    AnswerShape {
        id: body.id.clone(),
        created_unix_s: generate::start::unix_seconds() as u64,
        model: body.model.clone(),
        logprobs: body.logprobs,
        echo: body.echo,
        prompt_only: body.max_tokens == 0,
        return_token_ids: body.sampling.return_token_ids,
        tokens_as_ids: body.sampling.return_tokens_as_token_ids,
        show_cached_tokens: state.prompt_tokens_details(),
        show_prompt_logprobs: body.sampling.prompt_logprobs.is_some(),
    }
}

fn validate_context<'a>(
    state: &AppState,
    serving: &'a Serving,
    http_id: &'a RequestId,
) -> validate::Context<'a> {
    validate::Context {
        model: &serving.model,
        limits: &serving.limits,
        force_include_usage: state.force_include_usage(),
        http_id: &http_id.0,
    }
}

pub async fn completions(
    State(state): State<AppState>,
    Extension(http_id): Extension<RequestId>,
    JsonFields(fields): JsonFields,
) -> Result<Response, ApiError> {
    let arrival = Instant::now();
    let serving = state.ready()?;
    let mut body = validate::parse(fields, validate_context(&state, &serving, &http_id))?;
    log_station(&body.id, "received", arrival, None);

    let text_bytes = convert::text_bytes(&body.prompts);
    let model = serving.model.clone();
    let (body, prompts) = offload(text_bytes, move || {
        let prompts = convert::prompts(&model, &mut body)?;
        Ok((body, prompts))
    })
    .await?;
    let prompt_tokens: usize = prompts.iter().map(|prompt| prompt.token_ids.len()).sum();
    log_station(&body.id, "tokenised", arrival, Some(prompt_tokens));

    let shape = answer_shape(&body, &state);
    let asked = convert::asked(&body);
    let (stream, ignored, n) = (body.stream, body.ignored, body.sampling.n);
    let (prompts, echoes): (Vec<_>, Vec<_>) = prompts
        .into_iter()
        .map(|prompt| (prompt.token_ids, prompt.echo))
        .unzip();
    let plan = GenerationPlan {
        request_id: body.id,
        arrival,
        prompts,
        sampling: body.sampling,
        asked,
    };
    log_request(&state, &plan);
    let generation = generate::start(&serving, plan)?;

    let new_state = |(prompt, echo): (&_, &String)| {
        (0..n)
            .map(|_| ChoiceState::new(echo.clone(), std::sync::Arc::clone(prompt)))
            .collect::<Vec<_>>()
    };
    let states: Vec<ChoiceState> = generation
        .prompts
        .iter()
        .zip(&echoes)
        .flat_map(new_state)
        .collect();
    let mut response = if stream.stream {
        let events =
            stream::CompletionEvents::new(serving.model.clone(), shape, stream, states, prompt_tokens as u64);
        sse::response(generation.choices, events)
    } else {
        response::collect(generation, states, shape, &serving.model).await?
    };
    report_ignored(&mut response, &ignored);
    Ok(response)
}
