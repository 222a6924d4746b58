//! The options of ours, as `DescribePipelineOptions` tells them.

use crate::job::options::{OPTIONS, OptionKind};
use crate::proto::job_management::{PipelineOptionDescriptor, pipeline_option_type};

/// All options of ours.
pub(super) fn options() -> Vec<PipelineOptionDescriptor> {
    OPTIONS
        .iter()
        .map(|option| {
            let kind = match option.kind {
                OptionKind::Text => pipeline_option_type::Enum::String,
                OptionKind::Flag => pipeline_option_type::Enum::Boolean,
                OptionKind::Integer => pipeline_option_type::Enum::Integer,
            };
            PipelineOptionDescriptor {
                name: option.name.to_owned(),
                r#type: kind.into(),
                description: option.description.to_owned(),
                default_value: option.default.to_owned(),
                group: "Tidemill".to_owned(),
            }
        })
        .collect()
}
