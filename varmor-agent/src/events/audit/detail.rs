//! The `event` of a violation of `AppArmor` and seccomp, in the fields of vArmor; a field that the record lacks is left out.

use libseccomp::{ScmpArch, ScmpSyscall};
use serde::Serialize;
use varmor_common::audit::Record;

use super::Action;
use crate::text::from_kernel;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppArmorDetail {
    #[serde(rename = "auditID")]
    pub audit_id: String,
    pub epoch: u64,
    pub pid: u64,
    pub operation: String,
    pub profile: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name2: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comm: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub requested_mask: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub denied_mask: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsuid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ouid: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub info: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_code: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub peer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signal: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_family: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_sock_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_protocol: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_local_addr: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_local_port: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_foreign_addr: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub net_foreign_port: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub flags: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub src_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompDetail {
    #[serde(rename = "auditID")]
    pub audit_id: String,
    pub epoch: u64,
    pub subj: String,
    pub pid: u64,
    pub comm: String,
    pub exe: String,
    /// The name, or the number of one that libseccomp does not know.
    pub syscall: String,
}

impl AppArmorDetail {
    pub(super) fn of(record: &Record) -> Self {
        let text = |key: &str| record.get(key).map(from_kernel).unwrap_or_default();
        // A capability stands where libapparmor puts it, so that vArmor's readers find it.
        let mut name = record.get("name").or_else(|| record.get("capname"));
        // The kernel's word for an object without a name.
        name = name.filter(|name| *name != b"(null)");
        let is_tail_missing = record.is_cut && name.is_some_and(|name| name.starts_with(b"/"));
        let end = if is_tail_missing { "..." } else { "" };
        Self {
            audit_id: record.stamp.to_string(),
            epoch: record.stamp.seconds,
            pid: record.number("pid").unwrap_or_default(),
            operation: text("operation"),
            profile: text("profile"),
            name: format!("{}{end}", name.map(from_kernel).unwrap_or_default()),
            name2: text("target"),
            comm: text("comm"),
            requested_mask: text("requested_mask"),
            denied_mask: text("denied_mask"),
            fsuid: record.number("fsuid"),
            ouid: record.number("ouid"),
            info: text("info"),
            error_code: text("error"),
            peer: text("peer"),
            signal: text("signal"),
            net_family: text("family"),
            net_sock_type: text("sock_type"),
            net_protocol: text("protocol"),
            net_local_addr: text("laddr"),
            net_local_port: text("lport"),
            net_foreign_addr: text("faddr"),
            net_foreign_port: text("fport"),
            fs_type: text("fstype"),
            flags: text("flags"),
            src_name: text("srcname"),
        }
    }

    /// What the record is about, for people.
    #[must_use]
    pub fn object(&self) -> &str {
        [&self.name, &self.net_family, &self.peer, &self.signal]
            .into_iter()
            .find(|text| !text.is_empty())
            .map_or("", String::as_str)
    }

    /// Without what tells two equal records apart.
    #[must_use]
    pub fn without_occasion(&self) -> Self {
        Self {
            audit_id: String::new(),
            epoch: 0,
            pid: 0,
            ..self.clone()
        }
    }
}

impl SeccompDetail {
    pub(super) fn of(record: &Record) -> Self {
        let text = |key: &str| record.get(key).map(from_kernel).unwrap_or_default();
        Self {
            audit_id: record.stamp.to_string(),
            epoch: record.stamp.seconds,
            subj: text("subj"),
            pid: record.number("pid").unwrap_or_default(),
            comm: text("comm"),
            exe: text("exe"),
            syscall: syscall(record),
        }
    }

    /// Without what tells two equal records apart.
    #[must_use]
    pub fn without_occasion(&self) -> Self {
        Self {
            audit_id: String::new(),
            epoch: 0,
            pid: 0,
            ..self.clone()
        }
    }
}

/// `None` for records that tell of no access: profiles that were loaded, hints, errors.
pub(super) fn apparmor_action(record: &Record) -> Option<Action> {
    match record.get("apparmor")? {
        b"DENIED" | b"KILLED" => Some(Action::Denied),
        b"ALLOWED" => Some(Action::Allowed),
        b"AUDIT" => Some(Action::Audit),
        _ => None,
    }
}

/// `SECCOMP_RET_LOG` and `SECCOMP_RET_ALLOW`; everything else kept the call from being made.
const LOGGED: [u32; 2] = [0x7ffc_0000, 0x7fff_0000];
/// The rest is a number that the filter gives along.
const ACTION: u32 = 0xffff_0000;

#[must_use]
pub fn seccomp_action(record: &Record) -> Action {
    let code = hexadecimal(record, "code").unwrap_or_default();
    if LOGGED.contains(&(code & ACTION)) {
        Action::AuditAllowed
    } else {
        Action::Denied
    }
}

fn syscall(record: &Record) -> String {
    let Some(number) = record
        .number("syscall")
        .and_then(|number| i32::try_from(number).ok())
    else {
        return String::new();
    };
    let architecture = match hexadecimal(record, "arch") {
        Some(0xc000_003e) => ScmpArch::X8664,
        Some(0x4000_0003) => ScmpArch::X86,
        Some(0xc000_00b7) => ScmpArch::Aarch64,
        Some(0x4000_0028) => ScmpArch::Arm,
        _ => return number.to_string(),
    };
    ScmpSyscall::from_raw_syscall(number)
        .get_name_by_arch(architecture)
        .unwrap_or_else(|_| number.to_string())
}

fn hexadecimal(record: &Record, key: &str) -> Option<u32> {
    let text = std::str::from_utf8(record.get(key)?).ok()?;
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
