//! The dequantisers against the reference's own results (`tests/oracle/make_gguf_golden.py`).
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::collections::BTreeMap;

use common::GgufWriter;
use vllm_rs_model_files::{DType, ModelFiles};

struct Record {
    kind: u32,
    raw: Vec<u8>,
    values: Vec<f32>,
}

fn records() -> Vec<Record> {
    let mut bytes: &[u8] = include_bytes!("fixtures/gguf_golden.bin");
    let mut records = Vec::new();
    let mut take = |count: usize| {
        let (head, tail) = bytes.split_at(count);
        bytes = tail;
        head.to_vec()
    };
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    loop {
        let head = take(12);
        let (kind, elements, length) = (word(&head[..4]), word(&head[4..8]), word(&head[8..]));
        let raw = take(length as usize);
        let values = take(elements as usize * 4);
        let values = values
            .chunks(4)
            .map(|bytes| f32::from_bits(word(bytes)))
            .collect();
        records.push(Record { kind, raw, values });
        if records.len() == 13 {
            return records;
        }
    }
}

fn read(record: &Record, name: &str) -> (Vec<f32>, Vec<u16>) {
    let folder = tempfile::tempdir().unwrap();
    let metadata = common::llama_metadata();
    let path = metadata
        .tensor(name, &[record.values.len() as u64], record.kind, &record.raw)
        .write(folder.path());
    let model = ModelFiles::open(&path).unwrap();
    let mut wide = vec![0.0; record.values.len()];
    let mut narrow = vec![0; record.values.len()];
    model.read_f32(name, &mut wide).unwrap();
    model.read_bf16(name, &mut narrow).unwrap();
    (wide, narrow)
}

#[test]
fn every_type_decodes_bit_exact() {
    let mut seen = BTreeMap::new();
    for record in records() {
        let dtype = DType::from_ggml(record.kind).unwrap();
        let (wide, narrow) = read(&record, "some.weight");
        for (index, (found, expected)) in wide.iter().zip(&record.values).enumerate() {
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "{dtype} element {index}: {found} is not {expected}"
            );
        }
        for (index, (found, expected)) in narrow.iter().zip(&record.values).enumerate() {
            let expected = half::bf16::from_f32(*expected).to_bits();
            assert_eq!(*found, expected, "{dtype} element {index} as bf16");
        }
        seen.insert(dtype.name(), record.values.len());
    }
    let names: Vec<&str> = seen.into_keys().collect();
    let expected = [
        "BF16", "F16", "F32", "Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0",
    ];
    assert_eq!(names, expected);
}

#[test]
fn q8_k_multiplies_by_its_float_scale() {
    // The reference package has no decoder for this intermediate type; its layout is f32, 256 × i8, sums.
    let raw = [&0.25f32.to_le_bytes()[..], &[3, 0xff], &[0; 254], &[0x77; 32]].concat();
    let mut values = vec![0.0; 256];
    (values[0], values[1]) = (0.75, -0.25);
    let (wide, _) = read(
        &Record {
            kind: 15,
            raw,
            values: values.clone(),
        },
        "some.weight",
    );
    assert_eq!(wide, values);
}

#[test]
fn a_type_without_a_decoder_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let writer: GgufWriter = common::llama_metadata();
    let path = writer
        .tensor("some.weight", &[32], 39, &[0; 17])
        .write(folder.path());
    let model = ModelFiles::open(&path).unwrap();
    let error = model.read_f32("some.weight", &mut [0.0; 32]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor some.weight has type MXFP4, which cannot be converted to float32"
    );
}
