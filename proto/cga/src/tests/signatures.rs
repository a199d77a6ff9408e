use super::vectors::{File, file};
use crate::{
    KeyError, KeyFile, MESSAGE_TYPE_TAG, PublicKey, RsaKey, SignError, Signer, VerifyError,
    signed_octets, verify_signature,
};
use std::vec::Vec;

pub(super) fn rsa_key(file: &File, name: &str) -> RsaKey {
    let pem = file.keys[name].private_pem.as_ref().unwrap();
    match KeyFile::parse(pem.as_bytes()).unwrap() {
        KeyFile::Rsa(key) => key,
        KeyFile::AddressOnly(_) => panic!("{name} is no RSA private key"),
    }
}

fn spki(file: &File, name: &str) -> Vec<u8> {
    hex::decode(&file.keys[name].spki).unwrap()
}

//= rfc3972#7.4-2 rfc5533#5.15.5-1 (test)
#[test]
fn signed_octets_are_those_of_the_vectors() {
    let file = file();
    assert_eq!(file.signature.len(), 14);
    for vector in &file.signature {
        let list = vector.list();
        assert_eq!(list.generation, vector.generation);
        let octets = signed_octets(&list);
        assert_eq!(hex::encode(&octets), vector.signed_octets, "{}", vector.id);
        assert_eq!(octets[..16], MESSAGE_TYPE_TAG);
    }
}

//= rfc3972#6-1 (test)
#[test]
fn signatures_are_those_of_the_vectors_whatever_blinds_them() {
    let file = file();
    let mut seen = 0;
    for vector in file.signature.iter().filter(|vector| !vector.negative) {
        let key = rsa_key(&file, &vector.key);
        assert_eq!(key.public_key().spki(), spki(&file, &vector.key));
        for blinding in [[0; 32], [0x5a; 32]] {
            let signature = key.sign(&signed_octets(&vector.list()), blinding).unwrap();
            assert_eq!(hex::encode(signature), vector.signature, "{}", vector.id);
        }
        seen += 1;
    }
    assert_eq!(seen, 6);
}

//= rfc3972#6-2 (test)
#[test]
fn signature_verdicts_are_those_of_the_rfc() {
    let file = file();
    for vector in &file.signature {
        let octets = hex::decode(&vector.signed_octets).unwrap();
        let signature = hex::decode(&vector.signature).unwrap();
        let pds = hex::decode(&vector.pds).unwrap();
        let fields = moorline_wire::CgaParameters::parse(&pds).unwrap();
        let verdict = verify_signature(&fields.public_key, &octets, &signature);
        let expected =
            if vector.signature_valid_rfc { Ok(()) } else { Err(VerifyError::Signature) };
        assert_eq!(verdict, expected, "{}", vector.id);
    }
}

/// LinShim6 cut a signature that was too long.
#[test]
fn signature_of_another_length_or_value_is_refused() {
    let file = file();
    let spki = spki(&file, "rsa1024");
    let good = rsa_key(&file, "rsa1024").sign(b"octets", [1; 32]).unwrap();
    assert_eq!(verify_signature(&spki, b"octets", &good), Ok(()));
    assert_eq!(verify_signature(&spki, b"octetS", &good), Err(VerifyError::Signature));
    let modulus = &spki[29..29 + 128];
    let longer = [&good[..], &[0]].concat();
    let with_zero = [&[0], &good[..]].concat();
    for bad in [&[][..], &good[..127], &good[1..], &longer, &with_zero, &[0; 128], modulus] {
        assert_eq!(verify_signature(&spki, b"octets", bad), Err(VerifyError::Signature));
    }
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(verify_signature(&spki, b"octets", &bad), Err(VerifyError::Signature));
    }
}

/// The signature plus the modulus is the same number modulo the modulus: one list may have only one
/// signature.
#[test]
fn signature_that_is_not_below_the_modulus_is_refused() {
    let file = file();
    let spki = spki(&file, "rsa1024");
    let modulus = spki[29..29 + 128].to_vec();
    let key = rsa_key(&file, "rsa1024");
    let (octets, sum) = (0u8..)
        .find_map(|n| {
            let signature = key.sign(&[n], [1; 32]).unwrap();
            let mut carry = 0;
            let mut sum = signature.clone();
            for (octet, addend) in sum.iter_mut().zip(&modulus).rev() {
                let total = u16::from(*octet) + u16::from(*addend) + carry;
                *octet = total.to_be_bytes()[1];
                carry = total >> 8;
            }
            (carry == 0).then_some(([n], sum))
        })
        .unwrap();
    assert_eq!(verify_signature(&spki, &octets, &sum), Err(VerifyError::Signature));
}

