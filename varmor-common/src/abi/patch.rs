//! Numbers that stand in the programs' instructions for facts of the kernel, until the loader replaces them.

/// Stands for a call of `bpf_rdonly_cast`.
pub const CAST: u32 = 0x4b00_0001;

/// First stand-in of a field offset: a load at `-(FIRST + n)`.
pub const FIRST: i32 = 20_000;

macro_rules! fields {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(pub const $name: i32 = FIRST + $number;)*
        /// Stand-in and name of every field.
        pub const FIELDS: &[(i32, &str)] = &[$(($name, stringify!($name))),*];
    };
}

fields! {
    FILE_MNT = 0,
    FILE_DENTRY = 1,
    FILE_MODE = 2,
    FILE_FLAGS = 3,
    PATH_MNT = 4,
    PATH_DENTRY = 5,
    DENTRY_PARENT = 6,
    DENTRY_NAME_LEN = 7,
    DENTRY_NAME_0 = 9,
    DENTRY_NAME_8 = 10,
    DENTRY_NAME_16 = 11,
    DENTRY_NAME_24 = 12,
    DENTRY_SB = 13,
    SB_MAGIC = 14,
    VFSMOUNT_ROOT = 15,
    MOUNT_PARENT = 16,
    MOUNT_MOUNTPOINT = 17,
    MOUNT_NAMESPACE = 18,
    MNTNS_SEQ = 19,
    MNTNS_INUM = 20,
    TASK_STORAGE = 21,
    TASK_CANARY = 22,
}
