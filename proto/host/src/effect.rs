use moorline_contexts as shim6;
use moorline_datapath as datapath;
use moorline_ilnp as ilnp;

/// An action that the executor of a host is to take next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the data plane of Shim6.
    UpdateContext(datapath::shim6::Update),
    /// Tell the data plane of ILNP.
    UpdateSession(datapath::ilnp::Update),
    /// Send a control packet of protocol 140.
    SendShim6(shim6::Transmit),
    /// Send a control packet of ILNP, which is ICMPv6.
    SendIlnp(ilnp::Transmit),
    /// Tell people of a context.
    TellContext(shim6::Event),
    /// Tell people of a session.
    TellSession(ilnp::Event),
    /// Ask the sockets of the host for ILNP, and give the answer by [`Host::answer`](crate::Host::answer).
    AskSockets(ilnp::Question),
    /// Find out whether a socket needs a quiet context, and say so by [`Contexts::handle_usage`](crate::Contexts::handle_usage).
    AskUsage(shim6::Question),
}
