//! `syscallRawRules`: checked word by word, because a runtime refuses to start a container with a bad filter.

use super::filter::Entry;
use super::names::ACTIONS;
use super::{Action, Comparison, Compiler, Condition, is_syscall, nearest_syscall, part};
use crate::policy::suggest::nearest;
use crate::policy::{Severity, SyscallArg, SyscallRawRule, item, quoted};

const COMPARISONS: &[&str] = &[
    "SCMP_CMP_NE",
    "SCMP_CMP_LT",
    "SCMP_CMP_LE",
    "SCMP_CMP_EQ",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_MASKED_EQ",
];
/// The largest error number that the kernel hands out.
const MAX_ERRNO: u32 = 4095;
/// Arguments of type `int`: the kernel does not look at their upper half.
const INTEGERS: &[(&str, u32)] = &[
    ("bpf", 0),
    ("fcntl", 1),
    ("ioctl", 1),
    ("keyctl", 0),
    ("prctl", 0),
    ("setns", 1),
    ("setsockopt", 1),
    ("setsockopt", 2),
    ("socket", 0),
    ("socket", 1),
    ("socket", 2),
    ("socketcall", 0),
];

/// Adds the rules of the list `field`.
pub(super) fn add(compiler: &mut Compiler<'_>, rules: &[SyscallRawRule], field: &str) {
    for (index, rule) in rules.iter().enumerate() {
        let place = item(field, index);
        let action = action(compiler, rule, &place);
        let args = conditions(compiler, rule, &format!("{place}.args"));
        let names = names(compiler, &rule.names, &format!("{place}.names"));
        let (Some(action), Some(args)) = (action, args) else {
            continue;
        };
        let errno = (action == Action::Errno).then_some(rule.errno_ret.unwrap_or(super::DEFAULT_ERRNO));
        for name in names {
            full_width(compiler, &name, &args, &part(field, index, "args"));
            compiler.filter.push(Entry {
                name,
                action,
                errno,
                args: args.clone(),
                rule: short(&place).to_owned(),
                field: place.clone(),
                built_in: false,
            });
        }
    }
}

/// `syscallRawRules[3]`
fn short(place: &str) -> &str {
    place.rfind('.').map_or(place, |dot| &place[dot + 1..])
}

fn action(compiler: &mut Compiler<'_>, rule: &SyscallRawRule, place: &str) -> Option<Action> {
    let field = format!("{place}.action");
    let Ok(action) = rule.action.parse::<Action>() else {
        let (message, help) = if matches!(rule.action.as_str(), "SCMP_ACT_NOTIFY" | "SCMP_ACT_TRACE") {
            let message = format!(
                "{} needs a program that answers, and nobody starts one",
                rule.action
            );
            (message, "use SCMP_ACT_ERRNO or SCMP_ACT_LOG".to_owned())
        } else {
            let help = nearest(&rule.action, ACTIONS.iter().copied()).map_or_else(
                || format!("use one of {}", ACTIONS.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            (format!("{} is no action", quoted(&rule.action)), help)
        };
        compiler.report(Severity::Error, &field, message, &help);
        return None;
    };
    let field = format!("{place}.errnoRet");
    match (rule.errno_ret, action) {
        (Some(number), Action::Errno) if number > MAX_ERRNO => {
            let message = format!("{number} is no error number; the largest is {MAX_ERRNO}");
            compiler.report(Severity::Error, &field, message, "1 is EPERM");
        }
        (Some(0), Action::Errno) => {
            let message = "error number 0 tells the program that the call succeeded, which it did not";
            compiler.report(
                Severity::Warning,
                &field,
                message.to_owned(),
                "1 is EPERM, 38 is ENOSYS",
            );
        }
        (Some(_), other) if other != Action::Errno => {
            let message = format!("`errnoRet` has no effect with {other}");
            compiler.report(
                Severity::Warning,
                &field,
                message,
                "remove it, or use SCMP_ACT_ERRNO",
            );
        }
        _ => {}
    }
    Some(action)
}

/// The known ones of the names.
pub(super) fn names(compiler: &mut Compiler<'_>, names: &[String], field: &str) -> Vec<String> {
    if names.is_empty() {
        let message = "the rule names no system call".to_owned();
        compiler.report(Severity::Error, field, message, "add one to `names`");
    }
    let mut known = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if is_syscall(name) {
            known.push(name.clone());
            continue;
        }
        let help = nearest_syscall(name).map_or_else(
            || "names are those of the manual pages, for example `unshare`".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let message = format!("there is no system call {}", quoted(name));
        compiler.report(Severity::Error, &item(field, index), message, &help);
    }
    known
}

fn conditions(compiler: &mut Compiler<'_>, rule: &SyscallRawRule, field: &str) -> Option<Vec<Condition>> {
    let read: Vec<Option<Condition>> = rule
        .args
        .iter()
        .enumerate()
        .map(|(index, arg)| condition(compiler, arg, &item(field, index)))
        .collect();
    let several = |arg: &SyscallArg| rule.args.iter().filter(|other| other.index == arg.index).count() > 1;
    if rule.args.iter().any(several) {
        let message = "several conditions are on one argument: the rule holds if any of its conditions does";
        let help = "write one rule for each condition if that is meant";
        compiler.report(Severity::Note, field, message.to_owned(), help);
    }
    read.into_iter().collect()
}

fn condition(compiler: &mut Compiler<'_>, arg: &SyscallArg, place: &str) -> Option<Condition> {
    let mut fail = |field: &str, message: String, help: &str| {
        compiler.report(Severity::Error, &format!("{place}.{field}"), message, help);
    };
    if arg.index > 5 {
        let message = format!(
            "a system call has no argument {}; they are counted from 0 to 5",
            arg.index
        );
        fail("index", message, "the first argument is 0");
        return None;
    }
    let Ok(op) = arg.op.parse::<Comparison>() else {
        let help = nearest(&arg.op, COMPARISONS.iter().copied()).map_or_else(
            || format!("use one of {}", COMPARISONS.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        fail("op", format!("{} is no comparison", quoted(&arg.op)), &help);
        return None;
    };
    let two = arg.value_two.unwrap_or(0);
    if op == Comparison::MaskedEqual {
        if two & !arg.value != 0 {
            let message = format!(
                "the condition never holds: the masked argument has no bits outside of {:#x}, and {two:#x} has",
                arg.value
            );
            fail(
                "valueTwo",
                message,
                "`value` is the mask, `valueTwo` what the masked argument must be",
            );
            return None;
        }
    } else if two != 0 {
        let message = format!("`valueTwo` has no meaning with {}", arg.op);
        fail("valueTwo", message, "remove it, or use SCMP_CMP_MASKED_EQ");
        return None;
    }
    Some(Condition {
        index: arg.index,
        value: arg.value,
        value_two: if op == Comparison::MaskedEqual { two } else { 0 },
        op,
    })
}

/// `EQ 5` on an `int` does not hold for 2^32 + 5, which is 5 to the kernel.
fn full_width(compiler: &mut Compiler<'_>, name: &str, args: &[Condition], field: &str) {
    let wide = args.iter().find(|arg| {
        matches!(arg.op, Comparison::Equal | Comparison::NotEqual) && INTEGERS.contains(&(name, arg.index))
    });
    if let Some(arg) = wide {
        let message = format!(
            "the kernel reads argument {} of `{name}` as 32 bits, the condition compares 64: a bit above them passes it",
            arg.index
        );
        let help = format!(
            "write op: SCMP_CMP_MASKED_EQ, value: 4294967295, valueTwo: {}",
            arg.value
        );
        compiler.report(Severity::Warning, field, message, &help);
    }
}
