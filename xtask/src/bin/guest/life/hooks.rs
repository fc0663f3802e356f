//! Programs sit on their hooks while a loaded profile needs them, and only then.

use anyhow::{Result, ensure};

use super::{
    Args, Claims,
    enforcer::{Enforcer, attached},
    number,
    policies::{CAPABILITY, FIRST},
    reader::{Task, cgroup},
};

pub(super) fn run(_: &Args, claims: &mut Claims) -> Result<()> {
    let mut enforcer = Enforcer::start()?;
    let empty = enforcer.state()?;
    claims.claim(
        "nothing is attached without a profile",
        (|| {
            ensure!(attached(&empty).is_empty(), "{:?}", attached(&empty));
            ensure!(number(&empty, "/usage/links")? == 0, "{empty}");
            Ok(format!("{} programs loaded", number(&empty, "/usage/programs")?))
        })(),
    );

    enforcer.apply(CAPABILITY, "capability")?;
    let one = enforcer.state()?;
    claims.claim(
        "a profile about capabilities leaves the hooks of files alone",
        (|| {
            let attached = attached(&one);
            ensure!(attached.iter().any(|hook| hook == "capable"), "{attached:?}");
            ensure!(attached.iter().all(|hook| hook != "file_open"), "{attached:?}");
            let loaded = one["hooks"].as_array().into_iter().flatten();
            let loaded = loaded.filter(|hook| hook["loaded"] == true).count();
            Ok(format!("{loaded} programs loaded, {} attached", attached.len()))
        })(),
    );

    let container = cgroup("hooks")?;
    enforcer.apply(FIRST, "files")?;
    enforcer.protect(std::slice::from_ref(&container), &["files".to_owned()])?;
    let both = enforcer.state()?;
    let mut task = Task::start(&container)?;
    claims.claim(
        "a profile about files attaches them",
        (|| {
            ensure!(attached(&both).iter().any(|hook| hook == "file_open"), "{both}");
            ensure!(!task.opens_secret()?, "the secret is open");
            Ok(format!("{} attached", attached(&both).len()))
        })(),
    );

    enforcer.release(&container)?;
    enforcer.remove("files")?;
    let again = enforcer.state_with("links", number(&one, "/usage/links")?);
    claims.claim(
        "the last profile about files takes their hooks with it",
        (|| {
            let again = again?;
            ensure!(attached(&again) == attached(&one), "{:?}", attached(&again));
            ensure!(
                task.opens_secret()?,
                "the policy is gone, and the secret still refused"
            );
            Ok(String::new())
        })(),
    );

    enforcer.remove("capability")?;
    let none = enforcer.settled()?;
    claims.claim(
        "the last profile takes every hook with it",
        (|| {
            ensure!(attached(&none).is_empty(), "{:?}", attached(&none));
            enforcer.state_with("links", 0)?;
            Ok(String::new())
        })(),
    );
    claims.claim(
        "a removed profile's tables are freed",
        (|| {
            let maps = number(&none, "/usage/maps")?;
            let loaded = number(
                &enforcer.apply(FIRST, "files").and_then(|_| enforcer.state())?,
                "/usage/maps",
            )?;
            ensure!(loaded > maps, "{loaded} maps with a profile, {maps} without");
            enforcer.remove("files")?;
            enforcer.state_with("maps", maps)?;
            Ok(format!("{maps} maps, {loaded} with a profile"))
        })(),
    );

    let mut young = Task::start(&container)?;
    claims.claim(
        "tasks that began while no hook was attached come under a new policy",
        (|| {
            ensure!(young.opens_secret()?, "refused without a policy");
            enforcer.apply(FIRST, "files")?;
            enforcer.protect(std::slice::from_ref(&container), &["files".to_owned()])?;
            ensure!(!young.opens_secret()?, "the young task reads the secret");
            ensure!(!task.opens_secret()?, "the old task reads the secret");
            Ok(String::new())
        })(),
    );
    enforcer.uninstall()
}
