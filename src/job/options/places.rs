//! The places where clients put options, made alike.
//!
//! Python and Java send keys `beam:option:<name>:v1`; Go sends a `go_options` object whose
//! `options` hold the user's flags. Java and Go refuse flags they do not know, so each setting of
//! ours may also come as a token of `dataflow_service_options` (a list or a comma-separated
//! string) or as an experiment: `name=value`, or the bare name for a flag.

use std::{collections::BTreeMap, str::FromStr};

use prost_types::{Struct, Value, value::Kind};

use crate::job::options::{Durability, OptionError};

/// All places of one options struct, made alike.
pub(super) struct Places {
    pub(super) values: BTreeMap<String, String>,
    service_options: Vec<String>,
    pub(super) experiments: Vec<String>,
}

impl Places {
    pub(super) fn new(options: &Struct) -> Self {
        let mut source = Self {
            values: BTreeMap::new(),
            service_options: Vec::new(),
            experiments: Vec::new(),
        };
        source.collect(options, 0);
        source
    }

    /// Takes in one object; what was found nearer to the top wins.
    fn collect(&mut self, options: &Struct, depth: usize) {
        const DEPTH_MAX: usize = 3;
        let mut inner = Vec::new();
        for (key, value) in &options.fields {
            let name = option_name(key);
            match name.as_str() {
                "experiments" => tokens(value, &mut self.experiments),
                "dataflow_service_options" => tokens(value, &mut self.service_options),
                "go_options" | "options" => {
                    if let Some(Kind::StructValue(object)) = &value.kind {
                        inner.push(object);
                    }
                }
                _ => {
                    if let Some(text) = scalar(value) {
                        self.values.entry(name).or_insert(text);
                    }
                }
            }
        }
        if depth < DEPTH_MAX {
            for object in inner {
                self.collect(object, depth + 1);
            }
        }
    }

    /// The value of an option, from the first place that has it.
    fn find(&self, name: &str) -> Option<String> {
        if let Some(value) = self.values.get(name) {
            return Some(value.clone());
        }
        [&self.service_options, &self.experiments]
            .into_iter()
            .flatten()
            .find_map(|token| match token.split_once('=') {
                Some((key, value)) if key.trim() == name => Some(value.trim().to_owned()),
                None if token == name => Some("true".to_owned()),
                Some(_) | None => None,
            })
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.find(name).filter(|text| !text.is_empty())
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, OptionError> {
        match self.find(name).as_deref().map(str::to_ascii_lowercase) {
            None => Ok(false),
            Some(value) => match value.as_str() {
                "true" | "1" | "yes" | "on" => Ok(true),
                "false" | "0" | "no" | "off" | "" => Ok(false),
                _ => Err(OptionError {
                    name: name.to_owned(),
                    value,
                    expected: "true or false",
                }),
            },
        }
    }

    /// A number that is not negative; -1, which SDKs send for "not given", counts as absent.
    pub(super) fn number<T: FromStr>(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<Option<T>, OptionError> {
        match self.text(name) {
            None => Ok(None),
            Some(value) if value == "-1" => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| OptionError {
                name: name.to_owned(),
                value,
                expected,
            }),
        }
    }

    pub(super) fn durability(&self) -> Result<Option<Durability>, OptionError> {
        match self.text("durability") {
            None => Ok(None),
            Some(value) => match value.as_str() {
                "none" => Ok(Some(Durability::None)),
                "full" => Ok(Some(Durability::Full)),
                _ => Err(OptionError {
                    name: "durability".to_owned(),
                    value,
                    expected: "full or none",
                }),
            },
        }
    }
}

/// `beam:option:job_name:v1`, `jobName` and `job_name` are the same option.
fn option_name(key: &str) -> String {
    let key = key
        .strip_prefix("beam:option:")
        .and_then(|key| key.rsplit_once(":v"))
        .map_or(key, |(name, _version)| name);
    let mut name = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            if !name.is_empty() {
                name.push('_');
            }
            name.push(c.to_ascii_lowercase());
        } else {
            name.push(c);
        }
    }
    name
}

/// A scalar as text; whole numbers without a point, as the Struct has only doubles.
fn scalar(value: &Value) -> Option<String> {
    match value.kind.as_ref()? {
        Kind::StringValue(text) => Some(text.clone()),
        Kind::BoolValue(flag) => Some(flag.to_string()),
        Kind::NumberValue(number) => Some(number.to_string()),
        Kind::NullValue(_) | Kind::StructValue(_) | Kind::ListValue(_) => None,
    }
}

/// The tokens of a list, or of a comma-separated string.
fn tokens(value: &Value, into: &mut Vec<String>) {
    let mut split = |text: &str| {
        into.extend(
            text.split(',')
                .map(str::trim)
                .filter(|token| !token.is_empty())
                .map(str::to_owned),
        );
    };
    match value.kind.as_ref() {
        Some(Kind::StringValue(text)) => split(text),
        Some(Kind::ListValue(list)) => {
            for item in &list.values {
                if let Some(Kind::StringValue(text)) = &item.kind {
                    split(text);
                }
            }
        }
        Some(
            Kind::NullValue(_) | Kind::NumberValue(_) | Kind::BoolValue(_) | Kind::StructValue(_),
        )
        | None => {}
    }
}
