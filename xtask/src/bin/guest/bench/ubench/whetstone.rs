//! Work like that of the double precision Whetstone, written from its description: eight sections of floating point and
//! integer work. Its numbers are no MWIPS.

use std::hint::black_box;

use crate::bench::operations::Operation;

const T: f64 = 0.499_999_75;
const T1: f64 = 0.500_000_25;
const T2: f64 = 2.0;

/// How often each section's loop runs; the original does a hundred times as much in one of its passes.
const ARRAY: u32 = 12;
const PROCEDURE_ON_ARRAY: u32 = 14;
const JUMPS: u32 = 345;
const INTEGERS: i32 = 210;
const ANGLES: u32 = 32;
const PROCEDURE: u32 = 899;
const INDICES: u32 = 616;
const FUNCTIONS: u32 = 93;

/// One repetition is a hundredth of a pass.
pub(super) fn pass() -> Operation {
    Box::new(|| {
        let mut values = [1.0, -1.0, -1.0, -1.0];
        for _ in 0..ARRAY {
            mix(&mut values);
        }
        for _ in 0..PROCEDURE_ON_ARRAY {
            mix_six_times(black_box(&mut values));
        }
        black_box(jumps());
        black_box(integers());
        black_box(angles());
        black_box(procedures());
        black_box(assignments(&mut values));
        black_box(functions());
        black_box(&values);
        Ok(())
    })
}

fn mix(values: &mut [f64; 4]) {
    let [a, b, c, d] = black_box(*values);
    let a = (a + b + c - d) * T;
    let b = (a + b - c + d) * T;
    let c = (a - b + c + d) * T;
    let d = (-a + b + c + d) * T;
    *values = [a, b, c, d];
}

#[inline(never)]
fn mix_six_times(values: &mut [f64; 4]) {
    for _ in 0..6 {
        let [a, b, c, d] = black_box(*values);
        let a = (a + b + c - d) * T;
        let b = (a + b - c + d) * T;
        let c = (a - b + c + d) * T;
        *values = [a, b, c, (-a + b + c + d) / T2];
    }
}

fn jumps() -> i32 {
    let mut place = 1;
    for _ in 0..JUMPS {
        place = if black_box(place) == 1 { 2 } else { 3 };
        place = i32::from(black_box(place) <= 2);
        place = i32::from(black_box(place) < 1);
    }
    place
}

fn integers() -> [f64; 2] {
    let mut whole = [1, 2, 3];
    let mut values = [0.0; 4];
    for _ in 0..INTEGERS {
        let [j, k, l] = black_box(whole);
        let first = (j * (k - j) * (l - k)) & 0xff;
        let second = (l * k - (l - first) * k) & 0xff;
        let third = ((l - k) * (k + first)) & 0xff;
        values[usize::try_from(third & 3).unwrap_or_default()] = f64::from(first + second + third);
        values[usize::try_from(second & 3).unwrap_or_default()] = f64::from(first * second * third);
        whole = [first, second, third];
    }
    [values[0], values[1]]
}

fn angles() -> f64 {
    let (mut x, mut y) = (0.5_f64, 0.5_f64);
    for _ in 0..ANGLES {
        let (sum, difference) = (black_box(x + y), black_box(x - y));
        x = T * (T2 * x.sin() * x.cos() / (sum.cos() + difference.cos() - 1.0)).atan();
        let (sum, difference) = (black_box(x + y), black_box(x - y));
        y = T * (T2 * y.sin() * y.cos() / (sum.cos() + difference.cos() - 1.0)).atan();
    }
    x + y
}

fn procedures() -> f64 {
    let (x, y) = (1.0, 1.0);
    let mut z = 1.0;
    for _ in 0..PROCEDURE {
        three(black_box(x), black_box(y), &mut z);
    }
    z
}

#[inline(never)]
fn three(x: f64, y: f64, z: &mut f64) {
    let x = T * (*z + x);
    let y = T1 * (x + y);
    *z = (x + y) / T2;
}

fn assignments(values: &mut [f64; 4]) -> f64 {
    values[..3].copy_from_slice(&[1.0, 2.0, 3.0]);
    for _ in 0..INDICES {
        let [j, k, l] = black_box([0_usize, 1, 2]);
        values[j] = values[k];
        values[k] = values[l];
        values[l] = values[j];
        black_box(&mut *values);
    }
    values[2]
}

fn functions() -> f64 {
    let mut x = 0.75_f64;
    for _ in 0..FUNCTIONS {
        x = (black_box(x).ln() / T1).exp().sqrt();
    }
    x
}
