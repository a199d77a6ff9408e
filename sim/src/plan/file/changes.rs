//! Changes and faults: what happens, and the keys that say where.

use std::time::Duration;

use super::parts::{Parsed, span};
use super::shape::{ChangePart, DirectionName, FaultName, FlapPart, Span, Text, WhatName};
use crate::plan::text::host_number;
use crate::plan::{Change, Direction, Fault, Flap, Port, What, host_name};

impl ChangePart {
    pub(super) fn plan(&self) -> Parsed<Change> {
        let mut place = Place {
            uplink: self.uplink,
            to_uplink: self.to_uplink,
            direction: self.direction,
            isp: self.isp,
            to_isp: self.to_isp,
            host: self.host.clone(),
        };
        let what = match self.what {
            WhatName::Cut => {
                What::Cut { port: place.take_uplink()?, direction: place.take_direction() }
            }
            WhatName::CutPath => {
                What::CutPath { from: place.take_uplink()?, to: place.take_to_uplink()? }
            }
            WhatName::CarrierDown => What::CarrierDown(place.take_uplink()?),
            WhatName::CarrierUp => What::CarrierUp(place.take_uplink()?),
            WhatName::AddressRemoved => What::AddressRemoved(place.take_uplink()?),
            WhatName::AddressAdded => What::AddressAdded(place.take_uplink()?),
            WhatName::IspDown => What::IspDown { isp: place.take_isp()? },
            WhatName::IspUp => What::IspUp { isp: place.take_isp()? },
            WhatName::CutTransit => {
                What::CutTransit { from: place.take_isp()?, to: place.take_to_isp()? }
            }
            WhatName::PrefixAdded => What::PrefixAdded(place.take_uplink()?),
            WhatName::PrefixWithdrawn => What::PrefixWithdrawn(place.take_uplink()?),
            WhatName::Heal => What::Heal(place.take_uplink()?),
            WhatName::HealAll => What::HealAll,
            WhatName::Kill => What::Kill { host: place.take_host()? },
            WhatName::Restart => What::Restart { host: place.take_host()? },
            WhatName::Reboot => What::Reboot { host: place.take_host()? },
            WhatName::Suspend => What::Suspend { host: place.take_host()? },
            WhatName::Resume => What::Resume { host: place.take_host()? },
            WhatName::CutProtected => What::CutProtected { host: place.take_host()? },
        };
        place.is_used_up()?;
        Ok(Change { at: self.at.0.0, what })
    }

    pub(super) fn of(change: &Change) -> Self {
        let (what, place) = match change.what {
            What::Cut { port, direction } => (
                WhatName::Cut,
                Place { direction: Some(direction.into()), ..Place::uplink_of(port) },
            ),
            What::CutPath { from, to } => {
                (WhatName::CutPath, Place { to_uplink: Some(Text(to)), ..Place::uplink_of(from) })
            }
            What::CarrierDown(port) => (WhatName::CarrierDown, Place::uplink_of(port)),
            What::CarrierUp(port) => (WhatName::CarrierUp, Place::uplink_of(port)),
            What::AddressRemoved(port) => (WhatName::AddressRemoved, Place::uplink_of(port)),
            What::AddressAdded(port) => (WhatName::AddressAdded, Place::uplink_of(port)),
            What::IspDown { isp } => (WhatName::IspDown, Place::isp_of(isp)),
            What::IspUp { isp } => (WhatName::IspUp, Place::isp_of(isp)),
            What::CutTransit { from, to } => {
                (WhatName::CutTransit, Place { to_isp: Some(to + 1), ..Place::isp_of(from) })
            }
            What::PrefixAdded(port) => (WhatName::PrefixAdded, Place::uplink_of(port)),
            What::PrefixWithdrawn(port) => (WhatName::PrefixWithdrawn, Place::uplink_of(port)),
            What::Heal(port) => (WhatName::Heal, Place::uplink_of(port)),
            What::HealAll => (WhatName::HealAll, Place::default()),
            What::Kill { host } => (WhatName::Kill, Place::host_of(host)),
            What::Restart { host } => (WhatName::Restart, Place::host_of(host)),
            What::Reboot { host } => (WhatName::Reboot, Place::host_of(host)),
            What::Suspend { host } => (WhatName::Suspend, Place::host_of(host)),
            What::Resume { host } => (WhatName::Resume, Place::host_of(host)),
            What::CutProtected { host } => (WhatName::CutProtected, Place::host_of(host)),
        };
        let Place { uplink, to_uplink, direction, isp, to_isp, host } = place;
        let at = Text(Span(change.at));
        Self { at, what, uplink, to_uplink, direction, isp, to_isp, host }
    }
}

