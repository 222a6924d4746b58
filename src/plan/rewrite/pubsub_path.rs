//! Pub/Sub paths in all the forms SDKs write, made into `projects/P/topics/T` and `projects/P/subscriptions/S`.

use crate::plan::error::Error;

/// The canonical path of a topic (`what` = `topics`) or subscription (`subscriptions`).
pub(super) fn canonical(path: &str, what: &str) -> Result<String, Error> {
    let trimmed = path
        .strip_prefix("//pubsub.googleapis.com/")
        .unwrap_or(path);
    let parts: Vec<&str> = trimmed.trim_start_matches('/').split('/').collect();
    let (project, name) = match *parts.as_slice() {
        ["projects", project, kind, name] if kind == what => (project, name),
        [kind, project, name] if kind == what => (project, name),
        _ => ("", ""),
    };
    if project.is_empty() || name.is_empty() {
        return Err(Error::malformed(format!(
            "{path:?} is no Pub/Sub path of the form \"projects/PROJECT/{what}/NAME\""
        )));
    }
    Ok(format!("projects/{project}/{what}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_path_means_the_same() {
        for path in [
            "projects/example.com:p/topics/t",
            "/topics/example.com:p/t",
            "//pubsub.googleapis.com/projects/example.com:p/topics/t",
        ] {
            let found = canonical(path, "topics");
            assert_eq!(
                found.as_deref(),
                Ok("projects/example.com:p/topics/t"),
                "{path}"
            );
        }
        for path in [
            "",
            "t",
            "projects/p/topics/",
            "projects/p/subscriptions/t",
            "/topics/p/t/u",
        ] {
            assert!(canonical(path, "topics").is_err(), "{path}");
        }
    }
}
