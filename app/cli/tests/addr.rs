//! Tests of `moorline addr` and `moorline key` as programs.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const A: &str = "2001:db8:1::/64";
const B: &str = "2001:db8:2::/64";

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null());
        command
    }

    /// Runs the program with the words of `line` as arguments.
    fn run(&self, line: &str) -> Output {
        let args: Vec<_> = line.split(' ').collect();
        self.command(&args).output().unwrap()
    }

    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(line)).unwrap()
    }

    /// Runs a command that fails; returns the exit code and the one line of its error.
    fn fails(&self, line: &str) -> (i32, String) {
        let output = self.run(line);
        assert!(output.stdout.is_empty(), "{line}: {}", text(&output.stdout));
        (output.status.code().unwrap(), text(&output.stderr))
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_set_made_here_verifies_here() {
    let folder = Folder::new();
    folder.ok("key generate --out key.pem --bits 1024");
    let generate = format!("addr generate --prefix {A} --prefix {B} --hba --key key.pem");
    let made = folder.json(&format!("{generate} --out params --json"));
    assert_eq!((&made["kind"], &made["sec"]), (&"hba-compatible".into(), &1.into()));
    assert_eq!(made["cannot_sign"], Value::Null);
    for one in made["addresses"].as_array().unwrap() {
        let (address, params) = (one["address"].as_str().unwrap(), one["params"].as_str().unwrap());
        // Verify each address by the parameters of the first, and as a CGA by its own parameters.
        let said = folder.ok(&format!("addr verify --address {address} --params params --hba"));
        assert_eq!(said, format!("{address} is valid: HBA, Sec 1\n"));
        let said = folder.ok(&format!("addr verify --address {address} --params hex:{params}"));
        assert_eq!(said, format!("{address} is valid: CGA, Sec 1\n"));
    }
}

#[test]
fn what_does_not_verify_exits_with_1_and_names_the_step() {
    let folder = Folder::new();
    let made = folder.json(&format!("addr generate --prefix {A} --hba --out params --json"));
    let address = made["addresses"][0]["address"].as_str().unwrap().to_owned();
    let verify = |address: &str, rest: &str| {
        let output = folder.run(&format!("addr verify --address {address} --params {rest}"));
        (output.status.code().unwrap(), text(&output.stdout))
    };
    let (code, said) = verify("2001:db8:9::1", "params --hba");
    let expected = "2001:db8:9::1 is not valid: prefix: \
                    the prefix is not in the Multi-Prefix extension\n";
    assert_eq!((code, said.as_str()), (1, expected));
    let (code, said) = verify("2001:db8:1::1", "params --json");
    let verdict: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, 1);
    assert_eq!((&verdict["valid"], &verdict["step"]), (&false.into(), &"hash 1".into()));
    assert_eq!(verdict["method"], "cga");
    // LinShim6 crashed on this length.
    let (code, said) = verify(&address, &format!("hex:{}3084f0000000", "00".repeat(25)));
    assert_eq!(code, 1);
    assert!(said.contains(" is not valid: DER: "), "{said}");
}

