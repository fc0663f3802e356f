//! The allow-list of a recorded workload, in `AppArmor`'s terms.

use super::super::build::Builder;
use super::super::{CapabilitySet, Object, PtraceAccess, PtraceRule, PtraceScope, SocketRule, Verdict};
use super::push;
use super::statement::base;
use crate::compile::apparmor::glob;
use crate::matcher::Pattern;
use crate::policy::vocabulary as words;
use crate::policy::{Enforcers, Observations, ObservedFile, Severity, item};

/// The letters of permissions, in the order in which they are written.
const LETTERS: [&str; 6] = ["r", "w", "a", "l", "k", "m"];

/// Adds what the model says, for the field that asks for it.
pub(super) fn add(builder: &mut Builder<'_>, field: &str) {
    let Some(seen) = builder.model.and_then(|model| model.app_armor.as_ref()) else {
        let message = "there is no behaviour model with a part for AppArmor for this policy".to_owned();
        let help = "record one with `varmor learn`, and give it with `--model` or in the same file";
        return builder.report(Severity::Error, field, message, help);
    };
    match base() {
        Ok(found) => push(builder, found, field),
        Err(error) => super::report(builder, &error, field),
    }
    let files = files(builder, seen, field);
    push(builder, files, field);
    for (word, object) in objects(seen) {
        match object {
            Some(object) => builder.push(
                "behaviour-model",
                field,
                Verdict::Allow,
                object,
                Enforcers::APPARMOR,
            ),
            None => unknown(builder, field, &word),
        }
    }
    for mount in &seen.mounts {
        // The call is in the model; AppArmor names the target too, which no event has.
        let message = format!(
            "mounts of `{}` are not allowed by the learned profile",
            mount.path
        );
        let help = "add a `mount` rule to `appArmorRawRules`";
        builder.report(Severity::Warning, field, message, help);
    }
}

fn files(builder: &mut Builder<'_>, seen: &Observations, field: &str) -> Vec<String> {
    let mut statements = Vec::new();
    for (index, file) in seen.files.iter().enumerate() {
        match lines(file, "") {
            Ok(lines) => statements.extend(lines),
            Err(message) => {
                let place = item("dynamicResult.appArmor.files", index);
                let message = format!("the behaviour model cannot be read: {place}: {message}");
                builder.report(
                    Severity::Error,
                    field,
                    message,
                    "record it again with `varmor learn`",
                );
            }
        }
    }
    for program in &seen.executions {
        let file = ObservedFile {
            path: program.clone(),
            permissions: vec!["r".to_owned(), "m".to_owned()],
            ..ObservedFile::default()
        };
        match lines(&file, "ix") {
            Ok(lines) => statements.extend(lines),
            Err(message) => {
                let message = format!("the behaviour model cannot be read: executions: {message}");
                builder.report(
                    Severity::Error,
                    field,
                    message,
                    "record it again with `varmor learn`",
                );
            }
        }
    }
    statements
}

/// The statements about a file, in canonical spelling.
fn lines(file: &ObservedFile, more: &str) -> Result<Vec<String>, String> {
    let pattern = Pattern::parse(&file.path).map_err(|error| format!("`{}`: {error}", file.path))?;
    if let Some(strange) = file
        .permissions
        .iter()
        .find(|word| !LETTERS.contains(&word.as_str()))
    {
        return Err(format!("`{strange}` is no permission"));
    }
    // The parser takes `a` and `w` in one rule for a mistake.
    let writes = file.permissions.iter().any(|word| word == "w");
    let letters: String = LETTERS
        .into_iter()
        .filter(|letter| file.permissions.iter().any(|word| word == letter))
        .filter(|letter| !(writes && *letter == "a"))
        .collect();
    let owner = if file.owner { "owner " } else { "" };
    let paths = glob::paths(&pattern).into_iter();
    Ok(paths
        .map(|path| format!("{owner}{path} {letters}{more},"))
        .collect())
}

fn objects(seen: &Observations) -> Vec<(String, Option<Object>)> {
    let capabilities = seen.capabilities.iter().map(|word| {
        let set = words::capabilities(word).map(|set| Object::Capability(CapabilitySet(set.0)));
        (word.clone(), set)
    });
    let networks = seen.networks.iter().chain(&seen.network);
    let sockets = networks.flat_map(|network| &network.sockets).map(|socket| {
        let object = words::domain(&socket.domain)
            .zip(words::socket_type(&socket.kind))
            .map(|(domain, kind)| {
                Object::Socket(SocketRule {
                    domains: vec![domain],
                    types: vec![kind],
                    protocols: Vec::new(),
                })
            });
        (format!("{} {}", socket.domain, socket.kind), object)
    });
    let ptraces = seen.ptraces.iter().map(|ptrace| {
        let mut permissions = ptrace.permissions.iter();
        let access = permissions.try_fold(0, |all, word| Some(all | words::ptrace_permission(word)?));
        let scope = if ptrace.external {
            PtraceScope::All
        } else {
            PtraceScope::Inside
        };
        let object = access.map(|access| {
            Object::Ptrace(PtraceRule {
                access: PtraceAccess(access),
                scope,
            })
        });
        (ptrace.permissions.join(" "), object)
    });
    capabilities.chain(sockets).chain(ptraces).collect()
}

fn unknown(builder: &mut Builder<'_>, field: &str, word: &str) {
    let message = format!("the behaviour model cannot be read: `{word}` is not known");
    builder.report(
        Severity::Error,
        field,
        message,
        "record it again with `varmor learn`",
    );
}
