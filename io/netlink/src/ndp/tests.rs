use super::*;
use std::net::Ipv6Addr;

/// `struct prefixmsg` and its attributes.
fn notice(kind: u8, flags: u8) -> Row {
    let mut octets = vec![10, 0, 0, 0];
    octets.extend(7u32.to_ne_bytes());
    octets.extend([kind, 64, flags, 0]);
    octets.extend(20u16.to_ne_bytes());
    octets.extend(1u16.to_ne_bytes());
    octets.extend("2001:db8:1::".parse::<Ipv6Addr>().unwrap().octets());
    octets.extend(12u16.to_ne_bytes());
    octets.extend(2u16.to_ne_bytes());
    octets.extend(50u32.to_ne_bytes());
    octets.extend(100u32.to_ne_bytes());
    Row::parse(libc::RTM_NEWPREFIX, &octets).unwrap()
}

#[test]
fn the_kernels_notice_says_the_same_of_one_prefix() {
    let read = read_kernel_prefix(&notice(3, 1)).unwrap();
    assert_eq!((read.ifindex, read.origin), (7, Origin::Kernel));
    let expected = PrefixInformation {
        prefix: Prefix::new("2001:db8:1::".parse().unwrap(), 64),
        on_link: true,
        autonomous: false,
        lifetimes: Lifetimes { valid: 100, preferred: 50 },
    };
    assert_eq!(read.prefixes, [expected]);
    // Linux up to 6.7 has flags of its own, newer ones have those of the option.
    for (flags, on_link, autonomous) in [
        (0, false, false),
        (2, false, true),
        (3, true, true),
        (0x40, false, true),
        (0x80, true, false),
    ] {
        let [only] = read_kernel_prefix(&notice(3, flags)).unwrap().prefixes[..] else { panic!() };
        assert_eq!((only.on_link, only.autonomous), (on_link, autonomous), "{flags:#x}");
    }
    assert_eq!(read_kernel_prefix(&notice(5, 1)), None);
}
