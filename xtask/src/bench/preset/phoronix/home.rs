//! The home that the suite gets: settings that ask and send nothing, and a profile for each of our suites.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    bench::preset::{
        Scale,
        programs::suite::{Profile, Sense, Suite},
    },
    process::quote,
    workspace,
};

/// Makes the wrapper that the suite calls.
const INSTALL: &str = include_str!("../pts/profiles/install.sh");
/// Begins the line with the result, in what a profile's script prints.
pub(super) const RESULT: &str = "varmor-result:";
/// Below the home: the settings as the suite finds them there, and as root in `/etc`.
pub(super) const SETTINGS: &str = "user-config.xml";
/// Below the home: which system the wrapper starts the programs under.
pub(super) const SYSTEM: &str = "system";
/// Below the home: what the suite has saved.
pub(super) const RESULTS: &str = "test-results";
/// Below the root of the programs.
const SCRIPTS: &str = "pts";

/// By section: what is not to be as the suite has it.
const CHOICES: [(&str, &[(&str, &str)]); 9] = [
    (
        "OpenBenchmarking",
        &[
            ("AnonymousUsageReporting", "FALSE"),
            ("AnonymousHardwareReporting", "FALSE"),
            ("AnonymousSoftwareReporting", "FALSE"),
            ("AlwaysUploadSystemLogs", "FALSE"),
            ("AllowResultUploadsToOpenBenchmarking", "FALSE"),
        ],
    ),
    ("General", &[("DefaultBrowser", ""), ("UsePhodeviCache", "FALSE")]),
    ("Modules", &[("AutoLoadModules", ""), ("LoadModules", "")]),
    ("Installation", &[("SearchMediaForCache", "FALSE")]),
    (
        "Testing",
        &[
            ("SaveSystemLogs", "FALSE"),
            ("SaveTestLogs", "TRUE"),
            ("SleepTimeBetweenTests", "0"),
            ("AlwaysUploadResultsToOpenBenchmarking", "FALSE"),
            ("AutoSortRunQueue", "FALSE"),
        ],
    ),
    // It would repeat what scatters until it no longer does.
    ("TestResultValidation", &[("DynamicRunCount", "FALSE")]),
    (
        "BatchMode",
        &[
            ("SaveResults", "TRUE"),
            ("OpenBrowser", "FALSE"),
            ("UploadResults", "FALSE"),
            ("PromptForTestIdentifier", "FALSE"),
            ("PromptForTestDescription", "FALSE"),
            ("PromptSaveName", "FALSE"),
            ("RunAllTestCombinations", "TRUE"),
            ("Configured", "TRUE"),
        ],
    ),
    (
        "Networking",
        &[
            ("NoInternetCommunication", "TRUE"),
            ("NoNetworkCommunication", "TRUE"),
        ],
    ),
    ("Server", &[("AdvertiseServiceZeroConf", "FALSE")]),
];

/// Of every call. One run is measured, and one before it is not: what is repeated is the block.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("FORCE_TIMES_TO_RUN", "2"),
    ("IGNORE_RUNS", "1"),
    ("NO_COLOR", "1"),
    ("NO_DOWNLOAD_CACHE", "1"),
    ("NO_EXTERNAL_DEPENDENCIES", "1"),
    ("PTS_IGNORE_MODULES", "1"),
    ("PTS_SILENT_MODE", "1"),
    ("SKIP_EXTERNAL_DEPENDENCIES", "1"),
];

/// What the suite calls the profile of a suite, and its executable.
pub(super) fn name(suite: &Suite) -> String {
    format!("varmor-{}", suite.name)
}

/// What the suite and a profile's script are told of a column: its operation, and how much of it.
pub(super) fn arguments(operation: &str, amount: u32) -> String {
    format!("{operation} {amount}")
}

/// Where everything is that the suite would keep for its user.
pub(super) fn environment(home: &Path) -> Vec<(&'static str, String)> {
    let below = |part: &str| format!("{}/{part}", home.display());
    let mut all: Vec<_> = ENVIRONMENT
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    // The slash at the end is needed.
    all.push(("PTS_USER_PATH_OVERRIDE", below("")));
    all.push(("PTS_TEST_INSTALL_ROOT_PATH", below("installed-tests/")));
    all.push(("HOME", below("")));
    all
}

