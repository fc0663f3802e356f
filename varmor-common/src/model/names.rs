//! Names that are others in the next run: numbers of processes and users, hashes, UUIDs, versions, temporary names.

use super::path::{Name, Names, escaped};
use super::sensitive;

/// Why a name became a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    Process,
    User,
    Number,
    Hash,
    Uuid,
    Temporary,
    Version,
    Siblings,
    Tree,
}

impl Why {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Process => "the number of a process, a thread or a descriptor is another one in every run",
            Self::User => "the number of a user is another one on other machines",
            Self::Number => "a number that counts something is another one in the next run",
            Self::Hash => "a hash is another one when the content is",
            Self::Uuid => "a UUID is made anew",
            Self::Temporary => "a temporary name is made anew",
            Self::Version => "a version changes with the next release",
            Self::Siblings => "many names of the same folder were used in the same way",
            Self::Tree => "a folder was moved or replaced, and all below it with it",
        }
    }
}

const DIGITS: &str = "[0-9]*";
const ANY: &str = "*";
/// Shorter numbers have a meaning of their own more often than not.
const LONG_NUMBER: usize = 4;
const SHORTEST_HASH: usize = 16;
const RANDOM: std::ops::RangeInclusive<usize> = 6..=16;
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run/user"];
const SEPARATORS: [char; 10] = ['.', '_', '-', '@', ':', '+', '#', '~', '=', ','];

/// The pattern for the name at this place, if the name is one of those. `alone` forbids guesses that need a second
/// example.
pub(super) fn pattern(names: &Names, index: usize, alone: bool) -> Option<(String, Why)> {
    let name = names.0[index].exact()?;
    let above: Vec<&str> = names.0[..index].iter().map_while(Name::exact).collect();
    if above.first() == Some(&"proc") {
        return in_proc(names, index, name).then(|| (DIGITS.to_owned(), Why::Process));
    }
    if sensitive::is_kept(names, index) {
        return None;
    }
    if is_number(name) && matches!(above[..], ["run", "user"] | ["var", "run", "user"]) {
        return Some((DIGITS.to_owned(), Why::User));
    }
    if is_number(name) && (name.len() >= LONG_NUMBER || above == ["dev", "pts"]) {
        return Some((DIGITS.to_owned(), Why::Number));
    }
    if let Some(found) = uuid(name) {
        return Some((found, Why::Uuid));
    }
    if let Some(found) = version(name) {
        return Some((found, Why::Version));
    }
    let folder = Names(names.0[..index].to_vec()).to_string();
    let in_temporary = TEMPORARY
        .iter()
        .any(|one| folder == *one || folder.strip_prefix(one).is_some_and(|rest| rest.starts_with('/')));
    tokens(name, !alone || in_temporary)
}

/// `/proc/N`, and below it threads and descriptors. Other names in /proc mean what they say.
fn in_proc(names: &Names, index: usize, name: &str) -> bool {
    let is_task = |at: usize| match &names.0[at] {
        Name::Exact(name) => is_number(name) || matches!(name.as_str(), "self" | "thread-self"),
        Name::Pattern(pattern) => pattern == DIGITS,
    };
    if !is_number(name) {
        return false;
    }
    let above = names.0[index - 1].exact();
    index == 1 || (index >= 3 && is_task(1) && matches!(above, Some("task" | "fd" | "fdinfo")))
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// `8-4-4-4-12` hexadecimal digits, anywhere in the name.
fn uuid(name: &str) -> Option<String> {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    const LENGTH: usize = 36;
    let is_uuid = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.len() == LENGTHS.len()
            && parts.iter().zip(LENGTHS).all(|(part, length)| {
                part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
    };
    let starts = 0..(name.len() + 1).saturating_sub(LENGTH);
    let start = starts
        .into_iter()
        .find(|start| name.get(*start..start + LENGTH).is_some_and(is_uuid))?;
    Some(format!(
        "{}{ANY}{}",
        escaped(&name[..start]),
        escaped(&name[start + LENGTH..])
    ))
}

/// `1.2.3` anywhere, and what follows `.so.`.
fn version(name: &str) -> Option<String> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let bytes = name.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        if !bytes[start].is_ascii_digit() {
            start += 1;
            continue;
        }
        let run = start + bytes[start..].iter().take_while(|byte| is_part(byte)).count();
        let text = name[start..run].trim_end_matches('.');
        let end = start + text.len();
        if (text.contains('.') && !text.contains("..")) || name[..start].ends_with(".so.") {
            return Some(format!(
                "{}{DIGITS}{}",
                escaped(&name[..start]),
                escaped(&name[end..])
            ));
        }
        start = run;
    }
    None
}

