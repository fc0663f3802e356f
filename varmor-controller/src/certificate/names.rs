//! The names that a certificate is for.

use std::net::IpAddr;

use tokio_rustls::rustls::pki_types::ServerName;

use super::Error;

/// The Services that the certificate is for.
const SERVICES: [&str; 2] = ["varmor-webhook-svc", "varmor-status-svc"];

/// DNS names and addresses, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// The names of the two Services in `namespace`, and `extra` ones.
    pub fn new(namespace: &str, extra: &[String]) -> Result<Self, Error> {
        let services = SERVICES.iter().flat_map(|service| {
            ["", ".", ".svc"].map(|end| match end {
                "" => (*service).to_owned(),
                "." => format!("{service}.{namespace}"),
                _ => format!("{service}.{namespace}{end}"),
            })
        });
        let mut names: Vec<String> = Vec::new();
        for name in services.chain(extra.iter().map(|name| name.trim().to_ascii_lowercase())) {
            if ServerName::try_from(name.as_str()).is_err() {
                return Err(Error::Name(name));
            }
            // `::1` and `0:0:0:0:0:0:0:1` are the same.
            let name = name.parse::<IpAddr>().map_or(name, |address| address.to_string());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(Self(names))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_services_and_the_extra_names_are_covered() {
        let extra = [
            "Controller.example".to_owned(),
            "10.0.0.1".to_owned(),
            "varmor-webhook-svc".to_owned(),
        ];
        let names = Names::new("demo", &extra).expect("valid names");
        assert_eq!(
            names.iter().collect::<Vec<_>>(),
            [
                "varmor-webhook-svc",
                "varmor-webhook-svc.demo",
                "varmor-webhook-svc.demo.svc",
                "varmor-status-svc",
                "varmor-status-svc.demo",
                "varmor-status-svc.demo.svc",
                "controller.example",
                "10.0.0.1",
            ]
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in ["a b", "", "-"] {
            assert!(
                matches!(Names::new("demo", &[wrong.to_owned()]), Err(Error::Name(_))),
                "{wrong}"
            );
        }
    }
}