/// Writes the settings, the profiles, and the scripts that these run below the root of the programs.
pub(super) fn write(home: &Path, root: &Path, suites: &[&Suite], scale: Scale) -> Result<()> {
    for folder in ["etc", "installed-tests", RESULTS] {
        workspace::make_dir(&home.join(folder))?;
    }
    workspace::make_dir(&root.join(SCRIPTS))?;
    workspace::write_file(&home.join(SETTINGS), settings())?;
    for suite in suites {
        let profile = suite
            .profile
            .as_ref()
            .with_context(|| format!("{} has no profile for the Phoronix Test Suite", suite.name))?;
        let folder = home.join("test-profiles/local").join(name(suite));
        workspace::make_dir(&folder)?;
        for (file, text) in [
            ("test-definition.xml", definition(suite, profile, scale)),
            ("results-definition.xml", results()),
            ("install.sh", install(suite, home, root)),
        ] {
            workspace::write_file(&folder.join(file), text)?;
        }
        let script = root.join(SCRIPTS).join(format!("{}.sh", suite.name));
        workspace::write_file(&script, profile.script)?;
    }
    Ok(())
}

fn settings() -> String {
    let mut text = "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n<Options>\n".to_owned();
    for (section, choices) in CHOICES {
        text.extend(["<", section, ">\n"]);
        for (name, value) in choices {
            text.push_str(&element(name, value));
        }
        text.extend(["</", section, ">\n"]);
    }
    text + "</Options>\n</PhoronixTestSuite>\n"
}

fn definition(suite: &Suite, profile: &Profile, scale: Scale) -> String {
    let (unit, proportion) = match suite.sense {
        Sense::Rate(what) => (format!("{what} Per Second"), "HIB"),
        Sense::Time => ("Seconds".to_owned(), "LIB"),
    };
    let mut entries = String::new();
    for column in suite.columns {
        let arguments = arguments(column.operation, column.amount(scale));
        let parts = [element("Name", column.title), element("Value", &arguments)];
        entries.extend(["<Entry>\n", &parts.concat(), "</Entry>\n"]);
    }
    let information = [
        element("Title", suite.title),
        element("Description", profile.differences),
        element("ResultScale", &unit),
        element("Proportion", proportion),
        element("TimesToRun", "1"),
    ];
    let about = [
        element("Version", "1.0.0"),
        element("SupportedPlatforms", "Linux"),
        element("SoftwareType", "Utility"),
        element("TestType", "System"),
        element("License", "Free"),
        element("Status", "Verified"),
    ];
    format!(
        "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n<TestInformation>\n{}</TestInformation>\n<TestProfile>\n{}</TestProfile>\n\
         <TestSettings>\n<Option>\n{}{}<Menu>\n{entries}</Menu>\n</Option>\n</TestSettings>\n</PhoronixTestSuite>\n",
        information.concat(),
        about.concat(),
        element("DisplayName", "Column"),
        element("Identifier", "column"),
    )
}

fn results() -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n<ResultsParser>\n{}{}</ResultsParser>\n</PhoronixTestSuite>\n",
        element("OutputTemplate", &format!("{RESULT} #_RESULT_#")),
        element("LineHint", RESULT)
    )
}

fn install(suite: &Suite, home: &Path, root: &Path) -> String {
    let word = |path: &Path| quote(&path.to_string_lossy());
    INSTALL
        .replace("@PROFILE@", &name(suite))
        .replace("@SUITE@", suite.name)
        .replace("@ROOM@", &word(root))
        .replace("@SYSTEM@", &word(&home.join(SYSTEM)))
}

