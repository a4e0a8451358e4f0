//! Everything a request can fail with, and the one place where a failure becomes HTTP.
//!
//! The body has the shape of `OpenAI`'s, `{"error": {"message", "type", "param", "code"}}`, with vLLM's type names and
//! the status as `code`. A message names the field (or header), the limit and the value that was given.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Why a request was not answered with a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// A field holds a value of the wrong type or outside its range.
    #[error("{message}")]
    InvalidValue { param: String, message: String },
    /// A field asks for more than the limits table allows.
    #[error("{param}: at most {limit} {unit} allowed, but {given} given")]
    OverLimit {
        param: String,
        limit: u64,
        given: u64,
        unit: &'static str,
    },
    /// A field of the API that this server knows and does not implement.
    #[error("{param} is not supported yet{detail}")]
    Unsupported { param: String, detail: String },
    /// The prompt and the tokens asked for do not fit into the model's context.
    #[error("{message}")]
    ContextLength { param: String, message: String },
    #[error("the request body is not valid JSON: {detail}")]
    MalformedJson { detail: String },
    #[error("the request body is limited to {limit_values} JSON values, lists of token ids aside")]
    BodyTooComplex { limit_values: usize },
    #[error("content-type must be application/json, but {given} given")]
    ContentType { given: String },
    #[error("the request body is limited to {limit_bytes} bytes (--max-request-bytes)")]
    BodyTooLarge { limit_bytes: u64 },
    #[error("the request body could not be read: {detail}")]
    BodyRead { detail: String },
    #[error("a valid API key is required: send it as 'Authorization: Bearer <key>'")]
    Unauthorized,
    #[error("the model `{given}` does not exist here; served: {served}")]
    ModelNotFound { given: String, served: String },
    #[error("no route {method} {path}; see GET /v1/models and docs/flags.md")]
    RouteNotFound { method: String, path: String },
    #[error("method {method} is not allowed on {path}")]
    MethodNotAllowed { method: String, path: String },
    /// The waiting queue is full.
    #[error("the server is at capacity: {what} is limited to {limit}, and {waiting} are waiting ({flag})")]
    QueueFull {
        what: &'static str,
        flag: &'static str,
        limit: u64,
        waiting: u64,
        retry_after_s: u64,
    },
    #[error("the server is not ready: {state}")]
    NotReady { state: String, retry_after_s: u64 },
    #[error("the server is shutting down")]
    Draining,
    /// The engine process ended while it worked on this request.
    #[error("the engine stopped while working on this request: {reason}")]
    EngineDied { reason: String },
    /// The engine answered this one request with an error.
    #[error("the engine could not process this request: {reason}")]
    EngineRequest { reason: String },
    #[error("internal error: {detail}")]
    Internal { detail: String },
}

