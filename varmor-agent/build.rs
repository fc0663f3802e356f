//! Tells the compiler where the kernel objects are, which the agent carries inside.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=VARMOR_BPF_DIR");
    let folder = std::env::var_os("VARMOR_BPF_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/bpf"),
        PathBuf::from,
    );
    for object in ["varmor-ts.o", "varmor-ptr.o"] {
        let path = folder.join(object);
        println!("cargo::rerun-if-changed={}", path.display());
        assert!(
            path.exists(),
            "{} is missing: run `cargo xtask build`, which builds the kernel objects first",
            path.display()
        );
    }
    println!("cargo::rustc-env=VARMOR_BPF_DIR={}", folder.display());
}
