//! Where elements of a PCollection go: through flattens and reshuffles to the stages that keep them.

use bytes::{Buf, Bytes, BytesMut};

use crate::coder;
use crate::engine::delivery::{Delivery, Payload};
use crate::engine::group_by_key::KeyedBatch;
use crate::engine::keyed::{KeyedElement, KeyedElements};
use crate::engine::merge_windows::{self, MergedKey};
use crate::engine::side_input::SideInputBatch;
use crate::engine::tables::{PayloadError, PayloadTable, Reading};
use crate::model::coder::Coder;
use crate::model::element::Chunk;
use crate::model::ids::{LaneId, PCollectionId, Shard, StageId};
use crate::model::stage::{StageGraph, StageKind};
use crate::model::window::Window;
use crate::model::windowing::WindowingStrategy;

/// How much is tried first to complete an element; then as much again as there is of it.
const COMPLETE_BYTES_MIN: usize = 4 << 10;

/// The lane that keeps what belongs to the whole job: impulses and side inputs.
pub const GLOBAL_LANE: LaneId = LaneId(0);

/// The lane that owns the shard of a key with this hash.
pub fn lane_of_hash(hash: u64, lanes: u32) -> LaneId {
    LaneId(u32::from(Shard::of_hash(hash).0) * lanes / u32::from(Shard::COUNT))
}

/// One place where elements of a PCollection are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub stage: StageId,
    pub kind: DestinationKind,
    /// The elements passed a reshuffle: any lane may take them.
    pub spread: bool,
}

/// What the place does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    Queue,
    /// The queue of a stage with keys.
    Keyed,
    Group,
    /// The group-by-key that asked.
    Merged,
    SideInput {
        index: usize,
    },
}

/// The destinations of every PCollection.
#[derive(Debug)]
pub struct Routes {
    by_pcollection: Vec<Vec<Destination>>,
}

impl Routes {
    /// Follows every PCollection to its destinations.
    pub fn new(graph: &StageGraph) -> Self {
        let mut by_pcollection = vec![Vec::new(); graph.pcollections.len()];
        // Stages stand in topological order, so going backwards meets every consumer first.
        for stage in graph.stages.iter().rev() {
            for output in &stage.outputs {
                by_pcollection[output.index()] = destinations_of(graph, *output, &by_pcollection);
            }
        }
        for (id, stage) in (0..).map(StageId).zip(&graph.stages) {
            if let Some(merging) = stage.window_merging() {
                by_pcollection[merging.answers.index()].push(Destination {
                    stage: id,
                    kind: DestinationKind::Merged,
                    spread: false,
                });
            }
        }
        Self { by_pcollection }
    }

    /// Where elements of `pcollection` go.
    pub fn of(&self, pcollection: PCollectionId) -> &[Destination] {
        &self.by_pcollection[pcollection.index()]
    }

    /// The one queue that takes everything of `pcollection` on the lane that makes it, if that is so.
    ///
    /// Then the consumer can draw on its producer when it has room, and nothing waits in between.
    pub fn sole_queue(&self, pcollection: PCollectionId) -> Option<StageId> {
        match self.of(pcollection) {
            [
                Destination {
                    stage,
                    kind: DestinationKind::Queue,
                    spread: false,
                },
            ] => Some(*stage),
            _ => None,
        }
    }
}

fn destinations_of(
    graph: &StageGraph,
    pcollection: PCollectionId,
    known: &[Vec<Destination>],
) -> Vec<Destination> {
    let node = &graph.pcollections[pcollection.index()];
    let mut found = Vec::new();
    for &consumer in &node.consumers {
        let stage = &graph.stages[consumer.index()];
        let passed_on = || {
            stage
                .outputs
                .iter()
                .flat_map(|output| known[output.index()].iter())
        };
        let here = |kind| Destination {
            stage: consumer,
            kind,
            spread: false,
        };
        match stage.kind {
            StageKind::Flatten => found.extend(passed_on()),
            StageKind::Reshuffle => {
                found.extend(passed_on().map(|to| Destination {
                    spread: true,
                    ..*to
                }));
            }
            StageKind::GroupByKey(_) => found.push(here(DestinationKind::Group)),
            StageKind::Executable(ref executable) if executable.keyed => {
                found.push(here(DestinationKind::Keyed));
            }
            StageKind::Executable(_) | StageKind::PubsubWrite(_) => {
                found.push(here(DestinationKind::Queue));
            }
            StageKind::Impulse | StageKind::TestStream | StageKind::PubsubRead(_) => {
                debug_assert!(false, "source stage {consumer} has an input");
            }
        }
    }
    found.extend(node.side_consumers.iter().map(|side| Destination {
        stage: side.stage,
        kind: DestinationKind::SideInput { index: side.index },
        spread: false,
    }));
    found
}

