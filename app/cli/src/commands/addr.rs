use super::{client, show};
use crate::args::{
    AddrCommand, Args, BenchArgs, ConvertArgs, Form, GenerateArgs, ShowArgs, VerifyArgs,
};
use crate::render;
use anyhow::{Context, bail};
use moorline_addr::{
    Addresses, EngineRate, Error, Found, KeyView, ParamsView, Request, Search, Verdict,
    check_public, read_key, write_public,
};
use moorline_cga::Sec;
use moorline_term::{Bar, EXIT_INTERRUPTED, units};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) fn addr(
    args: &Args,
    command: &AddrCommand,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    match command {
        AddrCommand::List(format) => {
            let text = |interfaces: &Vec<_>| render::addresses(interfaces);
            show(out, format.json, &client(args)?.addresses()?, text)
        }
        AddrCommand::Generate(args) => generate(args, out),
        AddrCommand::Verify(args) => verify(args, out),
        AddrCommand::Show(args) => show_params(args, out),
        AddrCommand::Convert(args) => convert(args, out),
        AddrCommand::Bench(args) => bench(args, out),
    }
}

/// JSON output of `moorline addr generate`.
#[derive(Debug, Serialize)]
pub(crate) struct Generated {
    pub(crate) kind: &'static str,
    pub(crate) sec: u8,
    pub(crate) collision_count: u8,
    pub(crate) addresses: Vec<GeneratedAddress>,
    /// Reason why the key cannot sign for later locators; none if it can, or without a key.
    pub(crate) cannot_sign: Option<String>,
    /// Start modifier, in hex.
    pub(crate) start: String,
    /// Distance of the modifier from the start.
    pub(crate) offset: u64,
    pub(crate) shard: String,
    /// Tries of this run.
    pub(crate) tries: u64,
    pub(crate) seconds: f64,
    pub(crate) threads: usize,
    pub(crate) engine: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct GeneratedAddress {
    pub(crate) address: Ipv6Addr,
    /// Parameters, in hex.
    pub(crate) params: String,
}

fn generate(args: &GenerateArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let request = request(args)?;
    let mut search = match request.resolve(args.state.as_deref()) {
        Err(error @ (Error::OnePrefix | Error::NoKey | Error::NoSeed | Error::Generate(_))) => {
            return Ok(wrong_question(&error));
        }
        other => other?,
    };
    search.threads = args.threads.unwrap_or(search.threads);
    // If the file cannot be written, fail now and not after an hour.
    args.out.as_deref().map(check_public).transpose()?;
    let found = match run(&search) {
        Err(Error::Cancelled { tries }) => return Ok(interrupted(tries, args.state.is_some())),
        other => other?,
    };
    let made = after_collisions(&found, args.collision_count)?;
    let written = args.out.as_deref().map_or(Ok(()), |path| write_public(path, made.params()));
    let generated = Generated::new(args, &search, &found, &made);
    // If the file could not be written, print the parameters, so that the result of a long search is not lost.
    let file = args.out.as_deref().filter(|_| written.is_ok());
    let shown = show(out, args.json, &generated, |made| render::generated(made, file))?;
    Ok(written.map(|()| shown)?)
}

fn interrupted(tries: u64, has_state: bool) -> ExitCode {
    let again =
        if has_state { "the same command goes on" } else { "--state FILE would let it go on" };
    eprintln!("moorline: interrupted after {} tries; {again}", units::count(tries));
    ExitCode::from(EXIT_INTERRUPTED)
}

fn after_collisions(found: &Found, count: u8) -> Result<Addresses, Error> {
    (0..count).try_fold(found.addresses.clone(), |made, _| Ok(made.after_collision()?))
}

fn request(args: &GenerateArgs) -> Result<Request, Error> {
    let key = args.key.as_deref().map(read_key).transpose()?;
    Ok(Request {
        prefixes: args.prefixes.clone(),
        hba: args.hba,
        key: key.map(|key| key.public_key().clone()),
        sec: args.sec,
        start: args.modifier,
        seed: args.seed,
        shard: args.shard,
    })
}

fn run(search: &Search) -> Result<Found, Error> {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut ids = Vec::new();
    for signal in [SIGINT, SIGTERM] {
        // Without this handler the signal ends the program at once, and the search loses seconds of its state.
        ids.extend(signal_hook::flag::register(signal, Arc::clone(&cancel)));
    }
    let bar = (search.job.sec >= Sec::TWO).then(|| Bar::new("{bar:16} {msg}"));
    bar.iter().for_each(|bar| bar.say(format!("searching on {} threads", search.threads)));
    let result = search.run(&cancel, |progress| {
        if let Some(bar) = &bar {
            // A search has no memory. The bar shows the share of searches that would have ended by now.
            bar.set(progress.probability);
            bar.say(render::progress(progress));
        }
    });
    for id in ids {
        signal_hook::low_level::unregister(id);
    }
    result
}

impl Generated {
    fn new(args: &GenerateArgs, search: &Search, found: &Found, made: &Addresses) -> Self {
        let job = &search.job;
        let kind = match (job.hba, job.public_key()) {
            (false, _) => "cga",
            (true, Some(_)) => "hba-compatible",
            (true, None) => "hba",
        };
        let addresses = made.members().iter().map(|one| GeneratedAddress {
            address: one.address().0,
            params: hex::encode(one.pds()),
        });
        Self {
            kind,
            sec: job.sec.value(),
            collision_count: args.collision_count,
            addresses: addresses.collect(),
            cannot_sign: job.public_key().and_then(|key| KeyView::new(key).cannot_sign),
            start: hex::encode(job.start),
            offset: found.offset,
            shard: search.shard.to_string(),
            tries: found.tries,
            seconds: found.elapsed.as_secs_f64(),
            threads: search.threads.get(),
            engine: search.engine.name(),
        }
    }
}

fn verify(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let params = match args.params.read() {
        Ok(params) => params,
        Err(error) => return Ok(wrong_question(&error)),
    };
    let verdict = Verdict::new(args.address, &params, args.hba);
    show(out, args.json, &verdict, render::verdict)?;
    Ok(if verdict.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show_params(args: &ShowArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let view = ParamsView::new(&args.params.read()?).context(NO_PARAMS)?;
    show(out, args.json, &view, render::params)
}

fn convert(args: &ConvertArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let params = args.params.read()?;
    // Reject octets that are not parameters.
    ParamsView::new(&params).context(NO_PARAMS)?;
    let octets = match args.to {
        Form::Der => params,
        Form::Hex => format!("{}\n", hex::encode(params)).into_bytes(),
    };
    match &args.out {
        Some(path) => write_public(path, &octets)?,
        None if args.to == Form::Der && std::io::stdout().is_terminal() => {
            bail!("octets are not for a terminal: name a file with --out");
        }
        None => out.write_all(&octets)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// JSON output of `moorline addr bench`.
#[derive(Debug, Serialize)]
struct Rates {
    engines: Vec<EngineRate>,
}

fn bench(args: &BenchArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let tail = match &args.key {
        Some(path) => read_key(path)?.public_key().spki().to_vec(),
        None => vec![0; P256_SPKI_OCTETS],
    };
    let engines = moorline_addr::bench(&tail, Duration::from_secs_f64(args.seconds));
    show(out, args.json, &Rates { engines }, |rates| render::rates(&rates.engines))
}

/// Prints an error in the arguments. Its exit code differs from the code of a negative answer.
fn wrong_question(error: &Error) -> ExitCode {
    eprintln!("moorline: {error}");
    ExitCode::from(BAD_USAGE)
}

/// Exit code of clap for wrong arguments.
const BAD_USAGE: u8 = 2;
const NO_PARAMS: &str = "these are no parameters of an address";
const P256_SPKI_OCTETS: usize = 91;
