//! Where chat templates are found besides the tokenizer's own metadata.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::ChatTemplateError;

/// Templates in `tokenizer_config.json`: one string, or a list of `{"name", "template"}`.
pub(crate) fn templates_in_config(config: &Value) -> Vec<(String, String)> {
    match config.get("chat_template") {
        Some(Value::String(text)) => vec![("default".to_owned(), text.clone())],
        Some(Value::Array(items)) => items.iter().filter_map(named_template).collect(),
        _ => Vec::new(),
    }
}

fn named_template(item: &Value) -> Option<(String, String)> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("name")?, text("template")?))
}

/// Templates in files of their own, in the order in which later ones win.
pub(crate) fn templates_in_folder(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Ok(text) = fs::read_to_string(folder.join("chat_template.json"))
        && let Ok(json) = serde_json::from_str::<Value>(&text)
    {
        found.extend(templates_in_config(&json));
    }
    if let Ok(text) = fs::read_to_string(folder.join("chat_template.jinja")) {
        found.push(("default".to_owned(), text));
    }
    let Ok(entries) = fs::read_dir(folder.join("additional_chat_templates")) else {
        return found;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        if path.extension().is_some_and(|extension| extension == "jinja")
            && let (Some(name), Ok(text)) = (name, fs::read_to_string(&path))
        {
            found.push((name, text));
        }
    }
    found
}

/// The text of `--chat-template`, which is a path, or the template itself (then it holds braces or
/// a line break, which no sensible path does).
pub fn resolve_template_argument(argument: &str) -> Result<String, ChatTemplateError> {
    let path = Path::new(argument);
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(_) if argument.contains(['{', '}', '\n']) => Ok(argument.to_owned()),
        Err(error) => Err(ChatTemplateError::Read {
            path: path.to_owned(),
            message: error.to_string(),
        }),
    }
}
