//! The filter language of subscriptions.
//!
//! `attributes:key`, `attributes.key = "value"`, `!=`, `hasPrefix(attributes.key, "value")`,
//! combined by `NOT` or `-`, `AND`, `OR` and parentheses. `AND` and `OR` may not be mixed without
//! parentheses. Keys and values may be quoted, with `\` before a quote or backslash.

use super::message::Message;

/// The longest filter that is taken, in bytes.
const FILTER_BYTES_MAX: usize = 256;
/// Deeper nesting is refused.
const DEPTH_MAX: usize = 64;

/// Which messages a subscription wants. The default wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Option<Term>);

/// Why a filter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// It is too long.
    #[error("filter has {0} bytes, at most {FILTER_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Something else stands where this was expected.
    #[error("expected {expected} at byte {at} of the filter")]
    Expected {
        /// What should stand there.
        expected: &'static str,
        /// Where.
        at: usize,
    },
    /// `AND` and `OR` side by side.
    #[error("AND and OR need parentheses when they are combined, at byte {0} of the filter")]
    Mixed(usize),
    /// Too many parentheses.
    #[error("the filter is nested deeper than {DEPTH_MAX}")]
    TooDeep,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Has(String),
    Equals(String, String),
    Differs(String, String),
    HasPrefix(String, String),
    Not(Box<Term>),
    All(Vec<Term>),
    Any(Vec<Term>),
}

impl Filter {
    /// Reads a filter; an empty text wants everything.
    ///
    /// ```
    /// # use tidemill::pubsub_emulator::delivery::Filter;
    /// assert!(Filter::parse("attributes.lang = \"en\" AND NOT attributes:test").is_ok());
    /// assert!(Filter::parse("attributes.lang = en AND").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(FilterError::TooLong(text.len()));
        }
        if text.trim().is_empty() {
            return Ok(Filter(None));
        }
        let mut parser = Parser { text, at: 0 };
        let term = parser.expression(0)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.expected("the end"));
        }
        Ok(Filter(Some(term)))
    }

    /// Whether the subscription wants this message.
    pub fn accepts(&self, message: &Message) -> bool {
        self.0.as_ref().is_none_or(|term| term.holds(message))
    }
}