#[test]
fn bad_usage_exits_with_2_and_a_sentence() {
    let folder = Folder::new();
    folder.ok("key generate --out key.pem --bits 1024");
    for (line, expected) in [
        ("addr generate --prefix 2001:db8::/48 --hba", "write it like 2001:db8:1::/64"),
        ("addr generate --prefix ff02::/64 --hba", "has no addresses of hosts"),
        ("addr generate --prefix fe80:: --hba --sec 3", "Sec is 0, 1 or 2"),
        ("addr generate --prefix fe80:: --hba --shard 2/2", "2/2 is no shard"),
        ("addr generate --prefix fe80:: --hba --shard 1/2", "give all of them the same seed"),
        ("addr generate --prefix fe80:: --hba --modifier 12", "32 hexadecimal digits"),
        ("addr generate --prefix fe80::", "--key <FILE>"),
        ("addr generate --prefix fe80:: --prefix fe80:0:0:1:: --key key.pem", "has one prefix"),
        ("addr generate --prefix fe80:: --prefix fe80:: --hba", "prefix 1 is already in the list"),
        ("addr verify --address fe80::1 --params none", "cannot read none: No such file"),
        ("addr verify --address fe80::1 --params hex:xy", "xy is not in hexadecimal digits"),
        ("addr verify --address fe80::x --params hex:00", "invalid value 'fe80::x'"),
    ] {
        let (code, said) = folder.fails(line);
        assert_eq!(code, 2, "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn the_example_of_rfc_3972_comes_out() {
    let folder = Folder::new();
    let spki = "305c300d06092a864886f70d0101010500034b003048024100c2c2f137305454f10bd9cea36844b530\
                e9211a4b262b16467cb7dfba1f595c0194f275be5a4d386f2c3c2382508773c7867f9b3b9e63a09c7b\
                c48f7a54ebefaf0203010001";
    fs::write(folder.path("key"), hex::decode(spki).unwrap()).unwrap();
    let modifier = "89a8a8b2e858d8b8f2633f44d2d4ce9a";
    let generate = format!("addr generate --prefix fe80:: --key key --modifier {modifier}");
    let made = folder.json(&format!("{generate} --json"));
    assert_eq!(made["addresses"][0]["address"], "fe80::3c4a:5bf6:ffb4:ca6c");
    assert_eq!(made["offset"], 1);
    let said = folder.ok(&generate);
    assert!(
        said.contains("note        no other locators can be signed for it: an RSA key of 512 bits"),
        "{said}"
    );
}

#[test]
fn collisions_change_the_address_and_not_the_search() {
    let folder = Folder::new();
    let seed = "ab".repeat(32);
    let made = |count: u8| {
        let line = format!(
            "addr generate --prefix {A} --hba --seed {seed} --collision-count {count} --json"
        );
        folder.json(&line)
    };
    let (none, two) = (made(0), made(2));
    assert_eq!(none["offset"], two["offset"]);
    assert_ne!(none["addresses"], two["addresses"]);
    let params = two["addresses"][0]["params"].as_str().unwrap();
    let shown = folder.ok(&format!("addr show --params hex:{params}"));
    assert!(shown.contains("\ncollisions  2\n"), "{shown}");
}

#[test]
fn params_are_shown_and_converted_both_ways() {
    let folder = Folder::new();
    folder.ok(&format!("addr generate --prefix {A} --prefix {B} --hba --out params"));
    let shown = folder.ok("addr show --params params");
    assert!(
        shown.contains("\nkey         none: 78 octets of an HBA set in its place\n"),
        "{shown}"
    );
    assert!(shown.contains("\nHBA set     2001:db8:1::/64 2001:db8:2::/64\n"), "{shown}");
    let json = folder.json("addr show --params params --json");
    assert_eq!((&json["is_real_key"], &json["octets"]), (&false.into(), &127.into()));
    let digits = folder.ok("addr convert --params params --to hex");
    fs::write(folder.path("digits"), &digits).unwrap();
    folder.ok("addr convert --params digits --to der --out again");
    assert_eq!(fs::read(folder.path("again")).unwrap(), fs::read(folder.path("params")).unwrap());
    assert_eq!(mode(&folder.path("again")), 0o644);
    let (code, said) = folder.fails("addr convert --params hex:00 --to hex");
    assert_eq!(code, 1);
    assert!(said.starts_with("moorline: these are no parameters of an address: "), "{said}");
}

#[test]
fn shards_find_the_same_whoever_runs_them() {
    let folder = Folder::new();
    folder.ok("key generate --out key.pem --bits 1024");
    let pem = folder.ok("key show key.pem --public");
    fs::write(folder.path("public.pem"), pem).unwrap();
    let shard = |key: &str, threads: u8| {
        let line = format!(
            "addr generate --prefix {A} --key {key} --shard 1/4 --threads {threads} --json"
        );
        let made = folder.json(&line);
        (made["addresses"].clone(), made["offset"].clone())
    };
    assert_eq!(shard("key.pem", 1), shard("public.pem", 3));
}

#[test]
fn an_interrupted_search_says_how_to_go_on() {
    let folder = Folder::new();
    let line = format!("addr generate --prefix {A} --hba --sec 2 --threads 1 --state state --json");
    let words: Vec<_> = line.split(' ').collect();
    let mut child =
        folder.command(&words).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The program writes the state after it has set its signal handlers.
    while !folder.path("state").exists() {
        std::thread::yield_now();
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "as a shell gives it for Ctrl-C");
    let said = text(&output.stderr);
    assert!(said.starts_with("moorline: interrupted after "), "{said}");
    assert!(said.ends_with(" tries; the same command goes on\n"), "{said}");
    assert_eq!(mode(&folder.path("state")), 0o600);
    // Change the state: the search has a result, and this result does not fit.
    let state = fs::read_to_string(folder.path("state")).unwrap();
    let (before, _) = state.split_once("\"offset\": null").unwrap();
    fs::write(folder.path("state"), format!("{before}\"offset\": 5}}")).unwrap();
    let (code, said) = folder.fails(&line);
    let expected = "moorline: state is no state of a search: its result is none\n";
    assert_eq!((code, said.as_str()), (1, expected));
    fs::write(folder.path("state"), &state).unwrap();
    let (code, said) = folder.fails(&line.replace("--sec 2", "--sec 1"));
    let expected = "moorline: state is the state of a search with another Sec: \
                    remove it or name another file\n";
    assert_eq!((code, said.as_str()), (1, expected));
}

#[test]
fn a_place_that_takes_no_file_is_told_before_the_search() {
    let folder = Folder::new();
    // An error after the search would take minutes.
    let (code, said) = folder.fails(&format!("addr generate --prefix {A} --hba --sec 2 --out n/p"));
    let expected = "moorline: cannot write n/p: No such file or directory (os error 2)\n";
    assert_eq!((code, said.as_str()), (1, expected));
}

#[test]
fn what_was_found_is_shown_though_its_file_could_not_be_written() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("/dev/full", folder.path("params")).unwrap();
    let output = folder.run(&format!("addr generate --prefix {A} --hba --out params"));
    assert_eq!(output.status.code(), Some(1));
    let said = "moorline: cannot write params: No space left on device (os error 28)\n";
    assert_eq!(text(&output.stderr), said);
    let shown = text(&output.stdout);
    assert!(shown.contains("\nparameters  hex:"), "{shown}");
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let folder = Folder::new();
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED a full disk: only root can make one");
        assert!(std::env::var_os("MOORLINE_REQUIRE_ROOT").is_none(), "it may not be skipped");
        return;
    }
    fs::create_dir(folder.path("disk")).unwrap();
    // A file system of two pages, in a mount namespace that ends with the shell.
    let script = format!(
        "mount -t tmpfs -o size=8k none disk || exit 99; cd disk
        {{ $M key generate --bits 1024 --out key.pem && $M addr generate --prefix {A} --hba --out params
        }} > /dev/null || exit 98
        cat key.pem params > ../before
        head -c 100000 /dev/zero > fill 2> /dev/null
        $M key generate --bits 1024 --out k; echo $?
        $M key import key.pem --out k; echo $?
        $M addr generate --prefix {A} --hba --out params > /dev/null; echo $?
        $M addr generate --prefix {A} --hba --state k; echo $?
        $M addr convert --params params --to hex --out k; echo $?
        cat key.pem params | cmp - ../before && ls -A"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(folder.0.path())
        .env("M", env!("CARGO_BIN_EXE_moorline"))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 5, "{said}");
    for (line, name) in said.lines().zip(["k", "k", "params", "k", "k"]) {
        let expected = format!("moorline: cannot write {name}: No space left on device");
        assert!(line.starts_with(&expected), "{line}");
    }
    assert_eq!(text(&output.stdout), "1\n1\n1\n1\n1\nfill\nkey.pem\nparams\n");
}

