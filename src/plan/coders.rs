//! Coders of the pipeline: which of them the wire shows, and how the runner sees those.
//!
//! The length-prefix rule: whatever the runner or one of the environments does not know is wrapped in
//! `beam:coder:length_prefix:v1`. "Known" is one set for the whole pipeline, so that two environments always
//! agree about a PCollection between them and both sides of a group-by-key see the same key bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::coder::Coder as WireCoder;
use crate::plan::error::Error;
use crate::proto::pipeline::{Coder, Environment, FunctionSpec};
use crate::proto::urn::coders as urn;

/// The coders of a pipeline, to which wire forms are added.
#[derive(Debug)]
pub(crate) struct Coders {
    protos: BTreeMap<String, Coder>,
    by_content: BTreeMap<(String, Vec<u8>, Vec<String>), String>,
    known: BTreeSet<&'static str>,
    wire: BTreeMap<String, String>,
    windows: BTreeMap<String, String>,
    canonical: BTreeMap<String, u32>,
    canonical_ids: BTreeMap<(String, Vec<u8>, Vec<u32>), u32>,
}

impl Coders {
    pub(crate) fn new<'a>(
        protos: BTreeMap<String, Coder>,
        environments: impl Iterator<Item = &'a Environment>,
    ) -> Self {
        let mut known: BTreeSet<&'static str> = UNDERSTOOD.iter().copied().collect();
        for environment in environments {
            let capabilities: BTreeSet<&str> = environment
                .capabilities
                .iter()
                .map(String::as_str)
                .collect();
            known.retain(|urn| REQUIRED.contains(urn) || capabilities.contains(urn));
        }
        Self {
            protos,
            by_content: BTreeMap::new(),
            known,
            wire: BTreeMap::new(),
            windows: BTreeMap::new(),
            canonical: BTreeMap::new(),
            canonical_ids: BTreeMap::new(),
        }
    }

    /// The id of a coder with this URN and components, added if need be; `name` is a base for a new id.
    pub(crate) fn add(&mut self, name: &str, urn: &str, components: &[&str]) -> String {
        let components: Vec<String> = components.iter().map(|&id| id.to_owned()).collect();
        self.add_with_payload(name, urn, Vec::new(), components)
    }

    /// The form of a coder that goes over the wire: unknown parts length-prefixed.
    pub(crate) fn wire(&mut self, id: &str) -> Result<String, Error> {
        self.wire_at(id, 0)
    }

    /// The form of a window coder that goes over the wire: an unknown one as `custom_window`, so that the
    /// runner can read the end of the window.
    pub(crate) fn wire_window(&mut self, id: &str) -> Result<String, Error> {
        if let Some(wire) = self.windows.get(id) {
            return Ok(wire.clone());
        }
        let spec = self.urn_of(id)?;
        let wire = match spec {
            urn::GLOBAL_WINDOW | urn::INTERVAL_WINDOW | urn::CUSTOM_WINDOW => self.wire(id)?,
            _ => {
                let prefixed = self.add(&format!("{id}_prefixed"), urn::LENGTH_PREFIX, &[id]);
                self.add(&format!("{id}_custom"), urn::CUSTOM_WINDOW, &[&prefixed])
            }
        };
        self.windows.insert(id.to_owned(), wire.clone());
        Ok(wire)
    }

    /// The `windowed_value` coder of a port, made of the pipeline's element and window coders.
    pub(crate) fn port(&mut self, element: &str, window: &str) -> Result<String, Error> {
        let element = self.wire(element)?;
        self.wire_port(&element, window)
    }

    /// The same of pairs of a key and an iterable whose values may be in state.
    ///
    /// Only this port says so: SDKs know no such coder where they decode anything but elements.
    pub(crate) fn state_backed_port(
        &mut self,
        element: &str,
        window: &str,
    ) -> Result<String, Error> {
        let element = self.wire(element)?;
        if let Some([key, values]) = self.components(&element, urn::KV)?
            && let Some([value]) = self.components(&values, urn::ITERABLE)?
        {
            let name = format!("{values}_backed");
            let backed = self.add(&name, urn::STATE_BACKED_ITERABLE, &[&value]);
            let pair = self.add(&format!("{element}_backed"), urn::KV, &[&key, &backed]);
            return self.wire_port(&pair, window);
        }
        Err(Error::bug("groups are no pairs of a key and an iterable"))
    }

    /// Whether two coders encode alike: the same URNs, payloads and parts, whatever their ids.
    pub(crate) fn same(&mut self, left: &str, right: &str) -> Result<bool, Error> {
        Ok(left == right || self.canonical_at(left, 0)? == self.canonical_at(right, 0)?)
    }

    pub(crate) fn get(&self, id: &str) -> Result<&Coder, Error> {
        self.protos
            .get(id)
            .ok_or_else(|| Error::malformed(format!("there is no coder {id:?}")))
    }

    /// The URN of a coder.
    pub(crate) fn urn_of(&self, id: &str) -> Result<&str, Error> {
        Ok(self
            .get(id)?
            .spec
            .as_ref()
            .map_or("", |spec| spec.urn.as_str()))
    }

    /// The components of a coder that must have this URN and as many components.
    pub(crate) fn components<const N: usize>(
        &self,
        id: &str,
        urn: &str,
    ) -> Result<Option<[String; N]>, Error> {
        if self.urn_of(id)? != urn {
            return Ok(None);
        }
        let components = self.get(id)?.component_coder_ids.clone();
        let count = components.len();
        components.try_into().map(Some).map_err(|_| {
            Error::malformed(format!(
                "coder {id:?} has {count} components instead of {N}"
            ))
            .urn(urn)
        })
    }

    /// What the runner sees of a coder.
    pub(crate) fn model(&self, id: &str) -> Result<WireCoder, Error> {
        self.model_at(id, 0)
    }

    /// Adds to `into` the coder and all coders it is made of.
    pub(crate) fn collect(
        &self,
        id: &str,
        into: &mut BTreeMap<String, Coder>,
    ) -> Result<(), Error> {
        let mut open = vec![id.to_owned()];
        while let Some(id) = open.pop() {
            if into.contains_key(&id) {
                continue;
            }
            let coder = self.get(&id)?.clone();
            open.extend(coder.component_coder_ids.iter().cloned());
            into.insert(id, coder);
        }
        Ok(())
    }

    fn wire_port(&mut self, element: &str, window: &str) -> Result<String, Error> {
        let window = self.wire_window(window)?;
        Ok(self.add(
            &format!("{element}_port"),
            urn::WINDOWED_VALUE,
            &[element, &window],
        ))
    }

    fn add_with_payload(
        &mut self,
        name: &str,
        urn: &str,
        payload: Vec<u8>,
        components: Vec<String>,
    ) -> String {
        let content = (urn.to_owned(), payload, components);
        if let Some(id) = self.by_content.get(&content) {
            return id.clone();
        }
        let mut id = format!("{ADDED}{}", name.trim_start_matches(ADDED));
        while self.protos.contains_key(&id) {
            id.push('_');
        }
        let coder = Coder {
            spec: Some(FunctionSpec {
                urn: content.0.clone(),
                payload: content.1.clone().into(),
            }),
            component_coder_ids: content.2.clone(),
        };
        self.protos.insert(id.clone(), coder);
        self.by_content.insert(content, id.clone());
        id
    }

    fn wire_at(&mut self, id: &str, depth: usize) -> Result<String, Error> {
        if let Some(wire) = self.wire.get(id) {
            return Ok(wire.clone());
        }
        check_depth(id, depth)?;
        let coder = self.get(id)?.clone();
        let spec = coder.spec.unwrap_or_default();
        let wire = if spec.urn == urn::LENGTH_PREFIX {
            id.to_owned()
        } else if self.known.contains(spec.urn.as_str()) {
            let mut components = Vec::with_capacity(coder.component_coder_ids.len());
            for (index, component) in coder.component_coder_ids.iter().enumerate() {
                let is_window = index == 1
                    && matches!(
                        spec.urn.as_str(),
                        urn::WINDOWED_VALUE | urn::PARAM_WINDOWED_VALUE | urn::TIMER
                    );
                components.push(if is_window {
                    self.wire_window(component)?
                } else {
                    self.wire_at(component, depth + 1)?
                });
            }
            if components == coder.component_coder_ids {
                id.to_owned()
            } else {
                let name = format!("{id}_wire");
                self.add_with_payload(&name, &spec.urn, spec.payload.to_vec(), components)
            }
        } else {
            self.add(&format!("{id}_prefixed"), urn::LENGTH_PREFIX, &[id])
        };
        self.wire.insert(id.to_owned(), wire.clone());
        Ok(wire)
    }

    fn canonical_at(&mut self, id: &str, depth: usize) -> Result<u32, Error> {
        if let Some(&canonical) = self.canonical.get(id) {
            return Ok(canonical);
        }
        check_depth(id, depth)?;
        let coder = self.get(id)?.clone();
        let mut components = Vec::with_capacity(coder.component_coder_ids.len());
        for component in &coder.component_coder_ids {
            components.push(self.canonical_at(component, depth + 1)?);
        }
        let spec = coder.spec.unwrap_or_default();
        let next = self.canonical_ids.len() as u32;
        let content = (spec.urn, spec.payload.to_vec(), components);
        let canonical = *self.canonical_ids.entry(content).or_insert(next);
        self.canonical.insert(id.to_owned(), canonical);
        Ok(canonical)
    }

    fn model_at(&self, id: &str, depth: usize) -> Result<WireCoder, Error> {
        check_depth(id, depth)?;
        let coder = self.get(id)?;
        let part = |index: usize| -> Result<Box<WireCoder>, Error> {
            let component = coder
                .component_coder_ids
                .get(index)
                .ok_or_else(|| Error::malformed(format!("coder {id:?} lacks component {index}")))?;
            Ok(Box::new(self.model_at(component, depth + 1)?))
        };
        Ok(match self.urn_of(id)? {
            urn::BYTES => WireCoder::Bytes,
            urn::STRING_UTF8 => WireCoder::StringUtf8,
            urn::BOOL => WireCoder::Bool,
            urn::VARINT => WireCoder::VarInt,
            urn::DOUBLE => WireCoder::Double,
            urn::KV => WireCoder::Kv(part(0)?, part(1)?),
            urn::ITERABLE => WireCoder::Iterable(part(0)?),
            urn::STATE_BACKED_ITERABLE => WireCoder::StateBackedIterable(part(0)?),
            urn::LENGTH_PREFIX => WireCoder::LengthPrefix(part(0)?),
            urn::NULLABLE => WireCoder::Nullable(part(0)?),
            urn::SHARDED_KEY => WireCoder::ShardedKey(part(0)?),
            urn::GLOBAL_WINDOW => WireCoder::GlobalWindow,
            urn::INTERVAL_WINDOW => WireCoder::IntervalWindow,
            urn::CUSTOM_WINDOW => WireCoder::CustomWindow(part(0)?),
            urn::WINDOWED_VALUE => WireCoder::WindowedValue(part(0)?, part(1)?),
            urn::PARAM_WINDOWED_VALUE => {
                let header = coder.spec.as_ref().map(|spec| spec.payload.clone());
                WireCoder::ParamWindowedValue(part(0)?, part(1)?, header.unwrap_or_default())
            }
            urn::TIMER => WireCoder::Timer(part(0)?, part(1)?),
            other => WireCoder::Opaque(other.to_owned()),
        })
    }
}