//= rfc3972#3-4 rfc3972#3-6 rfc5533#16-1 (test)
#[test]
fn keys_that_cannot_sign_are_refused_by_name() {
    let file = file();
    let short = KeyError::TooShort { bits: 512 };
    let verify = |spki: &[u8], length| verify_signature(spki, b"octets", &std::vec![1; length]);
    assert_eq!(verify(&spki(&file, "rfc3972-rsa512"), 64), Err(VerifyError::Key(short)));
    assert_eq!(verify(&spki(&file, "p256"), 64), Err(VerifyError::Key(KeyError::NotRsa)));
    let hba = crate::HbaKey::extended_modifier([9; 48]);
    let short = KeyError::TooShort { bits: 384 };
    assert_eq!(verify(hba.spki(), 48), Err(VerifyError::Key(short)));
    for bits in [1016, 4104] {
        let error = match bits {
            1016 => KeyError::TooShort { bits },
            _ => KeyError::TooLong { bits },
        };
        let spki = rsa_spki(&std::vec![0xff; bits as usize / 8], &[1, 0, 1]);
        assert_eq!(verify(&spki, bits as usize / 8), Err(VerifyError::Key(error)));
        assert_eq!(PublicKey::from_spki(&spki).unwrap().rsa_bits(), Ok(bits));
    }
    assert_eq!(
        std::format!("{}", VerifyError::Key(KeyError::TooShort { bits: 512 })),
        "the signature cannot be verified: an RSA key of 512 bits is too short to sign: 1024 at least"
    );
}

#[test]
fn short_private_key_has_addresses_and_no_signatures() {
    let der = hex::decode(RSA_512).unwrap();
    let key = RsaKey::from_der(&der).unwrap();
    assert_eq!(key.bits(), 512);
    let short = KeyError::TooShort { bits: 512 };
    assert_eq!(key.sign(b"octets", [1; 32]), Err(SignError::Key(short)));
    assert_eq!(key.public_key().check_can_sign(), Err(short));
}

/// Any octets of a peer give an error, and no panic in the arithmetic.
//= rfc3972#3-5 (test)
#[test]
fn degenerate_rsa_keys_are_refused() {
    let full = std::vec![0xff; 128];
    let mut even = full.clone();
    even[127] = 0xfe;
    let big = [&[0x7f][..], &full].concat();
    for (modulus, exponent) in [
        (&even[..], &[1, 0, 1][..]),
        (&full, &[0]),
        (&full, &[1]),
        (&full, &[2]),
        (&full, &[0x04, 0, 0, 0, 1]),
        (&full, &full),
        (&full, &big),
    ] {
        let result = verify_signature(&rsa_spki(modulus, exponent), b"octets", &[1; 128]);
        assert_eq!(result, Err(VerifyError::Key(KeyError::Malformed)), "{exponent:?}");
    }
    for modulus in [&[0][..], &[1], &[3]] {
        let result = verify_signature(&rsa_spki(modulus, &[3]), b"octets", &[1]);
        assert!(matches!(result, Err(VerifyError::Key(KeyError::TooShort { .. }))), "{modulus:?}");
    }
    let mut parameters_left_out = rsa_spki(&full, &[1, 0, 1]);
    assert_eq!(parameters_left_out[16..18], [5, 0]);
    parameters_left_out[16] = 4;
    let result = verify_signature(&parameters_left_out, b"octets", &[1; 128]);
    assert_eq!(result, Err(VerifyError::Key(KeyError::Malformed)));
}

/// An SPKI made by hand from numbers that no key generator makes.
fn rsa_spki(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let integer = |octets: &[u8]| {
        let zero: &[u8] = if octets[0] & 0x80 == 0 { &[] } else { &[0] };
        tlv(0x02, &[zero, octets].concat())
    };
    let rsa = tlv(0x30, &[integer(modulus), integer(exponent)].concat());
    let algorithm = hex::decode("300d06092a864886f70d0101010500").unwrap();
    tlv(0x30, &[algorithm, tlv(0x03, &[&[0][..], &rsa].concat())].concat())
}

fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    let header = match length {
        [0, short @ 0..0x80] => std::vec![tag, short],
        [0, long] => std::vec![tag, 0x81, long],
        [high, low] => std::vec![tag, 0x82, high, low],
    };
    [header, value.to_vec()].concat()
}

/// A throw-away key of 512 bits, DER of PKCS#8.
const RSA_512: &str = "\
    3082013a020100024100decef9ce8ed4ab4a933e6c43bc7b73eaa4e63db43967a89f30279cdac473b4a8614b\
    761a2e2911c3b89c71d6d70085087f37479469e5ad215b0962b19fd4b799020301000102406324a24fe18a8c\
    75f0b33425a7f71f0b6838f378009b39932c3054419c6d0813981aaa664f5f52f689d8017223b02ae03295b6\
    dbb8fcfcc9e73808ef390f0501022100f75080155607a0c105975660bc46cfaf6a7a5ad730147a8ff3758381\
    98af5111022100e6a2271e17e6b5c3ecf41e44eac1ba1ecbd2fb3a8cbbacab759238595b7cfe0902204e3c4d\
    0872da9ee3f0dcdb1a66f50fa6324cda87d051ea23b7a4a9214a27cbc10221008a5c9b652567a6823d249308\
    3b622f9b8c222dd009600a0def01e2c650e9a2a9022023ca3b7c6e5b941d5c8efe3acbd2e396365aae75f025\
    3aa892feb0e9efcd1da3";
