//! Rule sets for the matcher, with the answers that they must give.

use varmor_common::policy::Enforcers;
use varmor_common::profile::{Access, Object, Origin, Profile, Rule, Verdict};

/// A shape of rules that grows with their number.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    /// The pattern of rule n.
    pub pattern: fn(u32) -> String,
    /// A path of nine names that rule 0 denies.
    pub denied: &'static str,
    /// A path of nine names that no rule concerns.
    pub allowed: &'static str,
}

/// The shapes that policies are made of.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "literal",
        pattern: |n| format!("/a/b/c/d/e/f/g/h/file{n}"),
        denied: "/a/b/c/d/e/f/g/h/file0",
        allowed: "/a/b/c/d/e/f/g/x/file0",
    },
    Shape {
        name: "folder",
        pattern: |n| format!("/srv/tenant{n}/**"),
        denied: "/srv/tenant0/c/d/e/f/g/h/i",
        allowed: "/srv/tenant/c/d/e/f/g/h/i",
    },
    Shape {
        name: "gap",
        pattern: |n| format!("/a{n}/**/b{n}"),
        denied: "/a0/b/c/d/e/f/g/h/b0",
        allowed: "/a/b/c/d/e/f/g/h/b0",
    },
    Shape {
        name: "ending",
        pattern: |n| format!("*.ext{n}"),
        denied: "/a/b/c/d/e/f/g/h/i.ext0",
        allowed: "/a/b/c/d/e/f/g/h/i.txt",
    },
];

/// Paths of a growing number of names, for rules of the shape `folder`: denied and allowed.
#[must_use]
pub fn deep(names: usize) -> [String; 2] {
    let rest = "/d".repeat(names.saturating_sub(2));
    ["tenant0", "tenant"].map(|tenant| format!("/srv/{tenant}{rest}"))
}

/// Paths whose last name has so many bytes, for rules of the shape `ending`: denied and allowed.
#[must_use]
pub fn long(bytes: usize) -> [String; 2] {
    ["ext0", "text"].map(|ending| {
        let stem = "n".repeat(bytes.saturating_sub(ending.len() + 1));
        format!("/srv/data/{stem}.{ending}")
    })
}

/// A profile of `count` denying rules.
#[must_use]
pub fn profile(shape: &Shape, count: u32) -> Profile {
    let rules = (0..count).map(|number| {
        let pattern = (shape.pattern)(number);
        Rule {
            id: pattern.clone(),
            origin: Origin::default(),
            verdict: Verdict::Deny,
            object: Object::Path {
                pattern,
                access: Access::READ_WRITE,
            },
            enforcers: Enforcers::BPF,
        }
    });
    Profile {
        name: "varmor-bench".to_owned(),
        rules: rules.collect(),
        ..Profile::default()
    }
}

#[cfg(test)]
mod tests {
    use varmor_common::abi::PERM_READ;
    use varmor_common::compile::bpf::compile;
    use varmor_common::matcher::{PathView, Walk};

    use super::{SHAPES, deep, long, profile};

    #[test]
    fn every_shape_gives_its_answers_at_every_size() {
        for shape in SHAPES {
            for count in [1, 100] {
                let artefact = compile(&profile(shape, count), 1).expect("the shapes compile");
                let walk = Walk::new(&artefact, 1);
                let denied = |path: &str| {
                    walk.files(&PathView::from_path(path.as_bytes()), PERM_READ)
                        .denied
                        != 0
                };
                assert!(denied(shape.denied), "{} of {count}", shape.name);
                assert!(!denied(shape.allowed), "{} of {count}", shape.name);
            }
        }
    }

    #[test]
    fn paths_are_as_long_as_they_were_asked_for() {
        for path in deep(64) {
            assert_eq!(PathView::from_path(path.as_bytes()).names.len(), 64);
        }
        for path in long(255) {
            assert_eq!(PathView::from_path(path.as_bytes()).names[0].len(), 255);
        }
    }
}
