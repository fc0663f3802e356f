//! `bench selftest`: the statistics against series whose answer is known.

use std::process::ExitCode;

use super::{Backend, Estimate, Random, Verdict, detectable, estimate, judge, log_ratio, mirrored};

#[derive(clap::Args)]
pub(in crate::bench) struct Args {
    /// Series of each kind
    #[arg(long, default_value_t = 100)]
    seeds: u64,
}

/// Blocks of each series.
const BLOCKS: usize = 50;

/// A machine that measures.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    backend: Backend,
    /// Deviation of a measurement, as a part of it.
    noise: f64,
    /// How often something else takes half as long again.
    disturbed: f64,
    /// How much slower it is at the end.
    drift: f64,
}

const QUIET: Machine = Machine {
    name: "a quiet machine",
    backend: Backend::NativeWall,
    noise: 0.005,
    disturbed: 0.0,
    drift: 0.0,
};
const MACHINES: [Machine; 4] = [
    QUIET,
    Machine {
        name: "a disturbed machine",
        noise: 0.01,
        disturbed: 0.1,
        ..QUIET
    },
    Machine {
        name: "a machine that slows down by a fifth",
        drift: 0.2,
        ..QUIET
    },
    Machine {
        name: "a guest that counts instructions",
        backend: Backend::TcgIcount,
        noise: 0.0005,
        ..QUIET
    },
];

/// What a series is asked.
struct Question {
    /// The second system is so much slower.
    injected: f64,
    /// Its blocks are mirrored; otherwise all of the first system is measured before all of the second.
    mirrored: bool,
    /// Never an answer.
    forbidden: &'static [Verdict],
    /// The answer of at least 19 series in 20; the others may not know.
    expected: Option<Verdict>,
    /// The claim, for people.
    claim: &'static str,
}

const QUESTIONS: [Question; 3] = [
    Question {
        injected: 0.0,
        mirrored: true,
        forbidden: &[Verdict::Slower, Verdict::Faster],
        expected: None,
        claim: "the same twice is never slower or faster",
    },
    Question {
        injected: 0.02,
        mirrored: true,
        forbidden: &[Verdict::Equivalent, Verdict::Faster],
        expected: Some(Verdict::Slower),
        claim: "an injected 2 % is slower",
    },
    Question {
        injected: -0.02,
        mirrored: true,
        forbidden: &[Verdict::Equivalent, Verdict::Slower],
        expected: Some(Verdict::Faster),
        claim: "2 % less is faster",
    },
];

impl Machine {
    /// The overheads of the blocks of one series; the machine drifts from its first slot to its last.
    fn series(self, question: &Question, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed ^ 0x5eed);
        let slots = f64::from(u32::try_from(4 * BLOCKS).expect("a series is short"));
        let mut at = 0.0;
        let mut measure = |system: usize| {
            let drifted = 1.0 + self.drift * at / slots;
            at += 1.0;
            let disturbance = if random.part() < self.disturbed { 1.5 } else { 1.0 };
            let slow = if system == 1 { 1.0 + question.injected } else { 1.0 };
            let noise = (self.noise * normal(&mut random)).exp();
            1000.0 * drifted * disturbance * slow * noise
        };
        let blocks: Vec<Vec<usize>> = if question.mirrored {
            mirrored(2, BLOCKS, seed)
        } else {
            [vec![0; 2 * BLOCKS], vec![1; 2 * BLOCKS]].to_vec()
        };
        let mut measured: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for slot in blocks.into_iter().flatten() {
            let value = measure(slot);
            measured[slot].push(value);
        }
        let [first, second] = &measured;
        first
            .chunks(2)
            .zip(second.chunks(2))
            .filter_map(|(baseline, system)| log_ratio(baseline, system))
            .collect()
    }

    fn verdict(self, question: &Question, seed: u64) -> Option<(Estimate, Verdict)> {
        let same = Question {
            injected: 0.0,
            ..QUESTIONS[0]
        };
        let least = detectable(&self.series(&same, seed.wrapping_add(1 << 32)));
        let found = estimate(&self.series(question, seed), seed)?;
        Some((found, judge(&found, least, self.backend.margin())))
    }
}

/// Irwin and Hall: the sum of twelve numbers from zero to one, less six.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.part()).sum::<f64>() - 6.0
}

/// How the series of one kind were answered.
#[derive(Debug, Default)]
struct Answers {
    forbidden: u64,
    unexpected: u64,
    /// The first answer that is not what was expected.
    example: Option<String>,
}

impl Answers {
    fn of(machine: Machine, question: &Question, seeds: u64) -> Self {
        let mut answers = Self::default();
        for seed in 0..seeds {
            let answer = machine.verdict(question, seed);
            let verdict = answer.map(|(_, verdict)| verdict);
            let forbidden = verdict.is_none_or(|verdict| question.forbidden.contains(&verdict));
            let unexpected = question.expected.is_some() && verdict != question.expected;
            answers.forbidden += u64::from(forbidden);
            answers.unexpected += u64::from(unexpected);
            if forbidden || unexpected {
                answers
                    .example
                    .get_or_insert_with(|| format!("seed {seed}: {answer:?}"));
            }
        }
        answers
    }

    fn are_good(&self, seeds: u64) -> bool {
        self.forbidden == 0 && self.unexpected * 20 <= seeds
    }
}

pub(in crate::bench) fn command(args: &Args) -> ExitCode {
    let mut good = true;
    for machine in MACHINES {
        for question in &QUESTIONS {
            let answers = Answers::of(machine, question, args.seeds);
            let state = if answers.are_good(args.seeds) {
                "ok"
            } else {
                "FAILED"
            };
            println!(
                "{state}: {} ({}): {}: of {} series, {} answered wrongly and {} did not know",
                machine.name,
                machine.backend.name(),
                question.claim,
                args.seeds,
                answers.forbidden,
                answers.unexpected.saturating_sub(answers.forbidden)
            );
            if let Some(example) = &answers.example {
                println!("  {example}");
            }
            good &= answers.are_good(args.seeds);
        }
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::{Answers, MACHINES, QUESTIONS, Question, Verdict};

    /// Few enough for a test without optimisation.
    const SEEDS: u64 = 20;

    #[test]
    fn same_system_twice_is_never_slower() {
        for machine in MACHINES {
            let answers = Answers::of(machine, &QUESTIONS[0], SEEDS);
            assert!(answers.are_good(SEEDS), "{}: {answers:?}", machine.name);
        }
    }

    #[test]
    fn injected_overhead_is_found() {
        for machine in MACHINES {
            for question in &QUESTIONS[1..] {
                let answers = Answers::of(machine, question, SEEDS);
                assert!(answers.are_good(SEEDS), "{}: {answers:?}", machine.name);
            }
        }
    }

    #[test]
    fn same_system_on_a_quiet_machine_is_equivalent() {
        let strict = Question {
            expected: Some(Verdict::Equivalent),
            ..QUESTIONS[0]
        };
        let answers = Answers::of(MACHINES[0], &strict, SEEDS);
        assert_eq!((answers.forbidden, answers.unexpected), (0, 0));
    }

    #[test]
    fn one_system_after_the_other_on_a_drifting_machine_would_be_fooled() {
        let sequential = Question {
            mirrored: false,
            ..QUESTIONS[0]
        };
        assert_eq!(Answers::of(MACHINES[2], &sequential, SEEDS).forbidden, SEEDS);
    }
}
