//! Work like that of Dhrystone 2.1 (Weicker 1988), written from its description: records, strings, arrays, branches and
//! small procedures; no system call. Its numbers are no Dhrystones.

use std::hint::black_box;

use crate::bench::operations::Operation;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    First,
    Second,
    Third,
}

type Text = [u8; 30];

#[derive(Clone)]
struct Record {
    kind: Kind,
    number: i32,
    text: Text,
}

const FIRST: &Text = b"DHRYSTONE-LIKE TEXT, 1'ST LINE";
const SECOND: &Text = b"DHRYSTONE-LIKE TEXT, 2'ND LINE";

/// What the original keeps in global variables.
struct State {
    record: Box<Record>,
    next: Box<Record>,
    row: [i32; 50],
    table: Box<[[i32; 50]; 50]>,
    letters: (u8, u8),
    run: i32,
}

/// One repetition is one iteration.
pub(super) fn iteration() -> Operation {
    let record = Record {
        kind: Kind::First,
        number: 40,
        text: *FIRST,
    };
    let mut state = State {
        next: Box::new(record.clone()),
        record: Box::new(record),
        row: [0; 50],
        table: Box::new([[0; 50]; 50]),
        letters: (b'A', b'B'),
        run: 0,
    };
    Box::new(move || {
        state.iterate();
        black_box(&state.run);
        Ok(())
    })
}

impl State {
    fn iterate(&mut self) {
        self.run = self.run.wrapping_add(1);
        self.letters = (black_box(b'A'), black_box(b'B'));
        let mut one: Text = [0; 30];
        let mut other: Text = [0; 30];
        copy(&mut one, FIRST);
        copy(&mut other, SECOND);
        let mut kind = if is_before(&one, &other) {
            Kind::Second
        } else {
            Kind::First
        };
        let (mut low, high) = (black_box(2), black_box(3));
        let mut sum = 0;
        while low < high {
            sum = add_five_less(low, high);
            low += 1;
        }
        self.fill(low, sum);
        self.follow();
        for letter in b'A'..=self.letters.1 {
            if kind == classify(letter, b'C') {
                kind = Kind::First;
                copy(&mut other, FIRST);
            }
        }
        let product = high * black_box(low);
        let quotient = product / black_box(sum.max(1));
        self.run ^= (7 * (product - quotient) - low) & 1;
        black_box((kind, other[29]));
    }

    /// Writes a row and a table around one place.
    #[inline(never)]
    fn fill(&mut self, place: i32, value: i32) {
        let at = usize::try_from(place + 5).unwrap_or_default() % 40;
        self.row[at] = value;
        self.row[at + 1] = self.row[at];
        self.row[at + 9] = place;
        for column in at..=at + 1 {
            self.table[at][column] = place;
        }
        self.table[at][at.saturating_sub(1)] += 1;
        self.table[(at + 10) % 50][at] = self.row[at];
    }

    /// Copies a record through its pointer and changes the copy.
    #[inline(never)]
    fn follow(&mut self) {
        *self.next = (*self.record).clone();
        self.record.number = 5;
        self.next.number = self.record.number;
        if self.next.kind == Kind::First {
            self.next.number = 6;
            self.next.kind = next_kind(self.record.kind);
            self.next.number = add_five_less(self.next.number, 10);
        } else {
            self.record.text = self.next.text;
        }
        black_box(&self.next);
    }
}

#[inline(never)]
fn copy(to: &mut Text, from: &Text) {
    for (to, from) in to.iter_mut().zip(black_box(from)) {
        *to = *from;
    }
}

#[inline(never)]
fn is_before(one: &Text, other: &Text) -> bool {
    let mut at = 2;
    while at <= 2 {
        if classify(one[at], other[at + 1]) == Kind::First {
            at += 1;
        } else {
            return false;
        }
    }
    black_box(one) < black_box(other)
}

#[inline(never)]
fn classify(one: u8, other: u8) -> Kind {
    if black_box(one) == black_box(other) {
        Kind::Second
    } else {
        Kind::First
    }
}

#[inline(never)]
fn next_kind(kind: Kind) -> Kind {
    match black_box(kind) {
        Kind::First => Kind::Third,
        Kind::Second => Kind::First,
        Kind::Third => Kind::Second,
    }
}

#[inline(never)]
fn add_five_less(one: i32, other: i32) -> i32 {
    black_box(5 * one - other)
}
