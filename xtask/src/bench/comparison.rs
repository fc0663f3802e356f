//! The policies of the comparison of enforcers that the presets repeat: each mode on each enforcer.

/// Refused by the filter of the Seccomp row; no measured program makes them. The comparison says `sysctl`, as the call was once called.
const CALLS: &str = "ptrace, mknod, mount, _sysctl";
/// The rules of the rows "Enhance", by the lists that they belong to.
const ENHANCE: &str = "    enhanceProtect:\n      \
    hardeningRules: [disable-cap-privileged, disallow-umount, disallow-access-procfs-root]\n      \
    attackProtectionRules:\n      \
    - rules: [mitigate-disk-device-number-leak, mitigate-sa-leak, mitigate-overlayfs-leak, mitigate-host-ip-leak, \
    disallow-metadata-service]\n      \
    vulMitigationRules: [cgroups-lxcfs-escape-mitigation, runc-override-mitigation]\n";

/// The policy that a name such as `EnhanceProtect-BPF` stands for.
pub(super) fn policy(name: &str) -> Option<String> {
    policy_of(name, "comparison", "demo", "any")
}

/// The same under a name of its own, for one pod.
pub(super) fn policy_of(system: &str, name: &str, namespace: &str, pod: &str) -> Option<String> {
    let (mode, enforcer) = system.split_once('-')?;
    let rules = match (mode, enforcer) {
        ("AlwaysAllow" | "RuntimeDefault", "AppArmor" | "BPF") => String::new(),
        ("EnhanceProtect", "AppArmor" | "BPF") => ENHANCE.to_owned(),
        ("EnhanceProtect", "Seccomp") => format!(
            "    enhanceProtect:\n      syscallRawRules:\n      - {{names: [{CALLS}], action: SCMP_ACT_ERRNO}}\n"
        ),
        _ => return None,
    };
    Some(format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
         target: {{kind: Pod, name: {pod}}}\n  policy:\n    enforcer: {enforcer}\n    mode: {mode}\n{rules}"
    ))
}

#[cfg(test)]
mod tests {
    use super::policy;

    #[test]
    fn enhance_has_the_ten_rules_of_the_comparison() {
        let text = policy("EnhanceProtect-BPF").unwrap();
        let rules = ["disable-", "disallow-", "mitigate-", "-mitigation"];
        assert_eq!(rules.map(|part| text.matches(part).count()), [1, 3, 4, 2]);
        assert!(
            text.contains("enforcer: BPF\n    mode: EnhanceProtect\n"),
            "{text}"
        );
    }

    #[test]
    fn modes_without_rules_have_none() {
        for name in ["AlwaysAllow-AppArmor", "RuntimeDefault-BPF"] {
            assert!(!policy(name).unwrap().contains("ules"), "{name}");
        }
        assert_eq!(policy("policy-8"), None);
        assert_eq!(policy("Nothing-BPF"), None);
    }
}