impl Term {
    fn holds(&self, message: &Message) -> bool {
        match self {
            Term::Has(key) => message.attribute(key).is_some(),
            Term::Equals(key, value) => message.attribute(key) == Some(value),
            Term::Differs(key, value) => message.attribute(key) != Some(value),
            Term::HasPrefix(key, prefix) => message
                .attribute(key)
                .is_some_and(|value| value.starts_with(prefix.as_str())),
            Term::Not(term) => !term.holds(message),
            Term::All(terms) => terms.iter().all(|term| term.holds(message)),
            Term::Any(terms) => terms.iter().any(|term| term.holds(message)),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn expression(&mut self, depth: usize) -> Result<Term, FilterError> {
        if depth > DEPTH_MAX {
            return Err(FilterError::TooDeep);
        }
        let first = self.factor(depth)?;
        let (is_all, is_any) = (self.word("AND"), self.word("OR"));
        if !is_all && !is_any {
            return Ok(first);
        }
        let (same, other) = if is_all { ("AND", "OR") } else { ("OR", "AND") };
        let mut terms = vec![first, self.factor(depth)?];
        while self.word(same) {
            terms.push(self.factor(depth)?);
        }
        if self.word(other) {
            return Err(FilterError::Mixed(self.at));
        }
        Ok(if is_all {
            Term::All(terms)
        } else {
            Term::Any(terms)
        })
    }

    fn factor(&mut self, depth: usize) -> Result<Term, FilterError> {
        if depth > DEPTH_MAX {
            return Err(FilterError::TooDeep);
        }
        if self.word("NOT") || self.symbol("-") {
            return Ok(Term::Not(Box::new(self.factor(depth + 1)?)));
        }
        if self.symbol("(") {
            let term = self.expression(depth + 1)?;
            self.require(")", "a closing parenthesis")?;
            return Ok(term);
        }
        if self.word("hasPrefix") {
            self.require("(", "an opening parenthesis")?;
            self.require("attributes", "attributes")?;
            self.require(".", "a dot")?;
            let key = self.text_or_name("an attribute's key")?;
            self.require(",", "a comma")?;
            let prefix = self.quoted("a quoted prefix")?;
            self.require(")", "a closing parenthesis")?;
            return Ok(Term::HasPrefix(key, prefix));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Term, FilterError> {
        self.require("attributes", "attributes, hasPrefix, NOT or a parenthesis")?;
        if self.symbol(":") {
            return Ok(Term::Has(self.text_or_name("an attribute's key")?));
        }
        self.require(".", "a colon or dot")?;
        let key = self.text_or_name("an attribute's key")?;
        if self.symbol("!=") {
            return Ok(Term::Differs(key, self.quoted("a quoted value")?));
        }
        self.require("=", "= or !=")?;
        Ok(Term::Equals(key, self.quoted("a quoted value")?))
    }

    /// Skips the keyword if it comes next as a whole word.
    fn word(&mut self, word: &str) -> bool {
        self.skip_space();
        let Some(rest) = self.rest().strip_prefix(word) else {
            return false;
        };
        let ends = rest.chars().next().is_none_or(|next| !is_name(next));
        if ends {
            self.at += word.len();
        }
        ends
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn require(&mut self, symbol: &str, expected: &'static str) -> Result<(), FilterError> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.expected(expected))
        }
    }

    fn text_or_name(&mut self, expected: &'static str) -> Result<String, FilterError> {
        self.skip_space();
        if self.rest().starts_with('"') {
            return self.quoted(expected);
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(self.expected(expected));
        }
        self.at += end;
        Ok(name)
    }

    fn quoted(&mut self, expected: &'static str) -> Result<String, FilterError> {
        self.require("\"", expected)?;
        let mut value = String::new();
        let mut escaped = false;
        for (offset, c) in self.rest().char_indices() {
            match c {
                '"' if !escaped => {
                    self.at += offset + 1;
                    return Ok(value);
                }
                '\\' if !escaped => escaped = true,
                other => {
                    value.push(other);
                    escaped = false;
                }
            }
        }
        Err(self.expected("a closing quote"))
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn expected(&self, expected: &'static str) -> FilterError {
        FilterError::Expected {
            expected,
            at: self.at,
        }
    }
}

/// Whether a character may stand in an unquoted key.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn message(attributes: &str) -> Message {
        let pairs = attributes
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        let mut attributes: Vec<_> = pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        attributes.sort();
        Message {
            attributes,
            ..Message::default()
        }
    }

    /// Prints which of the messages each filter accepts.
    fn check(filters: &str, messages: &[&str], expected: &Expect) {
        let mut table = String::new();
        for text in filters
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let verdicts = match Filter::parse(text) {
                Ok(filter) => messages
                    .iter()
                    .map(|message| {
                        if filter.accepts(&self::message(message)) {
                            "y"
                        } else {
                            "n"
                        }
                    })
                    .collect::<String>(),
                Err(error) => error.to_string(),
            };
            table += &format!("{text} => {verdicts}\n");
        }
        expected.assert_eq(&table);
    }

    #[test]
    fn accepts_what_the_documentation_says() {
        check(
            r#"
            attributes:lang
            attributes:"lang"
            attributes.lang = "en"
            attributes.lang != "en"
            hasPrefix(attributes.lang, "e")
            NOT attributes:lang
            -attributes:lang
            attributes.lang="en" AND attributes.n="1"
            attributes.lang="de" OR attributes.n="1"
            attributes:lang AND (attributes.n="1" OR NOT attributes.lang="en")
            NOT (attributes:lang AND attributes:n)
            attributes."a/b" = "x\"y"
            "#,
            &[
                "",
                "lang=en",
                "lang=en n=1",
                "lang=de",
                "lang=es n=2",
                "a/b=x\"y",
            ],
            &expect![[r#"
                attributes:lang => nyyyyn
                attributes:"lang" => nyyyyn
                attributes.lang = "en" => nyynnn
                attributes.lang != "en" => ynnyyy
                hasPrefix(attributes.lang, "e") => nyynyn
                NOT attributes:lang => ynnnny
                -attributes:lang => ynnnny
                attributes.lang="en" AND attributes.n="1" => nnynnn
                attributes.lang="de" OR attributes.n="1" => nnyynn
                attributes:lang AND (attributes.n="1" OR NOT attributes.lang="en") => nnyyyn
                NOT (attributes:lang AND attributes:n) => yynyny
                attributes."a/b" = "x\"y" => nnnnny
            "#]],
        );
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        check(
            r#"
            attributes.lang = en
            attributes
            lang = "en"
            attributes:lang AND
            attributes:a AND attributes:b OR attributes:c
            (attributes:a
            attributes.a = "b
            attributes:a attributes:b
            "#,
            &[],
            &expect![[r#"
                attributes.lang = en => expected a quoted value at byte 18 of the filter
                attributes => expected a colon or dot at byte 10 of the filter
                lang = "en" => expected attributes, hasPrefix, NOT or a parenthesis at byte 0 of the filter
                attributes:lang AND => expected attributes, hasPrefix, NOT or a parenthesis at byte 19 of the filter
                attributes:a AND attributes:b OR attributes:c => AND and OR need parentheses when they are combined, at byte 32 of the filter
                (attributes:a => expected a closing parenthesis at byte 13 of the filter
                attributes.a = "b => expected a closing quote at byte 16 of the filter
                attributes:a attributes:b => expected the end at byte 13 of the filter
            "#]],
        );
        let long = format!("attributes:{}", "a".repeat(300));
        assert_eq!(Filter::parse(&long), Err(FilterError::TooLong(311)));
        let deep = "(".repeat(100);
        assert_eq!(Filter::parse(&deep), Err(FilterError::TooDeep));
    }
}
