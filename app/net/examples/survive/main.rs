//! Two hosts in this process, each with links to two ISPs, and Shim6 beneath both. A client of hyper downloads a document from a server of
//! axum. When a quarter has arrived, the ISP of the connection dies. The connection goes on by the other ISP. The program needs no
//! privilege, and the kernel sees no packet.

mod network;
mod transfer;

use std::io::Write as _;

const SIZE: usize = 20_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outcome = transfer::survive(SIZE).await?;
    writeln!(
        std::io::stdout(),
        "{} of {SIZE} octets, {}; the longest pause took {:.3} s; packets {}",
        outcome.received,
        if outcome.is_equal { "all as they were sent" } else { "NOT as they were sent" },
        outcome.pause.as_secs_f64(),
        if outcome.has_moved { "take the other ISP now" } else { "have NOT moved" },
    )?;
    if outcome.is_equal && outcome.has_moved { Ok(()) } else { Err("the transfer failed".into()) }
}
