//! Rule sets for the benches, with the answers that they must give.

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
    use super::{SHAPES, profile};
    use varmor_common::abi::PERM_READ;
    use varmor_common::compile::bpf::compile;
    use varmor_common::matcher::{PathView, Walk};

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
}
