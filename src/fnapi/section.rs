//! A part of a data stream's message, with its payload in slices.

use bytes::Bytes;

use crate::proto::fn_execution::{Elements, elements};

/// Some elements or timers of one transform of a bundle, or their end.
pub(crate) struct Section {
    pub(crate) header: Header,
    /// The payload. A cut between two pieces may lie inside an element.
    pub(crate) pieces: Vec<Bytes>,
}

/// A section without its payload.
pub(crate) enum Header {
    Data(elements::Data),
    Timers(elements::Timers),
}

impl Section {
    /// The instruction that it belongs to.
    pub(crate) fn instruction(&self) -> &str {
        match &self.header {
            Header::Data(header) => &header.instruction_id,
            Header::Timers(header) => &header.instruction_id,
        }
    }

    pub(crate) fn transform(&self) -> &str {
        match &self.header {
            Header::Data(header) => &header.transform_id,
            Header::Timers(header) => &header.transform_id,
        }
    }

    /// The family of timers; `None` for elements.
    pub(crate) fn timer_family(&self) -> Option<&str> {
        match &self.header {
            Header::Data(_) => None,
            Header::Timers(header) => Some(&header.timer_family_id),
        }
    }

    /// Whether it ends the stream of its transform.
    pub(crate) fn is_last(&self) -> bool {
        match &self.header {
            Header::Data(header) => header.is_last,
            Header::Timers(header) => header.is_last,
        }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

impl From<elements::Data> for Section {
    fn from(mut header: elements::Data) -> Self {
        let payload = std::mem::take(&mut header.data);
        Self {
            header: Header::Data(header),
            pieces: non_empty(payload),
        }
    }
}

impl From<elements::Timers> for Section {
    fn from(mut header: elements::Timers) -> Self {
        let payload = std::mem::take(&mut header.timers);
        Self {
            header: Header::Timers(header),
            pieces: non_empty(payload),
        }
    }
}

fn non_empty(payload: Bytes) -> Vec<Bytes> {
    if payload.is_empty() {
        Vec::new()
    } else {
        vec![payload]
    }
}

/// The sections of a message of the generated type.
pub(crate) fn sections_of(message: Elements) -> Vec<Section> {
    let data = message.data.into_iter().map(Section::from);
    data.chain(message.timers.into_iter().map(Section::from))
        .collect()
}

/// A message of the generated type; pieces are joined.
pub(crate) fn elements_of(sections: Vec<Section>) -> Elements {
    let mut message = Elements::default();
    for Section { header, pieces } in sections {
        let payload = Bytes::from(pieces.concat());
        match header {
            Header::Data(header) => message.data.push(elements::Data {
                data: payload,
                ..header
            }),
            Header::Timers(header) => message.timers.push(elements::Timers {
                timers: payload,
                ..header
            }),
        }
    }
    message
}
