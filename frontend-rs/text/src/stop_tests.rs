use proptest::prelude::*;

use super::*;

/// The definition, by looking at the whole text at once.
fn reference(text: &str, stops: &[String]) -> Option<StopMatch> {
    let mut found: Vec<StopMatch> = stops
        .iter()
        .enumerate()
        .filter(|(_, stop)| !stop.is_empty())
        .filter_map(|(index, stop)| {
            text.find(stop.as_str()).map(|start_byte| StopMatch {
                index,
                start_byte,
                end_byte: start_byte + stop.len(),
            })
        })
        .collect();
    found.sort_by_key(|m| (m.start_byte, m.end_byte, m.index));
    found.into_iter().next()
}

fn run(chunks: &[&str], stops: &[String]) -> (String, Option<StopMatch>) {
    let mut matcher = StopMatcher::new(stops);
    let mut out = String::new();
    for chunk in chunks {
        if let Some(hit) = matcher.push(chunk, true, &mut out) {
            return (out, Some(hit.clone()));
        }
    }
    let hit = matcher.finish(&mut out).cloned();
    (out, hit)
}

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

#[test]
fn a_stop_string_split_over_chunks_is_never_shown() {
    let stops = strings(&["</end>"]);
    let (text, hit) = run(&["answer <", "/e", "nd> more"], &stops);
    assert_eq!(text, "answer ");
    assert_eq!(hit.map(|m| (m.start_byte, m.end_byte)), Some((7, 13)));
}

#[test]
fn text_is_held_back_only_while_it_may_match() {
    let mut matcher = StopMatcher::new(&["abc"]);
    let mut out = String::new();
    assert!(matcher.push("xab", true, &mut out).is_none());
    assert_eq!(out, "x");
    assert!(matcher.push("ab", true, &mut out).is_none());
    assert_eq!(out, "xab");
    assert!(matcher.push("d", true, &mut out).is_none());
    assert_eq!(out, "xababd");
}

#[test]
fn the_match_that_begins_first_wins_then_the_one_that_ends_first() {
    let (text, hit) = run(&["a", "b", "c", "d"], &strings(&["bc", "abcd"]));
    assert_eq!((text.as_str(), hit.map(|m| m.index)), ("", Some(1)));
    let (text, hit) = run(&["abcx"], &strings(&["bc", "abcd"]));
    assert_eq!((text.as_str(), hit.map(|m| m.index)), ("a", Some(0)));
    let (_, hit) = run(&["a", "bc"], &strings(&["abc", "ab"]));
    assert_eq!(hit.map(|m| m.index), Some(1));
}

#[test]
fn before_the_gate_a_whole_stop_string_passes_but_a_begun_one_counts_later() {
    let mut matcher = StopMatcher::new(&["END"]);
    let mut out = String::new();
    assert!(matcher.push("END E", false, &mut out).is_none());
    assert_eq!(out, "END ");
    assert!(matcher.push("ND", true, &mut out).is_some());
    assert_eq!(out, "END ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    // covers: SAMP-05
    #[test]
    fn any_chunking_gives_what_one_scan_of_the_whole_gives(
        text in "[abé😀\\n]{0,40}",
        stops in proptest::collection::vec("[abé😀\\n]{0,5}", 0..5),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let chars: Vec<char> = text.chars().collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
        at.extend([0, chars.len()]);
        at.sort_unstable();
        let chunks: Vec<String> = at.windows(2).map(|w| chars[w[0]..w[1]].iter().collect()).collect();
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let expected = reference(&text, &stops);
        let (shown, hit) = run(&chunks, &stops);
        let end = expected.as_ref().map_or(text.len(), |m| m.start_byte);
        prop_assert_eq!(shown, &text[..end]);
        prop_assert_eq!(hit, expected);
    }
}
