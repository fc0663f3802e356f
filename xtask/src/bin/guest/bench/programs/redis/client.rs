//! What redis-benchmark sends, and exactly as often as asked.
//!
//! redis-benchmark ends when it has had so many answers and has sent more by then, how many more depends on the moment; so two
//! runs of it are not the same work. Here every connection sends whole rounds of commands and reads every answer.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
};

use anyhow::{Context, Result, bail, ensure};

use super::{PIPELINE, PORT};

#[derive(clap::Args)]
pub(in crate::bench) struct Args {
    /// As redis-benchmark's -t calls it
    command: String,
    /// Connections
    clients: u32,
    /// Commands on all connections
    requests: u32,
}

/// Sends the commands and prints how many were answered.
pub(in crate::bench) fn run(args: &Args) -> Result<()> {
    let round = PIPELINE * args.clients;
    ensure!(
        round > 0 && args.requests.is_multiple_of(round),
        "{} requests are no whole rounds of {round}",
        args.requests
    );
    let batch = command(&args.command)?.repeat(usize::try_from(PIPELINE)?);
    let mut connections = (0..args.clients)
        .map(|_| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).context("connect to the server")?;
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut answers = 0u64;
    for _ in 0..args.requests / round {
        for connection in &mut connections {
            connection.get_mut().write_all(&batch).context("send commands")?;
        }
        for connection in &mut connections {
            for _ in 0..PIPELINE {
                answer(connection)?;
                answers += 1;
            }
        }
    }
    println!("{answers}");
    Ok(())
}

/// A command as redis-benchmark writes it, without random keys and with values of four bytes.
fn command(name: &str) -> Result<Vec<u8>> {
    let words: &[&str] = match name {
        "get" => &["GET", "key:__rand_int__"],
        "set" => &["SET", "key:__rand_int__", "xxxx"],
        "lpop" => &["LPOP", "mylist"],
        _ => bail!("no command {name}; there are: get, set, lpop"),
    };
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        let _ = write!(text, "${}\r\n{word}\r\n", word.len());
    }
    Ok(text.into_bytes())
}

/// Reads one answer; one that tells an error is an error.
fn answer(connection: &mut impl BufRead) -> Result<()> {
    let mut line = String::new();
    connection.read_line(&mut line).context("read an answer")?;
    let length = match line.as_bytes().first() {
        Some(b'+' | b':') => return Ok(()),
        Some(b'$') => line[1..].trim_end(),
        _ => bail!("the server answers `{}`", line.trim_end()),
    };
    // `$-1` is a value that does not exist.
    let Ok(length) = length.parse::<u64>() else {
        ensure!(length == "-1", "the server answers `{}`", line.trim_end());
        return Ok(());
    };
    let rest = length + 2;
    let read = std::io::copy(&mut connection.by_ref().take(rest), &mut std::io::sink())?;
    ensure!(read == rest, "the server ends in the middle of an answer");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{answer, command};

    #[test]
    fn commands_are_those_of_the_benchmark() {
        assert_eq!(
            command("set").unwrap(),
            b"*3\r\n$3\r\nSET\r\n$16\r\nkey:__rand_int__\r\n$4\r\nxxxx\r\n"
        );
        assert!(command("flushall").is_err());
    }

    #[test]
    fn answers_of_every_kind_are_read_whole() {
        let mut text: &[u8] = b"+OK\r\n:17\r\n$-1\r\n$4\r\nxxxx\r\n-ERR no\r\n";
        for _ in 0..4 {
            answer(&mut text).unwrap();
        }
        assert!(answer(&mut text).unwrap_err().to_string().contains("ERR no"));
        let mut cut: &[u8] = b"$4\r\nxx";
        assert!(answer(&mut cut).is_err());
        assert!(answer(&mut cut).is_err(), "the end is no answer");
    }
}
