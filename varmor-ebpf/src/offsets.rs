//! Field offsets and other facts of the running kernel, written by the loader before the programs are loaded.
//!
//! They live in `.rodata`, which is frozen: the verifier folds each load to a constant, so that a field access
//! is an ordinary, type-checked BTF access (reference: `btf_struct_access` in kernel/bpf/btf.c).

use aya_ebpf::Global;

/// No constant of the programs has this value, so that the compiler merges none of them with a fact.
const UNSET: u64 = 0x7661_726d_6f72_3f3f;

macro_rules! facts {
    ($($(#[$meta:meta])* $name:ident: $type:ty),* $(,)?) => {
        $($(#[$meta])* #[unsafe(no_mangle)] pub static $name: Global<$type> = Global::new(UNSET as $type);)*
    };
}

facts! {
    /// Secret of this boot for the name hash.
    HASH_KEY: u64,
    /// 1 if `bpf_get_current_ancestor_cgroup_id` may be called from LSM programs.
    HAVE_ANCESTOR_CGROUP: u32,
    /// 1 if `bpf_rdonly_cast` exists (6.2).
    HAVE_CAST: u32,
    /// Type ids of the kernel for casts.
    ID_DENTRY: u32,
    ID_MOUNT: u32,
    ID_VFSMOUNT: u32,
    ID_MNTNS: u32,
    /// 1 if an anonymous mount namespace is told by `mnt_namespace.seq` being zero, 2 by its inode number.
    ANONYMOUS_BY: u32,
    FILE_PATH: u32,
    FILE_INODE: u32,
    FILE_MODE: u32,
    FILE_FLAGS: u32,
    PATH_MNT: u32,
    PATH_DENTRY: u32,
    DENTRY_PARENT: u32,
    DENTRY_NAME_LEN: u32,
    DENTRY_NAME: u32,
    DENTRY_INLINE_NAME: u32,
    DENTRY_SB: u32,
    DENTRY_INODE: u32,
    INODE_MODE: u32,
    INODE_INO: u32,
    SB_MAGIC: u32,
    SB_TYPE: u32,
    FSTYPE_NAME: u32,
    VFSMOUNT_ROOT: u32,
    VFSMOUNT_SB: u32,
    MOUNT_PARENT: u32,
    MOUNT_VFSMOUNT: u32,
    MOUNT_NAMESPACE: u32,
    /// The list of the mounts on a mount (`mnt_mounts`); the place in that list (`mnt_child`) is 16 bytes behind it, a fact that the loader checks.
    MOUNT_CHILDREN: u32,
    MNTNS_ROOT: u32,
    MNTNS_SEQ: u32,
    MNTNS_INUM: u32,
    BPRM_FILE: u32,
    BPRM_FILENAME: u32,
    BPRM_INTERP: u32,
    BPRM_EXEC: u32,
    BPRM_VMA: u32,
    BPRM_CRED: u32,
    TASK_REAL_CRED: u32,
    TASK_REAL_PARENT: u32,
    TASK_TGID: u32,
    TASK_COMM: u32,
    TASK_NSPROXY: u32,
    TASK_MM: u32,
    TASK_START: u32,
    NSPROXY_MNT: u32,
    MM_EXE_FILE: u32,
    MM_ENV_END: u32,
    VMA_FILE: u32,
    VMA_END: u32,
    SOCKET_SK: u32,
    SOCK_FAMILY: u32,
    SOCK_NUM: u32,
    SOCK_RCV_SADDR: u32,
    SOCK_V6_RCV_SADDR: u32,
    UNIX_PATH: u32,
    /// 1 if `bpf_skc_to_unix_sock` exists (5.16).
    HAVE_UNIX_SOCK: u32,
    MSG_NAME: u32,
    MSG_NAMELEN: u32,
    MNTNS_EVENT: u32,
    SB_ROOT: u32,
    SB_ID: u32,
    SB_BDEV: u32,
    BDEV_DEV: u32,
    INODE_RDEV: u32,
    IATTR_VALID: u32,
    TASK_CRED: u32,
    TASK_FLAGS: u32,
    TASK_PTRACE: u32,
    TASK_NAMEIDATA: u32,
    TASK_CGROUPS: u32,
    CSS_SET_CGROUP: u32,
    CGROUP_LEVEL: u32,
    /// `cgroup.ancestor_ids`; 0 on kernels without it, whose programs have a helper (6.1 and later).
    CGROUP_ANCESTOR_IDS: u32,
    NAMEIDATA_NAME: u32,
    FILENAME_NAME: u32,
    TASK_STORAGE: u32,
    TASK_CANARY: u32,
    /// `backing_file.user_path`; 0 where a mapped file of an overlay has the user's path itself (before 6.7).
    BACKING_PATH: u32,
    /// `FMODE_BACKING`: the file is what an overlay reads, not what the user opened.
    BACKING_MODE: u32,
    MAP_ID: u32,
    PROG_AUX: u32,
    AUX_ID: u32,
    /// Number of the argument that is the dentry; before it, newer kernels pass the mount's id map.
    SETATTR_DENTRY: u32,
    XATTR_DENTRY: u32,
    /// 1 where no program can be called by `path_chown`, so that `inode_setattr` judges owners.
    SETATTR_OWNER: u32,
}