/// Hashes and, where `random` names are looked for, those too, between separators.
fn tokens(name: &str, random: bool) -> Option<(String, Why)> {
    let mut found = None;
    let mut text = String::new();
    let mut rest = name;
    loop {
        let end = rest.find(SEPARATORS).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(end);
        let why = if is_hash(token) {
            Some(Why::Hash)
        } else if random && is_random(token) {
            Some(Why::Temporary)
        } else {
            None
        };
        if why.is_some() {
            text.push_str(ANY);
            found = found.or(why);
        } else {
            text.push_str(&escaped(token));
        }
        let mut letters = behind.chars();
        match letters.next() {
            Some(separator) => text.push(separator),
            None => break,
        }
        rest = letters.as_str();
    }
    found.map(|why| (text, why))
}

fn is_hash(token: &str) -> bool {
    token.len() >= SHORTEST_HASH
        && token.bytes().all(|byte| byte.is_ascii_hexdigit())
        && token.bytes().any(|byte| byte.is_ascii_digit())
}

/// Letters of both cases, or letters and digits, in an order that no word has.
fn is_random(token: &str) -> bool {
    if !RANDOM.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    let bytes = token.as_bytes();
    let kind = |byte: &u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let changes = bytes
        .windows(2)
        .filter(|pair| kind(&pair[0]) != kind(&pair[1]))
        .count();
    // `Http2` and `nginx1` change once or twice.
    changes >= 3 || (changes == 2 && bytes.iter().any(u8::is_ascii_digit) && !bytes[0].is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Option<(&str, Why)>) {
        let names = Names::of_path(path);
        let found = pattern(&names, names.0.len() - 1, true);
        assert_eq!(
            found.as_ref().map(|(text, why)| (text.as_str(), *why)),
            expected,
            "{path}"
        );
    }

    #[test]
    fn names_of_every_kind_are_told_apart() {
        for (path, text, why) in [
            ("/proc/4711", "[0-9]*", Why::Process),
            ("/proc/self/task/12", "[0-9]*", Why::Process),
            ("/run/user/1000", "[0-9]*", Why::User),
            ("/var/lib/nginx/body/0000000012", "[0-9]*", Why::Number),
            ("/dev/pts/3", "[0-9]*", Why::Number),
            (
                "/srv/0b9e1a5e-8d1c-4b8e-9c57-0242ac120002.json",
                "*.json",
                Why::Uuid,
            ),
            ("/srv/assets/app.3f5a9c0d1e2b4f67.js", "app.*.js", Why::Hash),
            ("/usr/lib/libssl.so.3", "libssl.so.[0-9]*", Why::Version),
            ("/usr/bin/python3.11", "python[0-9]*", Why::Version),
            ("/opt/jdk-17.0.2+8", "jdk-[0-9]*+8", Why::Version),
            ("/tmp/upload.aB3xY9", "upload.*", Why::Temporary),
        ] {
            check(path, Some((text, why)));
        }
    }

    #[test]
    fn words_and_sensitive_names_stay() {
        for path in [
            "/etc/nginx/nginx.conf",
            "/usr/lib/x86_64-linux-gnu",
            "/etc/passwd",
            "/proc/cpuinfo",
            "/proc/self/status",
            "/proc/sys/kernel/4711",
            "/root/.cache/3f5a9c0d1e2b4f67",
            "/run/secrets/kubernetes.io/serviceaccount/3f5a9c0d1e2b4f67",
            "/srv/app/upload.aB3xY9",
            "/sys/devices/1234",
            "/tmp/Makefile",
            "/tmp/nginx-socket",
        ] {
            check(path, None);
        }
    }
}
