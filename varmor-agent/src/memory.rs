//! Memory that is needed for a moment only: loading the programs takes tens of mebibytes, and most of this program, running
//! them next to nothing.
#![expect(
    unsafe_code,
    reason = "glibc's malloc_trim and dl_iterate_phdr, and the kernel's madvise on the mappings that it names"
)]

use std::ffi::{c_int, c_void};

/// Gives free memory and the parts of the program that are not in use back to the machine. glibc keeps the one and the kernel
/// the other, however long it is not used.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time and from any thread; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
    // SAFETY: the callback has the type that dl_iterate_phdr(3) asks for, and needs no data.
    unsafe {
        libc::dl_iterate_phdr(Some(forget_segments), std::ptr::null_mut());
    }
}

/// Drops the pages of what is never written: code, constants, the kernel programs. They stay in the page cache and come back
/// from the file when they are used, a few microseconds later. Called for the program first; 1 = not for its libraries.
unsafe extern "C" fn forget_segments(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: glibc hands over a description that is valid during the call.
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() {
        return 1;
    }
    // SAFETY: glibc says how many program headers there are; they are mapped as long as the program is.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let page = rustix::param::page_size();
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let (Ok(address), Ok(length)) = (
            usize::try_from(info.dlpi_addr + header.p_vaddr),
            usize::try_from(header.p_filesz),
        ) else {
            continue;
        };
        let start = address.next_multiple_of(page);
        let end = (address + length) / page * page;
        if start < end {
            // SAFETY: whole pages of a segment that the file's headers say is never written. It is a private mapping of this
            // program's file, which the kernel keeps from being written while it runs, so each page comes back as it was.
            unsafe {
                libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED);
            }
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::give_back;

    /// In KiB.
    fn resident_of_files() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:"));
        line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn program_needs_less_and_goes_on() {
        static CONSTANT: &[u8] = include_bytes!("memory.rs");
        // Other tests run meanwhile, with parts of the program of their own.
        let is_less = || {
            let before = resident_of_files();
            give_back();
            resident_of_files() < before
        };
        assert!((0..100).any(|_| is_less()));
        assert!(CONSTANT.starts_with(b"//! Memory"));
    }
}
