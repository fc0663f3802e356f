//! Loading the kernel object: facts in, programs verified, everything pinned.

use aya::programs::{Lsm, ProgramError};
use aya::{Btf as AyaBtf, Ebpf, EbpfLoader, VerifierLogLevel};

use super::super::EnforcerError;
use super::pins::Pins;
use crate::kernel::{Btf, Facts, HOOKS, Presence, probe};

/// For kernels with task storage (5.11 and later).
static TASK_STORAGE: &[u8] = aya::include_bytes_aligned!(concat!(env!("VARMOR_BPF_DIR"), "/varmor-ts.o"));
/// For 5.10: labels in a hash keyed by the task's address.
static TASK_HASH: &[u8] = aya::include_bytes_aligned!(concat!(env!("VARMOR_BPF_DIR"), "/varmor-ptr.o"));

/// The kernel object for this kernel.
pub(super) struct Object {
    bytes: &'static [u8],
    task_storage: bool,
    facts: Facts,
    btf: Btf,
}

impl Object {
    /// Chooses the object by what the kernel's types say.
    pub(super) fn choose() -> Result<Self, EnforcerError> {
        probe()
            .bpf_enforcer()
            .map_err(|reason| EnforcerError::Unsupported { reason })?;
        let btf =
            Btf::of_running_kernel().map_err(|error| EnforcerError::kernel("read kernel types", error))?;
        let facts =
            Facts::of(&btf).map_err(|error| EnforcerError::kernel("find the kernel's structures", error))?;
        let missing: Vec<&str> = HOOKS
            .iter()
            .filter(|hook| {
                hook.presence == Presence::Required && !btf.has_function(&format!("bpf_lsm_{}", hook.name))
            })
            .map(|hook| hook.name)
            .collect();
        if !missing.is_empty() {
            return Err(EnforcerError::Unsupported {
                reason: format!("no hook {}", missing.join(", ")),
            });
        }
        let task_storage = btf.field("task_struct", "bpf_storage").is_some();
        let bytes = if task_storage { TASK_STORAGE } else { TASK_HASH };
        Ok(Self {
            bytes,
            task_storage,
            facts,
            btf,
        })
    }

    pub(super) fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// Programs of the object that this kernel has a hook for.
    pub(super) fn hooks(&self) -> impl Iterator<Item = &'static crate::kernel::Hook> {
        HOOKS.iter().filter(|hook| {
            (hook.presence != Presence::TaskHash || !self.task_storage)
                && self.btf.has_function(&format!("bpf_lsm_{}", hook.name))
        })
    }

    /// Loads all maps and programs and pins them under `pins`.
    pub(super) fn load(&self, pins: &Pins, key: u64) -> Result<(), EnforcerError> {
        let types =
            AyaBtf::from_sys_fs().map_err(|error| EnforcerError::kernel("read kernel types", error))?;
        // Whether LSM programs may ask for an ancestor's cgroup id is told by no type: try, then do without.
        let (mut ebpf, ancestor) = match self.try_exec_program(key, 1, &types) {
            Ok(ebpf) => (ebpf, true),
            Err(_) => (self.open(key, 0)?, false),
        };
        tracing::debug!(ancestor, "kernel can tell the cgroup of an ancestor");
        pins.create()
            .map_err(|error| EnforcerError::kernel("create the folder of pins", error))?;
        for hook in self.hooks() {
            let program = lsm(&mut ebpf, hook.name)?;
            if program.fd().is_err()
                && let Err(error) = program.load(hook.name, &types)
            {
                // 5.10 has `path_chown` but cannot call a program there: as good as absent.
                if let Presence::CoveredBy(other) = hook.presence {
                    tracing::warn!(
                        hook = hook.name,
                        covered_by = other,
                        "this kernel cannot attach a program here"
                    );
                    continue;
                }
                return Err(refused(hook.name, &error));
            }
            program
                .pin(pins.program(hook.name))
                .map_err(|error| EnforcerError::kernel(format!("pin program `{}`", hook.name), error))?;
        }
        for (name, map) in ebpf.maps() {
            // `.rodata` and the like are only held by the programs.
            if !name.starts_with('.') {
                map.pin(pins.map(name))
                    .map_err(|error| EnforcerError::kernel(format!("pin map `{name}`"), error))?;
            }
        }
        Ok(())
    }

    fn try_exec_program(&self, key: u64, ancestor: u32, types: &AyaBtf) -> Result<Ebpf, EnforcerError> {
        const NAME: &str = "bprm_creds_for_exec";
        let mut ebpf = self.open(key, ancestor)?;
        lsm(&mut ebpf, NAME)?
            .load(NAME, types)
            .map_err(|error| refused(NAME, &error))?;
        Ok(ebpf)
    }

    fn open(&self, key: u64, ancestor: u32) -> Result<Ebpf, EnforcerError> {
        self.open_with(VerifierLogLevel::default(), key, ancestor)
    }

    /// The object with its maps and facts, its programs not yet verified.
    pub(super) fn open_with(
        &self,
        log: VerifierLogLevel,
        key: u64,
        ancestor: u32,
    ) -> Result<Ebpf, EnforcerError> {
        let mut loader = EbpfLoader::new();
        loader.verifier_log_level(log);
        loader.allow_unsupported_maps();
        loader.override_global("HASH_KEY", &key, true);
        loader.override_global("HAVE_ANCESTOR_CGROUP", &ancestor, true);
        for (name, value) in &self.facts.offsets {
            loader.override_global(name, value, true);
        }
        loader
            .load(self.bytes)
            .map_err(|error| EnforcerError::kernel("load the kernel object", error))
    }
}

/// The verifier's log of a large program has thousands of lines; what it objects to is at the end.
fn refused(program: &str, error: &ProgramError) -> EnforcerError {
    const LINES: usize = 12;
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
    tracing::debug!(program, log = %text, "the verifier's whole log");
    EnforcerError::kernel(format!("load program `{program}`"), end)
}

pub(super) fn lsm<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Lsm, EnforcerError> {
    ebpf.program_mut(name)
        .ok_or_else(|| EnforcerError::kernel(format!("find program `{name}`"), "the kernel object has none"))?
        .try_into()
        .map_err(|error| EnforcerError::kernel(format!("find program `{name}`"), error))
}