fn check_depth(id: &str, depth: usize) -> Result<(), Error> {
    if depth < DEPTH_MAX {
        return Ok(());
    }
    Err(Error::malformed(format!(
        "coder {id:?} is nested deeper than {DEPTH_MAX} levels, or contains itself"
    )))
}

/// Starts the id of every coder that the plan adds.
const ADDED: &str = "tidemill:";

/// Deeper coders are refused; real ones stay below ten.
const DEPTH_MAX: usize = 100;

/// What every SDK must know.
const REQUIRED: &[&str] = &[
    urn::BYTES,
    urn::KV,
    urn::ITERABLE,
    urn::DOUBLE,
    urn::TIMER,
    urn::LENGTH_PREFIX,
    urn::GLOBAL_WINDOW,
    urn::INTERVAL_WINDOW,
    urn::CUSTOM_WINDOW,
    urn::WINDOWED_VALUE,
];

/// What the runner can find its way through; rows and schemas are opaque to it.
const UNDERSTOOD: &[&str] = &[
    urn::BYTES,
    urn::STRING_UTF8,
    urn::KV,
    urn::BOOL,
    urn::VARINT,
    urn::DOUBLE,
    urn::ITERABLE,
    urn::TIMER,
    urn::INTERVAL_WINDOW,
    urn::LENGTH_PREFIX,
    urn::GLOBAL_WINDOW,
    urn::WINDOWED_VALUE,
    urn::PARAM_WINDOWED_VALUE,
    urn::STATE_BACKED_ITERABLE,
    urn::CUSTOM_WINDOW,
    urn::SHARDED_KEY,
    urn::NULLABLE,
];
