//! Generated rules and paths: small alphabets, so that they meet often.

/// A small generator of pseudo-random numbers; the seed names the case.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn pick<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        let length = u64::try_from(list.len()).expect("a list of test data is short");
        &list[usize::try_from(self.below(length)).expect("an index fits")]
    }

    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// A file name; short ones over a small alphabet, special folders, and the longest possible.
    pub(super) fn name(&mut self) -> String {
        match self.below(12) {
            0 => self.pick(SPECIAL).to_string(),
            1 if self.chance(6) => "a".repeat(255),
            1 => format!("{}{}", "ab".repeat(20), self.pick(&["", "a", "b"])),
            _ => {
                let length = 1 + self.below(3);
                (0..length).map(|_| *self.pick(&['a', 'b'])).collect()
            }
        }
    }

    /// A pattern that parses.
    pub(super) fn pattern(&mut self) -> String {
        match self.below(20) {
            0 => self.pick(&["**", "/**", "/", "/**/**", "*", "/*"]).to_string(),
            1..4 => loop {
                let name = self.component();
                if !name.contains('/') {
                    break name;
                }
            },
            _ => {
                let length = 1 + self.below(4);
                let names: Vec<String> = (0..length).map(|_| self.component()).collect();
                let mut text = format!("/{}", names.join("/"));
                if self.chance(6) {
                    text = format!(
                        "{}{text}",
                        self.pick(&["/proc", "/sys", "/sys/fs/cgroup", "/sys/kernel/security"])
                    );
                }
                if self.chance(8) {
                    text.push_str("**");
                }
                text
            }
        }
    }

    fn component(&mut self) -> String {
        match self.below(16) {
            0..2 => "**".to_owned(),
            2 => "*".to_owned(),
            3 => format!("{}*", self.name()),
            4 => format!("*{}", self.name()),
            5 => self
                .pick(&["?", "a?", "??", "?*", "*?b", "*a*", "a*b*"])
                .to_string(),
            6 => self
                .pick(&["[ab]", "[!a]", "[^b]a", "[a-z]*", "a[b-z]", "[!a-a]"])
                .to_string(),
            7 => self.pick(&["a**b", "**a", "b**", "a**b**", "**a**"]).to_string(),
            8 => format!("{{{},{}}}", self.name(), self.name()),
            9 => self
                .pick(&[
                    "{a/b,b}",
                    "{a,b{a,b}}",
                    "a{,b}",
                    "{a*,b/**/a}",
                    r"\a\b",
                    "{**/a,b}",
                ])
                .to_string(),
            _ => self.name(),
        }
    }
}

pub(super) const SPECIAL: &[&str] = &[
    "proc", "sys", "fs", "cgroup", "kernel", "security", "unified", "memory",
];

/// Names that stand for any one name in the reference: everything that a generated glob can tell apart.
pub(super) fn representatives() -> Vec<String> {
    let mut names: Vec<String> = SPECIAL.iter().map(ToString::to_string).collect();
    let mut words = vec![String::new()];
    for _ in 0..3 {
        words = words
            .iter()
            .flat_map(|word| ["a", "b"].map(|letter| format!("{word}{letter}")))
            .collect();
        names.extend(words.iter().cloned());
    }
    names.push("a".repeat(255));
    names.extend(["", "a", "b"].map(|end| format!("{}{end}", "ab".repeat(20))));
    names
}
