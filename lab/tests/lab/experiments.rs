//! Experiments from end to end, with parameters for a short run.

use crate::common;
use std::fs;
use std::num::NonZeroUsize;
use std::time::Duration;

use moorline_cga::Sec;
use moorline_lab::demo::Protocol;
use moorline_lab::experiment::{
    self, AddrCost, Art, Experiment, FloodCost, HandOff, I2Cost, IlccStudy, IlnpFlood, IspLoss,
    LocalEvent, Lossy, Negotiation, NewConnections, PeerFlow, Peers, PlaneName, PolicyName,
    Results, Security, StackLatency, StackThroughput, StateCost, Throughput, Watch,
};
use moorline_lab::trace::Campus;
use moorline_lab::workload::Traffic;
use serde_json::Value;

/// Records stages and progress.
#[derive(Default)]
struct Notes {
    stages: Vec<String>,
    done: Vec<f64>,
}

impl Watch for Notes {
    fn stage(&mut self, what: &str) {
        self.stages.push(what.to_owned());
    }
    fn done(&mut self, part: f64) {
        self.done.push(part);
    }
}

fn a_little() -> AddrCost {
    AddrCost {
        trials: 3,
        secs: vec![Sec::ZERO, Sec::ONE],
        threads: [1, 3].map(|threads| NonZeroUsize::new(threads).unwrap()).into(),
        sizes: vec![2, 4],
        size_trials: 2,
        ..AddrCost::default()
    }
}

fn run(experiment: &dyn Experiment) -> (Results, Notes) {
    let mut notes = Notes::default();
    let results = experiment::run(experiment, &mut notes).unwrap();
    (results, notes)
}

#[test]
fn addr_cost_measures_what_it_was_asked_for() {
    let (results, notes) = run(&a_little());
    let points = &results.points;
    let pairs: Vec<_> = points.iter().filter(|point| point["part"] == "addresses").collect();
    assert_eq!(pairs.len(), 2 * 2 * 2, "kinds, Secs, threads");
    for point in &pairs {
        assert_eq!((&point["addresses"], &point["trials"]), (&2.into(), &3.into()));
        let time = |name: &str| point[name].as_f64().unwrap();
        assert!(0.0 < time("min_s") && time("min_s") <= time("median_s"), "{point}");
        assert!(time("median_s") <= time("max_s") && time("mean_s") <= time("max_s"), "{point}");
    }
    // Each CGA needs a search. An HBA set needs one.
    let tries = |part: &str, kind: &str, sec: u8, addresses: u8| {
        let is_it = |point: &&Value| {
            let numbers = (&point["sec"], &point["addresses"]);
            point["part"] == part
                && point["kind"] == kind
                && numbers == (&sec.into(), &addresses.into())
        };
        points.iter().find(is_it).unwrap()["mean_tries"].as_f64().unwrap()
    };
    assert_eq!((tries("addresses", "cga", 0, 2), tries("addresses", "hba", 0, 2)), (2.0, 1.0));
    assert!(tries("sizes", "cga", 1, 4) > 4.0 && tries("sizes", "hba", 1, 4) > 1.0);
    assert_eq!(points.len(), pairs.len() + 2 * 2, "kinds, sizes");
    assert_eq!(notes.stages.len(), points.len());
    assert!(
        notes.done.is_sorted() && notes.done.last().is_some_and(|last| (last - 1.0).abs() < 1e-9)
    );
}

#[test]
fn equal_seeds_make_equal_addresses_whatever_the_threads() {
    let tries = |seed: u64| {
        let experiment = AddrCost { seed, secs: vec![Sec::ONE], sizes: vec![], ..a_little() };
        let points = run(&experiment).0.points;
        points.iter().map(|point| point["mean_tries"].clone()).collect::<Vec<_>>()
    };
    let one = tries(1);
    assert_eq!(one, tries(1));
    assert_ne!(one, tries(2));
    let [cga_1, cga_3, hba_1, hba_3] = &one[..] else { panic!("{one:?}") };
    assert_eq!((cga_1, hba_1), (cga_3, hba_3));
}

