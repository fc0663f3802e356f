//! Behaviour in vArmor's format, `ArmorProfileModel`, and back.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

use super::allow::{app_armor_files, by_address, permissions, ptrace_permissions, type_word};
use super::behaviour::{Behaviour, FileUse, Mounted, Peer};
use crate::abi::PERM_READ;
use crate::matcher::Pattern;
use crate::policy::vocabulary as words;
use crate::policy::{
    ArmorProfileModel, ArmorProfileModelStatus, DynamicResult, Learning, ModelData, ModelFields,
    Observations, ObservedEgress, ObservedFile, ObservedMount, ObservedNetwork, ObservedPtrace,
    ObservedSocket, ObservedSyscalls, StorageType,
};
use crate::rules::capability_name;

/// A policy of the mode that holds a model; for judging models that no policy asks for.
pub(super) const POLICY: &str = "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {name: \
    learned}\nspec: {target: {kind: Pod, name: x}, policy: {enforcer: BPF, mode: DefenseInDepth, defenseInDepth: {bpf: \
    {profileType: BehaviorModel}}}}\n";

/// What in a model cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    #[error("dynamicResult.bpf.files[{index}]: `{path}` is no pattern: {reason}")]
    Pattern {
        index: usize,
        path: String,
        reason: String,
    },
    #[error("dynamicResult.bpf.{field}: `{word}` is not known")]
    Word { field: &'static str, word: String },
}

/// The object that stands for this behaviour.
#[must_use]
pub fn model(name: &str, namespace: &str, behaviour: &Behaviour, learning: Learning) -> ArmorProfileModel {
    ArmorProfileModel {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: ModelFields {
            storage_type: Some(StorageType::CrdInternal),
            data: Some(ModelData {
                dynamic_result: Some(dynamic_result(behaviour, name)),
                learning: Some(learning),
                ..ModelData::default()
            }),
        },
        status: Some(ArmorProfileModelStatus {
            desired_number: 1,
            completed_number: 1,
            ready: true,
            ..ArmorProfileModelStatus::default()
        }),
    }
}

/// The behaviour as each enforcer would have seen it.
pub(super) fn dynamic_result(behaviour: &Behaviour, name: &str) -> DynamicResult {
    let bpf = bpf(behaviour);
    let network = bpf.network.clone().unwrap_or_default();
    let app_armor = Observations {
        profiles: vec![name.to_owned()],
        files: app_armor_files(behaviour),
        networks: (!network.sockets.is_empty()).then(|| ObservedNetwork {
            sockets: network.sockets,
            ..ObservedNetwork::default()
        }),
        network: None,
        unhandled: Vec::new(),
        ..bpf.clone()
    };
    DynamicResult {
        app_armor: Some(app_armor),
        bpf: Some(bpf),
        seccomp: (!behaviour.syscalls.is_empty()).then(|| ObservedSyscalls {
            syscalls: behaviour.syscalls.iter().cloned().collect(),
        }),
    }
}

fn bpf(behaviour: &Behaviour) -> Observations {
    let files = behaviour.files.iter();
    let network = ObservedNetwork {
        sockets: behaviour.sockets.iter().filter_map(socket).collect(),
        egresses: peers(&behaviour.connects),
        ingresses: peers(&behaviour.binds),
    };
    Observations {
        executions: files
            .clone()
            .filter(|(_, seen)| seen.program)
            .map(|(pattern, _)| pattern.clone())
            .collect(),
        files: files
            .map(|(pattern, seen)| ObservedFile {
                path: pattern.clone(),
                owner: false,
                permissions: permissions(seen.access),
                old_path: seen.example.clone(),
            })
            .collect(),
        capabilities: behaviour
            .capabilities
            .iter()
            .filter_map(|number| capability_name(*number))
            .map(str::to_owned)
            .collect(),
        network: (network != ObservedNetwork::default()).then_some(network),
        ptraces: behaviour
            .ptraces
            .iter()
            .map(|(access, external)| ObservedPtrace {
                peer: None,
                permissions: ptrace_permissions(*access),
                external: *external,
            })
            .collect(),
        mounts: behaviour.mounts.iter().map(mount).collect(),
        unhandled: behaviour.unhandled.iter().cloned().collect(),
        ..Observations::default()
    }
}

fn socket((domain, kind, protocol): &(u32, u32, u32)) -> Option<ObservedSocket> {
    Some(ObservedSocket {
        domain: words::domain_word(*domain)?.to_owned(),
        kind: type_word(*kind)?,
        protocol: protocol_word(*protocol),
    })
}

/// The word of a protocol, or its number.
fn protocol_word(number: u32) -> String {
    let mut names = words::protocol_names();
    let word = names.find(|name| words::protocols(name).is_some_and(|known| known.first() == Some(&number)));
    word.map_or_else(|| number.to_string(), str::to_owned)
}

fn peers(peers: &BTreeSet<Peer>) -> Vec<ObservedEgress> {
    let by_address = by_address(peers);
    by_address
        .map(|(ip, ports)| ObservedEgress {
            ip: ip.unwrap_or_default(),
            ports: ports.iter().map(|port| port.port).collect(),
        })
        .collect()
}

