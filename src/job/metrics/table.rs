//! Which measurements count as committed and which as attempted only.
//!
//! Committed: everything of bundles that committed. Attempted: also what bundles in flight last
//! reported, and what bundles that failed had reported. What harnesses measure outside of bundles
//! is in both.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;

use crate::fnapi::ReportedMetric;
use crate::job::metrics::value::Value;
use crate::model::{BundleId, WorkerId};
use crate::proto::pipeline::{MonitoringInfo, Pipeline};
use crate::proto::urn::monitoring_info_type_urns;

/// Labels of a measurement, such as `PTRANSFORM`.
pub type Labels = BTreeMap<String, String>;

/// The label that names a transform.
const PTRANSFORM: &str = "PTRANSFORM";

/// A job's metrics; usable from any thread.
#[derive(Debug, Default)]
pub struct Metrics {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    metrics: Vec<Metric>,
    index: BTreeMap<MetricKey, usize>,
    /// Where the metric of a shared description is, by the address of that description, which it
    /// keeps alive. Never iterated.
    known: HashMap<usize, (Arc<MonitoringInfo>, usize), FxBuildHasher>,
    /// The newest report of each bundle in flight.
    in_flight: BTreeMap<BundleId, Vec<ReportedMetric>>,
    /// The newest report of each harness about itself.
    harnesses: BTreeMap<WorkerId, Vec<ReportedMetric>>,
    /// The unique name of each transform: how users know their steps.
    step_names: BTreeMap<String, String>,
    is_full: bool,
}

/// One thing that is measured.
#[derive(Debug)]
struct Metric {
    /// URN, type and labels, as clients see them.
    info: MonitoringInfo,
    committed: Option<Value>,
    /// What bundles that failed had measured.
    discarded: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MetricKey {
    urn: String,
    kind: String,
    labels: Labels,
}

impl Metrics {
    /// Most things that one job may measure; further ones are left out, with a warning in the log.
    const METRICS_MAX: usize = 100_000;

    /// Metrics of a pipeline: its transforms are called by their unique names.
    pub fn new(pipeline: &Pipeline) -> Self {
        let step_names = pipeline
            .components
            .iter()
            .flat_map(|components| &components.transforms)
            .map(|(id, transform)| (id.clone(), transform.unique_name.clone()))
            .collect();
        Self {
            tables: Mutex::new(Tables {
                step_names,
                ..Tables::default()
            }),
        }
    }

    /// Calls a transform that is not in the submitted pipeline by the name of a user's step.
    pub fn name_step(&self, transform: impl Into<String>, unique_name: impl Into<String>) {
        let mut tables = self.tables.lock();
        tables
            .step_names
            .insert(transform.into(), unique_name.into());
    }

    /// A bundle's measurements now count for good; they replace its progress reports.
    pub fn commit(&self, bundle: BundleId, reported: Vec<ReportedMetric>) {
        let mut tables = self.tables.lock();
        tables.in_flight.remove(&bundle);
        for metric in reported {
            tables.add(&metric, |metric| &mut metric.committed);
        }
    }

    /// A bundle in flight reports; each report replaces the one before.
    pub fn progress(&self, bundle: BundleId, reported: Vec<ReportedMetric>) {
        self.tables.lock().in_flight.insert(bundle, reported);
    }

    /// A bundle failed: what it last reported stays attempted and is never committed.
    pub fn discard(&self, bundle: BundleId) {
        let mut tables = self.tables.lock();
        for metric in tables.in_flight.remove(&bundle).unwrap_or_default() {
            tables.add(&metric, |metric| &mut metric.discarded);
        }
    }

    /// What a harness measures outside of bundles; each report replaces the one before.
    pub fn harness(&self, worker: WorkerId, reported: Vec<ReportedMetric>) {
        self.tables.lock().harnesses.insert(worker, reported);
    }

    /// Adds to a counter that the runner keeps itself; committed at once.
    pub fn counter(&self, urn: &str, labels: &Labels, delta: i64) {
        let info = MonitoringInfo {
            urn: urn.to_owned(),
            r#type: monitoring_info_type_urns::SUM_INT64_TYPE.to_owned(),
            labels: labels.clone(),
            ..MonitoringInfo::default()
        };
        let mut tables = self.tables.lock();
        if let Some(at) = tables.find(&info) {
            tables.merge(at, Value::SumInt(delta), |metric| &mut metric.committed);
        }
    }

