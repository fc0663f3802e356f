//! An `AppArmor` record as the question that a policy answers, so that its rule can be named.

use varmor_common::abi;
use varmor_common::analysis::Operation;
use varmor_common::audit::Record;
use varmor_common::policy::vocabulary as words;

/// The question; `None` where the record does not say enough for it.
#[must_use]
pub fn operation(record: &Record) -> Option<Operation> {
    if record.is_cut {
        return None;
    }
    if let Some(number) = record.number("capability") {
        return u32::try_from(number).ok().map(Operation::Capability);
    }
    let text = |key: &str| std::str::from_utf8(record.get(key)?).ok();
    let mask = text("denied_mask").or_else(|| text("requested_mask"));
    if let (Some(family), Some(kind)) = (text("family"), text("sock_type")) {
        return Some(Operation::Socket {
            domain: words::domain(family)?,
            kind: words::socket_type(kind)?,
            protocol: u32::try_from(record.number("protocol").unwrap_or_default()).ok()?,
        });
    }
    match text("operation")? {
        "userns_create" => Some(Operation::UserNamespace),
        "ptrace" => {
            let access = words::ptrace_permission(mask?)?;
            Some(Operation::Ptrace {
                access,
                outside: true,
            })
        }
        "mount" | "umount" | "pivotroot" => None,
        _ => {
            let path = text("name").filter(|name| name.starts_with('/'))?;
            let access = mask?
                .chars()
                .fold(0, |access, letter| access | permission(letter));
            (access != 0).then(|| Operation::File {
                path: path.to_owned(),
                access,
                within: u32::MAX,
            })
        }
    }
}

/// A letter of a mask; creating, removing and linking are writing of a name.
const fn permission(letter: char) -> u32 {
    match letter {
        'r' => abi::PERM_READ,
        'w' | 'c' | 'd' | 'l' => abi::PERM_WRITE,
        'a' => abi::PERM_APPEND,
        'x' | 'm' => abi::PERM_EXEC,
        _ => 0,
    }
}
