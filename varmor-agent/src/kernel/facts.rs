//! The facts about kernel structures that the programs get as frozen constants.

use varmor_common::abi::patch;

use super::btf::{Btf, Field};

/// Name of a constant in the programs, structure, field and its other names over time.
type Wanted = (&'static str, &'static str, &'static [&'static str]);

const WANTED: &[Wanted] = &[
    ("FILE_PATH", "file", &["f_path"]),
    ("FILE_INODE", "file", &["f_inode"]),
    ("FILE_MODE", "file", &["f_mode"]),
    ("FILE_FLAGS", "file", &["f_flags"]),
    ("PATH_MNT", "path", &["mnt"]),
    ("PATH_DENTRY", "path", &["dentry"]),
    ("DENTRY_PARENT", "dentry", &["d_parent"]),
    ("DENTRY_NAME_LEN", "dentry", &["d_name.len"]),
    ("DENTRY_NAME", "dentry", &["d_name.name"]),
    ("DENTRY_INLINE_NAME", "dentry", INLINE_NAME),
    ("DENTRY_SB", "dentry", &["d_sb"]),
    ("DENTRY_INODE", "dentry", &["d_inode"]),
    ("INODE_MODE", "inode", &["i_mode"]),
    ("INODE_INO", "inode", &["i_ino"]),
    ("SB_MAGIC", "super_block", &["s_magic"]),
    ("SB_TYPE", "super_block", &["s_type"]),
    ("FSTYPE_NAME", "file_system_type", &["name"]),
    ("VFSMOUNT_ROOT", "vfsmount", &["mnt_root"]),
    ("VFSMOUNT_SB", "vfsmount", &["mnt_sb"]),
    ("MOUNT_PARENT", "mount", &["mnt_parent"]),
    ("MOUNT_VFSMOUNT", "mount", &["mnt"]),
    ("MOUNT_NAMESPACE", "mount", &["mnt_ns"]),
    ("MOUNT_CHILDREN", "mount", &["mnt_mounts"]),
    ("MNTNS_ROOT", "mnt_namespace", &["root"]),
    ("MNTNS_INUM", "mnt_namespace", &["ns.inum"]),
    ("BPRM_FILE", "linux_binprm", &["file"]),
    ("BPRM_FILENAME", "linux_binprm", &["filename"]),
    ("BPRM_INTERP", "linux_binprm", &["interp"]),
    ("BPRM_EXEC", "linux_binprm", &["exec"]),
    ("BPRM_VMA", "linux_binprm", &["vma"]),
    ("BPRM_CRED", "linux_binprm", &["cred"]),
    ("TASK_REAL_CRED", "task_struct", &["real_cred"]),
    ("TASK_REAL_PARENT", "task_struct", &["real_parent"]),
    ("TASK_TGID", "task_struct", &["tgid"]),
    ("TASK_COMM", "task_struct", &["comm"]),
    ("TASK_NSPROXY", "task_struct", &["nsproxy"]),
    ("TASK_MM", "task_struct", &["mm"]),
    (
        "TASK_START",
        "task_struct",
        &["start_boottime", "real_start_time"],
    ),
    ("NSPROXY_MNT", "nsproxy", &["mnt_ns"]),
    ("MM_EXE_FILE", "mm_struct", &["exe_file"]),
    ("MM_ENV_END", "mm_struct", &["env_end"]),
    ("VMA_FILE", "vm_area_struct", &["vm_file"]),
    ("VMA_END", "vm_area_struct", &["vm_end"]),
    ("SOCKET_SK", "socket", &["sk"]),
    ("SOCK_FAMILY", "sock", &["__sk_common.skc_family"]),
    ("SOCK_NUM", "sock", &["__sk_common.skc_num"]),
    ("SOCK_RCV_SADDR", "sock", &["__sk_common.skc_rcv_saddr"]),
    ("SOCK_V6_RCV_SADDR", "sock", &["__sk_common.skc_v6_rcv_saddr"]),
    ("UNIX_PATH", "unix_sock", &["path"]),
    ("MSG_NAME", "msghdr", &["msg_name"]),
    ("MSG_NAMELEN", "msghdr", &["msg_namelen"]),
    ("MNTNS_EVENT", "mnt_namespace", &["event"]),
    ("SB_ROOT", "super_block", &["s_root"]),
    ("SB_ID", "super_block", &["s_id"]),
    ("SB_BDEV", "super_block", &["s_bdev"]),
    ("BDEV_DEV", "block_device", &["bd_dev"]),
    ("INODE_RDEV", "inode", &["i_rdev"]),
    ("IATTR_VALID", "iattr", &["ia_valid"]),
    ("TASK_CRED", "task_struct", &["cred"]),
    ("TASK_FLAGS", "task_struct", &["flags"]),
    ("TASK_PTRACE", "task_struct", &["ptrace"]),
    ("TASK_NAMEIDATA", "task_struct", &["nameidata"]),
    ("TASK_CGROUPS", "task_struct", &["cgroups"]),
    ("CSS_SET_CGROUP", "css_set", &["dfl_cgrp"]),
    ("CGROUP_LEVEL", "cgroup", &["level"]),
    ("NAMEIDATA_NAME", "nameidata", &["name"]),
    ("FILENAME_NAME", "filename", &["name"]),
    ("MAP_ID", "bpf_map", &["id"]),
    ("PROG_AUX", "bpf_prog", &["aux"]),
    ("AUX_ID", "bpf_prog_aux", &["id"]),
];