#[test]
fn the_bench_measures_every_engine() {
    let rates = Folder::new().json("addr bench --seconds 0 --json");
    let engines = rates["engines"].as_array().unwrap();
    assert_eq!(engines.last().unwrap()["name"], "portable");
    for engine in engines {
        let keys: Vec<_> = engine.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["blocks_per_s", "name", "tries_per_s"]);
        assert!(engine["tries_per_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn keys_are_for_their_owner_and_never_lost_or_shown() {
    let folder = Folder::new();
    let said = folder.ok("key generate --out key.pem --bits 1024");
    assert!(said.starts_with("key         RSA of 1024 bits\n"), "{said}");
    assert_eq!(mode(&folder.path("key.pem")), 0o600);
    let before = fs::read_to_string(folder.path("key.pem")).unwrap();
    let (code, said) = folder.fails("key generate --out key.pem --bits 1024");
    assert_eq!(
        (code, said.as_str()),
        (1, "moorline: cannot write key.pem: File exists (os error 17)\n")
    );
    assert_eq!(fs::read_to_string(folder.path("key.pem")).unwrap(), before);
    let line_of_key = before.lines().nth(2).unwrap();
    for command in [
        "key show key.pem",
        "key show key.pem --json",
        "key show key.pem --public",
        "addr generate --prefix fe80:: --key key.pem --state state --json",
        "key import key.pem --out other.pem --json",
    ] {
        assert!(!folder.ok(command).contains(line_of_key), "{command}");
    }
    // The state has the public key, and must not have a number of the private key.
    let state = fs::read_to_string(folder.path("state")).unwrap();
    let spki = folder.ok("key show key.pem --public").lines().count();
    assert!(spki > 2 && state.contains("\"public-key\": \"30819f30"), "{state}");
    assert!(state.len() < 2 * 162 + 500, "{state}");
    folder.ok("key import key.pem --out copy.pem");
    assert_eq!(fs::read_to_string(folder.path("copy.pem")).unwrap(), before);
    assert_eq!(mode(&folder.path("copy.pem")), 0o600);
    fs::set_permissions(folder.path("key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = folder.fails("key show key.pem");
    assert_eq!(code, 1);
    assert!(said.ends_with(": chmod 600 key.pem\n"), "{said}");
}

#[test]
fn keys_of_no_use_are_told() {
    let folder = Folder::new();
    let (code, said) = folder.fails("key generate --out key.pem --bits 512");
    let expected = "moorline: an RSA key of 512 bits is too short to sign: 1024 at least\n";
    assert_eq!((code, said.as_str()), (1, expected));
    assert!(!folder.path("key.pem").exists());
    fs::write(folder.path("text"), "hello").unwrap();
    let (code, said) = folder.fails("key show text");
    assert_eq!((code, said.as_str()), (1, "moorline: text: the key is malformed\n"));
    let (code, said) = folder.fails("key generate --out none/key.pem --bits 1024");
    let expected = "moorline: cannot write none/key.pem: No such file or directory (os error 2)\n";
    assert_eq!((code, said.as_str()), (1, expected));
}
