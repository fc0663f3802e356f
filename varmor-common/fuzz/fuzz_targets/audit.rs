//! Records of the kernel's audit: reading one ends, and what is read holds no more than was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varmor_common::audit::{AVC, KernelLine, Record, parse, parse_body};

const FIELDS: [&str; 4] = ["profile", "name", "comm", "pid"];

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = parse(data) {
        judge(&record, data.len());
    }
    if let Ok(line) = KernelLine::parse(data) {
        assert!(line.message.len() <= data.len());
        let _ = (line.audit_lost(), line.suppressed());
        if let Ok(record) = parse(&line.message) {
            judge(&record, data.len());
        }
    }
    // A head is hard to guess, so the bytes are also tried behind one.
    let framed = [&b"audit(1.002:3): "[..], data].concat();
    judge(&parse_body(AVC, &framed).expect("the head is right"), data.len());
});

fn judge(record: &Record, longest: usize) {
    for key in FIELDS {
        assert!(record.get(key).is_none_or(|value| value.len() <= longest));
        let _ = record.number(key);
    }
    assert!(!record.stamp.to_string().is_empty());
    let _ = record.stamp.nanoseconds();
}
