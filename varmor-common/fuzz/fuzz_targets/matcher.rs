//! The kernel's steps over compiled tables against the naive reference.
//!
//! The first byte tells the default (bit 0: an allow-list, bit 1: a logging one), the next lines are rules up to an
//! empty line (`d5/etc/**` = verdict, permissions as a hexadecimal digit, pattern), the others are paths.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varmor_common::abi::{PERM_ALL, PERM_STRUCT};
use varmor_common::compile::bpf::compile;
use varmor_common::matcher::reference::{self, Name};
use varmor_common::matcher::{PathView, Pattern, Walk};
use varmor_common::profile::{Access, Kinds, Object, Origin, Profile, Rule, Verdict};

const KEY: u64 = 0x5eed;
const REQUESTED: u32 = PERM_ALL | PERM_STRUCT;
/// The reference tries everything, so its work is bounded by these.
const MOST_RULES: usize = 8;
const LONGEST: usize = 48;
const MOST_STARS: usize = 5;
const MOST_ALTERNATIVES: usize = 12;

fuzz_target!(|data: &[u8]| {
    let Some((&head, rest)) = data.split_first() else { return };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let rules: Vec<Rule> = lines.by_ref().take_while(|line| !line.is_empty()).take(MOST_RULES).filter_map(rule).collect();
    let mut profile = Profile { rules, ..Profile::default() };
    match head & 3 {
        1 => profile.default.denied = Kinds::ALL,
        3 => profile.default.audited = Kinds::ALL,
        _ => {}
    }
    // What multiplies is refused, and that is no disagreement.
    let Ok(artefact) = compile(&profile, KEY) else { return };
    let walk = Walk::new(&artefact, KEY);
    for path in lines.take(MOST_RULES).filter_map(path) {
        let names = [Name { path: path.clone(), spelled: 0 }];
        let (denied, audited) = reference::files(&profile, &names, REQUESTED);
        let verdict = walk.files(&PathView::from_path(&path), REQUESTED);
        // Whether a pattern allows whole trees is told from its form, which may be stricter than its meaning.
        let form = if profile.default.kinds() == Kinds::NONE { 0 } else { PERM_STRUCT };
        let differs = |got: u32, expected: u32| expected & !got != 0 || got & !expected & !form != 0;
        assert!(
            !differs(verdict.denied, denied) && !differs(verdict.audited, audited),
            "{:?} on {:?}: {verdict:?}, the reference says {denied:#x} and {audited:#x}",
            profile.rules,
            String::from_utf8_lossy(&path),
        );
    }
});

fn rule(line: &[u8]) -> Option<Rule> {
    let (verdict, rest) = line.split_first()?;
    let (access, pattern) = rest.split_first()?;
    let verdict = match verdict {
        b'd' => Verdict::Deny,
        b'a' => Verdict::Audit,
        b'l' => Verdict::Allow,
        _ => return None,
    };
    let pattern = std::str::from_utf8(pattern).ok()?;
    let stars = pattern.bytes().filter(|byte| *byte == b'*').count();
    let alternatives = Pattern::parse(pattern).ok()?.alternatives().len();
    if pattern.len() > LONGEST || stars > MOST_STARS || alternatives > MOST_ALTERNATIVES {
        return None;
    }
    Some(Rule {
        id: pattern.to_owned(),
        origin: Origin::default(),
        verdict,
        object: Object::Path {
            pattern: pattern.to_owned(),
            access: Access((*access as char).to_digit(16)? & PERM_ALL),
        },
        enforcers: varmor_common::policy::Enforcers::BPF,
    })
}

/// A path as the kernel can have it: names of 1 to 255 bytes without zeros, and no `/` at the end.
fn path(line: &[u8]) -> Option<Vec<u8>> {
    if line.len() > LONGEST || line.contains(&0) {
        return None;
    }
    let mut path = Vec::new();
    for name in line.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        path.push(b'/');
        path.extend(name);
    }
    Some(if path.is_empty() { b"/".to_vec() } else { path })
}
