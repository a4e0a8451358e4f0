//! Reading a request body: content type, size, JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};

use super::fields::Fields;
use super::intake::{Departure, DepartureGuard, IntakeTicket};
use crate::error::ApiError;
use crate::limits::Limits;
use crate::state::{AppState, Serving};

/// A client that sends its body slower than this is holding a connection for nothing.
const BODY_READ_TIMEOUT: Duration = Duration::from_mins(1);

/// How much of an unwanted body is read, and for how long.
const DISCARD_BYTES: usize = 256 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Bodies above this many bytes are parsed, rendered and tokenised off the threads that accept and write.
const INLINE_BODY_BYTES: usize = 8 << 10;

/// A whole JSON body, not parsed yet, and its share of what may be on its way in.
#[derive(Debug)]
pub struct JsonBody {
    bytes: Vec<u8>,
    ticket: IntakeTicket,
}

/// A body for a route that starts sequences: refused, unread, while the engine cannot take any.
pub struct WorkBody {
    pub serving: Arc<Serving>,
    pub body: JsonBody,
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .map_or("none", |value| value.to_str().unwrap_or("unreadable"));
    let essence = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        return Ok(());
    }
    Err(ApiError::ContentType {
        given: given.chars().take(80).collect(),
    })
}

async fn read(mut body: Body, ticket: &mut IntakeTicket, limits: &Limits) -> Result<Vec<u8>, ApiError> {
    let limit_bytes = limits.body_bytes;
    let mut bytes = Vec::new();
    let frames = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ApiError::BodyRead {
                detail: error.to_string(),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if (bytes.len() + data.len()) as u64 > limit_bytes {
                return Err(ApiError::BodyTooLarge { limit_bytes });
            }
            ticket.add_body_bytes(data.len() as u64, limits)?;
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    tokio::time::timeout(BODY_READ_TIMEOUT, frames)
        .await
        .map_err(|_| ApiError::BodyRead {
            detail: format!("not received within {} s", BODY_READ_TIMEOUT.as_secs()),
        })??;
    Ok(bytes)
}

/// Answers a request without using its body.
///
/// A connection whose request body was left unread must be closed, and a client may already be sending its next
/// request on it. So a short body is read and thrown away; with a long one the answer says that it is the last.
pub async fn refuse(error: ApiError, body: Body) -> Response {
    let whole = tokio::time::timeout(DISCARD_TIMEOUT, Limited::new(body, DISCARD_BYTES).collect()).await;
    if matches!(whole, Ok(Ok(_))) {
        error.into_response()
    } else {
        last_answer(error)
    }
}

/// An answer after which the connection is closed.
fn last_answer(error: ApiError) -> Response {
    let mut response = error.into_response();
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn enter(request: Request, state: &AppState, needs_engine: bool) -> Result<JsonBody, Response> {
    // The ticket comes first: whoever drains waits for it, so a request is refused as draining or served.
    let entered = match state.intake().enter(state.limits()) {
        Ok(ticket) => {
            let usable = if needs_engine {
                state.ready().map(|_| ())
            } else {
                state.model().map(|_| ())
            };
            usable
                .and_then(|()| check_content_type(request.headers()))
                .map(|()| ticket)
        }
        Err(error) => Err(error),
    };
    let mut ticket = match entered {
        Ok(ticket) => ticket,
        Err(error) => {
            state.count_rejection(&error);
            return Err(refuse(error, request.into_body()).await);
        }
    };
    match read(request.into_body(), &mut ticket, state.limits()).await {
        Ok(bytes) => Ok(JsonBody { bytes, ticket }),
        Err(error) => {
            state.count_rejection(&error);
            Err(last_answer(error))
        }
    }
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        enter(request, state, false).await
    }
}

impl FromRequest<AppState> for WorkBody {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        let body = enter(request, state, true).await?;
        let serving = state
            .model()
            .cloned()
            .map_err(axum::response::IntoResponse::into_response)?;
        Ok(Self { serving, body })
    }
}

impl JsonBody {
    /// Parses the body and does `work` with its fields, on the bounded pool of blocking threads unless it is short.
    /// The ticket is to be dropped once what was prepared has been admitted.
    pub async fn prepare<T: Send + 'static>(
        self,
        work: impl FnOnce(Fields, &Departure) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, IntakeTicket), ApiError> {
        let Self { bytes, ticket } = self;
        let departure = Departure::default();
        let is_short = bytes.len() <= INLINE_BODY_BYTES;
        let guard = DepartureGuard(departure.clone());
        let turn = ticket.turn().await?;
        let all = move || {
            // Held until the work is done, also for a client that is gone.
            let _turn = turn;
            // It may have waited for a thread.
            departure.check()?;
            let fields = Fields::parse(&bytes)?;
            drop(bytes);
            Ok((work(fields, &departure)?, ticket))
        };
        let prepared = if is_short {
            all()
        } else {
            tokio::task::spawn_blocking(all)
                .await
                .map_err(ApiError::internal)?
        };
        drop(guard);
        prepared
    }
}

#[cfg(test)]
mod tests {
    use super::super::intake::Intake;
    use super::*;

    #[test]
    fn only_json_content_types_pass() {
        let check = |given: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(given));
            check_content_type(&headers)
        };
        assert!(check("application/json").is_ok());
        assert!(check("Application/JSON; charset=utf-8").is_ok());
        assert!(check("application/x-www-form-urlencoded").is_err());
        assert!(check_content_type(&HeaderMap::new()).is_err());
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_before_it_is_buffered() {
        let limits = Limits {
            body_bytes: 99,
            ..Limits::default()
        };
        let mut ticket = Arc::new(Intake::default()).enter(&limits).expect("empty");
        let error = read(Body::from(vec![b'x'; 100]), &mut ticket, &limits)
            .await
            .expect_err("too long");
        assert_eq!(error, ApiError::BodyTooLarge { limit_bytes: 99 });
    }
}
