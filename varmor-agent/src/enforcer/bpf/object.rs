//! Loading the kernel object: facts in, maps made, programs verified when they are needed, everything pinned.

use aya::programs::{Lsm, ProgramError};
use aya::{Btf as AyaBtf, Ebpf, EbpfLoader, VerifierLogLevel};

use varmor_common::compile::bpf::Kernel;

use super::super::{EnforcerError, Pulse};
use super::patch;
use super::pins::Pins;
use crate::kernel::{Btf, Facts, HOOKS, Hook, Presence, has_label_slots, probe};

/// For kernels with task storage and atomic exchanges (5.12 and later).
static LABEL_SLOTS: &[u8] = aya::include_bytes_aligned!(concat!(env!("VARMOR_BPF_DIR"), "/varmor-ts.o"));
/// For others: labels in a hash keyed by the task's address.
static LABEL_HASH: &[u8] = aya::include_bytes_aligned!(concat!(env!("VARMOR_BPF_DIR"), "/varmor-ptr.o"));

/// The program that is never attached: only a kernel that lets programs ask for an ancestor's cgroup loads it.
const ANCESTOR_TRIAL: &str = "ancestor_cgroup_trial";
/// Note in the pins: programs may ask for an ancestor's cgroup.
const ANCESTOR: &str = "ancestor";

