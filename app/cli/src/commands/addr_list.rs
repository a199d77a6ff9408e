use super::client;
use crate::args::{Args, FormatArgs};
use crate::render;
use moorline_term::write_json;
use std::io::Write;
use std::process::ExitCode;

pub(super) fn addr_list(
    args: &Args,
    format: FormatArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let interfaces = client(args)?.addresses()?;
    if format.json {
        write_json(out, &interfaces)?;
    } else {
        out.write_all(render::addresses(&interfaces).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
