//! Violations: position in the value and expectation.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

/// Length limit of an expectation, because an `enum` can be long.
const MAX_CHARS: usize = 300;

/// A schema violation. It never contains the value, because arguments may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer; empty for the whole value.
    pub pointer: String,
    /// Description of the expected value.
    pub expected: String,
}

impl Violation {
    pub(super) fn unknown_place() -> Self {
        Violation { pointer: String::new(), expected: "a value that fits the schema".to_owned() }
    }

    pub(super) fn from_error(error: &ValidationError<'_>) -> Self {
        let mut pointer = error.instance_path().to_string();
        if let ValidationErrorKind::Required { property } = error.kind() {
            pointer.push('/');
            pointer.push_str(&escape_pointer(property.as_str().unwrap_or_default()));
        }
        Violation { pointer: clip(&pointer), expected: clip(&expected(error)) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "expected {}", self.expected),
            pointer => write!(f, "`{pointer}`: expected {}", self.expected),
        }
    }
}

fn expected(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Required { .. } => "a value, it is required".to_owned(),
        Kind::Type { kind } => format!("{}, found {}", type_names(kind), instance_type(error)),
        Kind::Enum { options } => format!("one of {options}"),
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let names: Vec<_> = unexpected.iter().map(|name| format!("`{name}`")).collect();
            format!("no member {}", names.join(", "))
        }
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("at most {limit} items"),
        Kind::MinProperties { limit } => format!("at least {limit} members"),
        Kind::MaxProperties { limit } => format!("at most {limit} members"),
        Kind::UniqueItems => "items that all differ".to_owned(),
        Kind::Pattern { pattern } => format!("text that matches `{pattern}`"),
        Kind::FalseSchema => "nothing here".to_owned(),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => form_list(context),
        Kind::OneOfMultipleValid { .. } => "a value of exactly one of several forms".to_owned(),
        _ => format!("what `{}` asks for", error.kind().keyword()),
    }
}

/// Lists the alternatives with their first violation each.
fn form_list(forms: &[Vec<ValidationError<'_>>]) -> String {
    let forms: Vec<_> = forms
        .iter()
        .filter_map(|errors| errors.first())
        .map(|error| Violation {
            pointer: error.instance_path().to_string(),
            expected: form_defect(error),
        })
        .map(|violation| match violation.pointer.as_str() {
            "" => violation.expected,
            pointer => format!("`{pointer}` {}", violation.expected),
        })
        .collect();
    format!("one of several forms ({})", forms.join("; or "))
}

/// Nested alternatives are not expanded, because their number multiplies.
fn form_defect(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            "one of several forms".to_owned()
        }
        ValidationErrorKind::Required { property } => format!("with {property}"),
        _ => expected(error),
    }
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(only) => only.to_string(),
        TypeKind::Multiple(several) => {
            several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn instance_type(error: &ValidationError<'_>) -> JsonType {
    let value: &Value = error.instance();
    JsonType::from(value)
}

fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