/// The kernel object for this kernel.
pub(super) struct Object {
    bytes: &'static [u8],
    label_slots: bool,
    facts: Facts,
    /// Those of [`HOOKS`] that this kernel has. Its types themselves are too large to be kept.
    hooks: Vec<&'static Hook>,
    /// Somebody waits while programs are loaded.
    pulse: Option<Pulse>,
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
        let (hooks, absent): (Vec<&Hook>, Vec<&Hook>) = HOOKS
            .iter()
            .partition(|hook| btf.has_function(&format!("bpf_lsm_{}", hook.name)));
        let missing: Vec<&str> = absent
            .iter()
            .filter(|hook| hook.presence == Presence::Required)
            .map(|hook| hook.name)
            .collect();
        if !missing.is_empty() {
            return Err(EnforcerError::Unsupported {
                reason: format!("no hook {}", missing.join(", ")),
            });
        }
        let label_slots = has_label_slots(&btf);
        let bytes = if label_slots { LABEL_SLOTS } else { LABEL_HASH };
        Ok(Self {
            bytes,
            label_slots,
            facts,
            hooks,
            pulse: None,
        })
    }

    pub(super) fn set_pulse(&mut self, pulse: Pulse) {
        self.pulse = Some(pulse);
    }

    /// Labels are in a hash that outlives tasks whose end nobody sees.
    pub(super) fn has_label_hash(&self) -> bool {
        !self.label_slots
    }

    pub(super) fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// What the compiler must know about this kernel.
    pub(super) fn kernel(&self) -> Kernel {
        Kernel {
            userns_create: self.hooks.iter().any(|hook| hook.name == "userns_create"),
        }
    }

    /// Programs of the object that this kernel has a hook for.
    pub(super) fn hooks(&self) -> impl Iterator<Item = &'static Hook> {
        let hooks = self.hooks.iter().copied();
        hooks.filter(|hook| hook.presence != Presence::TaskHash || !self.label_slots)
    }

    /// Makes all maps and pins them under `pins`; programs come when a profile needs them.
    pub(super) fn create(&self, pins: &Pins, key: u64) -> Result<(), EnforcerError> {
        let types =
            AyaBtf::from_sys_fs().map_err(|error| EnforcerError::kernel("read kernel types", error))?;
        let (ebpf, ancestor) = self.open_for_trial(VerifierLogLevel::default(), key, &types)?;
        tracing::debug!(ancestor, "kernel can tell the cgroup of an ancestor");
        pins.create()
            .map_err(|error| EnforcerError::kernel("create the folder of pins", error))?;
        if ancestor {
            pins.note(ANCESTOR)
                .map_err(|error| EnforcerError::kernel("note what the kernel can do", error))?;
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

    /// Loads those of the programs that are not there yet and pins them.
    pub(super) fn load(
        &self,
        pins: &Pins,
        key: u64,
        hooks: impl Iterator<Item = &'static Hook>,
    ) -> Result<(), EnforcerError> {
        let missing: Vec<&Hook> = hooks
            .filter(|hook| !pins.program(hook.name).exists() && !pins.has(&absent(hook)))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let types =
            AyaBtf::from_sys_fs().map_err(|error| EnforcerError::kernel("read kernel types", error))?;
        let mut ebpf = self.open(key, pins.has(ANCESTOR), Some(pins))?;
        for hook in missing {
            let program = lsm(&mut ebpf, hook.name)?;
            if let Err(error) = program.load(hook.name, &types) {
                // 5.10 has `path_chown` but cannot call a program there: as good as absent.
                let Presence::CoveredBy(other) = hook.presence else {
                    return Err(refused(hook.name, &error));
                };
                tracing::warn!(
                    hook = hook.name,
                    covered_by = other,
                    "this kernel cannot attach a program here"
                );
                pins.note(&absent(hook))
                    .map_err(|error| EnforcerError::kernel("note what the kernel can do", error))?;
                continue;
            }
            pin(program, hook.name, pins)?;
            if let Some(pulse) = &self.pulse {
                pulse();
            }
        }
        Ok(())
    }

    /// The object with new maps, and whether LSM programs may ask for an ancestor's cgroup id. No type tells that: try it
    /// with a program of a few instructions, for the log of a large one that is refused takes the verifier most of a minute.
    pub(super) fn open_for_trial(
        &self,
        log: VerifierLogLevel,
        key: u64,
        types: &AyaBtf,
    ) -> Result<(Ebpf, bool), EnforcerError> {
        let mut ebpf = self.open_with(log, key, true, None)?;
        let trial = lsm(&mut ebpf, ANCESTOR_TRIAL)?;
        if trial.load("bprm_check_security", types).is_err() {
            return Ok((self.open_with(log, key, false, None)?, false));
        }
        trial
            .unload()
            .map_err(|error| EnforcerError::kernel("unload a program", error))?;
        Ok((ebpf, true))
    }

    /// The object with its facts; with the pinned maps if there are any, else with new ones.
    pub(super) fn open(
        &self,
        key: u64,
        ancestor: bool,
        pinned: Option<&Pins>,
    ) -> Result<Ebpf, EnforcerError> {
        self.open_with(VerifierLogLevel::default(), key, ancestor, pinned)
    }

    /// As [`Self::open`], with the verifier's log; the programs are not yet verified.
    fn open_with(
        &self,
        log: VerifierLogLevel,
        key: u64,
        ancestor: bool,
        pinned: Option<&Pins>,
    ) -> Result<Ebpf, EnforcerError> {
        let ancestor = u32::from(ancestor);
        let names = match pinned {
            Some(pins) => pins
                .map_names()
                .map_err(|error| EnforcerError::kernel("list the pinned maps", error))?,
            None => Vec::new(),
        };
        let mut loader = EbpfLoader::new();
        loader.verifier_log_level(log);
        for name in &names {
            loader.map_pin_path(name, pinned.map(|pins| pins.map(name)).unwrap_or_default());
        }
        loader.allow_unsupported_maps();
        loader.override_global("HASH_KEY", &key, true);
        loader.override_global("HAVE_ANCESTOR_CGROUP", &ancestor, true);
        for (name, value) in &self.facts.offsets {
            loader.override_global(name, value, true);
        }
        let bytes = patch::patched(self.bytes, &self.facts)
            .map_err(|error| EnforcerError::kernel("prepare the kernel object", error))?;
        loader
            .load(&bytes)
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

fn absent(hook: &Hook) -> String {
    format!("absent-{}", hook.name)
}

fn pin(program: &mut Lsm, name: &str, pins: &Pins) -> Result<(), EnforcerError> {
    program
        .pin(pins.program(name))
        .map_err(|error| EnforcerError::kernel(format!("pin program `{name}`"), error))
}

pub(super) fn lsm<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Lsm, EnforcerError> {
    ebpf.program_mut(name)
        .ok_or_else(|| EnforcerError::kernel(format!("find program `{name}`"), "the kernel object has none"))?
        .try_into()
        .map_err(|error| EnforcerError::kernel(format!("find program `{name}`"), error))
}
