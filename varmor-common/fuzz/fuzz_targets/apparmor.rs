//! `AppArmor` text of users: whatever it is, reading it ends; what is accepted is one profile's and reads as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varmor_common::profile::apparmor::{TextError, custom_profile, statements};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    judge(text, statements(text));
    // A frame is hard to guess, so the text is also tried in one.
    judge(text, custom_profile(text));
    let framed = format!("profile x flags=(attach_disconnected) {{\n{text}\n}}\n");
    judge(&framed, custom_profile(&framed));
});

fn judge(text: &str, read: Result<Vec<String>, TextError>) {
    match read {
        Ok(found) => {
            for statement in &found {
                assert!(statement.ends_with(','), "{statement:?} has no end");
                assert!(!statement.contains('\n'), "{statement:?} is more than a line");
                // What stands outside of quotes is ours: no way to another profile or file.
                let bare: String = outside_of_quotes(statement);
                assert!(!bare.contains(['{', '}', '#']), "{statement:?}");
                assert!(bare.split_whitespace().all(|word| word != "include"), "{statement:?}");
            }
        }
        Err(error) => {
            let lines = u32::try_from(text.split('\n').count()).unwrap_or(u32::MAX);
            assert!(error.line >= 1 && error.column >= 1, "{error:?}");
            assert!(error.line <= lines + 1, "the error is behind the end: {error:?}");
            assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}");
        }
    }
}

fn outside_of_quotes(statement: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let mut bare = String::new();
    for letter in statement.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if !quoted => bare.push(letter),
            _ => {}
        }
    }
    assert!(!quoted, "{statement:?} leaves a quote open");
    bare
}
