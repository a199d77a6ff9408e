use crate::args::{KeyCommand, KeyGenerateArgs, KeyImportArgs, KeyShowArgs};
use crate::render;
use moorline_addr::{KeyView, generate_key, public_key_pem, read_key, write_key, write_new_public};
use moorline_cga::{KeyFile, PublicKey, Signer};
use std::io::Write;
use std::process::ExitCode;

pub(crate) fn key(command: &KeyCommand, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::Generate(args) => generate(args, out),
        KeyCommand::Show(args) => show(args, out),
        KeyCommand::Import(args) => import(args, out),
    }
}

fn generate(args: &KeyGenerateArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let key = generate_key(args.bits)?;
    write_key(&args.out, &key)?;
    tell(key.public_key(), args.json, out)
}

fn show(args: &KeyShowArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let file = read_key(&args.file)?;
    if args.public {
        out.write_all(public_key_pem(file.public_key())?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    tell(file.public_key(), args.json, out)
}

fn import(args: &KeyImportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let file = read_key(&args.file)?;
    match &file {
        KeyFile::Rsa(key) => write_key(&args.out, key)?,
        KeyFile::AddressOnly(key) => {
            write_new_public(&args.out, public_key_pem(key)?.as_bytes())?;
        }
    }
    tell(file.public_key(), args.json, out)
}

/// Prints the public key, and never a part of the private key.
fn tell(key: &PublicKey, json: bool, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    super::show(out, json, &KeyView::new(key), render::key)
}
