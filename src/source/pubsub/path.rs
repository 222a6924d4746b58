//! Paths of topics and subscriptions, in every form that an SDK sends.

use crate::source::pubsub::error::Error;

/// The canonical path of a topic, `projects/P/topics/T`.
///
/// ```
/// use tidemill::source::pubsub::path;
/// assert_eq!(path::topic("/topics/p/t").unwrap(), "projects/p/topics/t");
/// ```
pub fn topic(path: &str) -> Result<String, Error> {
    canonical(path, "topic", "topics")
}

/// The canonical path of a subscription, `projects/P/subscriptions/S`.
pub fn subscription(path: &str) -> Result<String, Error> {
    canonical(path, "subscription", "subscriptions")
}

/// Whether `canonical_topic` is the one that Beam's Java SDK names to throw messages away.
pub fn is_discard_topic(canonical_topic: &str) -> bool {
    canonical_topic == "projects/dev/topics/null"
}

/// The project in a canonical path.
pub fn project(canonical: &str) -> &str {
    canonical.split('/').nth(1).unwrap_or_default()
}

fn canonical(path: &str, kind: &'static str, collection: &str) -> Result<String, Error> {
    let bad = |reason| Error::Path {
        kind,
        path: path.to_owned(),
        reason,
    };
    let bare = path
        .strip_prefix("//pubsub.googleapis.com/")
        .unwrap_or(path);
    let parts: Vec<&str> = bare.split('/').collect();
    let (project, name) = match parts.as_slice() {
        ["projects", project, found, name] | ["", found, project, name] if *found == collection => {
            (*project, *name)
        }
        _ => return Err(bad("expected projects/PROJECT/COLLECTION/NAME")),
    };
    if project.is_empty() || name.is_empty() {
        return Err(bad("the project and the name must not be empty"));
    }
    if name == "_starting_signal" {
        return Err(bad("this name marks a fake subscription of Dataflow"));
    }
    Ok(format!("projects/{project}/{collection}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_every_form() {
        for (given, canonical) in [
            ("projects/p/topics/t", Some("projects/p/topics/t")),
            ("/topics/p/t", Some("projects/p/topics/t")),
            (
                "//pubsub.googleapis.com/projects/p/topics/t",
                Some("projects/p/topics/t"),
            ),
            (
                "projects/example.com:p/topics/t",
                Some("projects/example.com:p/topics/t"),
            ),
            ("/topics/dev/null", Some("projects/dev/topics/null")),
            ("projects/p/subscriptions/t", None),
            ("/subscriptions/p/t", None),
            ("projects/p/topics/", None),
            ("projects//topics/t", None),
            ("projects/p/topics/t/u", None),
            ("t", None),
            ("", None),
        ] {
            assert_eq!(topic(given).ok().as_deref(), canonical, "{given:?}");
        }
        assert!(subscription("/subscriptions/p/s").is_ok());
        assert!(subscription("/subscriptions/p/_starting_signal").is_err());
        assert!(is_discard_topic(&topic("/topics/dev/null").unwrap()));
        assert_eq!(project("projects/p/topics/t"), "p");
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(
            topic("t").unwrap_err().to_string(),
            "\"t\" is not the path of a topic: expected projects/PROJECT/COLLECTION/NAME"
        );
    }
}
