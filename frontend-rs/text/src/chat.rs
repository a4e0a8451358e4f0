//! Chat templates: a conversation becomes the prompt text the model was trained on.

mod budget;
mod environment;
mod guard;
mod messages;
mod python_json;
mod sources;
mod strftime;

use std::io;
use std::sync::Arc;

use minijinja::value::Value as TemplateValue;
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value};

use self::budget::{Budget, TooMuchText};
use self::environment::RefusedByTemplate;
use self::messages::{CONTINUE_TAG, Prepared};
pub use self::sources::resolve_template_argument;
pub(crate) use self::sources::{templates_in_config, templates_in_folder};
use crate::error::ChatTemplateError;
use crate::tokenizer::Tokenizer;

/// Bounds on one rendering; a template comes with a model, so it is not trusted to end.
///
/// They bound time, output, and the text and lists made on the way, by operators (`~`, `+`, `*`), filters,
/// methods and expressions written into a `set` block or macro: no value may be above `output_bytes`, nor
/// all values together above `made_bytes`. Looked at only once they exist, and so above the limit for
/// a moment, are: a sum (its operands together), a product (100 MB), the items that a filter cuts a text
/// into (about 30 times the text). Not counted is plain text of the template captured in a `set` block
/// (at most its length per step). Templates come from the model's files or the operator, not from requests.
#[derive(Debug, Clone, Copy)]
pub struct TemplateLimits {
    /// Template instructions that may run.
    pub steps: u64,
    /// Bytes of UTF-8 that may be written, and that any one value on the way may have.
    pub output_bytes: usize,
    /// Bytes of all values made on the way; what is built up piece by piece counts at each piece.
    pub made_bytes: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self {
            steps: 5_000_000,
            output_bytes: 16 << 20,
            made_bytes: 1 << 30,
        }
    }
}

/// What shape of `content` a template reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentFormat {
    /// One string.
    String,
    /// A list of `{"type": "text", "text": ...}` parts.
    OpenAi,
}

/// One conversation to render.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The messages, a JSON list as in the chat API.
    pub messages: &'a Value,
    /// Tool descriptions, a JSON list.
    pub tools: Option<&'a Value>,
    /// Documents for retrieval templates, a JSON list.
    pub documents: Option<&'a Value>,
    /// Whether to end with the beginning of an assistant message.
    pub add_generation_prompt: bool,
    /// Whether the last message is left open for the model to go on with.
    pub continue_final_message: bool,
    /// Further variables for the template (`chat_template_kwargs`).
    pub kwargs: Option<&'a Map<String, Value>>,
}

impl<'a> ChatRequest<'a> {
    /// A request with the usual settings: no tools, a generation prompt.
    pub fn new(messages: &'a Value) -> Self {
        Self {
            messages,
            tools: None,
            documents: None,
            add_generation_prompt: true,
            continue_final_message: false,
            kwargs: None,
        }
    }
}

/// Names that `kwargs` may not take over.
const RESERVED: [&str; 8] = [
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "tokenize",
    "return_dict",
];

/// A compiled chat template. Cheap to clone and to share between threads.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    environment: Environment<'static>,
    has_tool_template: bool,
    variables: Map<String, Value>,
    limits: TemplateLimits,
    takes_string: bool,
    takes_parts: bool,
}

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

impl ChatTemplate {
    /// The template of a model: `given` (the text of `--chat-template`) if there is one, else what
    /// came with the tokenizer.
    pub fn for_tokenizer(
        tokenizer: &Tokenizer,
        given: Option<&str>,
        limits: TemplateLimits,
    ) -> Result<Self, ChatTemplateError> {
        let source = given.or_else(|| tokenizer.chat_template(DEFAULT));
        let tool_source = if given.is_some() {
            None
        } else {
            tokenizer.chat_template(TOOL_USE)
        };
        let source = source.or(tool_source).ok_or(ChatTemplateError::NoTemplate)?;
        Self::compile(source, tool_source, tokenizer.special_variables().clone(), limits)
    }

    /// Compiles a template from its text; `variables` are `bos_token` and the like.
    pub fn from_source(
        source: &str,
        variables: Map<String, Value>,
        limits: TemplateLimits,
    ) -> Result<Self, ChatTemplateError> {
        Self::compile(source, None, variables, limits)
    }

