//! Random names.

/// A name of 128 random bits, as hexadecimal digits, which is globally unique.
pub fn random_name() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

/// A name of 64 random bits, which is unique if few such names exist at the same time.
pub fn short_random_name() -> String {
    format!("{:016x}", fastrand::u64(..))
}