fn mount(mounted: &Mounted) -> ObservedMount {
    ObservedMount {
        path: mounted.source.clone(),
        kind: mounted.fstype.clone().unwrap_or_else(|| "none".to_owned()),
        flags: flag_words(mounted.flags),
    }
}

/// Words that together are these flags.
fn flag_words(flags: u32) -> Vec<String> {
    let mut rest = flags;
    let mut found = Vec::new();
    for bit in (0..u32::BITS).map(|number| 1 << number) {
        let word = words::mount_flag_names()
            .find(|word| words::mount_flag(word).is_some_and(|flag| flag.any == bit));
        if let (true, Some(word)) = (rest & bit != 0, word) {
            found.push(word.to_owned());
            rest &= !bit;
        }
    }
    found
}

impl Behaviour {
    /// Reads what [`model`] wrote, or what vArmor did.
    pub fn read(result: &DynamicResult) -> Result<Self, ModelError> {
        let mut behaviour = Self {
            syscalls: result
                .seccomp
                .iter()
                .flat_map(|seccomp| seccomp.syscalls.clone())
                .collect(),
            ..Self::default()
        };
        let Some(bpf) = &result.bpf else {
            return Ok(behaviour);
        };
        for (index, file) in bpf.files.iter().enumerate() {
            behaviour.read_file(index, file)?;
        }
        for program in &bpf.executions {
            let seen = behaviour.files.entry(program.clone()).or_default();
            (seen.program, seen.access) = (true, seen.access | crate::abi::PERM_EXEC);
            seen.examples = seen.examples.max(1);
        }
        let of_app_armor = result.app_armor.iter().flat_map(|seen| &seen.files);
        for file in of_app_armor.filter(|file| file.permissions.iter().any(|letter| letter == "r")) {
            if let Some(seen) = behaviour.files.get_mut(&file.path) {
                // AppArmor asks for reading where a name is changed, and only there beyond what BPF does.
                seen.renamed = seen.access & PERM_READ == 0 && !seen.program;
            }
        }
        for word in &bpf.capabilities {
            let set = known("capabilities", word, words::capabilities)?.0;
            behaviour
                .capabilities
                .extend((0..u64::BITS).filter(|number| set & (1 << number) != 0));
        }
        for network in bpf.network.iter().chain(&bpf.networks) {
            for socket in &network.sockets {
                behaviour.sockets.insert((
                    known("network.sockets.domain", &socket.domain, words::domain)?,
                    known("network.sockets.type", &socket.kind, words::socket_type)?,
                    known("network.sockets.protocol", &socket.protocol, protocol)?,
                ));
            }
            behaviour.connects.extend(read_peers(&network.egresses)?);
            behaviour.binds.extend(read_peers(&network.ingresses)?);
        }
        for ptrace in &bpf.ptraces {
            let mut access = 0;
            for word in &ptrace.permissions {
                access |= known("ptraces.permissions", word, words::ptrace_permission)?;
            }
            behaviour.ptraces.insert((access, ptrace.external));
        }
        for mounted in &bpf.mounts {
            let mut flags = 0;
            for word in &mounted.flags {
                flags |= known("mounts.flags", word, words::mount_flag)?.any;
            }
            behaviour.mounts.insert(Mounted {
                source: mounted.path.clone(),
                fstype: (!matches!(mounted.kind.as_str(), "" | "none")).then(|| mounted.kind.clone()),
                flags,
            });
        }
        behaviour.unhandled.extend(bpf.unhandled.iter().cloned());
        Ok(behaviour)
    }

    fn read_file(&mut self, index: usize, file: &ObservedFile) -> Result<(), ModelError> {
        if let Err(error) = Pattern::parse(&file.path) {
            return Err(ModelError::Pattern {
                index,
                path: file.path.clone(),
                reason: error.message,
            });
        }
        let mut access = 0;
        for word in &file.permissions {
            access |= known("files.permissions", word, words::permission)?;
        }
        self.files.insert(
            file.path.clone(),
            FileUse {
                access,
                program: false,
                renamed: false,
                example: file.old_path.clone(),
                examples: 1,
            },
        );
        Ok(())
    }
}

fn known<T>(field: &'static str, word: &str, find: impl Fn(&str) -> Option<T>) -> Result<T, ModelError> {
    find(word).ok_or_else(|| ModelError::Word {
        field,
        word: word.to_owned(),
    })
}

/// A number, as we write it, or a word, as vArmor does.
fn protocol(word: &str) -> Option<u32> {
    let number = || Some(words::protocols(word)?.first().copied().unwrap_or(0));
    if word.is_empty() {
        Some(0)
    } else {
        word.parse().ok().or_else(number)
    }
}

fn read_peers(seen: &[ObservedEgress]) -> Result<BTreeSet<Peer>, ModelError> {
    let mut peers = BTreeSet::new();
    for peer in seen {
        let ip = if peer.ip.is_empty() {
            None
        } else {
            Some(known("network.egresses.ip", &peer.ip, |word| word.parse().ok())?)
        };
        if peer.ports.is_empty() {
            peers.insert((ip, None));
        }
        peers.extend(peer.ports.iter().map(|port| (ip, Some(*port))));
    }
    Ok(peers)
}