    fn compile(
        source: &str,
        tool_source: Option<&str>,
        variables: Map<String, Value>,
        limits: TemplateLimits,
    ) -> Result<Self, ChatTemplateError> {
        let budget = Budget {
            value_bytes: limits.output_bytes,
            made_bytes: limits.made_bytes,
        };
        let mut environment = environment::new(limits.steps, budget);
        for (name, source) in [(DEFAULT, Some(source)), (TOOL_USE, tool_source)] {
            if let Some(source) = source {
                let source = environment::without_generation_tags(source);
                let source = guard::guarded(&source, environment::syntax()).ok_or_else(|| {
                    ChatTemplateError::Syntax {
                        line: 1,
                        message: "an operator in this template cannot be found".to_owned(),
                    }
                })?;
                environment
                    .add_template_owned(name, source)
                    .map_err(|error| ChatTemplateError::Syntax {
                        line: error.line().unwrap_or(1),
                        message: describe(&error),
                    })?;
            }
        }
        let mut inner = Inner {
            environment,
            has_tool_template: tool_source.is_some(),
            variables,
            limits,
            takes_string: true,
            takes_parts: true,
        };
        (inner.takes_string, inner.takes_parts) = inner.probe();
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The shape of `content` the template reads.
    pub fn content_format(&self) -> ContentFormat {
        if self.inner.takes_parts {
            ContentFormat::OpenAi
        } else {
            ContentFormat::String
        }
    }

    /// Renders a conversation. Encode the result with `add_special_tokens` false: the template
    /// writes the begin token itself.
    pub fn render(&self, request: &ChatRequest<'_>) -> Result<String, ChatTemplateError> {
        let inner = &*self.inner;
        for name in request.kwargs.iter().flat_map(|kwargs| kwargs.keys()) {
            if RESERVED.contains(&name.as_str()) {
                return Err(ChatTemplateError::BadRequest {
                    field: format!("chat_template_kwargs.{name}"),
                    message: "this name is reserved".to_owned(),
                });
            }
        }
        let prepared = messages::prepare(request, inner.takes_string, inner.takes_parts)?;
        let text = inner.render_prepared(&prepared.messages, request)?;
        cut_at_tag(text, &prepared)
    }
}

impl Inner {
    fn render_prepared(
        &self,
        messages: &Value,
        request: &ChatRequest<'_>,
    ) -> Result<String, ChatTemplateError> {
        let has_tools = request
            .tools
            .is_some_and(|tools| tools.as_array().is_none_or(|t| !t.is_empty()));
        let name = if has_tools && self.has_tool_template {
            TOOL_USE
        } else {
            DEFAULT
        };
        let mut context: Vec<(&str, TemplateValue)> = Vec::with_capacity(8);
        for (name, value) in self.variables.iter().chain(request.kwargs.into_iter().flatten()) {
            context.push((name, template_value(value)));
        }
        context.push(("messages", template_value(messages)));
        for (name, value) in [("tools", request.tools), ("documents", request.documents)] {
            context.push((name, value.map_or(TemplateValue::from(()), template_value)));
        }
        context.push((
            "add_generation_prompt",
            TemplateValue::from(request.add_generation_prompt),
        ));
        let mut output = Bounded {
            bytes: Vec::new(),
            limit_bytes: self.limits.output_bytes,
            full: false,
        };
        let template = self
            .environment
            .get_template(name)
            .map_err(|error| self.explain(&error, false))?;
        let context = TemplateValue::from_pairs(context);
        let result = template.render_captured_to(context, &mut output);
        if let Err(error) = result {
            return Err(self.explain(&error, output.full));
        }
        Ok(String::from_utf8_lossy(&output.bytes).into_owned())
    }

    fn explain(&self, error: &Error, output_full: bool) -> ChatTemplateError {
        if output_full {
            return ChatTemplateError::OutputTooLong {
                limit_bytes: self.limits.output_bytes,
            };
        }
        if error.kind() == ErrorKind::OutOfFuel {
            return ChatTemplateError::OutOfFuel {
                limit_steps: self.limits.steps,
            };
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(current) = cause {
            if let Some(TooMuchText { limit_bytes }) = current.downcast_ref() {
                return ChatTemplateError::OutputTooLong {
                    limit_bytes: *limit_bytes,
                };
            }
            if let Some(RefusedByTemplate(message)) = current.downcast_ref() {
                return ChatTemplateError::Refused {
                    message: message.clone(),
                };
            }
            cause = current.source();
        }
        ChatTemplateError::Render {
            line: error.line().unwrap_or(1),
            message: describe(error),
        }
    }

    /// Finds out by trying whether the template reads content as a string and as a list of parts.
    fn probe(&self) -> (bool, bool) {
        const WORD: &str = "quokka";
        let try_content = |content: Value| {
            let messages = serde_json::json!([{"role": "user", "content": content}]);
            let request = ChatRequest::new(&messages);
            self.render_prepared(&messages, &request).unwrap_or_default()
        };
        let string = try_content(Value::from(WORD));
        let parts = try_content(serde_json::json!([{"type": "text", "text": WORD}]));
        // A list printed as a whole shows its keys; one that is read shows only the text.
        let printed_whole = ["'type'", "\"type\""].iter().any(|key| parts.contains(key));
        let takes_parts = parts.contains(WORD) && !printed_whole;
        (string.contains(WORD) || !takes_parts, takes_parts)
    }
}

/// A JSON value as templates see it.
fn template_value(value: &Value) -> TemplateValue {
    match value {
        Value::Null => TemplateValue::from(()),
        Value::Bool(value) => TemplateValue::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => TemplateValue::from(integer),
            (_, Some(integer)) => TemplateValue::from(integer),
            _ => TemplateValue::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => TemplateValue::from(text.as_str()),
        Value::Array(items) => items.iter().map(template_value).collect(),
        Value::Object(map) => TemplateValue::from_pairs(
            map.iter()
                .map(|(key, value)| (key.as_str(), template_value(value))),
        ),
    }
}

/// An error's own words and its line are separate fields here; its file name says nothing.
fn describe(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// With an open last message, ends the prompt where that message's text ends.
fn cut_at_tag(mut text: String, prepared: &Prepared) -> Result<String, ChatTemplateError> {
    let Some(open_text) = &prepared.open_text else {
        return Ok(text);
    };
    let tag = CONTINUE_TAG.trim_end();
    let found = text.rfind(tag).filter(|_| text.contains(open_text.trim()));
    let Some(at) = found else {
        return Err(ChatTemplateError::BadRequest {
            field: "continue_final_message".to_owned(),
            message: "the chat template leaves out or rewrites the last message".to_owned(),
        });
    };
    // A template that trims the message would have trimmed its end too.
    let trimmed = !text[at..].starts_with(CONTINUE_TAG);
    text.truncate(at);
    if trimmed {
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

/// A buffer that refuses to grow past a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit_bytes: usize,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + buffer.len() > self.limit_bytes {
            self.full = true;
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
