//! Metrics as harnesses report them, and what their short ids mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::fnapi::events::ReportedMetric;
use crate::model::BundleId;
use crate::proto::pipeline::MonitoringInfo;

/// Metrics in one of the two forms of the wire.
///
/// A harness may send the same values in both; only one is read, the one with short ids where there is one.
#[derive(Debug)]
pub(crate) enum RawMetrics {
    Full(Vec<MonitoringInfo>),
    Short(BTreeMap<String, Bytes>),
}

/// Whom metrics are for once they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Final(BundleId),
    Progress(BundleId, Option<bool>),
    Harness,
}

/// Metrics that can be read.
pub(crate) type Readable = (Purpose, Vec<ReportedMetric>);

/// The meaning of one harness's short metric ids, and the reports that wait for it.
///
/// Short ids belong to one process: there is one of these per harness.
#[derive(Debug, Default)]
pub(crate) struct ShortIds {
    known: BTreeMap<String, Meaning>,
    waiting: Vec<(Purpose, BTreeMap<String, Bytes>)>,
}

#[derive(Debug)]
enum Meaning {
    Asked,
    Known(Arc<MonitoringInfo>),
    /// The harness did not say.
    Unknown,
}

impl RawMetrics {
    pub(crate) fn new(full: Vec<MonitoringInfo>, short: BTreeMap<String, Bytes>) -> Self {
        if short.is_empty() {
            Self::Full(full)
        } else {
            Self::Short(short)
        }
    }
}

impl ShortIds {
    /// Takes a report: it can be read at once, or waits for the meaning of the ids returned, to be asked for.
    pub(crate) fn add(
        &mut self,
        purpose: Purpose,
        raw: RawMetrics,
    ) -> Result<Readable, Vec<String>> {
        let short = match raw {
            RawMetrics::Full(infos) => {
                return Ok((purpose, infos.into_iter().map(from_full).collect()));
            }
            RawMetrics::Short(short) => short,
        };
        if self.has_all(&short) {
            return Ok((purpose, self.read(short)));
        }
        let unasked: Vec<String> = short
            .keys()
            .filter(|id| !self.known.contains_key(*id))
            .cloned()
            .collect();
        for id in &unasked {
            self.known.insert(id.clone(), Meaning::Asked);
        }
        self.waiting.push((purpose, short));
        Err(unasked)
    }

    /// Takes an answer (empty when the question failed) and gives the reports that it makes readable.
    ///
    /// Ids that were `asked` for and not answered are given up.
    pub(crate) fn learn(
        &mut self,
        asked: &[String],
        mut infos: BTreeMap<String, MonitoringInfo>,
    ) -> Vec<Readable> {
        for id in asked {
            let meaning = match infos.remove(id) {
                Some(mut info) => {
                    info.payload = Bytes::new();
                    Meaning::Known(Arc::new(info))
                }
                None => {
                    tracing::warn!(id, "harness does not know its own metric id");
                    Meaning::Unknown
                }
            };
            self.known.insert(id.clone(), meaning);
        }
        let (ready, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(_, short)| self.has_all(short));
        self.waiting = waiting;
        self.read_all(ready)
    }

    /// Gives up waiting: every report with what is known of it.
    pub(crate) fn give_up(&mut self) -> Vec<Readable> {
        let waiting = std::mem::take(&mut self.waiting);
        self.read_all(waiting)
    }

    fn has_all(&self, short: &BTreeMap<String, Bytes>) -> bool {
        short.keys().all(|id| match self.known.get(id) {
            Some(Meaning::Known(_) | Meaning::Unknown) => true,
            Some(Meaning::Asked) | None => false,
        })
    }

    fn read_all(&self, reports: Vec<(Purpose, BTreeMap<String, Bytes>)>) -> Vec<Readable> {
        reports
            .into_iter()
            .map(|(purpose, short)| (purpose, self.read(short)))
            .collect()
    }

    fn read(&self, short: BTreeMap<String, Bytes>) -> Vec<ReportedMetric> {
        short
            .into_iter()
            .filter_map(|(id, payload)| match self.known.get(&id) {
                Some(Meaning::Known(info)) => Some(ReportedMetric {
                    info: Arc::clone(info),
                    payload,
                }),
                Some(Meaning::Asked | Meaning::Unknown) | None => None,
            })
            .collect()
    }
}

fn from_full(mut info: MonitoringInfo) -> ReportedMetric {
    let payload = std::mem::take(&mut info.payload);
    ReportedMetric {
        info: Arc::new(info),
        payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(urn: &str) -> MonitoringInfo {
        MonitoringInfo {
            urn: urn.into(),
            payload: Bytes::from_static(b"old"),
            ..MonitoringInfo::default()
        }
    }

    fn short(ids: &[&str]) -> BTreeMap<String, Bytes> {
        ids.iter()
            .map(|id| ((*id).into(), Bytes::copy_from_slice(id.as_bytes())))
            .collect()
    }

    fn urns(readable: &Readable) -> Vec<(&str, &[u8])> {
        let metrics = readable.1.iter();
        metrics
            .map(|m| (m.info.urn.as_str(), &*m.payload))
            .collect()
    }

    #[test]
    fn the_short_form_wins_over_the_full_one() {
        let raw = RawMetrics::new(vec![info("a")], short(&["1"]));
        assert!(matches!(raw, RawMetrics::Short(_)));
        let (_, metrics) = ShortIds::default()
            .add(
                Purpose::Harness,
                RawMetrics::new(vec![info("a")], BTreeMap::new()),
            )
            .unwrap();
        assert_eq!(metrics[0].payload, "old");
        assert!(metrics[0].info.payload.is_empty());
    }

    #[test]
    fn reports_wait_for_the_meaning_of_their_ids_and_no_longer() {
        let mut ids = ShortIds::default();
        let final_of = |n| Purpose::Final(BundleId(n));
        let raw = |ids: &[&str]| RawMetrics::Short(short(ids));
        assert_eq!(
            ids.add(final_of(1), raw(&["1", "2"])).unwrap_err(),
            ["1", "2"]
        );
        assert_eq!(ids.add(final_of(2), raw(&["2", "3"])).unwrap_err(), ["3"]);
        let infos = BTreeMap::from([("1".into(), info("one")), ("2".into(), info("two"))]);
        let readable = ids.learn(&["1".into(), "2".into()], infos);
        assert_eq!(readable.len(), 1);
        assert_eq!(urns(&readable[0]), [("one", &b"1"[..]), ("two", b"2")]);
        assert_eq!(
            urns(&ids.add(final_of(3), raw(&["2"])).unwrap()),
            [("two", &b"2"[..])]
        );
        let readable = ids.learn(&["3".into()], BTreeMap::new());
        assert_eq!(readable[0].0, final_of(2));
        assert_eq!(urns(&readable[0]), [("two", &b"2"[..])]);
        assert_eq!(ids.add(final_of(4), raw(&["4", "1"])).unwrap_err(), ["4"]);
        assert_eq!(urns(&ids.give_up()[0]), [("one", &b"1"[..])]);
    }
}
