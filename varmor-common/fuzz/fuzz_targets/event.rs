//! Lines of violations.log: reading one ends, and what is read is decided again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use varmor_common::analysis::{Judge, Outcome, Recorded, Unusable};
use varmor_common::profile::Profile;

static JUDGE: LazyLock<Judge> =
    LazyLock::new(|| Judge::new(Profile::default(), Vec::new()).expect("an empty profile compiles"));

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Recorded::parse(text) {
        Ok(recorded) => {
            // Nothing is refused by no rules.
            assert_eq!(recorded.flips(&JUDGE), recorded.denied.then_some(Outcome::Allowed));
            assert!(!recorded.operation.to_string().is_empty());
        }
        Err(Unusable::Malformed(why) | Unusable::Other(why)) => assert!(!why.is_empty()),
    }
});
