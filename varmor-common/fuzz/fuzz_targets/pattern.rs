//! Path patterns: whatever the text is, reading it ends, and what is accepted compiles or is refused by name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varmor_common::matcher::Pattern;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Pattern::parse(text) {
        Ok(pattern) => {
            assert_eq!(pattern.as_str(), text);
            assert!(!pattern.alternatives().is_empty(), "a pattern that matches nothing was accepted");
            assert_eq!(Pattern::parse(text).as_ref(), Ok(&pattern));
        }
        Err(error) => {
            assert!(error.offset <= text.len(), "the error is behind the end of the text");
            assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}");
        }
    }
});
