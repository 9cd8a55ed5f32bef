//! The slot of a key in a cluster. The text in the key's first braces decides the slot, so all keys with the prefix
//! `{shop}:` are in one slot.

const SLOTS: u16 = 16_384;

/// The part of a key or prefix that decides the slot: the text between the first `{` and the next `}`. `None` if this
/// part is missing or empty; then the whole key decides.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, after) = key.split_once('{')?;
    let (tag, _) = after.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

pub(crate) fn slot_of(key: &str) -> u16 {
    crc16(hash_tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// The CRC16 of XMODEM: polynomial 0x1021, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let crc = crc ^ u16::from(*byte) << 8;
        (0..8).fold(crc, |crc, _| (crc << 1) ^ ((crc >> 15) * 0x1021))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_specified() {
        // The check value of the specification of Redis Cluster, and the answers of CLUSTER KEYSLOT in Redis 7.0.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("somekey"), 11_058);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
    }

    #[test]
    fn a_tag_is_the_text_between_the_first_braces() {
        for (key, tag) in [
            ("{pulse:shop}:", Some("pulse:shop")),
            ("a{b}c{d}", Some("b")),
            ("foo{{bar}}zap", Some("{bar")),
            ("foo{}{bar}", None),
            ("{open", None),
            ("closed}{", None),
            ("pulse:", None),
            ("", None),
        ] {
            assert_eq!(hash_tag(key), tag, "{key}");
        }
        assert_eq!(slot_of("foo{}{bar}"), 8_363);
    }
}
