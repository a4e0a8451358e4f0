//! Log probabilities of sampled tokens and of prompt tokens.

use crate::array::{Array, NdArray, Tensor};
use crate::codec::Wire;
use crate::error::{WireError, WireErrorKind};
use crate::reader::Reader;
use crate::writer::Writer;

/// Logprobs of consecutive positions, row-major. `TORCH` is the naming of the arrays on the wire.
///
/// Column 0 is the token itself (sampled, or the prompt's), columns 1.. the most likely tokens in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Logprobs<const TORCH: bool> {
    /// Entries per position: 1 + top-k.
    pub columns: usize,
    /// `[positions, columns]`
    pub token_ids: Vec<u32>,
    /// `[positions, columns]`, natural logarithm.
    pub logprobs: Vec<f32>,
    /// `[positions]`: 1-based rank of the token in column 0.
    pub ranks: Vec<u32>,
}

/// Of sampled tokens; one row per new token.
pub type LogprobsLists = Logprobs<false>;
/// Of prompt tokens; row `i` scores prompt token `i + 1`.
pub type LogprobsTensors = Logprobs<true>;

impl<const TORCH: bool> Logprobs<TORCH> {
    pub fn positions(&self) -> usize {
        self.ranks.len()
    }

    /// Token ids, logprobs and rank of one position; `None` beyond the last.
    pub fn row(&self, position: usize) -> Option<(&[u32], &[f32], u32)> {
        let rank = *self.ranks.get(position)?;
        let span = position * self.columns..(position + 1) * self.columns;
        Some((self.token_ids.get(span.clone())?, self.logprobs.get(span)?, rank))
    }

    /// Appends the positions of `later`, which must be as wide; otherwise gives it back.
    pub fn try_extend(&mut self, later: Self) -> Result<(), Self> {
        if self.positions() > 0 && later.positions() > 0 && self.columns != later.columns {
            return Err(later);
        }
        self.columns = self.columns.max(later.columns);
        self.token_ids.extend(later.token_ids);
        self.logprobs.extend(later.logprobs);
        self.ranks.extend(later.ranks);
        Ok(())
    }

    fn from_arrays(
        reader: &Reader<'_>,
        token_ids: &Array<TORCH>,
        logprobs: &Array<TORCH>,
        ranks: &Array<TORCH>,
    ) -> Result<Self, WireError> {
        let refuse = |why: &str| Err(reader.error(WireErrorKind::Array(why.to_owned())));
        let &[positions, columns] = &token_ids.shape[..] else {
            return refuse("token_ids must be [positions, columns]");
        };
        if logprobs.shape != token_ids.shape || ranks.shape != [positions] {
            return refuse("token_ids, logprobs and ranks disagree in shape");
        }
        if columns == 0 && positions > 0 {
            return refuse("logprobs need at least one column");
        }
        let narrow = |array: &Array<TORCH>| -> Option<Vec<u32>> {
            array
                .to_i64()?
                .into_iter()
                .map(|value| u32::try_from(value).ok())
                .collect()
        };
        match (narrow(token_ids), logprobs.to_f32(), narrow(ranks)) {
            (Some(token_ids), Some(logprobs), Some(ranks)) => Ok(Self {
                columns,
                token_ids,
                logprobs,
                ranks,
            }),
            _ => refuse("token_ids and ranks must be non-negative integers, logprobs floats"),
        }
    }
}

impl Wire for LogprobsLists {
    fn encode(&self, writer: &mut Writer) {
        let matrix = vec![self.positions(), self.columns];
        writer.array_len(4);
        let token_ids: Vec<i32> = self.token_ids.iter().map(|&id| id as i32).collect();
        NdArray::from_i32(matrix.clone(), &token_ids).encode(writer);
        NdArray::from_f32(matrix, &self.logprobs).encode(writer);
        let ranks: Vec<i64> = self.ranks.iter().map(|&rank| i64::from(rank)).collect();
        NdArray::from_i64(vec![ranks.len()], &ranks).encode(writer);
        writer.nil();
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        decode_tuple(reader, 4)
    }
}

impl Wire for LogprobsTensors {
    fn encode(&self, writer: &mut Writer) {
        let matrix = vec![self.positions(), self.columns];
        writer.array_len(5);
        let token_ids: Vec<i32> = self.token_ids.iter().map(|&id| id as i32).collect();
        Tensor::from_i32(matrix.clone(), &token_ids).encode(writer);
        Tensor::from_f32(matrix, &self.logprobs).encode(writer);
        let ranks: Vec<i32> = self.ranks.iter().map(|&rank| rank as i32).collect();
        Tensor::from_i32(vec![ranks.len()], &ranks).encode(writer);
        writer.nil();
        writer.nil();
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        decode_tuple(reader, 5)
    }
}

/// Both travel as named tuples: between 3 and `max` elements, unlike the structs that may grow.
fn decode_tuple<const TORCH: bool>(
    reader: &mut Reader<'_>,
    max: usize,
) -> Result<Logprobs<TORCH>, WireError> {
    let given = reader.array_len()?;
    if given < 3 {
        return Err(reader.error(WireErrorKind::TooShort { min: 3, given }));
    }
    if given > max {
        return Err(reader.error(WireErrorKind::TooLong { max, given }));
    }
    let token_ids = Array::decode(reader).map_err(|error| error.in_field("token_ids"))?;
    let logprobs = Array::decode(reader).map_err(|error| error.in_field("logprobs"))?;
    let ranks = Array::decode(reader).map_err(|error| error.in_field("ranks"))?;
    for _ in 3..given {
        reader.skip()?;
    }
    Logprobs::from_arrays(reader, &token_ids, &logprobs, &ranks)
}
