//! Names that clients choose: of artifacts, and what harnesses ask for by address.

use prost::Message;
use tidemill::artifact::name;
use tidemill::proto::pipeline::ArtifactInformation;

/// The bytes are a serialized artifact, or a name.
pub fn run(data: &[u8]) {
    if let Ok(artifact) = ArtifactInformation::decode(data) {
        let refused = name::check_role(&artifact).is_err();
        assert!(!name::describe(&artifact).is_empty());
        if !refused {
            return;
        }
    }
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if name::check_staged_name(text).is_ok() {
        let inside = std::path::Path::new("/staged").join(text);
        let mut parts = inside.components();
        assert!(parts.all(|part| part != std::path::Component::ParentDir));
        assert!(inside.starts_with("/staged"), "{text:?} leaves its folder");
    }
    if name::is_job_id(text) || name::is_sha256(text) {
        assert!(!text.contains(['/', '\\', '.']));
    }
}
