//! Reading a request body: content type, size, JSON.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::fields::Fields;
use crate::error::ApiError;
use crate::state::AppState;

/// A client that sends its body slower than this is holding a connection for nothing.
const BODY_READ_TIMEOUT: Duration = Duration::from_mins(1);

/// How much of an unwanted body is read, and for how long.
const DISCARD_BYTES: usize = 256 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Extracts a JSON object as [`Fields`]. `serde_json` bounds the nesting at 128 levels.
#[derive(Debug)]
pub struct JsonFields(pub Fields);

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

async fn read(body: Body, limit_bytes: u64) -> Result<bytes::Bytes, ApiError> {
    let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
    let collected = tokio::time::timeout(BODY_READ_TIMEOUT, Limited::new(body, limit).collect())
        .await
        .map_err(|_| ApiError::BodyRead {
            detail: format!("not received within {} s", BODY_READ_TIMEOUT.as_secs()),
        })?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge { limit_bytes }),
        Err(error) => Err(ApiError::BodyRead {
            detail: error.to_string(),
        }),
    }
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

impl FromRequest<AppState> for JsonFields {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        if let Err(error) = check_content_type(request.headers()) {
            return Err(refuse(error, request.into_body()).await);
        }
        let bytes = match read(request.into_body(), state.limits().body_bytes).await {
            Ok(bytes) => bytes,
            Err(error) => return Err(last_answer(error)),
        };
        Self::parse(&bytes).map_err(IntoResponse::into_response)
    }
}

impl JsonFields {
    fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        let value = serde_json::from_slice(bytes).map_err(|error| ApiError::MalformedJson {
            detail: error.to_string(),
        })?;
        Ok(Self(Fields::from_body(value)?))
    }
}

#[cfg(test)]
mod tests {
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
        let error = read(Body::from(vec![b'x'; 100]), 99).await.expect_err("too long");
        assert_eq!(error, ApiError::BodyTooLarge { limit_bytes: 99 });
    }
}