#[test]
fn results_are_written_as_json_and_svg() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/folder");
    experiment::check_folder(&folder).unwrap();
    let (results, _) = run(&AddrCost { secs: vec![Sec::ZERO], ..a_little() });
    let [json, svg] = results.write(&folder).unwrap();
    assert_eq!((json, svg), (folder.join("addr-cost.json"), folder.join("addr-cost.svg")));
    let text = fs::read_to_string(folder.join("addr-cost.json")).unwrap();
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["experiment"], "addr-cost");
    assert_eq!(object["parameters"]["seed"], 1);
    assert_eq!(object["points"].as_array().unwrap().len(), results.points.len());
    assert!(fs::read_to_string(folder.join("addr-cost.svg")).unwrap().contains("Sec 0, 3 threads"));
    let file = folder.join("addr-cost.json");
    assert!(experiment::check_folder(&file.join("below")).is_err());
}

#[test]
fn parameters_that_make_no_sense_are_told() {
    for wrong in [
        AddrCost { sizes: vec![0], ..a_little() },
        AddrCost { sizes: vec![1000], ..a_little() },
        AddrCost { secs: vec![Sec::MAX], ..a_little() },
        AddrCost { key_bits: 512, ..a_little() },
    ] {
        assert!(experiment::run(&wrong, &mut Notes::default()).is_err(), "{wrong:?}");
    }
}

#[test]
fn negotiation_times_what_is_done_and_refuses_short_keys() {
    let experiment = Negotiation {
        securities: vec![Security::None, Security::Cga(512), Security::Cga(1024)],
        sizes: vec![2],
        // One more than the number of pairs, so that the daemons start again.
        runs: 5,
    };
    if common::is_skipped("negotiation", &experiment.obstacles()) {
        return;
    }
    let (results, _) = run(&experiment);
    let [none, refused, cga] = &results.points[..] else { panic!("{:?}", results.points) };
    for point in [none, cga] {
        assert_eq!((&point["runs"], &point["refused"]), (&5.into(), &Value::Null));
        let time = |name: &str| point[name].as_f64().unwrap();
        assert!(0.0 < time("median_i2_r2_s") && time("median_i2_r2_s") < time("median_s"));
    }
    // CGA Parameters, a list and a signature of 128 octets.
    assert!(cga["i2_octets"].as_u64() > none["i2_octets"].as_u64().map(|octets| octets + 128));
    assert_eq!((&refused["runs"], &refused["median_s"]), (&0.into(), &Value::Null));
    assert!(refused["refused"].as_str().unwrap().contains("512 bits is too short"));
    assert!(results.svg().unwrap().contains("\nnot done\n"));
}

/// Each flow once, with the shortest Send Timeout.
fn short_art(simulated: bool) -> Art {
    let send_timeouts = vec![Duration::from_millis(200)];
    Art { send_timeouts, repetitions: 1, simulated, ..Art::default() }
}

/// Shortest time in which a silence can be detected. The last keepalive of a flow in one direction may be a third of
/// the Send Timeout old. On a real machine the flow itself may pause before the cut, so there is no lower bound.
const LEAST_ART_MS: f64 = 130.0;

fn check_art(art: &Art, results: &Results) {
    let flows: Vec<_> = results.points.iter().map(|point| &point["flow"]).collect();
    assert_eq!(flows, art.flows.iter().map(|flow| flow.name()).collect::<Vec<_>>());
    for point in &results.points {
        assert_eq!(
            (&point["send_timeout_ms"], &point["recovered"]),
            (&200.into(), &1.into()),
            "{point}"
        );
        let median = point["art_ms"]["median"].as_f64();
        let is_right = |median| !art.simulated || median > LEAST_ART_MS;
        assert!(median.is_some_and(is_right), "{point}");
    }
    assert!(results.svg().unwrap().contains("\nSend Timeout (s)\n"));
}

#[test]
fn art_finds_the_end_of_the_silence_of_every_flow() {
    let art = short_art(false);
    if common::is_skipped("art", &art.obstacles()) {
        return;
    }
    check_art(&art, &run(&art).0);
}

