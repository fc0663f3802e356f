//! Memory that is needed for a moment only: loading the programs takes tens of mebibytes, running them nothing.
#![expect(unsafe_code, reason = "glibc's malloc_trim")]

/// Gives free memory back to the machine. glibc keeps it otherwise, however long it is not used.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time and from any thread; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
