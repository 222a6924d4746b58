//! Names that come from outside: checked before anything else sees them.

use crate::proto::pipeline::{ArtifactInformation, ArtifactStagingToRolePayload};
use crate::proto::urn::roles;

use prost::Message;

/// Longest name that an artifact may be staged to.
const STAGED_NAME_BYTES_MAX: usize = 4_096;

/// Says why an artifact must not be staged under the name that its role gives it.
///
/// Harnesses join the name to a folder of theirs, so one that leaves the folder is an attack on
/// them.
pub fn check_role(artifact: &ArtifactInformation) -> Result<(), String> {
    if artifact.role_urn != roles::STAGING_TO {
        return Ok(());
    }
    let role = ArtifactStagingToRolePayload::decode(artifact.role_payload.clone())
        .map_err(|error| format!("its role's payload cannot be read: {error}"))?;
    check_staged_name(&role.staged_name)
}

/// The same of the name alone.
pub fn check_staged_name(name: &str) -> Result<(), String> {
    let reason = if name.is_empty() {
        "is empty"
    } else if name.len() > STAGED_NAME_BYTES_MAX {
        "is too long"
    } else if name.contains('\0') {
        "has a zero byte"
    } else if name.starts_with(['/', '\\']) || name.get(1..3) == Some(":\\") {
        "is an absolute path; name it relative to the staging folder"
    } else if name.split(['/', '\\']).any(|part| part == "..") {
        "leaves the staging folder by \"..\""
    } else {
        return Ok(());
    };
    Err(format!("its staged name {name:?} {reason}"))
}

/// What to call an artifact in a message.
pub fn describe(artifact: &ArtifactInformation) -> String {
    let staged = ArtifactStagingToRolePayload::decode(artifact.role_payload.clone())
        .ok()
        .filter(|_| artifact.role_urn == roles::STAGING_TO)
        .map(|role| role.staged_name)
        .filter(|name| !name.is_empty());
    match staged {
        Some(name) => format!("{name:?}"),
        None => format!("of type {:?}", artifact.type_urn),
    }
}

/// Whether this is a SHA-256 in lower-case hexadecimal.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether this may be a job id, which names a folder.
pub fn is_job_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in [
            "",
            "/etc/passwd",
            "..",
            "a/../../b",
            "..\\b",
            "C:\\windows",
            "\\\\host\\share",
            "a\0b",
        ] {
            assert!(check_staged_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "a/b", "..a", "a..", "base-Ab_-.jar", "ü"] {
            assert!(check_staged_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn addresses_hold_nothing_but_ids_and_hashes() {
        assert!(is_sha256(&"0af9".repeat(16)));
        assert!(!is_sha256(&"0AF9".repeat(16)));
        assert!(!is_sha256("../../x"));
        assert!(is_job_id("wordcount-1f"));
        assert!(!is_job_id("../x"));
        assert!(!is_job_id(""));
    }
}
