//! Resource names and labels.

use super::refusal::{Refusal, Result};

/// The topic of subscriptions and snapshots whose topic was deleted.
pub(super) const DELETED_TOPIC: &str = "_deleted-topic_";

const LABELS_MAX: usize = 64;
const LABEL_CHARS_MAX: usize = 63;

/// Checks `projects/{project}/{collection}/{id}`.
pub(super) fn check(name: &str, collection: &str) -> Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let ["projects", project, found, id] = parts.as_slice() else {
        return Err(invalid(name, collection));
    };
    if project.is_empty() || *found != collection || !is_id(id) {
        return Err(invalid(name, collection));
    }
    Ok(())
}

/// Checks `projects/{project}` and gives the start of the names in one of its collections.
pub(super) fn collection(project: &str, collection: &str) -> Result<String> {
    match project.split('/').collect::<Vec<_>>().as_slice() {
        ["projects", id] if !id.is_empty() => Ok(format!("{project}/{collection}/")),
        _ => Err(Refusal::invalid(format!(
            "invalid project {project:?}: it must be projects/PROJECT"
        ))),
    }
}

/// The last part of a name.
pub(super) fn id(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The project of a name.
pub(super) fn project(name: &str) -> &str {
    name.split('/').nth(1).unwrap_or_default()
}

/// Checks labels, given as their sorted pairs.
pub(super) fn check_labels<'a>(
    labels: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
) -> Result<()> {
    if labels.len() > LABELS_MAX {
        return Err(Refusal::invalid(format!(
            "a resource has at most {LABELS_MAX} labels"
        )));
    }
    for (key, value) in labels {
        let is_lower = |c: char| c.is_alphanumeric() && !c.is_uppercase();
        let well_formed = |text: &str| {
            text.chars().count() <= LABEL_CHARS_MAX
                && text.chars().all(|c| is_lower(c) || c == '_' || c == '-')
        };
        let starts = key
            .chars()
            .next()
            .is_some_and(|c| is_lower(c) && !c.is_numeric());
        if !starts || !well_formed(key) || !well_formed(value) {
            return Err(Refusal::invalid(format!("invalid label {key:?}={value:?}")));
        }
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.~+%".contains(c);
    (3..=255).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.chars().all(is_allowed)
        && !id.starts_with("goog")
}

fn invalid(name: &str, collection: &str) -> Refusal {
    Refusal::invalid(format!(
        "invalid name {name:?}: it must be projects/PROJECT/{collection}/ID, where ID has 3 to 255 \
         characters out of letters, digits and -_.~+%, begins with a letter and not with goog"
    ))
}