/// Why output cannot be staged.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// It is not what its coder says.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] coder::Error),
    /// There is no room for it.
    #[error("cannot be held: {0}")]
    NoRoom(#[from] PayloadError),
}

/// Elements of one PCollection, parted by destination while their bundle still runs.
#[derive(Debug)]
pub struct Staged {
    pcollection: PCollectionId,
    /// In the order of the PCollection's destinations.
    parts: Vec<Part>,
    /// The beginning of an element whose rest is still to come.
    begun: BytesMut,
}

#[derive(Debug)]
enum Part {
    Queue(Vec<Chunk>),
    /// By lane.
    Keyed(Vec<KeyedElements>),
    /// By lane.
    Group(Vec<KeyedBatch>),
    Merged(Vec<MergedKey>),
    SideInput(SideInputBatch),
}

impl Staged {
    /// Nothing staged yet for `pcollection`.
    pub fn new(
        pcollection: PCollectionId,
        routes: &Routes,
        graph: &StageGraph,
        lanes: u32,
    ) -> Self {
        let part = |to: &Destination| match to.kind {
            DestinationKind::Queue => Part::Queue(Vec::new()),
            DestinationKind::Keyed => Part::Keyed((0..lanes).map(|_| Vec::new()).collect()),
            DestinationKind::Group => {
                let windowing = grouping(graph, to.stage, pcollection);
                Part::Group((0..lanes).map(|_| KeyedBatch::new(windowing)).collect())
            }
            DestinationKind::Merged => Part::Merged(Vec::new()),
            DestinationKind::SideInput { .. } => Part::SideInput(SideInputBatch::default()),
        };
        Self {
            pcollection,
            parts: routes.of(pcollection).iter().map(part).collect(),
            begun: BytesMut::new(),
        }
    }

    /// Stages encoded elements; with `cut` the last one may go on in the next call.
    ///
    /// # Errors
    ///
    /// When the bytes are not elements of the PCollection's coder, or there is no room for them.
    pub fn add(
        &mut self,
        graph: &StageGraph,
        mut bytes: Bytes,
        cut: bool,
        payload: &mut impl PayloadTable,
    ) -> Result<(), StageError> {
        let coder = &graph.pcollections[self.pcollection.index()].coder;
        if !self.begun.is_empty()
            && let Some(element) = self.complete(coder, &mut bytes)?
        {
            self.stage(coder, element, None, payload)?;
        }
        if !cut {
            return self.stage(coder, bytes, None, payload);
        }
        let whole = coder::windowed_value::scan_whole(coder, bytes.clone())?;
        self.begun.extend_from_slice(&bytes[whole.bytes.len()..]);
        let bytes = whole.bytes.clone();
        self.stage(coder, bytes, Some(whole), payload)
    }

