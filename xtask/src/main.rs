//! `cargo xtask`: the commands of the lab.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool talks on its standard output"
)]

mod apt;
mod battery;
mod bench;
mod bpf;
mod build;
mod cluster;
mod codegen;
mod cpio;
mod demo;
mod fuzz;
mod image;
mod images;
mod kernel;
mod lint;
mod nginx;
mod oci;
mod process;
mod progress;
mod sbom;
mod setup;
mod test;
mod tidy;
mod tools;
mod vm;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

/// Sets up, builds, boots, tests and shows varmor.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
enum Command {
    /// Installs what the other commands need (they call the part of it that they need)
    Setup(setup::Args),
    /// Builds the eBPF object and all programs
    Build(build::Args),
    /// Boots a guest, runs one command in it and returns its exit code
    Vm(vm::Args),
    /// Attacks a real container, once without and once with a policy
    Demo(demo::Args),
    /// Tries every case of the threat catalogue on every kernel
    Battery(battery::Args),
    /// Writes the container images as OCI archives
    Image(images::Args),
    /// A real Kubernetes: control plane on this machine, nodes in guests
    Cluster(cluster::Args),
    /// Runs the tests
    Test(test::Args),
    /// Feeds generated input to the parsers and the matcher
    Fuzz(fuzz::Args),
    /// Measures what enforcement costs
    Bench(bench::Args),
    /// Checks format, lints, licences and house rules
    Lint(lint::Args),
    /// Writes the generated files, or checks them with --check
    Codegen(codegen::Args),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Setup(args) => setup::command(&args),
        Command::Build(args) => build::command(&args),
        Command::Vm(args) => vm::command(&args),
        Command::Demo(args) => demo::command(&args),
        Command::Battery(args) => battery::command(&args),
        Command::Image(args) => images::command(&args),
        Command::Cluster(args) => cluster::command(&args),
        Command::Test(args) => Ok(test::command(&args)),
        Command::Fuzz(args) => fuzz::command(&args),
        Command::Bench(args) => bench::command(&args),
        Command::Lint(args) => lint::command(&args),
        Command::Codegen(args) => codegen::command(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
