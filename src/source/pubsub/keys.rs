//! The key a message is shuffled by, and how many keys there are.

/// A stable 64-bit hash of `bytes` (XXH64 with seed 0). Its value is part of what a job has stored:
/// it must never change.
///
/// ```
/// use tidemill::source::pubsub::keys::hash64;
/// assert_eq!(hash64(b""), 0xef46_db37_51d8_e999);
/// ```
pub fn hash64(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut hash = if blocks.is_empty() {
        PRIME_5
    } else {
        hash_blocks(blocks)
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash
            .rotate_left(27)
            .wrapping_mul(PRIME_1)
            .wrapping_add(PRIME_4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIME_1);
        hash = hash
            .rotate_left(23)
            .wrapping_mul(PRIME_2)
            .wrapping_add(PRIME_3);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

/// The key of a message with this deduplication id, below `keys`, which is a power of two.
pub fn key_of(dedup_id: &[u8], keys: u32) -> u32 {
    debug_assert!(keys.is_power_of_two(), "{keys} keys");
    (hash64(dedup_id) & u64::from(keys.wrapping_sub(1))) as u32
}

/// The number of keys: what was asked for, rounded up to a power of two, or else half the worker
/// threads, clamped to 128…65,536 and rounded down.
pub fn number_of_keys(asked: Option<u32>, worker_threads: u32) -> u32 {
    match asked {
        Some(asked) => asked.clamp(1, 1 << 31).next_power_of_two(),
        None => 1 << (worker_threads / 2).clamp(128, 65_536).ilog2(),
    }
}

fn hash_blocks(blocks: &[[u8; 32]]) -> u64 {
    let mut lanes = [
        PRIME_1.wrapping_add(PRIME_2),
        PRIME_2,
        0,
        0u64.wrapping_sub(PRIME_1),
    ];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
    let [a, b, c, d] = lanes;
    let mixed = a
        .rotate_left(1)
        .wrapping_add(b.rotate_left(7))
        .wrapping_add(c.rotate_left(12))
        .wrapping_add(d.rotate_left(18));
    lanes.iter().fold(mixed, |hash, lane| {
        (hash ^ round(0, *lane))
            .wrapping_mul(PRIME_1)
            .wrapping_add(PRIME_4)
    })
}

const fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2))
        .rotate_left(31)
        .wrapping_mul(PRIME_1)
}

const PRIME_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME_5: u64 = 0x27d4_eb2f_1656_67c5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_published() {
        for (text, hash) in [
            ("", 0xef46_db37_51d8_e999),
            ("a", 0xd24e_c4f1_a98c_6e5b),
            ("abc", 0x44bc_2cf5_ad77_0999),
            (
                "Nobody inspects the spammish repetition",
                0xfbce_a83c_8a37_8bf1,
            ),
        ] {
            assert_eq!(hash64(text.as_bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn spreads_sequential_ids() {
        let mut counts = [0u32; 128];
        for id in 0..12_800 {
            counts[key_of(format!("{id}").as_bytes(), 128) as usize] += 1;
        }
        let (min, max) = (counts.iter().min(), counts.iter().max());
        assert!(min > Some(&60) && max < Some(&140), "{min:?} {max:?}");
    }

    #[test]
    fn keys_follow_the_documented_formula() {
        for (asked, threads, keys) in [
            (None, 1, 128),
            (None, 300, 128),
            (None, 600, 256),
            (None, 1_000_000, 65_536),
            (Some(0), 1, 1),
            (Some(7), 1, 8),
            (Some(64), 1, 64),
            (Some(u32::MAX), 1, 1 << 31),
        ] {
            assert_eq!(number_of_keys(asked, threads), keys, "{asked:?} {threads}");
        }
    }
}
