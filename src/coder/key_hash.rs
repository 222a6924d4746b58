//! The hash that places a key on its shard.

/// A hash of a key's encoded bytes, in which every bit is good: the top eight choose the shard.
///
/// It is XXH3-64 with seed 0, an algorithm frozen since 2020, so the value of a key is the same on
/// every machine and in every version. Stored state depends on that.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::ids::Shard;

    /// These values are stored in shards of running jobs; a change loses state.
    #[test]
    fn values_never_change() {
        assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(key_hash(b"a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(key_hash(b"abc"), 0x78af_5f94_892f_3950);
    }

    #[test]
    fn shards_are_even_for_dense_keys() {
        let mut rows = vec![0_u32; usize::from(Shard::COUNT)];
        for key in 0_u32..25_600 {
            let shard = Shard::of_hash(key_hash(&key.to_be_bytes()));
            rows[usize::from(shard.0)] += 1;
        }
        assert!(
            rows.iter().all(|&keys| (55..150).contains(&keys)),
            "{rows:?}"
        );
    }
}
