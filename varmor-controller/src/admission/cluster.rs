//! What the version of the cluster means for admission.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::sleep;

use super::mutate::Facts;

/// A cluster is upgraded while the controller runs.
const POLL: Duration = Duration::from_mins(10);
const RETRY: Duration = Duration::from_secs(5);

/// The first version with the field `securityContext.appArmorProfile`.
const APP_ARMOR_FIELD: (u32, u32) = (1, 30);

/// Keeps `facts` current until it is dropped.
pub(super) async fn follow(
    client: Client,
    opt_in: BTreeMap<String, String>,
    facts: watch::Sender<Option<Facts>>,
) {
    loop {
        let wait = match client.apiserver_version().await {
            Ok(info) => {
                if let Some(version) = version(&info.major, &info.minor) {
                    facts.send_replace(Some(Facts {
                        app_armor_field: version >= APP_ARMOR_FIELD,
                        opt_in: opt_in.clone(),
                    }));
                    POLL
                } else {
                    tracing::error!(
                        version = info.git_version,
                        "the version of the API server cannot be read"
                    );
                    RETRY
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot ask the API server for its version");
                RETRY
            }
        };
        sleep(wait).await;
    }
}

/// Some providers write the minor version with a sign behind it: `30+`.
fn version(major: &str, minor: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    Some((number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_with_or_without_a_sign() {
        assert_eq!(version("1", "30+"), Some((1, 30)));
        assert_eq!(version("1", "9"), Some((1, 9)));
        assert!(version("1", "9") < Some(APP_ARMOR_FIELD) && version("1", "34") > Some(APP_ARMOR_FIELD));
        assert_eq!(version("", "x"), None);
    }
}
