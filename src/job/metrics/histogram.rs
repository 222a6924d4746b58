//! Histograms: counts add up where the buckets are the same.

use crate::proto::pipeline::HistogramValue;

/// Merges a later report in; one with other buckets replaces it.
pub(super) fn merge(all: &mut HistogramValue, more: HistogramValue) {
    if all.bucket_options != more.bucket_options {
        *all = more;
        return;
    }
    all.count = match (all.count, more.count) {
        (Some(count), Some(added)) => Some(count.saturating_add(added)),
        (count, added) => count.or(added),
    };
    if all.bucket_counts.len() < more.bucket_counts.len() {
        all.bucket_counts.resize(more.bucket_counts.len(), 0);
    }
    for (count, added) in all.bucket_counts.iter_mut().zip(more.bucket_counts) {
        *count = count.saturating_add(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::pipeline::histogram_value::BucketOptions;

    #[test]
    fn buckets_add_up() {
        let histogram = |counts: &[i64]| HistogramValue {
            count: Some(counts.iter().sum()),
            bucket_options: None,
            bucket_counts: counts.to_vec(),
        };
        let mut all = histogram(&[1, 2]);
        merge(&mut all, histogram(&[1, 0, 4]));
        assert_eq!(all, histogram(&[2, 2, 4]));
        let other = HistogramValue {
            bucket_options: Some(BucketOptions::default()),
            ..histogram(&[1])
        };
        merge(&mut all, other.clone());
        assert_eq!(all, other);
    }
}