    /// Frees what is needed only while harnesses report, once the job has ended.
    pub(in crate::job) fn shrink(&self) {
        self.tables.lock().known = HashMap::default();
    }

    /// Everything of bundles that committed.
    pub fn committed(&self) -> Vec<MonitoringInfo> {
        self.tables.lock().collect(false)
    }

    /// Everything of bundles that committed, run, or failed.
    pub fn attempted(&self) -> Vec<MonitoringInfo> {
        self.tables.lock().collect(true)
    }
}

impl Tables {
    fn add(
        &mut self,
        reported: &ReportedMetric,
        column: impl Fn(&mut Metric) -> &mut Option<Value>,
    ) {
        if let Some(at) = self.find_shared(&reported.info) {
            let value = Value::read(&reported.info.r#type, &reported.payload);
            self.merge(at, value, column);
        }
    }

    fn merge(
        &mut self,
        at: usize,
        value: Value,
        column: impl Fn(&mut Metric) -> &mut Option<Value>,
    ) {
        let Some(metric) = self.metrics.get_mut(at) else {
            return;
        };
        match column(metric) {
            Some(merged) => merged.merge(value),
            empty @ None => *empty = Some(value),
        }
    }

    /// The metric of a description that many reports share.
    fn find_shared(&mut self, info: &Arc<MonitoringInfo>) -> Option<usize> {
        let address = Arc::as_ptr(info).addr();
        if let Some((_, at)) = self.known.get(&address) {
            return Some(*at);
        }
        let at = self.find(info)?;
        if self.known.len() >= Metrics::METRICS_MAX {
            // Harnesses that came and went have left theirs.
            self.known.clear();
        }
        self.known.insert(address, (Arc::clone(info), at));
        Some(at)
    }

    /// What users call a transform. A part that planning made of one (`<id>/<part>`) counts as the
    /// whole.
    fn step_name(&self, transform: &str) -> Option<String> {
        let mut id = transform;
        loop {
            if let Some(name) = self.step_names.get(id) {
                return Some(name.clone());
            }
            id = id.rsplit_once('/')?.0;
        }
    }

    /// The metric with this URN, type and labels; made where there is none and room for it.
    fn find(&mut self, info: &MonitoringInfo) -> Option<usize> {
        let mut labels = info.labels.clone();
        if let Some(transform) = labels.get_mut(PTRANSFORM)
            && let Some(name) = self.step_name(transform)
        {
            *transform = name;
        }
        let key = MetricKey {
            urn: info.urn.clone(),
            kind: info.r#type.clone(),
            labels: labels.clone(),
        };
        if let Some(at) = self.index.get(&key) {
            return Some(*at);
        }
        if self.metrics.len() >= Metrics::METRICS_MAX {
            if !self.is_full {
                tracing::warn!(
                    urn = info.urn,
                    "a job measures too many things; the rest is left out"
                );
            }
            self.is_full = true;
            return None;
        }
        let at = self.metrics.len();
        self.metrics.push(Metric {
            info: MonitoringInfo {
                urn: info.urn.clone(),
                r#type: info.r#type.clone(),
                labels,
                ..MonitoringInfo::default()
            },
            committed: None,
            discarded: None,
        });
        self.index.insert(key, at);
        Some(at)
    }

    /// All values, merged, with or without what is attempted only.
    fn collect(&mut self, is_attempted: bool) -> Vec<MonitoringInfo> {
        let mut extra: BTreeMap<usize, Value> = BTreeMap::new();
        let mut reports: Vec<ReportedMetric> = self.harnesses.values().flatten().cloned().collect();
        if is_attempted {
            reports.extend(self.in_flight.values().flatten().cloned());
        }
        for reported in reports {
            let Some(at) = self.find_shared(&reported.info) else {
                continue;
            };
            let value = Value::read(&reported.info.r#type, &reported.payload);
            match extra.get_mut(&at) {
                Some(merged) => merged.merge(value),
                None => {
                    extra.insert(at, value);
                }
            }
        }
        let mut all = Vec::new();
        for (at, metric) in self.metrics.iter().enumerate() {
            let discarded = metric.discarded.clone().filter(|_| is_attempted);
            let values = [metric.committed.clone(), discarded, extra.remove(&at)];
            let merged = values.into_iter().flatten().reduce(|mut merged, value| {
                merged.merge(value);
                merged
            });
            if let Some(value) = merged {
                all.push(MonitoringInfo {
                    payload: value.write(),
                    ..metric.info.clone()
                });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    use crate::proto::pipeline::PTransform;
    use crate::proto::urn::monitoring_info_specs;

    fn report(transform: &str, value: i64) -> ReportedMetric {
        ReportedMetric {
            info: Arc::new(MonitoringInfo {
                urn: monitoring_info_specs::USER_SUM_INT64.to_owned(),
                r#type: monitoring_info_type_urns::SUM_INT64_TYPE.to_owned(),
                labels: Labels::from([(PTRANSFORM.to_owned(), transform.to_owned())]),
                ..MonitoringInfo::default()
            }),
            payload: Value::SumInt(value).write(),
        }
    }

    fn shown(infos: Vec<MonitoringInfo>) -> Vec<(String, i64)> {
        infos
            .into_iter()
            .map(|info| {
                let Value::SumInt(sum) = Value::read(&info.r#type, &info.payload) else {
                    panic!("{info:?}")
                };
                (info.labels[PTRANSFORM].clone(), sum)
            })
            .collect()
    }

    fn metrics() -> Metrics {
        let mut pipeline = Pipeline::default();
        let components = pipeline.components.get_or_insert_default();
        components.transforms.insert(
            "ref_3".to_owned(),
            PTransform {
                unique_name: "Count/Map".to_owned(),
                ..PTransform::default()
            },
        );
        Metrics::new(&pipeline)
    }

    #[test]
    fn a_failed_try_is_attempted_and_never_committed() {
        let metrics = metrics();
        metrics.progress(BundleId(1), vec![report("ref_3", 2)]);
        metrics.progress(BundleId(1), vec![report("ref_3", 3)]);
        assert_eq!(shown(metrics.committed()), []);
        assert_eq!(shown(metrics.attempted()), [("Count/Map".to_owned(), 3)]);
        metrics.discard(BundleId(1));
        metrics.progress(BundleId(2), vec![report("ref_3", 4)]);
        metrics.commit(BundleId(2), vec![report("ref_3", 5)]);
        metrics.commit(BundleId(3), vec![report("ref_3", 6)]);
        assert_eq!(shown(metrics.committed()), [("Count/Map".to_owned(), 11)]);
        assert_eq!(shown(metrics.attempted()), [("Count/Map".to_owned(), 14)]);
    }

    #[test]
    fn parts_of_one_step_count_together() {
        let metrics = metrics();
        metrics.name_step("made-up", "Count/Map");
        metrics.commit(
            BundleId(1),
            vec![report("ref_3", 1), report("ref_3/Process", 1)],
        );
        let reports = vec![report("made-up", 1), report("unknown", 4)];
        metrics.commit(BundleId(2), reports);
        assert_eq!(
            shown(metrics.committed()),
            [("Count/Map".to_owned(), 3), ("unknown".to_owned(), 4)]
        );
    }

    #[test]
    fn harness_and_runner_measure_too() {
        let metrics = metrics();
        metrics.harness(WorkerId(1), vec![report("ref_3", 1)]);
        metrics.harness(WorkerId(1), vec![report("ref_3", 2)]);
        metrics.harness(WorkerId(2), vec![report("ref_3", 3)]);
        let labels = Labels::from([(PTRANSFORM.to_owned(), "ref_3".to_owned())]);
        metrics.counter(monitoring_info_specs::USER_SUM_INT64, &labels, 10);
        metrics.counter(monitoring_info_specs::USER_SUM_INT64, &labels, 20);
        for list in [metrics.committed(), metrics.attempted()] {
            assert_eq!(shown(list), [("Count/Map".to_owned(), 35)]);
        }
    }

    #[test]
    fn another_type_under_the_same_urn_is_another_metric() {
        let metrics = metrics();
        let mut odd = report("ref_3", 1);
        odd.payload = Bytes::from_static(b"\xff");
        metrics.commit(BundleId(1), vec![odd]);
        metrics.commit(BundleId(1), vec![report("ref_3", 1)]);
        assert_eq!(shown(metrics.committed()), [("Count/Map".to_owned(), 1)]);
    }
}