/// Constants that hold the type id of a structure.
const CAST_TO: [(&str, &str); 4] = [
    ("ID_DENTRY", "dentry"),
    ("ID_MOUNT", "mount"),
    ("ID_VFSMOUNT", "vfsmount"),
    ("ID_MNTNS", "mnt_namespace"),
];

/// Of `task_struct`: what the kernel's task storage hangs on (5.11), and the number of the stack protector
/// (`CONFIG_STACKPROTECTOR`).
const STORAGE: &str = "bpf_storage";
const CANARY: &str = "stack_canary";

/// Whether labels can be in slots that are found by a task's number and taken by an atomic exchange. Those came with 5.12, as did
/// the count of runs that were left out.
#[must_use]
pub fn has_label_slots(btf: &Btf) -> bool {
    let has = |structure, field| btf.field(structure, field).is_some();
    has("task_struct", STORAGE) && has("task_struct", CANARY) && has("bpf_prog_stats", "misses")
}

/// The array of short names; 7.x wraps it in a union.
const INLINE_NAME: &[&str] = &["d_iname", "d_shortname.string"];
/// The programs read names up to this length from the dentry.
const INLINE_NAME_BYTES: u32 = 32;

/// Values of the programs' constants on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub offsets: Vec<(&'static str, u32)>,
    /// Stand-ins in the instructions (`abi::patch`) and the offsets that replace them.
    pub fields: Vec<(i32, u32)>,
    /// The type id of the kernel function `bpf_rdonly_cast`, if there is one.
    pub cast: Option<u32>,
}

/// Why the programs cannot work on this kernel.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FactError {
    #[error("this kernel's `struct {structure}` has no field `{field}`")]
    Missing {
        structure: &'static str,
        field: &'static str,
    },
    #[error("this kernel's layout is unknown: {0}")]
    Layout(&'static str),
}

impl Facts {
    /// Looks every constant up in the kernel's types; a single missing one is an error, because a program that
    /// reads the wrong field would protect nothing.
    pub fn of(btf: &Btf) -> Result<Self, FactError> {
        let mut offsets = Vec::with_capacity(WANTED.len() + 2);
        for (constant, structure, names) in WANTED {
            let field = first(btf, structure, names).ok_or(FactError::Missing {
                structure,
                field: names.first().copied().unwrap_or_default(),
            })?;
            offsets.push((*constant, field.offset));
        }
        // An anonymous mount namespace has a sequence number of zero; kernels without the number (6.18 and later)
        // give it a fixed inode number.
        let (by, offset) = btf
            .field("mnt_namespace", "seq")
            .map_or((2, 0), |field| (1, field.offset));
        let unix_sock = u32::from(btf.has_function("bpf_skc_to_unix_sock"));
        offsets.push(("HAVE_UNIX_SOCK", unix_sock));
        let ancestors = btf.field("cgroup", "ancestor_ids");
        offsets.push(("CGROUP_ANCESTOR_IDS", ancestors.map_or(0, |field| field.offset)));
        // Only the object for kernels with label slots asks for these.
        for (constant, name) in [("TASK_STORAGE", STORAGE), ("TASK_CANARY", CANARY)] {
            let field = btf.field("task_struct", name);
            offsets.push((constant, field.map_or(u32::MAX, |field| field.offset)));
        }
        // From 6.7 the file behind a mapping of an overlay is the layer's, with the path that the user opened beside it.
        let backing = btf.field("backing_file", "user_path");
        offsets.push(("BACKING_PATH", backing.map_or(0, |field| field.offset)));
        // `FMODE_BACKING` is bit 25 in include/linux/fs.h, and bit 24 since the permission events of fanotify took that
        // one (6.14, 6.12 stable), which came with a function of changing name.
        let moved = [
            "file_set_fsnotify_mode",
            "file_set_fsnotify_mode_from_watchers",
            "fsnotify_open_perm_and_set_mode",
        ]
        .iter()
        .any(|function| btf.has_function(function));
        offsets.push(("BACKING_MODE", if moved { 1 << 24 } else { 1 << 25 }));
        offsets.push(("ANONYMOUS_BY", by));
        offsets.push(("MNTNS_SEQ", offset));
        for (constant, function) in [
            ("SETATTR_DENTRY", "bpf_lsm_inode_setattr"),
            ("XATTR_DENTRY", "bpf_lsm_inode_setxattr"),
        ] {
            let position = btf.parameter(function, "dentry").filter(|position| *position < 2);
            offsets.push((
                constant,
                position.ok_or(FactError::Layout(
                    "a hook about attributes has no dentry among its first arguments",
                ))?,
            ));
        }
        // Before 6.1 a trampoline cannot pass the ids of `path_chown`, which are structures.
        let passes_structures = btf.field("btf_func_model", "arg_flags").is_some();
        offsets.push(("SETATTR_OWNER", u32::from(!passes_structures)));
        let cast = btf.function("bpf_rdonly_cast");
        offsets.push(("HAVE_CAST", u32::from(cast.is_some())));
        for (constant, structure) in CAST_TO {
            let id = btf.structure(structure).ok_or(FactError::Missing {
                structure,
                field: "(the structure itself)",
            })?;
            offsets.push((constant, id));
        }
        let mut facts = Self {
            offsets,
            fields: Vec::new(),
            cast,
        };
        facts.check(btf)?;
        facts.fields = patch::FIELDS
            .iter()
            .map(|(stand_in, name)| (*stand_in, facts.offset_of(name)))
            .collect();
        Ok(facts)
    }

