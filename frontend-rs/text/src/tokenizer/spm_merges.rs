//! `SentencePiece` vocabularies list scores, not merges. The merges follow from them: every way to
//! write a token as two others is a merge, and the better a token's score, the earlier it is made.

use std::cmp::Ordering;
use std::collections::HashMap;

struct Merge<'a> {
    left: &'a str,
    right: &'a str,
    score: f32,
    /// Lengths in characters, which settle ties.
    left_chars: usize,
    right_chars: usize,
}

/// The merges implied by `tokens` and their `scores`, best first.
///
/// The order among equals is the one `transformers` uses (longer left part first, then longer
/// right part, then order of appearance), because it decides which tokens come out.
pub(crate) fn merges_from_scores(tokens: &[String], scores: &[f32]) -> Vec<(String, String)> {
    // A text listed twice keeps its first place in the order and its last id and score.
    let mut ids: HashMap<&str, usize> = HashMap::with_capacity(tokens.len());
    let mut order: Vec<&str> = Vec::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if ids.insert(token, id).is_none() {
            order.push(token);
        }
    }
    let mut merges: Vec<Merge<'_>> = Vec::new();
    for token in order {
        let score = scores.get(ids[token]).copied().unwrap_or(0.0);
        let total_chars = token.chars().count();
        let mut local: Vec<(usize, usize, Merge<'_>)> = Vec::new();
        for (left_chars, (at, _)) in token.char_indices().enumerate().skip(1) {
            let (left, right) = token.split_at(at);
            if let (Some(&left_id), Some(&right_id)) = (ids.get(left), ids.get(right)) {
                let right_chars = total_chars - left_chars;
                local.push((
                    left_id,
                    right_id,
                    Merge {
                        left,
                        right,
                        score,
                        left_chars,
                        right_chars,
                    },
                ));
            }
        }
        local.sort_by_key(|&(left_id, right_id, _)| (left_id, right_id));
        merges.extend(local.into_iter().map(|(_, _, merge)| merge));
    }
    merges.sort_by(|a, b| {
        let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        by_score
            .then(b.left_chars.cmp(&a.left_chars))
            .then(b.right_chars.cmp(&a.right_chars))
    });
    merges
        .into_iter()
        .map(|m| (m.left.to_owned(), m.right.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_score_merges_first() {
        let tokens: Vec<String> = ["a", "b", "c", "bc", "ab", "abc"].map(str::to_owned).to_vec();
        let merges = merges_from_scores(&tokens, &[-9.0, -9.0, -9.0, -2.0, -1.0, -3.0]);
        let merges: Vec<String> = merges.iter().map(|(l, r)| format!("{l} {r}")).collect();
        assert_eq!(merges, ["a b", "b c", "ab c", "a bc"]);
    }
}
