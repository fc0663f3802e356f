//! `varmor-guest`: what the lab runs inside its guests and inside the demo's containers.
#![expect(clippy::print_stdout, reason = "the lab reads this program's standard output")]

mod agree;
mod apparmor;
mod attack;
mod battery;
mod bench;
mod cost;
mod demo;
mod disk;
mod enforce;
mod life;
mod limits;
mod line;
mod model;
mod node;
mod pinned;
mod proxy;
mod rules;
mod suites;

use std::process::ExitCode;

use clap::Parser;

/// The lab's program inside guests and containers.
#[derive(Parser)]
#[command(name = "varmor-guest", version)]
enum Command {
    /// Proves on this kernel that the commands that answer offline say what the kernel does
    Agree(agree::Args),
    /// Proves on this kernel that AppArmor holds each built-in rule
    Apparmor(apparmor::Args),
    /// Tries one operation and prints its outcome as JSON
    Attack(attack::Args),
    /// Runs the demo in a guest with containerd
    Demo(demo::Args),
    /// Runs test suites in a guest and prints one JSON line per case
    Suite(suites::Args),
    /// Proves on this kernel that policies refuse what they should, and nothing else
    Enforce(enforce::Args),
    /// Kills the agent and changes its policies while a container is attacked
    Survive(demo::survive::Args),
    /// Measures what an open costs under a policy (in a guest that counts instructions)
    Cost(cost::Args),
    /// Loads, updates and removes policies in many ways and looks at what is left
    Life(life::Args),
    /// Measures operations under enforcers (in a guest that counts instructions)
    Bench(bench::Args),
    /// Tries every case of the threat catalogue, with and without a policy
    Battery(battery::Args),
    /// Tries every built-in rule on every enforcer that holds it, each in a container of its own
    Rules(rules::Args),
    /// Records a service and holds it to what was learned of it
    Model(model::Args),
    /// Puts the agent to the tests of a service
    Node(node::Args),
    /// Connects the API server of a cluster with the network inside a guest
    Proxy(proxy::Args),
    /// Does nothing until it is killed (the first process of the demo's containers)
    Wait,
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Agree(args) => agree::command(&args),
        Command::Apparmor(args) => apparmor::command(&args),
        Command::Attack(args) => attack::command(&args),
        Command::Demo(args) => demo::command(&args),
        Command::Suite(args) => suites::command(&args),
        Command::Enforce(args) => enforce::command(&args),
        Command::Survive(args) => demo::survive::command(&args),
        Command::Cost(args) => cost::command(&args),
        Command::Life(args) => life::command(&args),
        Command::Bench(args) => bench::command(&args),
        Command::Battery(args) => battery::command(&args),
        Command::Rules(args) => rules::command(&args),
        Command::Model(args) => model::command(&args),
        Command::Node(args) => node::command(&args),
        Command::Proxy(args) => proxy::command(&args),
        Command::Wait => loop {
            std::thread::park();
        },
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
