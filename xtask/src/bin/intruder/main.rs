//! `varmor-intruder`: takes the place of a confined program and tries what an attacker would, who has taken it over.
//!
//! It starts without Rust's runtime, whose first system calls are not those of the program that was recorded: a list of
//! system calls would end it before its first try.
#![no_main]
#![expect(
    clippy::print_stdout,
    reason = "the tests read this program's standard output"
)]

mod attacks;
mod raw;

use attacks::ATTACKS;

/// Tries the attacks with these names, in this order, and prints `NAME works`, `NAME denied` or `NAME broken: WHY` for
/// each. `list` prints the names.
fn run(arguments: &[String]) {
    if arguments.first().is_some_and(|first| first == "list") {
        for attack in ATTACKS {
            println!("{}", attack.name);
        }
        return;
    }
    for name in arguments {
        let Some(attack) = ATTACKS.iter().find(|attack| attack.name == name) else {
            println!("{name} broken: no such attack");
            continue;
        };
        match (attack.run)() {
            Ok(()) => println!("{name} works"),
            Err(error) => match error.raw_os_error() {
                // EPERM, EACCES.
                Some(1 | 13) => println!("{name} denied"),
                _ => println!("{name} broken: {error}"),
            },
        }
    }
}
