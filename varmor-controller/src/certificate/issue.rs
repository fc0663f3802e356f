//! New certificates.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};

use super::judge::authority_fault;
use super::{AUTHORITY_NAME, AUTHORITY_VALIDITY, BACKDATED, Error, Material, Names, VALIDITY, judge};

/// A certificate for `names`, from the authority of `previous` as long as that is good. A new authority is put before the
/// one that it replaces, so that whoever still follows the old one is served meanwhile.
pub fn issue(previous: Option<&Material>, names: &Names, now: SystemTime) -> Result<Material, Error> {
    let params = authority_params(now);
    let kept = previous.filter(|material| authority_fault(material, now).is_none());
    let (authority, authority_key) = if let Some(kept) = kept {
        (kept.authority.clone(), KeyPair::from_pem(&kept.authority_key)?)
    } else {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut authority = params.self_signed(&key)?.pem();
        authority.extend(previous.and_then(|material| judge::still_valid(&material.authority, now)));
        (authority, key)
    };
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate =
        server_params(names, now)?.signed_by(&key, &Issuer::from_params(&params, &authority_key))?;
    Ok(Material {
        authority,
        authority_key: authority_key.serialize_pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn authority_params(now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    // The name is always the same: certificates find their authority by it.
    params.distinguished_name = common_name(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, now, AUTHORITY_VALIDITY);
    params
}

fn server_params(names: &Names, now: SystemTime) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(str::to_owned).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = common_name("varmor-webhook-svc");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, now, VALIDITY);
    Ok(params)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn valid(params: &mut CertificateParams, now: SystemTime, validity: Duration) {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start = date_time_ymd(1970, 1, 1);
    params.not_before = start + since.saturating_sub(BACKDATED);
    params.not_after = start + since + validity;
}