impl FlapPart {
    pub(super) fn plan(&self, end: Duration) -> Parsed<Flap> {
        let Self { uplink, direction, isp, .. } = *self;
        let mut place = Place { uplink, direction, isp, ..Place::default() };
        let fault = match self.what {
            FaultName::Silent => Fault::Silent(place.take_uplink()?, place.take_direction()),
            FaultName::Carrier => Fault::Carrier(place.take_uplink()?),
            FaultName::Address => Fault::Address(place.take_uplink()?),
            FaultName::Isp => Fault::Isp(place.take_isp()?),
        };
        place.is_used_up()?;
        Ok(Flap {
            fault,
            from: self.from.0.0,
            until: span(self.until).unwrap_or(end),
            down: self.down.0.0,
            up: self.up.0.0,
        })
    }

    pub(super) fn of(flap: &Flap) -> Self {
        let (what, place) = match flap.fault {
            Fault::Silent(port, direction) => {
                let direction = Some(direction.into());
                (FaultName::Silent, Place { direction, ..Place::uplink_of(port) })
            }
            Fault::Carrier(port) => (FaultName::Carrier, Place::uplink_of(port)),
            Fault::Address(port) => (FaultName::Address, Place::uplink_of(port)),
            Fault::Isp(isp) => (FaultName::Isp, Place::isp_of(isp)),
        };
        let text = |span| Text(Span(span));
        Self {
            what,
            from: text(flap.from),
            until: Some(text(flap.until)),
            down: text(flap.down),
            up: text(flap.up),
            uplink: place.uplink,
            direction: place.direction,
            isp: place.isp,
        }
    }
}

/// Where something happens: which of these keys there must be depends on what happens.
#[derive(Default)]
struct Place {
    uplink: Option<Text<Port>>,
    to_uplink: Option<Text<Port>>,
    direction: Option<DirectionName>,
    isp: Option<usize>,
    to_isp: Option<usize>,
    host: Option<String>,
}

/// Each key is taken at most once, so that what is left means nothing here.
impl Place {
    fn take_uplink(&mut self) -> Parsed<Port> {
        Ok(self.uplink.take().ok_or("needs `uplink`")?.0)
    }

    fn take_to_uplink(&mut self) -> Parsed<Port> {
        Ok(self.to_uplink.take().ok_or("needs `to-uplink`")?.0)
    }

    fn take_isp(&mut self) -> Parsed<usize> {
        isp(self.isp.take().ok_or("needs `isp`")?)
    }

    fn take_to_isp(&mut self) -> Parsed<usize> {
        isp(self.to_isp.take().ok_or("needs `to-isp`")?)
    }

    fn take_host(&mut self) -> Parsed<usize> {
        let name = self.host.take().ok_or("needs `host`")?;
        host_number(&name).ok_or_else(|| format!("`{name}` is no host; write A for the first"))
    }

    fn take_direction(&mut self) -> Direction {
        match self.direction.take() {
            None | Some(DirectionName::Both) => Direction::Both,
            Some(DirectionName::Out) => Direction::Out,
            Some(DirectionName::In) => Direction::In,
        }
    }

    fn is_used_up(&self) -> Parsed<()> {
        let left = [
            ("uplink", self.uplink.is_some()),
            ("to-uplink", self.to_uplink.is_some()),
            ("direction", self.direction.is_some()),
            ("isp", self.isp.is_some()),
            ("to-isp", self.to_isp.is_some()),
            ("host", self.host.is_some()),
        ];
        match left.iter().find(|(_, is_left)| *is_left) {
            Some((key, _)) => Err(format!("`{key}` means nothing here")),
            None => Ok(()),
        }
    }

    fn uplink_of(port: Port) -> Self {
        Self { uplink: Some(Text(port)), ..Self::default() }
    }

    fn isp_of(isp: usize) -> Self {
        Self { isp: Some(isp + 1), ..Self::default() }
    }

    fn host_of(host: usize) -> Self {
        Self { host: Some(host_name(host).to_string()), ..Self::default() }
    }
}

impl From<Direction> for DirectionName {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Both => Self::Both,
            Direction::Out => Self::Out,
            Direction::In => Self::In,
        }
    }
}

fn isp(number: usize) -> Parsed<usize> {
    number.checked_sub(1).ok_or_else(|| "ISPs are numbered from 1 on".into())
}