impl ApiError {
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidValue {
            param: param.into(),
            message: message.into(),
        }
    }

    pub fn unsupported(param: impl Into<String>) -> Self {
        Self::Unsupported {
            param: param.into(),
            detail: String::new(),
        }
    }

    pub fn internal(detail: impl std::fmt::Display) -> Self {
        Self::Internal {
            detail: detail.to_string(),
        }
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::InvalidValue { .. }
            | Self::OverLimit { .. }
            | Self::Unsupported { .. }
            | Self::ContextLength { .. }
            | Self::BodyRead { .. }
            | Self::BodyTooComplex { .. }
            | Self::MalformedJson { .. } => StatusCode::BAD_REQUEST,
            Self::ContentType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::ModelNotFound { .. } | Self::RouteNotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NotReady { .. } | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::EngineDied { .. } | Self::EngineRequest { .. } | Self::Internal { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// vLLM's name for the kind of error.
    pub fn kind(&self) -> &'static str {
        match self.status() {
            StatusCode::UNAUTHORIZED => "AuthenticationError",
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowedError",
            StatusCode::PAYLOAD_TOO_LARGE => "PayloadTooLargeError",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaTypeError",
            StatusCode::TOO_MANY_REQUESTS => "RateLimitError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            StatusCode::INTERNAL_SERVER_ERROR => "InternalServerError",
            _ => "BadRequestError",
        }
    }

    /// The request field (or header) at fault.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::InvalidValue { param, .. }
            | Self::OverLimit { param, .. }
            | Self::Unsupported { param, .. }
            | Self::ContextLength { param, .. } => Some(param),
            Self::ContentType { .. } => Some("content-type"),
            Self::Unauthorized => Some("authorization"),
            Self::ModelNotFound { .. } => Some("model"),
            _ => None,
        }
    }

    /// Seconds after which another try may succeed; official clients honour the header.
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::QueueFull { retry_after_s, .. } | Self::NotReady { retry_after_s, .. } => {
                Some(*retry_after_s)
            }
            Self::Draining => Some(1),
            _ => None,
        }
    }

    /// The error object as it stands in a body or in a stream's error event.
    pub fn body(&self) -> Value {
        json!({"error": {
            "message": self.to_string(),
            "type": self.kind(),
            "param": self.param(),
            "code": self.status().as_u16(),
        }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after_s() {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self == Self::Unauthorized {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<(ApiError, u16, &'static str, Option<&'static str>)> {
        let text = || "x".to_owned();
        vec![
            (
                ApiError::invalid("top_p", "bad"),
                400,
                "BadRequestError",
                Some("top_p"),
            ),
            (
                ApiError::OverLimit {
                    param: "n".into(),
                    limit: 4,
                    given: 9,
                    unit: "choices",
                },
                400,
                "BadRequestError",
                Some("n"),
            ),
            (
                ApiError::unsupported("tools"),
                400,
                "BadRequestError",
                Some("tools"),
            ),
            (
                ApiError::MalformedJson { detail: text() },
                400,
                "BadRequestError",
                None,
            ),
            (
                ApiError::ContentType { given: text() },
                415,
                "UnsupportedMediaTypeError",
                Some("content-type"),
            ),
            (
                ApiError::BodyTooLarge { limit_bytes: 9 },
                413,
                "PayloadTooLargeError",
                None,
            ),
            (
                ApiError::Unauthorized,
                401,
                "AuthenticationError",
                Some("authorization"),
            ),
            (
                ApiError::ModelNotFound {
                    given: text(),
                    served: text(),
                },
                404,
                "NotFoundError",
                Some("model"),
            ),
            (
                ApiError::RouteNotFound {
                    method: text(),
                    path: text(),
                },
                404,
                "NotFoundError",
                None,
            ),
            (
                ApiError::MethodNotAllowed {
                    method: text(),
                    path: text(),
                },
                405,
                "MethodNotAllowedError",
                None,
            ),
            (
                ApiError::NotReady {
                    state: text(),
                    retry_after_s: 2,
                },
                503,
                "ServiceUnavailableError",
                None,
            ),
            (ApiError::Draining, 503, "ServiceUnavailableError", None),
            (
                ApiError::EngineDied { reason: text() },
                500,
                "InternalServerError",
                None,
            ),
            (
                ApiError::EngineRequest { reason: text() },
                500,
                "InternalServerError",
                None,
            ),
            (ApiError::internal("x"), 500, "InternalServerError", None),
        ]
    }

    #[test]
    fn maps_each_error_to_status_type_and_param() {
        for (error, status, kind, param) in every_kind() {
            let body = error.body();
            assert_eq!(error.status().as_u16(), status, "{error:?}");
            assert_eq!(body["error"]["type"], kind, "{error:?}");
            assert_eq!(body["error"]["param"].as_str(), param, "{error:?}");
            assert_eq!(body["error"]["code"], status, "{error:?}");
            assert_eq!(body["error"]["message"], error.to_string());
        }
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let error = ApiError::QueueFull {
            what: "queued requests",
            flag: "--max-num-queued-reqs",
            limit: 8,
            waiting: 8,
            retry_after_s: 3,
        };
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "3");
    }

    #[test]
    fn over_limit_names_field_limit_and_value() {
        let error = ApiError::OverLimit {
            param: "n".into(),
            limit: 128,
            given: 129,
            unit: "choices",
        };
        assert_eq!(error.to_string(), "n: at most 128 choices allowed, but 129 given");
    }
}