    /// Whether slices of the output are held, and not only copies of its elements.
    fn holds_slices(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| matches!(part, Part::Queue(_) | Part::Keyed(_)))
    }

    fn reading(&self) -> Reading {
        let mut parts = self.parts.iter();
        if parts.any(|part| matches!(part, Part::Keyed(_))) {
            Reading::Anywhere
        } else {
            Reading::InOrder
        }
    }

    fn keep_copies(&mut self, payload: &mut impl PayloadTable) -> Result<(), PayloadError> {
        for part in &mut self.parts {
            match part {
                Part::Group(batches) => {
                    for batch in batches {
                        batch.keep(payload)?;
                    }
                }
                Part::SideInput(batch) => batch.keep(payload)?,
                Part::Queue(_) | Part::Keyed(_) | Part::Merged(_) => {}
            }
        }
        Ok(())
    }

    /// Whether an element has begun and not ended.
    pub fn is_cut(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Takes the rest of the begun element off `bytes`; the element, if it is whole now.
    fn complete(
        &mut self,
        coder: &Coder,
        bytes: &mut Bytes,
    ) -> Result<Option<Bytes>, coder::Error> {
        while !bytes.is_empty() {
            let before = self.begun.len();
            let more = bytes.len().min(before.max(COMPLETE_BYTES_MIN));
            self.begun.extend_from_slice(&bytes[..more]);
            match coder::windowed_value::Elements::new(coder, &self.begun).next() {
                Some(Ok(element)) => {
                    let end = element.value.end;
                    bytes.advance(end.saturating_sub(before));
                    let whole = self.begun.split_to(end).freeze();
                    self.begun.clear();
                    return Ok(Some(whole));
                }
                Some(Err(coder::Error::Truncated)) | None => bytes.advance(more),
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Stages whole elements; `scanned` is the chunk of them where it is known.
    fn stage(
        &mut self,
        coder: &Coder,
        mut bytes: Bytes,
        mut scanned: Option<Chunk>,
        payload: &mut impl PayloadTable,
    ) -> Result<(), StageError> {
        let short = payload.is_short();
        if short {
            payload.check()?;
            if self.holds_slices() {
                bytes = payload.keep(&bytes, self.reading())?;
            }
            if let Some(chunk) = &mut scanned {
                chunk.bytes = bytes.clone();
            }
        }
        self.part(coder, &bytes, scanned, short)?;
        if short {
            self.keep_copies(payload)?;
        }
        Ok(())
    }

    /// Parts whole elements by destination; with `kept` they may not be on the heap.
    fn part(
        &mut self,
        coder: &Coder,
        bytes: &Bytes,
        scanned: Option<Chunk>,
        kept: bool,
    ) -> Result<(), coder::Error> {
        if self.parts.iter().any(|part| matches!(part, Part::Queue(_))) {
            let scan = || coder::windowed_value::scan(coder, bytes.clone());
            let chunk = scanned.map_or_else(scan, Ok)?;
            for part in &mut self.parts {
                if let Part::Queue(chunks) = part
                    && chunk.count > 0
                {
                    chunks.push(chunk.clone());
                }
            }
        }
        for part in &mut self.parts {
            match part {
                Part::Queue(_) => {}
                Part::Keyed(elements) => add_to_keys(coder, bytes, elements, kept)?,
                Part::Group(batches) => add_to_groups(coder, bytes, batches)?,
                Part::Merged(answers) => merge_windows::read_answers(coder, bytes, answers)?,
                Part::SideInput(batch) => batch.add(coder, bytes)?,
            }
        }
        Ok(())
    }

    /// How many answers about windows are staged; `None` where no answers are expected.
    pub fn answers(&self) -> Option<usize> {
        self.parts.iter().find_map(|part| match part {
            Part::Merged(answers) => Some(answers.len()),
            _ => None,
        })
    }

    /// What to deliver where, now that the bundle is committed.
    ///
    /// `home` is the lane of the bundle; `turn` goes round the lanes for reshuffled chunks.
    pub fn into_deliveries(
        self,
        routes: &Routes,
        home: LaneId,
        lanes: u32,
        turn: &mut u32,
    ) -> Vec<(LaneId, Delivery)> {
        let mut deliveries = Vec::new();
        for (part, to) in self.parts.into_iter().zip(routes.of(self.pcollection)) {
            let mut deliver = |lane, payload| {
                deliveries.push((
                    lane,
                    Delivery {
                        stage: to.stage,
                        payload,
                    },
                ));
            };
            match (part, to.kind) {
                (Part::Queue(chunks), _) if chunks.is_empty() => {}
                (Part::Queue(chunks), _) if to.spread && lanes > 1 => {
                    for chunk in chunks {
                        *turn = (*turn + 1) % lanes;
                        deliver(LaneId(*turn), Payload::Queue(vec![chunk]));
                    }
                }
                (Part::Queue(chunks), _) => deliver(home, Payload::Queue(chunks)),
                (Part::Keyed(by_lane), _) => {
                    for (lane, elements) in (0..).zip(by_lane) {
                        if !elements.is_empty() {
                            deliver(LaneId(lane), Payload::Keyed(elements));
                        }
                    }
                }
                (Part::Group(batches), _) => {
                    for (lane, batch) in (0..).zip(batches) {
                        if !batch.is_empty() {
                            deliver(LaneId(lane), Payload::Group(Box::new(batch)));
                        }
                    }
                }
                (Part::Merged(answers), _) => {
                    if !answers.is_empty() {
                        deliver(home, Payload::Merged(answers));
                    }
                }
                (Part::SideInput(batch), DestinationKind::SideInput { index }) => {
                    if batch.is_empty() {
                        continue;
                    }
                    // The others only learn that there is something.
                    for lane in (0..lanes).map(LaneId).filter(|lane| *lane != GLOBAL_LANE) {
                        let batch = SideInputBatch::default();
                        deliver(lane, Payload::SideInput { index, batch });
                    }
                    deliver(GLOBAL_LANE, Payload::SideInput { index, batch });
                }
                (Part::SideInput(_), _) => debug_assert!(false, "parts follow destinations"),
            }
        }
        deliveries
    }
}

fn add_to_keys(
    coder: &Coder,
    bytes: &Bytes,
    by_lane: &mut [KeyedElements],
    kept: bool,
) -> Result<(), coder::Error> {
    let (value_coder, window_coder) = coder::windowed_value::parts(coder)?;
    let lanes = by_lane.len() as u32;
    for element in coder::windowed_value::Elements::new(coder, bytes) {
        let element = element?;
        let mut header = &bytes[element.header.clone()];
        let windows = coder::windowed_value::read_header(window_coder, &mut header)?.windows;
        let (key, _) = coder::kv::split(value_coder, &bytes[element.value.clone()])?;
        let lane = lane_of_hash(coder::key_hash(key), lanes);
        by_lane[lane.index()].push(KeyedElement {
            // Queues compare keys: they are not to be read from elsewhere for that.
            key: if kept {
                Bytes::copy_from_slice(key)
            } else {
                bytes.slice_ref(key)
            },
            timestamp: element.timestamp,
            windows,
            encoded: bytes.slice(element.range()),
        });
    }
    Ok(())
}

/// The strategy by which `stage` groups; its input's where it groups nothing.
fn grouping(graph: &StageGraph, stage: StageId, input: PCollectionId) -> &WindowingStrategy {
    match &graph.stages[stage.index()].kind {
        StageKind::GroupByKey(group) => &group.windowing,
        _ => &graph.pcollections[input.index()].windowing,
    }
}

fn add_to_groups(
    coder: &Coder,
    bytes: &Bytes,
    batches: &mut [KeyedBatch],
) -> Result<(), coder::Error> {
    let (value_coder, window_coder) = coder::windowed_value::parts(coder)?;
    let lanes = batches.len() as u32;
    // Most elements share their windows with the one before.
    let mut windows_bytes: &[u8] = &[];
    let mut windows: Vec<Window> = Vec::new();
    for element in coder::windowed_value::Elements::new(coder, bytes) {
        let element = element?;
        let header = &bytes[element.header.clone()];
        let after_timestamp = header.get(8..).unwrap_or_default();
        if windows.is_empty() || after_timestamp != windows_bytes {
            windows = coder::windowed_value::read_header(window_coder, &mut &header[..])?.windows;
            windows_bytes = after_timestamp;
        }
        let (key, value) = coder::kv::split(value_coder, &bytes[element.value.clone()])?;
        let hash = coder::key_hash(key);
        let batch = &mut batches[lane_of_hash(hash, lanes).index()];
        batch.push(&windows, element.timestamp, hash, key, value);
    }
    Ok(())
}
