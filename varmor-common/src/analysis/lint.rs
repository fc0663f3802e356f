//! What is odd about a policy that is valid: rules that repeat, that can never speak, and that forbid everything.

use std::collections::HashMap;

use crate::abi::{PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE};
use crate::matcher::{Pattern, reference};
use crate::policy::{Diagnostic, Document, Severity, item};
use crate::profile::{Access, Object, Profile, Rule, Verdict};
use crate::rules;

/// Most pairs of patterns that are compared one by one.
const MOST_PAIRS: usize = 200_000;
const RULES: &str = "spec.policy.enhanceProtect";

/// The oddities of the policy in `document`, and of the profile that it was built into.
#[must_use]
pub fn lint(document: &Document, profile: Option<&Profile>) -> Vec<Diagnostic> {
    let mut found = repeated_ids(document);
    if let Some(profile) = profile {
        repeated_rules(document, profile, &mut found);
        covered(document, profile, &mut found);
        over_wide(document, profile, &mut found);
    }
    found
}

/// Built-in rules that are named twice for the same executables.
fn repeated_ids(document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let Some(rules) = document
        .spec()
        .and_then(|spec| spec.policy.enhance_protect.as_ref())
    else {
        return found;
    };
    let mut seen: HashMap<(Vec<String>, &str), String> = HashMap::new();
    let mut visit = |field: &str, ids: &[String], targets: &[String]| {
        let mut targets = targets.to_vec();
        targets.sort();
        for (index, id) in ids.iter().enumerate() {
            let Some(rule) = rules::find(id) else { continue };
            let place = item(field, index);
            if let Some(first) = seen.get(&(targets.clone(), rule.id)) {
                let message = format!("the rule `{}` is named twice, first at `{first}`", rule.id);
                found.push(document.diagnostic(Severity::Warning, &place, message, "remove one of them"));
            } else {
                seen.insert((targets.clone(), rule.id), place);
            }
        }
    };
    visit(&format!("{RULES}.hardeningRules"), &rules.hardening_rules, &[]);
    visit(
        &format!("{RULES}.vulMitigationRules"),
        &rules.vul_mitigation_rules,
        &[],
    );
    for (index, entry) in rules.attack_protection_rules.iter().enumerate() {
        let field = format!("{}.rules", item(&format!("{RULES}.attackProtectionRules"), index));
        visit(&field, &entry.rules, &entry.targets);
    }
    found
}

/// Raw rules that say the same.
fn repeated_rules(document: &Document, profile: &Profile, found: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<String, &Rule> = HashMap::new();
    for rule in profile.rules.iter().filter(|rule| is_raw(rule)) {
        let key = format!("{:?} {:?}", rule.verdict, rule.object);
        match seen.get(&key) {
            Some(first) if first.origin.field != rule.origin.field => {
                let message = format!("this rule says the same as `{}`", first.id);
                found.push(document.diagnostic(
                    Severity::Warning,
                    &rule.origin.field,
                    message,
                    "remove one of them",
                ));
            }
            Some(_) => {}
            None => {
                seen.insert(key, rule);
            }
        }
    }
}

/// Raw rules are named by their place.
fn is_raw(rule: &Rule) -> bool {
    rule.id.ends_with(']') || rule.id.contains('.')
}

/// A path rule, read for comparison.
struct Paths<'r> {
    rule: &'r Rule,
    pattern: &'r str,
    access: Access,
    shape: Shape<'r>,
}

/// What is known of a pattern without an automaton.
enum Shape<'p> {
    Everything,
    /// Exactly this path.
    Literal,
    /// Everything below this folder.
    Tree(&'p str),
    Other,
}

fn covered(document: &Document, profile: &Profile, found: &mut Vec<Diagnostic>) {
    let paths: Vec<Paths<'_>> = profile.rules.iter().filter_map(read).collect();
    let mut trees: HashMap<&str, Vec<&Paths<'_>>> = HashMap::new();
    let mut wide = Vec::new();
    let mut others = Vec::new();
    for path in &paths {
        match path.shape {
            Shape::Tree(folder) => trees.entry(folder).or_default().push(path),
            Shape::Everything => wide.push(path),
            Shape::Other => others.push(path),
            Shape::Literal => {}
        }
    }
    let compared = others.len() * paths.len() <= MOST_PAIRS;
    for path in paths.iter().filter(|path| is_raw(path.rule)) {
        let above = parents(path.pattern)
            .filter_map(|folder| trees.get(folder))
            .flatten();
        let globs = others.iter().filter(|other| {
            compared
                && matches!(path.shape, Shape::Literal)
                && reference::matches(other.pattern, path.pattern.as_bytes())
        });
        let coverer = wide
            .iter()
            .chain(above)
            .chain(globs)
            .find(|other| !std::ptr::eq(other.rule, path.rule) && decides_for(other, path));
        if let Some(other) = coverer {
            let (message, help) = explain(path, other);
            found.push(document.diagnostic(Severity::Warning, &path.rule.origin.field, message, help));
        }
    }
}

