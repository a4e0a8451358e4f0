//! `POST /v1/completions`.

mod choice;
mod convert;
mod response;
mod stream;
mod types;
mod validate;

use std::sync::Arc;
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
use choice::{AnswerShape, ChoiceState};
use convert::Echo;
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

/// A request made ready off the threads that accept and write.
struct Prepared {
    plan: GenerationPlan,
    /// Per prompt.
    echoes: Vec<Echo>,
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
    let mut body = validate::parse(fields, context)?;
    log_station(&body.id, "received", arrival, None);
    let prompts = convert::prompts(&serving.model, &mut body, departure)?;
    let prompt_tokens: usize = prompts.iter().map(|prompt| prompt.token_ids.len()).sum();
    log_station(&body.id, "tokenised", arrival, Some(prompt_tokens));
    let shape = answer_shape(&body, state);
    let asked = convert::asked(&body);
    let (prompts, echoes) = prompts
        .into_iter()
        .map(|prompt| (prompt.token_ids, prompt.echo))
        .unzip();
    let plan = GenerationPlan::new(&serving.model, body.id, arrival, prompts, body.sampling, asked)?;
    Ok(Prepared {
        plan,
        echoes,
        shape,
        stream: body.stream,
        ignored: body.ignored,
    })
}

pub async fn completions(
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
        echoes,
        shape,
        stream,
        ignored,
    } = prepared;
    log_request(&state, &plan);
    let skip_special_tokens = plan.sampling.skip_special_tokens;
    let generation = generate::start(&serving, plan)?;
    drop(ticket);

    let model = &serving.model;
    let new_state = |(prompt, echo): (&Arc<[u32]>, Echo)| {
        let echo = Arc::new(echo);
        (0..generation.n)
            .map(|_| ChoiceState::new(model, prompt, &echo, &shape, skip_special_tokens))
            .collect::<Vec<_>>()
    };
    let states: Vec<ChoiceState> = generation
        .prompts
        .iter()
        .zip(echoes)
        .flat_map(new_state)
        .collect();
    let mut response = if stream.stream {
        let events = stream::CompletionEvents::new(model.clone(), shape, stream, states, generation.n);
        sse::response(generation.choices, events)
    } else {
        response::collect(generation, states, shape, model).await?
    };
    report_ignored(&mut response, &ignored);
    Ok(response)
}
