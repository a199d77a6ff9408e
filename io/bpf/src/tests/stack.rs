//! Stacks of the programs, summed as Linux 6.1 does it. Later kernels round less, so a successful load here proves
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::libbpf_sys::bpf_insn;

use super::can_run;
use crate::ilnp::IlnpSettings;
use crate::{Settings, load};

/// `MAX_BPF_STACK` in octets.
const MOST: u32 = 512;

#[derive(Default)]
struct Function {
    /// Octets of the function's own stack.
    depth: u32,
    calls: BTreeSet<usize>,
}

#[test]
fn stacks_of_all_that_is_called_in_a_row_fit_linux_6_1() {
    if !can_run("stacks_of_all_that_is_called_in_a_row_fit_linux_6_1") {
        return;
    }
    let shim6 = load::shim6(&Settings { max_contexts: 64, ..Settings::default() }, None, false);
    let ilnp = load::ilnp(&IlnpSettings::default(), false);
    for object in [shim6.unwrap(), ilnp.unwrap()] {
        for program in object.progs() {
            let (functions, roots) = functions(program.insns());
            let all = roots.iter().map(|root| stacks(&functions, *root));
            let deepest = all.max_by_key(|stacks| total(stacks)).expect("a program");
            let name = program.name().display().to_string();
            assert!(total(&deepest) <= MOST, "{name}: {} octets, {deepest:?}", total(&deepest));
        }
    }
}

/// Functions begin at each instruction that is called. Also returns those that begin with an empty stack: the program
/// itself and the callbacks of timers.
fn functions(code: &[bpf_insn]) -> (BTreeMap<usize, Function>, BTreeSet<usize>) {
    let target = |at: usize| at.strict_add_signed(1 + code[at].imm as isize);
    let is = |at: usize, opcode, pseudo| code[at].code == opcode && code[at].src_reg() == pseudo;
    let (mut roots, mut called) = (BTreeSet::from([0]), BTreeSet::new());
    for at in 0..code.len() {
        if is(at, CALL, PSEUDO_CALL) {
            called.insert(target(at));
        } else if is(at, LOAD_64, PSEUDO_FUNCTION) {
            roots.insert(target(at));
        }
    }
    let begins: BTreeSet<usize> = roots.union(&called).copied().collect();
    let ends = begins.iter().copied().skip(1).chain([code.len()]);
    let read = |(begin, end): (usize, usize)| {
        let calls = (begin..end).filter(|at| is(*at, CALL, PSEUDO_CALL)).map(target).collect();
        (begin, Function { depth: depth(&code[begin..end]), calls })
    };
    (begins.iter().copied().zip(ends).map(read).collect(), roots)
}

/// Depth to which a function reaches below the frame pointer, by loads and stores and by pointers that it makes.
fn depth(code: &[bpf_insn]) -> u32 {
    let mut frames = BTreeSet::from([FRAME_POINTER]);
    let mut depth = 0;
    for one in code {
        let below = |offset: i32| u32::try_from(-offset).unwrap_or(0);
        let base = match one.code & CLASS {
            LOAD => Some(one.src_reg()),
            STORE | STORE_REGISTER => Some(one.dst_reg()),
            _ => None,
        };
        if base.is_some_and(|base| frames.contains(&base)) {
            depth = depth.max(below(one.off.into()));
        }
        if one.code == MOVE && frames.contains(&one.src_reg()) {
            frames.insert(one.dst_reg());
        } else if one.code == ADD && frames.contains(&one.dst_reg()) {
            depth = depth.max(below(one.imm));
        } else if !matches!(one.code & CLASS, STORE | STORE_REGISTER | JUMP | JUMP_32) {
            frames.remove(&one.dst_reg());
        }
    }
    depth
}

/// Stack of a function, followed by the stacks of the deepest chain of functions that it calls.
fn stacks(functions: &BTreeMap<usize, Function>, begin: usize) -> Vec<u32> {
    let function = &functions[&begin];
    let called = function.calls.iter().map(|called| stacks(functions, *called));
    let called = called.max_by_key(|stacks| total(stacks)).unwrap_or_default();
    [vec![function.depth.max(1).next_multiple_of(FRAME)], called].concat()
}

fn total(stacks: &[u32]) -> u32 {
    stacks.iter().sum()
}

/// Frames are multiples of this length.
const FRAME: u32 = 32;
const FRAME_POINTER: u8 = 10;
// RFC 9669 s3, s4.
const CLASS: u8 = 0x07;
const LOAD: u8 = 0x01;
const STORE: u8 = 0x02;
const STORE_REGISTER: u8 = 0x03;
const JUMP: u8 = 0x05;
const JUMP_32: u8 = 0x06;
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
const PSEUDO_CALL: u8 = 1;
const PSEUDO_FUNCTION: u8 = 4;

/// Linux 6.1 refuses a program in which a function that the verifier checks by itself hands a pointer that it was given to
/// a map. Newer versions take it.
#[test]
fn no_function_with_a_frame_of_its_own_takes_an_argument_as_a_key() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/lib");
    let mut folders = vec![folder];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for function in source.split("__noinline ").skip(1) {
                let (signature, rest) = function.split_once(')').unwrap();
                let parameters = signature.split_once('(').unwrap().1.split(',');
                let pointers: Vec<_> =
                    parameters.filter_map(|one| Some(one.rsplit_once('*')?.1)).collect();
                let body = rest.split("\n}\n").next().unwrap();
                for call in body.split("_elem(").skip(1) {
                    let key = call.split([',', ')']).nth(1).unwrap().trim();
                    assert!(!pointers.contains(&key), "{}: {signature}", path.display());
                    looked_at += 1;
                }
            }
        }
    }
    assert!(looked_at > 10, "{looked_at}");
}
