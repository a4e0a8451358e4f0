//! Chat templates against `transformers`, and the limits they run under.

// A test that cannot go on may stop here.
#![allow(clippy::unwrap_used)]

mod common;

use serde_json::{Map, Value, json};
use vllm_rs_text::{ChatRequest, ChatTemplate, ChatTemplateError, ContentFormat, TemplateLimits};

use common::{fixture, fixture_path, from_gguf, gguf_source};

fn specials() -> Map<String, Value> {
    let variables = json!({"bos_token": "<|begin|>", "eos_token": "<|eos|>"});
    variables.as_object().cloned().unwrap_or_default()
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::from_source(source, specials(), TemplateLimits::default()).expect("template compiles")
}

fn render(source: &str, messages: &Value) -> Result<String, ChatTemplateError> {
    template(source).render(&ChatRequest::new(messages))
}

/// The oracle's clock stood still; `strftime_now` here does not, so its line is left out.
fn without_date(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with("Today Date: "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn fuzzed_conversations_equal_transformers_for_every_template() {
    let fixture = fixture("chat.json");
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() >= 200);
    for (number, case) in cases.iter().enumerate() {
        let name = case["template"].as_str().unwrap();
        let template = template(fixture["templates"][name].as_str().unwrap());
        let request = ChatRequest {
            messages: &case["messages"],
            tools: case.get("tools").filter(|tools| !tools.is_null()),
            documents: None,
            add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
            continue_final_message: case["continue_final_message"].as_bool().unwrap(),
            kwargs: case["kwargs"].as_object(),
        };
        let rendered = template.render(&request);
        if let Some(expected) = case["text"].as_str() {
            let rendered = rendered.unwrap_or_else(|error| panic!("case {number}, {name}: {error}"));
            assert_eq!(
                without_date(&rendered),
                without_date(expected),
                "case {number}, {name}"
            );
        } else {
            let error = rendered.expect_err("the oracle refuses this one").to_string();
            let expected = case["error"].as_str().unwrap();
            let refused = error.ends_with(expected) || expected.starts_with("continue_final_message");
            assert!(refused, "case {number}, {name}: {error}");
        }
    }
}

#[test]
fn content_takes_the_shape_the_template_reads() {
    let parts =
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
    let string = json!([{"role": "user", "content": "a"}]);
    let reads_strings = "{% for m in messages %}{{ m['content'] }};{% endfor %}";
    let reads_parts = "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}";
    assert_eq!(template(reads_strings).content_format(), ContentFormat::String);
    assert_eq!(template(reads_parts).content_format(), ContentFormat::OpenAi);
    assert_eq!(render(reads_strings, &parts).unwrap(), "a\nb;");
    assert_eq!(render(reads_parts, &string).unwrap(), "<a>");
    assert_eq!(render(reads_parts, &parts).unwrap(), "<a><b>");
    assert_eq!(
        render(reads_strings, &json!([{"role": "assistant", "content": null}])).unwrap(),
        ";"
    );
}

#[test]
fn call_arguments_arrive_as_an_object() {
    let call = |arguments: &str| json!([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}]);
    let source = "{{ messages[0].tool_calls[0].function.arguments | tojson }}";
    assert_eq!(render(source, &call(r#"{"a":1.0}"#)).unwrap(), r#"{"a": 1.0}"#);
    assert_eq!(render(source, &call("")).unwrap(), "{}");
    assert_eq!(render(source, &call("{oops")).unwrap(), r#""{oops""#);
}

#[test]
fn messages_that_no_template_can_take_are_refused_by_field() {
    let refuse = |messages: Value| render("{{ messages }}", &messages).unwrap_err().to_string();
    assert_eq!(refuse(json!({})), "messages: must be a list");
    assert_eq!(refuse(json!([])), "messages: must not be empty");
    assert_eq!(refuse(json!([1])), "messages[0]: must be an object");
    assert_eq!(
        refuse(json!([{"content": "x"}])),
        "messages[0].role: must be a string"
    );
    assert!(refuse(json!([{"role": "user", "content": 3}])).starts_with("messages[0].content: "));
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]);
    assert!(refuse(image).starts_with("messages[0].content[0].type: content of type 'image_url'"));
}

#[test]
fn template_errors_are_typed_and_name_the_line() {
    let messages = json!([{"role": "user", "content": "x"}]);
    let compile = |source: &str| ChatTemplate::from_source(source, specials(), TemplateLimits::default());
    let syntax = compile("a\nb\n{% if %}").unwrap_err();
    assert!(
        matches!(syntax, ChatTemplateError::Syntax { line: 3, .. }),
        "{syntax}"
    );
    let render_error = render("a\n{{ messages[0].nope.deeper }}", &messages).unwrap_err();
    assert!(
        matches!(render_error, ChatTemplateError::Render { line: 2, .. }),
        "{render_error}"
    );
    let refused = render(
        "{% macro f() %}{{ raise_exception('no ' ~ 1) }}{% endmacro %}{{ f() }}",
        &messages,
    );
    assert!(matches!(refused, Err(ChatTemplateError::Refused { message }) if message == "no 1"));
}

#[test]
fn a_template_that_does_not_end_or_writes_too_much_is_stopped() {
    let messages = json!([{"role": "user", "content": "x"}]);
    let limits = TemplateLimits {
        steps: 100_000,
        output_bytes: 1000,
        ..TemplateLimits::default()
    };
    let run = |source: &str| {
        let template = ChatTemplate::from_source(source, specials(), limits).expect("template compiles");
        template.render(&ChatRequest::new(&messages)).unwrap_err()
    };
    let nested =
        "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = 1 %}{% endfor %}{% endfor %}";
    assert!(matches!(
        run(nested),
        ChatTemplateError::OutOfFuel { limit_steps: 100_000 }
    ));
    let long = "{% for a in range(999) %}0123456789{% endfor %}";
    assert!(matches!(
        run(long),
        ChatTemplateError::OutputTooLong { limit_bytes: 1000 }
    ));
}

#[test]
fn a_little_template_cannot_make_much_text() {
    let messages = json!([{"role": "user", "content": "x"}]);
    let limits = TemplateLimits {
        output_bytes: 100_000,
        made_bytes: 1_000_000,
        ..TemplateLimits::default()
    };
    let twenty_times = |doubling: &str| {
        format!(
            "{{% set ns = namespace(x='ab', l=[]) %}}{{% for i in range(20) %}}{doubling}{{% endfor %}}{{{{ ns.x|length }}}}"
        )
    };
    let mut sources: Vec<String> = [
        "{% set ns.x = ns.x ~ ns.x %}",
        "{% set ns.x = ns.x~ns.x %}",
        "{% set ns.x = (ns.x) ~ (ns.x ~ '') %}",
        "{% set ns.x = ns.x + ns.x %}",
        "{% set ns.x = ns.x * 2 %}",
        "{% set ns.x = [ns.x, ns.x]|join %}",
        "{% set ns.x = ''.join([ns.x, ns.x]) %}",
        "{% set ns.x = '%s%s'|format(ns.x, ns.x) %}",
        "{% set ns.x = '{0}{0}'.format(ns.x) %}",
        "{% set ns.x = ns.x|replace('a', 'aa')|replace('b', 'bb') %}",
        "{% set ns.x = ns.x.replace('a', 'aa').replace('b', 'bb') %}",
        "{% set ns.x = [ns.x, ns.x]|tojson %}",
        "{% set ns.x = [ns.x, ns.x]|string %}",
        "{% set ns.x = [ns.x, ns.x]|pprint %}",
        "{% set ns.x = ns.x|map('upper')|list + ns.x|list %}",
        "{% set c %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = c %}",
        "{% macro m() %}{{ ns.x }}{{ ns.x }}{% endmacro %}{% set ns.x = m() %}",
        // Many values, none of them large.
        "{% for j in range(99) %}{% set ns.l = ns.l + ['y' * 9999 ~ j] %}{% endfor %}",
    ]
    .into_iter()
    .map(twenty_times)
    .collect();
    let at_once = [
        "{{ 'a'|indent(500000000, true) }}",
        "{{ 'a'|indent(width=500000000, first=true) }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ 'a' * 99999999 }}",
        "{{ ('a' * 99999999)|length }}",
        "{{ '%999999999d'|format(1)|length }}",
        "{{ '%*d'|format(999999999, 1)|length }}",
        "{{ '{:>999999999}'.format('a')|length }}",
        "{{ ['a' * 9999] * 9999 ~ 'a' }}",
        "{{ (['a' * 9999] * 999)|join|length }}",
        "{{ ('a' * 9999).join(['a'] * 999)|length }}",
        "{{ (['a' * 9999] * 999)|tojson|length }}",
        "{{ ([1] * 99999999)|list|length }}",
        "{{ [1]|batch(999999999, 0)|list|length }}",
        "{{ [1]|slice(999999999)|list|length }}",
        "{{ (['a' * 9999] * 999)|sum(start='')|length }}",
        "{% set c %}{{ ['a' * 9999] * 999 }}{% endset %}{{ c|length }}",
    ];
    sources.extend(at_once.map(str::to_owned));
    for source in sources {
        let template = ChatTemplate::from_source(&source, specials(), limits).expect(&source);
        let error = template.render(&ChatRequest::new(&messages)).expect_err(&source);
        let refused = error.to_string();
        let in_time = matches!(
            error,
            ChatTemplateError::OutputTooLong {
                limit_bytes: 100_000 | 1_000_000
            }
        );
        // The engine has bounds of its own on products and sums.
        assert!(
            in_time || refused.contains("too large") || refused.contains("only numbers"),
            "{source}: {refused}"
        );
    }
}

#[test]
fn guarded_operators_mean_what_they_meant() {
    let cases = [
        ("{{ 1 ~ 2 ~ 'x' ~ none ~ true ~ 1.0 }}", "12xNoneTrue1.0"),
        ("{{ (1+2*3) ~ (4-1) ~ 2*3 }}", "736"),
        (
            "{{ (1+2)*3 }} {{ 2*(3+4)*5 }} {{ -2*3+1 }} {{ 2**3*2 }}",
            "9 70 -5 16",
        ),
        ("{{ 'a' + 'b' + 'c' ~ ('d' ~ 'e')|upper ~ 'f'|upper }}", "abcDEF"),
        ("{{ ('a' ~ 'b' == 'ab' and not 'a' ~ '' == 'b') }}", "True"),
        ("{{ 'x' if 1 + 1 == 2 else 'y' ~ 'z' }}", "x"),
        ("{{ ([1] + [2, 3])|join('-' ~ '+') }}", "1-+2-+3"),
        (
            "{{ [0, 1, 2, 3][1 + 1:] }} {{ {'a' ~ 1: 2 + 3}['a1'] }}",
            "[2, 3] 5",
        ),
        (
            "{{ 'a' * 3 }}{{ 3 * 'b' }}{{ ('c' ~ 'd')*2 }}{{ 'é' ~ 'ü' * 2 }}",
            "aaabbbcdcdéüü",
        ),
        (
            "{% for i in [1] + [2] if i + 0 %}{{ (loop.index0 + 1) ~ ',' }}{% endfor %}",
            "1,2,",
        ),
        (
            "{% macro m(a, b='x' ~ 'y') %}{{ a ~ b }}{% endmacro %}{{ m('é' + 'w') }}{{ m(a=1 + 1, b=2 * 2) }}",
            "éwxy24",
        ),
        ("{%- set t = (1, 2) + (3,) -%}\n{{ t|length ~ '\n' }}", "3\n"),
        ("{{ messages[0 + 0]['con' ~ 'tent'] ~ messages|length }}", "q1"),
        (
            "{# a ~ b #}{% raw %}{{ a ~ b }}{% endraw %}{{ '~' ~ '*' ~ ')' }}",
            "{{ a ~ b }}~*)",
        ),
    ];
    let messages = json!([{"role": "user", "content": "q"}]);
    for (source, expected) in cases {
        assert_eq!(render(source, &messages).expect(source), expected, "{source}");
    }
    // A long chain must not become deep.
    let chain = vec!["'a'"; 400];
    for operator in [" ~ ", "~"] {
        let source = format!("{{{{ {} }}}}", chain.join(operator));
        assert_eq!(render(&source, &messages).unwrap(), "a".repeat(400));
    }
    let source = format!("{{{{ {} }}}}", chain.join(" + "));
    assert_eq!(render(&source, &messages).unwrap(), "a".repeat(400));
}

#[test]
fn request_variables_reach_the_template_but_not_its_reserved_names() {
    let messages = json!([{"role": "user", "content": "x"}]);
    let template = template("{{ flag }} {{ bos_token }}");
    let with = |kwargs: Value| {
        let kwargs = kwargs.as_object().cloned().unwrap_or_default();
        template.render(&ChatRequest {
            kwargs: Some(&kwargs),
            ..ChatRequest::new(&messages)
        })
    };
    assert_eq!(with(json!({"flag": false})).unwrap(), "False <|begin|>");
    let error = with(json!({"chat_template": "x"})).unwrap_err().to_string();
    assert_eq!(error, "chat_template_kwargs.chat_template: this name is reserved");
}

#[test]
fn templates_come_from_the_model_or_from_the_flag() {
    let messages = json!([{"role": "user", "content": "x"}]);
    let limits = TemplateLimits::default();
    let mut source = gguf_source("byte_level", Some("smollm"));
    let missing = ChatTemplate::for_tokenizer(&from_gguf(source.clone()), None, limits);
    assert!(matches!(missing, Err(ChatTemplateError::NoTemplate)));
    source.chat_template = Some("{{ eos_token }}{{ messages[0].content }}".to_owned());
    let tokenizer = from_gguf(source);
    let own = ChatTemplate::for_tokenizer(&tokenizer, None, limits).unwrap();
    assert_eq!(own.render(&ChatRequest::new(&messages)).unwrap(), "<|im_end|>x");
    let given = vllm_rs_text::resolve_template_argument("{{ bos_token }}").unwrap();
    let given = ChatTemplate::for_tokenizer(&tokenizer, Some(&given), limits).unwrap();
    assert_eq!(
        given.render(&ChatRequest::new(&messages)).unwrap(),
        "<|im_start|>"
    );
    let path = fixture_path("../templates/parts.jinja");
    assert!(
        vllm_rs_text::resolve_template_argument(path.to_str().unwrap())
            .unwrap()
            .contains("only text")
    );
    assert!(matches!(
        vllm_rs_text::resolve_template_argument("no/such/file"),
        Err(ChatTemplateError::Read { .. })
    ));
}

#[test]
fn a_folder_may_name_several_templates() {
    use vllm_rs_model_files::TokenizerSource;
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        fixture_path("hf_byte_level/tokenizer.json"),
        folder.path().join("tokenizer.json"),
    )
    .unwrap();
    let config = json!({"bos_token": "<|im_start|>", "chat_template": [
        {"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "with {{ tools | length }} tools"},
    ]});
    let source = TokenizerSource::HfJson {
        tokenizer_json: folder.path().join("tokenizer.json"),
        config,
        chat_template: None,
    };
    let tokenizer = vllm_rs_text::Tokenizer::from_source(source).unwrap();
    let template = ChatTemplate::for_tokenizer(&tokenizer, None, TemplateLimits::default()).unwrap();
    let messages = json!([{"role": "user", "content": "x"}]);
    assert_eq!(template.render(&ChatRequest::new(&messages)).unwrap(), "plain");
    let tools = json!([{}, {}]);
    let request = ChatRequest {
        tools: Some(&tools),
        ..ChatRequest::new(&messages)
    };
    assert_eq!(template.render(&request).unwrap(), "with 2 tools");
}
