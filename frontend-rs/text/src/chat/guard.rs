//! Where a template's own operators can make text grow, the template is rewritten so that the growth is
//! counted: the template engine has no hook for its operators, but it has one for filters.
//!
//! `a ~ b` becomes `(a)|guarded_concat(b)`, which looks at the size before it builds anything; `a + b`
//! becomes `(a + b)|guarded`, which can only look afterwards, at what is at most all operands together;
//! `a * b` becomes `(a|unfolded * b)|guarded`: the engine caps one product at 100 MB, and `unfolded` keeps
//! it from computing products of constants while it compiles. Lines stay where they are, for messages.

use minijinja::machinery::ast::{self, Spanned};
use minijinja::machinery::{Span, parse};
use minijinja::syntax::SyntaxConfig;

use super::budget::{CONCAT, GUARDED, UNFOLDED};

/// A replacement of `length` bytes at `at`.
struct Edit {
    at: usize,
    length: usize,
    text: String,
}

struct Guard<'a> {
    source: &'a str,
    edits: Vec<Edit>,
    /// An operator was not where the parser said.
    lost: bool,
}

/// The template with guarded operators. One that cannot be parsed comes back as it is, for the engine to
/// refuse in its own words; `None` if the parser's positions make no sense.
pub(super) fn guarded(source: &str, syntax: SyntaxConfig) -> Option<String> {
    let Ok(tree) = parse(source, "template", syntax) else {
        return Some(source.to_owned());
    };
    let mut guard = Guard {
        source,
        edits: Vec::new(),
        lost: false,
    };
    guard.statement(&tree);
    if guard.lost {
        return None;
    }
    // Stable: of edits at one place, the inner ones were found first.
    guard.edits.sort_by_key(|edit| edit.at);
    let mut result = String::with_capacity(source.len() + 16 * guard.edits.len());
    let mut done = 0;
    for edit in &guard.edits {
        result.push_str(source.get(done..edit.at)?);
        result.push_str(&edit.text);
        done = edit.at + edit.length;
    }
    result.push_str(source.get(done..)?);
    Some(result)
}

