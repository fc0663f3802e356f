//! The tests of the index of UnixBench, written anew from a description of what each does, with a fixed amount of work.
//! What they take from this guest instead of from a distribution is said where they are reported.

mod calls;
mod copies;
mod dhrystone;
mod early;
mod shell;
mod whetstone;

pub(super) use calls::echo;

use anyhow::{Result, bail};

use super::operations::Operation;

/// On tmpfs, like all that the tests write.
const FOLDER: &str = "/tmp/ubench";

/// One repetition is one unit of the test, or as many as its name's table in the lab says.
pub(super) fn prepare(name: &str) -> Result<Operation> {
    std::fs::create_dir_all(FOLDER)?;
    Ok(match name {
        "ubench-syscall" => calls::system_calls()?,
        "ubench-pipe" => calls::pipe()?,
        "ubench-context1" => calls::context()?,
        "ubench-spawn" => calls::spawn(),
        "ubench-execl" => calls::execl(),
        "ubench-fsbuffer" => copies::copy(256, 500)?,
        "ubench-fstime" => copies::copy(1024, 2000)?,
        "ubench-fsdisk" => copies::copy(4096, 8000)?,
        "ubench-shell1" => shell::scripts(1)?,
        "ubench-shell8" => shell::scripts(8)?,
        "ubench-dhry2reg" => dhrystone::iteration(),
        "ubench-whetstone" => whetstone::pass(),
        _ => bail!("no operation {name}"),
    })
}
