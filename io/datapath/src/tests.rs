use crate::{Datapath, Settings};

#[test]
fn programs_load() {
    let dp = Datapath::open_with(&Settings::default(), true);
    if let Err(e) = &dp {
        eprintln!("{e:?}");
    }
    dp.unwrap();
}