impl Guard<'_> {
    fn insert(&mut self, at: u32, text: String) {
        self.replace(at as usize, 0, text);
    }

    fn replace(&mut self, at: usize, length: usize, text: String) {
        self.edits.push(Edit { at, length, text });
    }

    fn statements(&mut self, statements: &[ast::Stmt<'_>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) {
        use ast::Stmt;
        match statement {
            Stmt::Template(it) => self.statements(&it.children),
            Stmt::EmitExpr(it) => self.expression(&it.expr),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
            Stmt::ForLoop(it) => {
                self.expressions([&it.target, &it.iter].into_iter().chain(&it.filter_expr));
                self.statements(&it.body);
                self.statements(&it.else_body);
            }
            Stmt::IfCond(it) => {
                self.expression(&it.expr);
                self.statements(&it.true_body);
                self.statements(&it.false_body);
            }
            Stmt::WithBlock(it) => {
                self.expressions(it.assignments.iter().flat_map(|(target, value)| [target, value]));
                self.statements(&it.body);
            }
            Stmt::Set(it) => self.expressions([&it.target, &it.expr]),
            Stmt::SetBlock(it) => {
                self.expressions([&it.target].into_iter().chain(&it.filter));
                self.statements(&it.body);
            }
            Stmt::AutoEscape(it) => {
                self.expression(&it.enabled);
                self.statements(&it.body);
            }
            Stmt::FilterBlock(it) => {
                self.expression(&it.filter);
                self.statements(&it.body);
            }
            Stmt::Block(it) => self.statements(&it.body),
            Stmt::Import(it) => self.expressions([&it.expr, &it.name]),
            Stmt::FromImport(it) => {
                self.expression(&it.expr);
                for (name, alias) in &it.names {
                    self.expressions([name].into_iter().chain(alias));
                }
            }
            Stmt::Extends(it) => self.expression(&it.name),
            Stmt::Include(it) => self.expression(&it.name),
            Stmt::Macro(it) => self.macro_declaration(it),
            Stmt::CallBlock(it) => {
                self.call(&it.call);
                self.macro_declaration(&it.macro_decl);
            }
            Stmt::Do(it) => self.call(&it.call),
        }
    }

    fn macro_declaration(&mut self, it: &ast::Macro<'_>) {
        self.expressions(it.args.iter().chain(&it.defaults));
        self.statements(&it.body);
    }

    fn call(&mut self, it: &ast::Call<'_>) {
        self.expression(&it.expr);
        self.arguments(&it.args);
    }

    fn arguments(&mut self, arguments: &[ast::CallArg<'_>]) {
        use ast::CallArg;
        for argument in arguments {
            match argument {
                CallArg::Pos(it)
                | CallArg::Kwarg(_, it)
                | CallArg::PosSplat(it)
                | CallArg::KwargSplat(it) => {
                    self.expression(it);
                }
            }
        }
    }

    fn expressions<'e, 's: 'e>(&mut self, expressions: impl IntoIterator<Item = &'e ast::Expr<'s>>) {
        for expression in expressions {
            self.expression(expression);
        }
    }

    fn expression(&mut self, expression: &ast::Expr<'_>) {
        use ast::Expr;
        match expression {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(it) => {
                let bounds = [&it.start, &it.stop, &it.step];
                self.expression(&it.expr);
                self.expressions(bounds.into_iter().flatten());
            }
            Expr::UnaryOp(it) => self.expression(&it.expr),
            Expr::BinOp(it) => self.operator(it, false),
            Expr::Compare(it) => {
                self.expression(&it.expr);
                self.expressions(it.ops.iter().map(|op| &op.expr));
            }
            Expr::IfExpr(it) => {
                self.expressions([&it.test_expr, &it.true_expr].into_iter().chain(&it.false_expr));
            }
            Expr::Filter(it) => {
                self.expressions(&it.expr);
                self.arguments(&it.args);
            }
            Expr::Test(it) => {
                self.expression(&it.expr);
                self.arguments(&it.args);
            }
            Expr::GetAttr(it) => self.expression(&it.expr),
            Expr::GetItem(it) => self.expressions([&it.expr, &it.subscript_expr]),
            Expr::Call(it) => self.call(it),
            Expr::List(it) => self.expressions(&it.items),
            Expr::Tuple(it) => self.expressions(&it.items),
            Expr::Map(it) => self.expressions(it.keys.iter().chain(&it.values)),
        }
    }

    fn operator(&mut self, it: &Spanned<ast::BinOp<'_>>, in_chain: bool) {
        use ast::BinOpKind::{Add, Concat, Mul};
        let span = it.span();
        // The left end of a chain such as `a ~ b ~ c`: one pair of parentheses is enough for all of it,
        // and deep nesting is something that the engine refuses.
        let chain = match &it.left {
            ast::Expr::BinOp(left)
                if left.span().start_offset == span.start_offset
                    && std::mem::discriminant(&left.op) == std::mem::discriminant(&it.op) =>
            {
                Some(left)
            }
            _ => None,
        };
        match chain {
            Some(left) => self.operator(left, true),
            None => self.expression(&it.left),
        }
        match it.op {
            Concat => {
                let opening = if chain.is_some() { "" } else { ")" };
                if let Some(at) = self.operator_after(it.left.span(), '~') {
                    self.replace(at, 1, format!("{opening}|{CONCAT}("));
                }
                self.expression(&it.right);
                if chain.is_none() {
                    self.insert(span.start_offset, "(".to_owned());
                }
                self.insert(span.end_offset, ")".to_owned());
            }
            Add | Mul => {
                if matches!(it.op, Mul)
                    && let Some(at) = self.operator_after(it.left.span(), '*')
                {
                    self.replace(at, 0, format!("|{UNFOLDED} "));
                }
                self.expression(&it.right);
                if !in_chain {
                    self.insert(span.start_offset, "(".to_owned());
                    self.insert(span.end_offset, format!(")|{GUARDED}"));
                }
            }
            _ => self.expression(&it.right),
        }
    }

    /// Where the operator that follows an operand stands; between them are only blanks and parentheses.
    fn operator_after(&mut self, operand: Span, operator: char) -> Option<usize> {
        let from = operand.end_offset as usize;
        let found = self.source.get(from..).and_then(|rest| {
            let blanks = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ')');
            blanks
                .starts_with(operator)
                .then(|| from + rest.len() - blanks.len())
        });
        self.lost |= found.is_none();
        found
    }
}
