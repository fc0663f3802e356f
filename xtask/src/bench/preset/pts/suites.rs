//! The four suites of the comparison: their columns, what is run for each, and how much of it.

use super::super::programs::suite::{Profile, Sense, Suite, column};

pub(in crate::bench::preset) const APACHE: Suite = Suite {
    name: "apache",
    title: "Phoronix-Apache",
    sense: Sense::Rate("Requests"),
    packages: &["apache2-bin", "wrk"],
    memory: 1536,
    columns: &[
        column("apache-4", "Apache Concurrent Requests 4", 10_000, 50_000),
        column("apache-20", "Apache Concurrent Requests 20", 10_000, 50_000),
        column("apache-100", "Apache Concurrent Requests 100", 10_000, 50_000),
        column("apache-200", "Apache Concurrent Requests 200", 10_000, 50_000),
        column("apache-500", "Apache Concurrent Requests 500", 10_000, 50_000),
        column("apache-1000", "Apache Concurrent Requests 1000", 10_000, 50_000),
    ],
    runs: (1, 5),
    command: "httpd (event), default settings; `wrk -t 1 -d SECONDS -c N http://127.0.0.1:8088/test.html`",
    differences: "a second of the guest's clock instead of 90, after 2 in which connections and processes of httpd are made; what is \
                  counted is divided by the requests that httpd answered in them; wrk 4.1.0 instead of 4.2.0, Debian's httpd instead of 2.4.56; connections that a busy httpd closes \
                  between two requests are opened again and no failure; the page has 4,096 bytes (that of the profile \
                  cannot be had)",
    unproven: Some(
        "in a guest, from 200 connections on, a boot says up to 20 % for what costs nothing: how httpd spreads them differs",
    ),
    profile: Some(Profile {
        script: include_str!("profiles/apache.sh"),
        differences: "1 or 5 seconds instead of 90, after 5 seconds in which httpd starts; wrk 4.1.0 instead of 4.2.0, with no more threads than \
                      connections; Debian's httpd instead of 2.4.56; the page has 4,096 bytes",
    }),
};

pub(in crate::bench::preset) const GIMP: Suite = Suite {
    name: "gimp",
    title: "Phoronix-GIMP",
    sense: Sense::Time,
    packages: &["gimp"],
    memory: 4096,
    columns: &[
        column("gimp-resize", "GIMP Resize Times", 1, 4),
        column("gimp-rotate", "GIMP RotateTimes", 1, 4),
        column("gimp-levels", "GIMP Auto-Levels Times", 1, 4),
        column("gimp-unsharp", "GIMP Unsharp-Mask Times", 1, 4),
    ],
    runs: (1, 3),
    command: "`gimp -i -b SCRIPT -b '(gimp-quit 0)'`: every photograph is loaded, edited (600 by 400; a quarter turn; levels stretched; \
              unsharp mask with radius 15, amount 0.6, threshold 0) and saved in its place, from fresh copies in each run",
    differences: "one photograph of 1600 by 1200 (4 on this machine at std), clouds that GIMP itself makes, instead of the profile's photographs, which cannot be \
                  had; one processor",
    unproven: None,
    profile: Some(Profile {
        script: include_str!("profiles/gimp.sh"),
        differences: "1 or 4 photographs of 1600 by 1200, clouds that GIMP itself makes; what is timed is GIMP alone and not the start of the policy, in \
                      hundredths of a second",
    }),
};

/// Whole rounds of all connections: 1,024 commands of each.
const ROUND_50: u32 = 50 * 1024;
const ROUND_500: u32 = 500 * 1024;

pub(in crate::bench::preset) const REDIS: Suite = Suite {
    name: "redis",
    title: "Phoronix-Redis",
    sense: Sense::Rate("Requests"),
    // The server is a link to a program of redis-tools.
    packages: &["redis-server", "redis-tools"],
    memory: 1536,
    columns: &[
        column("redis-get-50", "GET Connection 50", 4 * ROUND_50, 40 * ROUND_50),
        column("redis-set-50", "SETConnection 50", 4 * ROUND_50, 40 * ROUND_50),
        column("redis-get-500", "GETConnection 500", ROUND_500, 10 * ROUND_500),
        column("redis-set-500", "SET Connection 500", ROUND_500, 10 * ROUND_500),
        column("redis-lpop-500", "LPOPConnection 500", ROUND_500, 10 * ROUND_500),
    ],
    runs: (1, 5),
    command: "`redis-server --io-threads 1 --io-threads-do-reads yes --tcp-keepalive 0`, fresh for each column; the commands of `redis-benchmark -n N \
              -P 1024 -d 4 -t TEST -c CONNECTIONS`. GET reads a key and LPOP takes from a list that do not exist, as in the profile",
    differences: "fewer requests than 50,000,000; a client of our own that sends exactly N commands (redis-benchmark sends more, how many \
                  more differs from run to run) and waits for a round's answers before the next round; `--save \"\"`, so that no \
                  snapshot is written; Debian's redis with its allocator; the start of the client and its connections are counted too; one \
                  processor",
    unproven: None,
    profile: Some(Profile {
        script: include_str!("profiles/redis.sh"),
        differences: "fewer requests than 50,000,000; `--save \"\"`, so that no snapshot is written; Debian's redis with its allocator. The client is \
                      redis-benchmark, which sends more than it is asked to",
    }),
};

pub(in crate::bench::preset) const SYSBENCH: Suite = Suite {
    name: "sysbench",
    title: "Phoronix-Sysbench",
    sense: Sense::Rate("MiB, events"),
    packages: &["sysbench"],
    memory: 1024,
    columns: &[
        column("sysbench-memory", "SysbenchRam/Memory", 128, 4096),
        column("sysbench-cpu", "SysbenchCPU", 100, 2000),
    ],
    runs: (1, 5),
    command: "`sysbench --threads=1 --memory-total-size=SIZE memory run` (blocks of 1 KiB, written in order), `sysbench --threads=1 \
              --events=N cpu run` (primes up to 10,000)",
    differences: "a fixed number of events instead of 90 seconds; the start of the program is counted too; one processor",
    unproven: None,
    profile: Some(Profile {
        script: include_str!("profiles/sysbench.sh"),
        differences: "a fixed number of events or MiB instead of 90 seconds",
    }),
};

pub(in crate::bench::preset) const ALL: [&Suite; 4] = [&APACHE, &GIMP, &REDIS, &SYSBENCH];
