//! Groups whose values their reader may read as state: which group-by-keys have such.

use std::collections::BTreeMap;

use crate::plan::fusion::{Executable, FusedStage};
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Role, SideInput};
use crate::proto::urn::coders;

/// Finds the group-by-keys of which one stage of an SDK that can read values as state is the only reader.
///
/// Steps of the runner need groups whole, and so does a stage with keys, where work of different readers mixes.
/// What two stages read would have to stay until both have read it.
pub(crate) fn back_groups_by_state(graph: &mut Graph, fused: &[FusedStage]) {
    let mut readers: BTreeMap<PCollectionIndex, Vec<&FusedStage>> = BTreeMap::new();
    for stage in fused {
        let transforms = stage.transforms.iter();
        let mut read: Vec<PCollectionIndex> = transforms
            .flat_map(|&transform| graph.transforms[transform].reads())
            .collect();
        read.sort_unstable();
        read.dedup();
        for pcollection in read {
            readers.entry(pcollection).or_default().push(stage);
        }
    }
    let transforms = graph.transforms.iter();
    let groups = transforms.filter(|transform| matches!(transform.kind, Kind::GroupByKey));
    let groups = groups.filter_map(|transform| transform.output().ok());
    let backed = groups.filter(|output| {
        matches!(readers.get(output).map(Vec::as_slice), Some([reader]) if can_read(graph, reader, *output))
    });
    graph.state_backed = backed.collect();
}

fn can_read(graph: &Graph, stage: &FusedStage, groups: PCollectionIndex) -> bool {
    let Some(Executable {
        environment, input, ..
    }) = stage.executable
    else {
        return false;
    };
    let (_, environment) = &graph.environments[environment.index()];
    let mut capabilities = environment.capabilities.iter();
    let mut transforms = stage
        .transforms
        .iter()
        .map(|&index| &graph.transforms[index]);
    input == groups
        && capabilities.any(|urn| urn == coders::STATE_BACKED_ITERABLE)
        && transforms.all(|transform| {
            let reads_aside = |side: &SideInput| side.pcollection == groups;
            !matches!(transform.kind, Kind::Sdk(Role::Stateful))
                && !transform.side_inputs.iter().any(reads_aside)
        })
}
