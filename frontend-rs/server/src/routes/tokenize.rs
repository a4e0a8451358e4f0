//! `POST /tokenize`: the tokens of a prompt or of a rendered chat.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::chat::{TemplateFields, check_messages, parse_template};
use super::common::model_name;
use crate::error::ApiError;
use crate::model::{Model, RenderInput};
use crate::observe::report_ignored;
use crate::request::body::JsonBody;
use crate::request::fields::Fields;
use crate::request::intake::Departure;
use crate::state::AppState;

enum Input {
    Prompt {
        text: String,
        add_special_tokens: bool,
    },
    Chat {
        messages: Vec<Value>,
        template: TemplateFields,
    },
}

fn parse(body: &mut Fields, state: &AppState) -> Result<Input, ApiError> {
    if let Some(text) = body.string("prompt")? {
        let add_special_tokens = body.boolean("add_special_tokens")?.unwrap_or(true);
        return Ok(Input::Prompt {
            text,
            add_special_tokens,
        });
    }
    body.refuse("tools", |_| false)?;
    let messages = check_messages(body, state.limits()).map_err(|error| match error {
        ApiError::InvalidValue { param, message } if param == "messages" => ApiError::InvalidValue {
            param,
            message: format!("{message} (or give prompt)"),
        },
        other => other,
    })?;
    Ok(Input::Chat {
        messages,
        template: parse_template(body)?,
    })
}

fn encode(model: &Model, input: Input) -> Result<Vec<u32>, ApiError> {
    match input {
        Input::Prompt {
            text,
            add_special_tokens,
        } => model.encode(&text, add_special_tokens),
        Input::Chat { messages, template } => {
            let text = model.render(RenderInput {
                messages,
                add_generation_prompt: template.add_generation_prompt,
                continue_final_message: template.continue_final_message,
                kwargs: template.kwargs,
            })?;
            model.encode(&text, template.add_special_tokens)
        }
    }
}

fn answer(
    mut body: Fields,
    departure: &Departure,
    state: &AppState,
) -> Result<(Value, Vec<String>), ApiError> {
    let model = &state.model()?.model;
    model_name(&mut body, model)?;
    let input = parse(&mut body, state)?;
    let return_token_strs = body.boolean("return_token_strs")?.unwrap_or(false);
    let ignored = body.ignored();
    let tokens = encode(model, input)?;
    departure.check()?;
    let spell = |id: &u32| model.tokenizer.id_to_token(*id).unwrap_or_default();
    let strings: Option<Vec<String>> = return_token_strs.then(|| tokens.iter().map(spell).collect());
    let answer = json!({
        "count": tokens.len(),
        "max_model_len": model.max_model_len.get(),
        "tokens": tokens,
        "token_strs": strings,
    });
    Ok((answer, ignored))
}

pub async fn tokenize(State(state): State<AppState>, body: JsonBody) -> Result<Response, ApiError> {
    let ((answer, ignored), _ticket) = body
        .prepare(move |fields, departure| answer(fields, departure, &state))
        .await?;
    let mut response = Json(answer).into_response();
    report_ignored(&mut response, &ignored);
    Ok(response)
}
