//! The kernel's steps over the compiled tables against the naive reference, on generated rules and paths.

use super::random::{Random, representatives};
use super::{KEY, compiled, path_rule, profile};
use crate::abi::{PERM_ALL, PERM_STRUCT};
use crate::matcher::automaton::PLACES;
use crate::matcher::reference::Name;
use crate::matcher::{FilesystemRoot, PathView, Walk, reference};
use crate::profile::{Access, Defaults, Kinds, Profile, Rule, Verdict};

const PROFILES: u64 = 3_000;
const PATHS: u64 = 40;

fn rules(random: &mut Random, allow_list: bool) -> Vec<Rule> {
    let count = 1 + random.below(8);
    (0..count)
        .map(|_| {
            let verdict = match random.below(8) {
                0 | 1 => Verdict::Audit,
                2..5 if allow_list => Verdict::Allow,
                _ => Verdict::Deny,
            };
            let access = 1 + u32::try_from(random.below(u64::from(PERM_ALL))).expect("four bits");
            path_rule(verdict, &random.pattern(), Access(access))
        })
        .collect()
}

/// A default that refuses or logs one or both kinds of file operations.
fn default(random: &mut Random) -> Defaults {
    let kinds = *random.pick(&[Kinds::FILES, Kinds::EXEC, Kinds::ALL, Kinds::ALL]);
    if random.chance(4) {
        return Defaults {
            audited: kinds,
            ..Defaults::default()
        };
    }
    Defaults {
        denied: kinds,
        ..Defaults::default()
    }
}

fn view(random: &mut Random) -> PathView {
    let count = random.below(7);
    let names: Vec<Vec<u8>> = (0..count).map(|_| random.name().into_bytes()).collect();
    let mut view = PathView {
        names,
        filesystems: Vec::new(),
    };
    while random.chance(3) {
        let depth = usize::try_from(random.below(count + 1)).expect("few names");
        let folders = if random.chance(2) { 0 } else { random.below(3) };
        let above = (0..folders).map(|_| random.name().into_bytes()).collect();
        view.filesystems.push(FilesystemRoot {
            magic: random.pick(PLACES).magic,
            depth,
            above,
        });
    }
    view
}

/// Every path that the object has: its own, and one per place of each filesystem on the way.
fn paths(view: &PathView) -> Vec<Name> {
    let text = |names: &[Vec<u8>]| match names {
        [] => b"/".to_vec(),
        _ => names.iter().flat_map(|name| [b"/", &name[..]].concat()).collect(),
    };
    let reversed = |names: &[Vec<u8>]| names.iter().rev().cloned().collect::<Vec<_>>();
    let mut found = vec![Name {
        path: text(&reversed(&view.names)),
        spelled: 0,
    }];
    for root in &view.filesystems {
        let inner = [reversed(&root.above), reversed(&view.names[..root.depth])].concat();
        for place in PLACES.iter().filter(|place| place.magic == root.magic) {
            let mut heads: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
            for name in place.path {
                let choices = name.map_or_else(representatives, |name| vec![name.to_owned()]);
                heads = heads
                    .iter()
                    .flat_map(|head| {
                        choices
                            .iter()
                            .map(move |name| [&head[..], &[name.clone().into_bytes()]].concat())
                    })
                    .collect();
            }
            let spelled = match place.spelled() {
                0 => 0,
                // The names, a `/` before each, and one behind.
                names => {
                    place.path[..names]
                        .iter()
                        .flatten()
                        .map(|name| name.len() + 1)
                        .sum::<usize>()
                        + 1
                }
            };
            found.extend(heads.iter().map(|head| Name {
                path: text(&[&head[..], &inner].concat()),
                spelled,
            }));
        }
    }
    found
}

fn rule_fits(profile: &Profile, rule: &Rule, paths: &[Name], wanted: u32) -> bool {
    let alone = Profile {
        rules: vec![rule.clone()],
        default: Defaults::default(),
        ..profile.clone()
    };
    let (denied, audited) = reference::files(&alone, paths, wanted);
    denied | audited != 0
}

#[test]
fn kernel_steps_agree_with_the_naive_reference() {
    let mut cases = 0_u64;
    let mut denied = 0_u64;
    let mut narrower = 0_u64;
    for seed in 0..PROFILES {
        let random = &mut Random::new(seed);
        let allow_list = random.chance(2);
        let mut profile = profile(rules(random, allow_list));
        if allow_list {
            profile.default = default(random);
        }
        let artefact = compiled(&profile);
        let walk = Walk::new(&artefact, KEY);
        for _ in 0..PATHS {
            let view = view(random);
            let requested = if random.chance(3) {
                1 << random.below(5)
            } else {
                PERM_ALL | PERM_STRUCT
            };
            let paths = paths(&view);
            let expected = reference::files(&profile, &paths, requested);
            let verdict = walk.files(&view, requested);
            let describe = || {
                let patterns: Vec<_> = profile
                    .rules
                    .iter()
                    .map(|rule| (&rule.id, rule.verdict))
                    .collect();
                let names: Vec<_> = view
                    .names
                    .iter()
                    .map(|name| String::from_utf8_lossy(name))
                    .collect();
                format!(
                    "seed {seed}: {patterns:?} on {names:?} {:?}, requested {requested:#x}",
                    view.filesystems
                )
            };
            // That a pattern holds for whole trees is told from its form: `/a/**/?*` is taken for a narrower one.
            let (stricter, louder) = (verdict.denied & !expected.0, verdict.audited & !expected.1);
            let form = if allow_list { PERM_STRUCT } else { 0 };
            assert_eq!((stricter | louder) & !form, 0, "{}", describe());
            assert_eq!(expected.0 & !verdict.denied, 0, "{}", describe());
            assert_eq!(expected.1 & !verdict.audited, 0, "{}", describe());
            narrower += u64::from((stricter | louder) != 0);
            let wanted = if verdict.denied == 0 {
                verdict.audited
            } else {
                verdict.denied
            };
            if wanted != 0 && verdict.site == 0 {
                assert!(allow_list, "no site: {}", describe());
            } else if wanted != 0 {
                let rule = artefact.rule_at(&profile, verdict.site, wanted);
                let rule = rule.unwrap_or_else(|| panic!("no rule behind the site: {}", describe()));
                assert!(
                    rule_fits(&profile, rule, &paths, wanted),
                    "{} is not at fault: {}",
                    rule.id,
                    describe()
                );
                assert_eq!(
                    rule.verdict == Verdict::Deny,
                    verdict.denied != 0,
                    "{}",
                    describe()
                );
            }
            cases += 1;
            denied += u64::from(verdict.denied != 0);
        }
    }
    let share = denied * 100 / cases;
    assert!(cases >= 100_000, "only {cases} cases");
    assert!(
        (5..95).contains(&share),
        "{share} % of the cases are denied: the generator is one-sided"
    );
    assert!(
        narrower * 1_000 < cases,
        "{narrower} of {cases} trees were not recognised"
    );
    eprintln!("matcher differential: {cases} cases, {share} % denied");
}

#[test]
fn same_profile_and_key_give_the_same_artefact() {
    for seed in 0..200 {
        let profile = profile(rules(&mut Random::new(seed), seed % 2 == 0));
        let (one, two) = (compiled(&profile), compiled(&profile));
        assert_eq!(one.states, two.states);
        assert_eq!(one.transitions, two.transitions);
        assert_eq!(one.sites, two.sites);
        assert_eq!(one.component_globs, two.component_globs);
        assert!(one.descriptor == two.descriptor);
    }
}