#[test]
fn simulated_art_needs_no_root_and_is_the_same_again() {
    let art = short_art(true);
    assert_eq!(art.obstacles(), [""; 0]);
    let (results, _) = run(&art);
    check_art(&art, &results);
    assert_eq!(run(&art).0.points, results.points);
    // The staircase: a transfer without a notice waits for its retransmission timer.
    let slow = Art { send_timeouts: vec![Duration::from_secs(4)], repetitions: 5, ..art };
    let (results, _) = run(&slow);
    let median = |flow: usize| results.points[flow]["art_ms"]["median"].as_f64().unwrap();
    assert!(median(0) < 4500.0 && median(1) > 5000.0, "{:?}", results.points);
}

#[test]
fn peers_go_on_if_they_have_another_way_and_say_so_if_not() {
    let peers = Peers {
        rtts: vec![Duration::from_millis(1)],
        repetitions: 1,
        flows: vec![PeerFlow::Messages],
        send_timeout: Duration::from_millis(500),
        limit: Duration::from_secs(4),
        parallel: 5,
        ..Peers::default()
    };
    if common::is_skipped("peers", &peers.obstacles()) {
        return;
    }
    let (results, _) = run(&peers);
    let systems: Vec<_> = results.points.iter().map(|point| &point["system"]).collect();
    assert_eq!(systems, ["moorline", "moorline-rfc", "mptcp", "mptcp-fullmesh", "tcp"]);
    let [moorline, rfc, _, meshed, plain] = &results.points[..] else { panic!("{systems:?}") };
    for point in [moorline, rfc, meshed] {
        assert_eq!(
            (&point["recovered"], &point["bytes_lost"]),
            (&1.into(), &0.0.into()),
            "{point}"
        );
        assert!(point["recovery_ms"]["median"].is_f64(), "{point}");
    }
    assert_eq!((&plain["recovered"], &plain["recovery_ms"]["median"]), (&0.into(), &Value::Null));
    assert!(plain["reason"].as_str().unwrap().contains("within 4 s"));
    let lines = |point: &Value| point["configuration_lines"].as_u64().unwrap();
    assert!((lines(moorline), lines(rfc)) == (0, 2) && lines(meshed) > 2, "{:?}", results.points);
}