fn element(name: &str, text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<{name}>{text}</{name}>\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use roxmltree::Document;

    use super::*;
    use crate::bench::preset::pts::suites;

    fn text<'a>(document: &'a Document<'_>, name: &str) -> Vec<&'a str> {
        let nodes = document.descendants().filter(|node| node.has_tag_name(name));
        nodes.map(|node| node.text().unwrap_or_default()).collect()
    }

    #[test]
    fn every_column_is_an_entry_with_its_amount() {
        for suite in suites::ALL {
            let profile = suite.profile.as_ref().unwrap();
            for scale in [Scale::Smoke, Scale::Std] {
                let definition = definition(suite, profile, scale);
                let document = Document::parse(&definition).unwrap();
                let titles: Vec<&str> = suite.columns.iter().map(|column| column.title).collect();
                assert_eq!(text(&document, "Name"), titles);
                let all: Vec<String> = suite
                    .columns
                    .iter()
                    .map(|column| format!("{} {}", column.operation, column.amount(scale)))
                    .collect();
                assert_eq!(text(&document, "Value"), all);
                let proportion = if suite.name == "gimp" { "LIB" } else { "HIB" };
                assert_eq!(text(&document, "Proportion"), [proportion]);
            }
        }
    }

    #[test]
    fn scripts_print_the_line_that_is_parsed_for() {
        let results = results();
        let document = Document::parse(&results).unwrap();
        assert_eq!(text(&document, "OutputTemplate"), ["varmor-result: #_RESULT_#"]);
        for suite in suites::ALL {
            let script = suite.profile.as_ref().unwrap().script;
            assert!(script.contains(&format!("{RESULT} ")), "{}", suite.name);
        }
    }

    #[test]
    fn scripts_are_shell() {
        let scratch = workspace::Scratch::new("test-pts-scripts").unwrap();
        for suite in suites::ALL {
            let install = install(suite, Path::new("/home"), Path::new("/root"));
            for (kind, text) in [
                ("install", install.as_str()),
                ("script", suite.profile.as_ref().unwrap().script),
            ] {
                let file = scratch.path().join(format!("{}-{kind}.sh", suite.name));
                workspace::write_file(&file, text).unwrap();
                crate::process::output("sh", ["-n".as_ref(), file.as_os_str()]).unwrap();
            }
        }
    }

    #[test]
    fn settings_ask_nothing_and_send_nothing() {
        let settings = settings();
        let document = Document::parse(&settings).unwrap();
        for prompt in [
            "PromptForTestIdentifier",
            "PromptForTestDescription",
            "PromptSaveName",
            "UploadResults",
            "AnonymousUsageReporting",
            "AllowResultUploadsToOpenBenchmarking",
            "DynamicRunCount",
            "OpenBrowser",
        ] {
            assert_eq!(text(&document, prompt), ["FALSE"], "{prompt}");
        }
        for needed in ["SaveResults", "Configured", "NoInternetCommunication"] {
            assert_eq!(text(&document, needed), ["TRUE"], "{needed}");
        }
    }

    #[test]
    fn wrapper_starts_the_script_in_the_root_of_the_programs() {
        let text = install(&suites::REDIS, Path::new("/a home"), Path::new("/the root"));
        assert!(
            text.contains("chroot '/the root' /varmor-guest bench under \"$(cat '/a home/system')\" -- /bin/sh /pts/redis.sh"),
            "{text}"
        );
        assert!(text.contains("cat > varmor-redis <<") && text.contains("chmod +x varmor-redis\n"));
        for place in ["@PROFILE@", "@SUITE@", "@ROOM@", "@SYSTEM@"] {
            assert!(!text.contains(place), "{text}");
        }
    }

    #[test]
    fn home_is_the_suites_and_ends_with_a_slash() {
        let environment = environment(Path::new("/scratch"));
        let value = |name| environment.iter().find(|(key, _)| *key == name).unwrap();
        assert_eq!(value("PTS_USER_PATH_OVERRIDE").1, "/scratch/");
        assert_eq!(value("FORCE_TIMES_TO_RUN").1, "2");
    }

    #[test]
    fn profiles_are_files_that_fetch_nothing() {
        let scratch = workspace::Scratch::new("test-pts-home").unwrap();
        let (home, root) = (scratch.path().join("home"), scratch.path().join("root"));
        write(&home, &root, &suites::ALL, Scale::Smoke).unwrap();
        for suite in suites::ALL {
            let folder = home.join("test-profiles/local").join(name(suite));
            let mut files: Vec<_> = std::fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            assert_eq!(
                files,
                ["install.sh", "results-definition.xml", "test-definition.xml"]
            );
            assert!(root.join(format!("pts/{}.sh", suite.name)).is_file());
        }
    }
}