    /// The offset that a stand-in of `abi::patch` stands for.
    fn offset_of(&self, field: &str) -> u32 {
        match field {
            "FILE_MNT" => self.get("FILE_PATH") + self.get("PATH_MNT"),
            "FILE_DENTRY" => self.get("FILE_PATH") + self.get("PATH_DENTRY"),
            "DENTRY_NAME_0" => self.get("DENTRY_INLINE_NAME"),
            "DENTRY_NAME_8" => self.get("DENTRY_INLINE_NAME") + 8,
            "DENTRY_NAME_16" => self.get("DENTRY_INLINE_NAME") + 16,
            "DENTRY_NAME_24" => self.get("DENTRY_INLINE_NAME") + 24,
            "MOUNT_MOUNTPOINT" => self.get("MOUNT_PARENT") + 8,
            other => self.get(other),
        }
    }

    fn get(&self, name: &str) -> u32 {
        self.offsets
            .iter()
            .find(|(constant, _)| *constant == name)
            .map_or(u32::MAX, |(_, value)| *value)
    }

    /// What the programs take for granted about neighbouring fields.
    fn check(&self, btf: &Btf) -> Result<(), FactError> {
        let parent = self.get("DENTRY_PARENT");
        if self.get("DENTRY_NAME_LEN") != parent + 12 || self.get("DENTRY_NAME") != parent + 16 {
            return Err(FactError::Layout(
                "dentry.d_parent and dentry.d_name are no neighbours",
            ));
        }
        if self.get("VFSMOUNT_SB") != self.get("VFSMOUNT_ROOT") + 8 {
            return Err(FactError::Layout(
                "vfsmount.mnt_root and vfsmount.mnt_sb are no neighbours",
            ));
        }
        let mountpoint = btf.field("mount", "mnt_mountpoint").map(|field| field.offset);
        if mountpoint != Some(self.get("MOUNT_PARENT") + 8) {
            return Err(FactError::Layout(
                "mount.mnt_parent and mount.mnt_mountpoint are no neighbours",
            ));
        }
        // Only programs without casts read several fields at once.
        if self.cast.is_none() && self.get("DENTRY_INLINE_NAME") != parent + 32 {
            return Err(FactError::Layout(
                "dentry.d_parent and the name inside a dentry are not 32 bytes apart",
            ));
        }
        let child = btf.field("mount", "mnt_child").map(|field| field.offset);
        if child != Some(self.get("MOUNT_CHILDREN") + 16)
            || self.get("VFSMOUNT_SB") != self.get("VFSMOUNT_ROOT") + 8
        {
            return Err(FactError::Layout(
                "mount.mnt_mounts and mount.mnt_child, or vfsmount.mnt_root and vfsmount.mnt_sb, are no neighbours",
            ));
        }
        let inline = first(btf, "dentry", INLINE_NAME).and_then(|field| btf.array_length(field));
        if inline.is_none_or(|bytes| bytes < INLINE_NAME_BYTES) {
            return Err(FactError::Layout(
                "the name inside a dentry is shorter than 32 bytes",
            ));
        }
        Ok(())
    }
}

fn first(btf: &Btf, structure: &str, names: &[&str]) -> Option<Field> {
    names.iter().find_map(|name| btf.field(structure, name))
}