/// Whatever the covered rule says has been said.
fn decides_for(other: &Paths<'_>, path: &Paths<'_>) -> bool {
    let wider = path.access.0 & !other.access.0 == 0 && other.pattern != path.pattern;
    wider
        && match (other.rule.verdict, path.rule.verdict) {
            (Verdict::Deny, _) => true,
            (one, two) => one == two,
        }
}

fn explain(path: &Paths<'_>, other: &Paths<'_>) -> (String, &'static str) {
    let id = &other.rule.id;
    match (other.rule.verdict, path.rule.verdict) {
        (Verdict::Deny, Verdict::Allow) => (
            format!(
                "this rule allows what `{id}` denies ({}): a denial always wins, so it can never speak",
                other.pattern
            ),
            "remove it, or make the denying rule narrower",
        ),
        (Verdict::Deny, Verdict::Audit) => (
            format!("this rule logs what `{id}` denies already ({})", other.pattern),
            "remove it: denials are logged",
        ),
        _ => (
            format!("this rule is covered by `{id}` ({})", other.pattern),
            "remove it, or the wider one if that was a mistake",
        ),
    }
}

fn read(rule: &Rule) -> Option<Paths<'_>> {
    let Object::Path { pattern, access } = &rule.object else {
        return None;
    };
    let plain = |text: &str| !text.contains(['*', '?', '[', '{', '\\']);
    let shape = if is_everything(pattern) {
        Shape::Everything
    } else if plain(pattern) {
        Shape::Literal
    } else {
        match pattern.strip_suffix("/**") {
            Some(folder) if plain(folder) => Shape::Tree(folder),
            _ => Shape::Other,
        }
    };
    Some(Paths {
        rule,
        pattern,
        access: *access,
        shape,
    })
}

fn is_everything(pattern: &str) -> bool {
    // Reading a pattern costs more than all the rest, and one that names anything is not everything.
    let nameless = |byte| matches!(byte, b'/' | b'*' | b'{' | b'}' | b',');
    pattern == "/**"
        || (pattern.bytes().all(nameless)
            && Pattern::parse(pattern).is_ok_and(|pattern| pattern.is_everything()))
}

/// The folders above whatever a pattern can match, as far as its text says.
fn parents(pattern: &str) -> impl Iterator<Item = &str> {
    let spelled = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    pattern
        .match_indices('/')
        .map(|(at, _)| at)
        .take_while(move |at| *at > 0 && *at <= spelled || *at == 0)
        .filter(|at| *at > 0)
        .map(|at| &pattern[..at])
}

fn over_wide(document: &Document, profile: &Profile, found: &mut Vec<Diagnostic>) {
    for rule in profile
        .rules
        .iter()
        .filter(|rule| is_raw(rule) && rule.verdict == Verdict::Deny)
    {
        let message = match &rule.object {
            Object::Path { pattern, access } if is_everything(pattern) => {
                let what = if access.0 & PERM_EXEC != 0 {
                    "executing anything: the container cannot start"
                } else if access.0 & PERM_READ != 0 {
                    "reading anything: no program can load its libraries"
                } else if access.0 & (PERM_WRITE | PERM_APPEND) != 0 {
                    "writing anything, pipes of the container's log and devices included as far as they have paths"
                } else {
                    continue;
                };
                format!("this rule denies {what}")
            }
            Object::Egress(egress)
                if egress.network.is_none_or(|net| net.prefix_len() == 0) && egress.ports.is_empty() =>
            {
                "this rule denies every connection, DNS and the service mesh included".to_owned()
            }
            _ => continue,
        };
        let help = "name the paths, programs or networks that are meant, or use DefenseInDepth to allow what is needed";
        found.push(document.diagnostic(Severity::Warning, &rule.origin.field, message, help));
    }
}