#[test]
fn throughput_holds_both_states_against_a_path_without_moorline() {
    let throughput = Throughput {
        pairs: 1,
        duration: Duration::from_secs(1),
        traffic: vec![Traffic::Tcp],
        ..Throughput::default()
    };
    if common::is_skipped("throughput", &throughput.obstacles()) {
        return;
    }
    let (results, _) = run(&throughput);
    let paths: Vec<_> = results.points.iter().map(|point| &point["path"]).collect();
    let expected = ["plain", "unmoved", "no-offloads", "moved", "no-segmentation", "moved"];
    assert_eq!(paths, expected);
    for point in &results.points {
        assert!(point["gbit_per_second"]["median"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["cpu_ns_per_packet"]["median"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["whole_way_ns_per_packet"]["p95"].as_f64().unwrap() > 0.0, "{point}");
    }
    let json = serde_json::to_value(&results).unwrap();
    for name in ["unmoved_whole_way_ratio", "moved_whole_way_ratio"] {
        assert!(json[name].as_f64().unwrap() > 0.0, "{json}");
    }
    for name in ["unmoved_ratio", "moved_ratio", "moved_no_segmentation_ratio"] {
        assert!(json[name].as_f64().unwrap() > 0.0, "{json}");
        assert!(json[format!("{name}_spread")]["p95"].is_number(), "{json}");
    }
}

#[test]
fn the_tables_of_the_host_stack_have_a_ratio_for_each_case() {
    let time = Duration::from_millis(100);
    let latency = StackLatency { sizes: vec![64], time, rounds: 1, ..StackLatency::default() };
    if common::is_skipped("stack-latency", &latency.obstacles()) {
        return;
    }
    let (results, notes) = run(&latency);
    assert_eq!((results.points.len(), notes.done.last()), (8, Some(&1.0)), "two of each");
    for point in &results.points {
        assert!(point["of_linux"].as_f64() > Some(0.0), "{point}");
        assert!(point["of_ipv4"].as_f64() > Some(0.0), "{point}");
    }
    let throughput = StackThroughput {
        tcp_sizes: vec![8192],
        udp_sizes: vec![1024],
        time,
        rounds: 1,
        ..StackThroughput::default()
    };
    let (results, _) = run(&throughput);
    assert_eq!(results.points.len(), 8, "two systems, protocols and directions");
    assert!(
        results.points.iter().all(|point| point["of_linux"].as_f64() > Some(0.0)),
        "{results:?}"
    );
}

#[test]
fn throughput_of_a_session_is_held_against_the_same_path() {
    let throughput = Throughput {
        protocol: Protocol::Ilnp,
        pairs: 1,
        duration: Duration::from_secs(1),
        traffic: vec![Traffic::Tcp],
    };
    if common::is_skipped("throughput, ilnp", &throughput.obstacles()) {
        return;
    }
    let (results, _) = run(&throughput);
    let paths: Vec<_> = results.points.iter().map(|point| &point["path"]).collect();
    assert_eq!(paths, ["plain", "unmoved", "detour", "moved"]);
    let json = serde_json::to_value(&results).unwrap();
    for name in ["unmoved_ratio", "moved_ratio"] {
        assert!(json[name].as_f64().unwrap() > 0.0, "{json}");
    }
}

#[test]
fn local_event_sees_the_first_packet_on_the_other_uplink_and_a_report_shows_it() {
    let rtts = vec![Duration::from_millis(1)];
    let event = LocalEvent { rtts, repetitions: 1, parallel: 2, ..LocalEvent::default() };
    if common::is_skipped("local-event", &event.obstacles()) {
        return;
    }
    let (results, _) = run(&event);
    let flows: Vec<_> = results.points.iter().map(|point| &point["flow"]).collect();
    assert_eq!(flows, ["tcp-bulk", "udp-bidir"]);
    for point in &results.points {
        let first = point["first_packet_ms"]["median"].as_f64();
        let gap = point["goodput_gap_ms"]["median"].as_f64();
        assert!(first.unwrap() > 0.0 && gap.unwrap() > 0.0, "{point}");
    }
    let folder = tempfile::tempdir().unwrap();
    results.write(folder.path()).unwrap();
    let report = experiment::report(folder.path()).unwrap();
    assert_eq!(report.experiments, ["local-event"]);
}

#[test]
fn ilcc_serves_all_under_both_policies_and_admits_nobody_that_is_made_up() {
    let ilcc = IlccStudy {
        planes: vec![PlaneName::User],
        ranks: vec![0, 10],
        length: Duration::from_secs(1),
        grow: 1000,
        ..IlccStudy::default()
    };
    if common::is_skipped("ilcc", &ilcc.obstacles()) {
        return;
    }
    let (results, _) = run(&ilcc);
    assert_eq!(results.points.len(), 2 * 2 * 2, "layers, ranks, policies");
    for point in &results.points {
        let number = |name: &str| point[name].as_f64();
        let (entries, rank) = (point["entries"].as_u64().unwrap(), point["rank"].as_u64().unwrap());
        let is_transport = point["layer"] == "transport";
        let made_up = number("made_up_per_s").unwrap();
        assert_eq!(made_up > 0.0, rank > 0, "{point}");
        assert_eq!(number("echo_per_s").unwrap() > 0.0, is_transport, "{point}");
        match point["policy"].as_str() {
            Some("admit") => assert_eq!(entries, 0, "{point}"),
            // An entry for the fixed source, and one for each made-up source.
            _ if rank == 0 => assert_eq!(entries, u64::from(is_transport), "{point}"),
            _ => assert!(entries > 1, "{point}"),
        }
        assert_eq!(number("latency_us").is_some(), is_transport || rank > 0, "{point}");
        // A busy machine may drop packets. Dropped packets are not served.
        let (served, dropped) = (number("served_ratio"), number("dropped_ratio").unwrap());
        assert!(served.is_none_or(|served| served > 0.99 || dropped > 0.0), "{point}");
    }
    let json = serde_json::to_value(&results).unwrap();
    let sizes: Vec<_> =
        json["growth"].as_array().unwrap().iter().map(|one| &one["entries"]).collect();
    assert_eq!(sizes, [1, 1000]);
    let svg = results.svg().unwrap();
    for figure in [3, 4, 5, 6, 7, 8, 13, 14, 15, 16] {
        assert!(svg.contains(&format!("\n{figure}: ")), "figure {figure}");
    }
}

#[test]
fn i1_flood_counts_what_is_sent_and_answered_while_a_context_goes_on() {
    let flood = FloodCost {
        pairs: 2,
        length: Duration::from_millis(500),
        rate: 1_000_000,
        ..FloodCost::default()
    };
    if common::is_skipped("i1-flood", &flood.obstacles()) {
        return;
    }
    // The experiment fails if the flood moves the context or breaks the transfer.
    let (results, _) = run(&flood);
    assert_eq!(results.points.len(), 2);
    for point in &results.points {
        let number = |name: &str| point[name].as_f64().unwrap();
        assert!(number("i1_per_s") >= number("r1_per_s"), "an answer to each at most: {point}");
        assert!(number("r1_per_s") > 0.0, "the victim hears it, and answers: {point}");
        assert!(number("quiet_mb_per_s") > 0.0 && number("flooded_mb_per_s") > 0.0, "{point}");
        let ratio = number("flooded_mb_per_s") / number("quiet_mb_per_s");
        assert!((ratio - number("ratio")).abs() < 1e-6, "{point}");
    }
    assert!(results.summary["median_ratio"].is_number(), "{:?}", results.summary);
}

#[test]
fn state_cost_counts_the_contexts_of_every_host_by_every_policy() {
    let campus =
        Campus { length: Duration::from_secs(3600), rate: 2.0, night: 1.0, ..Campus::default() };
    let (results, _) = run(&StateCost { campus, ..StateCost::default() });
    assert_eq!(results.points.len(), 3 * 3 * 12, "hosts, policies, steps of five minutes");
    let number = |point: &Value, name: &str| point[name].as_f64().unwrap();
    for point in &results.points {
        assert!(number(point, "mean") <= number(point, "contexts"), "{point}");
    }
    let whole = |host: usize, policy: usize| &results.totals[host * 3 + policy];
    for host in 0..3 {
        let [first, ours, kept] = [0, 1, 2].map(|policy| whole(host, policy));
        // Pairs with little traffic trigger no context of ours. Contexts that stay longer are more at a time.
        assert!(number(first, "peak") > number(ours, "peak"), "{first} {ours}");
        assert!(number(kept, "peak") > number(ours, "peak"), "{kept} {ours}");
        assert!(number(kept, "made") < number(ours, "made"), "{kept} {ours}");
    }
    assert!(number(whole(0, 0), "peak") > number(whole(2, 0), "peak"));
    let json = serde_json::to_value(&results).unwrap();
    assert_eq!(json["totals"][0]["host"], results.points[0]["host"]);
    assert!(results.svg().unwrap().contains("moorline, 300 s"));
}

#[test]
fn state_cost_reads_a_trace_and_tells_where_it_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("flows.csv");
    let header = "ts,te,sa,da,pr,ipkt,ibyt\n";
    let lines = "\
        2008-08-01 00:00:00,2008-08-01 00:00:00,192.0.2.9,192.0.2.1,TCP,1,40\n\
        2008-08-01 00:00:01,2008-08-01 00:00:04,192.0.2.8,192.0.2.1,TCP,3,4000\n\
        2008-08-01 00:06:00,2008-08-01 00:06:01,192.0.2.7,192.0.2.6,TCP,3,4000\n";
    fs::write(&trace, format!("{header}{lines}")).unwrap();
    let all = StateCost { trace: Some(trace.clone()), ..StateCost::default() };
    let contexts = |results: &Results, policy: &str| {
        let points = results.points.iter().filter(|point| point["policy"] == policy);
        points.map(|point| point["contexts"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let (results, _) = run(&all);
    assert_eq!(contexts(&results, "first packet, 10 s"), [2, 1]);
    assert_eq!(contexts(&results, "moorline, 10 s"), [1, 1]);
    let one = StateCost { hosts: vec!["192.0.2.1".parse().unwrap()], ..all.clone() };
    assert_eq!(contexts(&run(&one).0, "first packet, 10 s"), [2, 0]);
    assert_eq!(results.points[0]["host"], "all hosts");

    fs::write(&trace, format!("{header}{lines}nonsense\n")).unwrap();
    let error = experiment::run(&all, &mut Notes::default()).unwrap_err();
    assert!(format!("{error:#}").contains("flows.csv: line 5: column 1"), "{error:#}");
}

#[test]
fn ilcc_measures_the_programs_of_the_kernel() {
    let ilcc = IlccStudy {
        planes: vec![PlaneName::Ebpf],
        ranks: vec![10],
        policies: vec![PolicyName::Admit],
        length: Duration::from_secs(1),
        grow: 1,
        ..IlccStudy::default()
    };
    if common::is_skipped("ilcc, kernel", &ilcc.obstacles()) {
        return;
    }
    let (results, _) = run(&ilcc);
    let layers: Vec<_> = results.points.iter().map(|point| &point["layer"]).collect();
    assert_eq!(layers, ["transport", "network"]);
    for point in &results.points {
        assert_eq!((&point["plane"], &point["entries"]), (&"ebpf".into(), &0.into()), "{point}");
        let latency = |what: &str| point[format!("latency_{what}us")].as_f64().unwrap();
        assert!(latency("") > 0.0 && latency("median_") <= latency("p99_"), "{point}");
        assert!(latency("p99_") <= latency("max_") && latency("") < latency("max_"), "{point}");
        assert!(point["made_up_per_s"].as_f64().unwrap() > 0.0, "{point}");
    }
    let served = &results.points[0]["served_ratio"];
    // A busy machine loses packets before they reach the cache.
    assert!(served.as_f64().is_some_and(|ratio| (0.0..=1.0).contains(&ratio)), "{served}");
}

#[test]
fn a_flood_of_made_up_correspondents_leaves_a_session_and_the_cache_alone() {
    let flood = IlnpFlood {
        pairs: 1,
        length: Duration::from_secs(1),
        pings: 100,
        flood: Some(5000),
        ..IlnpFlood::default()
    };
    if common::is_skipped("ilnp-flood", &flood.obstacles()) {
        return;
    }
    let (results, _) = run(&flood);
    let protocols: Vec<_> = results.points.iter().map(|point| &point["protocol"]).collect();
    assert_eq!(protocols, ["ipv6", "ilnp"]);
    let session = &results.points[1];
    assert_eq!((&session["lost"], &session["entries"]), (&0.into(), &1.into()), "{session}");
    assert!(session["sent"].as_u64().unwrap() > 0, "{session}");
    assert!(session["flood_per_s"].as_f64().unwrap() > 0.0, "{session}");
    assert!(results.svg().unwrap().contains("ILNP, flooded"));
}

/// Checks that each column of the table is a field of each point, and gives the points.
fn with_columns(results: &Results) -> &[Value] {
    for point in &results.points {
        for name in results.columns.split_whitespace() {
            let field = format!("/{}", name.replace('.', "/"));
            assert!(point.pointer(&field).is_some(), "{name} in {point}");
        }
    }
    &results.points
}

fn names(points: &[Value], fields: [&str; 2]) -> Vec<String> {
    let name = |point: &Value| fields.map(|field| point[field].as_str().unwrap()).join(", ");
    points.iter().map(name).collect()
}

#[test]
fn new_connections_are_timed_for_each_failure_and_system() {
    let experiment = NewConnections {
        rtts: vec![Duration::from_millis(1)],
        repetitions: 1,
        limit: Duration::from_secs(10),
        parallel: 3,
        ..NewConnections::default()
    };
    if common::is_skipped("new-connections", &experiment.obstacles()) {
        return;
    }
    let (results, _) = run(&experiment);
    let points = with_columns(&results);
    let systems = ["moorline", "peers", "none"];
    let cases = ["silent", "carrier"].map(|failure| systems.map(|one| format!("{failure}, {one}")));
    assert_eq!(names(points, ["failure", "system"]), cases.concat());
    for point in points {
        let connected = point["connected"].as_u64().unwrap();
        let first = point["first_connection_ms"]["median"].as_f64();
        assert_eq!(first.is_some_and(|first| first > 0.0), connected == 1, "{point}");
        let is_vain = point["failure"] == "silent" && point["system"] == "none";
        assert!(!is_vain || point["lost"]["median"].as_f64() > Some(0.0), "{point}");
        // Without Moorline a kernel that is still busy with an old connection may stay on a lost carrier.
        assert!(point["system"] == "none" || connected == 1, "{point}");
        assert!(!is_vain || connected == 0, "{point}");
        assert_eq!(point["repetitions"], 1, "{point}");
    }
    assert!(results.svg().unwrap().contains("\nsilent, moorline\n"));
}

#[test]
fn goodput_by_a_lossy_path_is_measured_with_contexts_that_leave_and_that_stay() {
    let experiment = Lossy {
        losses: vec![15],
        repetitions: 1,
        duration: Duration::from_secs(20),
        parallel: 4,
        ..Lossy::default()
    };
    if common::is_skipped("lossy", &experiment.obstacles()) {
        return;
    }
    let (results, _) = run(&experiment);
    let points = with_columns(&results);
    let cases = ["tcp-bulk", "udp-bidir"]
        .map(|flow| ["leaves", "stays"].map(|system| format!("{flow}, {system}")));
    assert_eq!(names(points, ["flow", "system"]), cases.concat());
    for point in points {
        assert_eq!((&point["loss_percent"], &point["repetitions"]), (&15.into(), &1.into()));
        assert!(point["goodput_mbit_s"]["median"].as_f64() > Some(0.0), "{point}");
        let (left, after) = (point["left"].as_u64().unwrap(), &point["left_after_s"]["median"]);
        assert_eq!(after.is_f64(), left > 0, "{point}");
        assert!(point["system"] == "leaves" || left == 0, "{point}");
    }
    assert!(results.svg().unwrap().contains("\ntcp-bulk, leaves\n"));
}

#[test]
fn hand_offs_have_a_silence_for_each_kind_and_flow() {
    let rtts = vec![Duration::from_millis(1)];
    let experiment = HandOff { rtts, repetitions: 1, ..HandOff::default() };
    if common::is_skipped("handoff", &experiment.obstacles()) {
        return;
    }
    let (results, _) = run(&experiment);
    let points = with_columns(&results);
    let cases = ["hard", "soft"]
        .map(|kind| ["tcp-bulk", "udp-bidir"].map(|flow| format!("{kind}, {flow}")));
    assert_eq!(names(points, ["hand_off", "flow"]), cases.concat());
    for point in points {
        assert!(point["gap_ms"]["median"].as_f64() > Some(0.0), "{point}");
    }
    assert!(results.svg().unwrap().contains("\nhard, tcp-bulk\n"));
}

#[test]
fn isp_loss_counts_moves_and_probes_of_a_site() {
    let (results, _) = run(&IspLoss { contexts: 100, ..IspLoss::default() });
    let points = with_columns(&results);
    let [noticed, silent] = points else { panic!("{points:?}") };
    assert_eq!((&noticed["is_noticed"], &silent["is_noticed"]), (&true.into(), &false.into()));
    for point in points {
        assert_eq!(point["moved"], 100, "{point}");
        assert!(point["site_probes"].as_u64() >= Some(1), "{point}");
    }
    assert!(noticed["half_moved_s"].as_f64() < silent["half_moved_s"].as_f64(), "{points:?}");
    assert!(results.svg().unwrap().contains("\nuplink seen to fail\n"));
}

#[test]
fn i2_cost_times_every_kind_of_peer_at_every_number_of_contexts() {
    let contexts: [u32; 3] = [1, 10, 100];
    let experiment =
        I2Cost { contexts: contexts.into_iter().collect(), samples: 20, ..I2Cost::default() };
    let (results, _) = run(&experiment);
    let points = with_columns(&results);
    let there: Vec<_> = points.iter().map(|point| &point["contexts"]).collect();
    assert_eq!(there, contexts.map(|one| [one; 3]).concat(), "three kinds of peers");
    for point in points {
        let time = |name: &str| point[name].as_f64().unwrap();
        assert!(0.0 < time("median_us") && time("median_us") <= time("p99_us"), "{point}");
        assert_eq!(point["samples"], 20, "{point}");
    }
    assert!(results.svg().unwrap().contains("median\n"));
}
