//! Lists in pages.

use super::refusal::{Refusal, Result};

const PAGE_MAX: usize = 1000;

/// The items of one page, and the token of the next one.
///
/// `names` come in order; the token of a page is the name it begins after.
pub(super) fn page<'a>(
    names: impl Iterator<Item = &'a String>,
    page_size: i32,
    token: &str,
) -> Result<(Vec<&'a String>, String)> {
    let asked = usize::try_from(page_size)
        .map_err(|_| Refusal::invalid("page_size must not be negative"))?;
    let size = if asked == 0 {
        PAGE_MAX
    } else {
        asked.min(PAGE_MAX)
    };
    let mut rest = names.skip_while(|name| !token.is_empty() && name.as_str() <= token);
    let items: Vec<&String> = rest.by_ref().take(size).collect();
    let next = match (rest.next(), items.last()) {
        (Some(_), Some(last)) => (*last).clone(),
        _ => String::new(),
    };
    Ok((items, next))
}
