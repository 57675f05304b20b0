use super::*;
use crate::descriptor::{FieldSpec, Spec, descriptor};
use proptest::prelude::*;

fn octets_of(fields: &[FieldSpec<'_>]) -> [u8; abi::DESC_SIZE] {
    let mut desc = descriptor(&Spec {
        provider: "init",
        name: "mount.root",
        kind: abi::KIND_INSTANT,
        level: 7,
        line: 42,
        fields,
    });
    desc.as_mut_bytes().try_into().unwrap()
}

fn field<'a>(name: &'a str, ty: u8, hint: u8, labels: &'a [&'a str]) -> FieldSpec<'a> {
    FieldSpec {
        name,
        ty,
        hint,
        labels,
    }
}

fn sample() -> [u8; abi::DESC_SIZE] {
    octets_of(&[
        field(
            "state",
            abi::TYPE_U8,
            abi::HINT_ENUM,
            &["off", "on \u{20ac}"],
        ),
        field("r#type", abi::TYPE_STR, abi::HINT_NONE, &[]),
        field("ok", abi::TYPE_BOOL, abi::HINT_NONE, &[]),
        field("ret", abi::TYPE_I32, abi::HINT_ERRNO, &[]),
    ])
}

#[test]
fn descriptors_come_back_as_they_went_in() {
    let marker = Marker::parse(&sample()).unwrap();
    assert_eq!(marker.to_string(), "init:mount.root");
    assert_eq!(
        (marker.kind(), marker.level(), marker.line()),
        (Kind::Instant, 7, 42)
    );
    let fields: Vec<_> = marker.fields().collect();
    assert_eq!(
        fields.iter().map(|field| field.name).collect::<Vec<_>>(),
        ["state", "type", "ok", "ret"]
    );
    assert_eq!(
        fields[0].labels().collect::<Vec<_>>(),
        ["off", "on \u{20ac}"]
    );
    assert_eq!(fields[0].label(Value::Unsigned(1)), Some("on \u{20ac}"));
    assert_eq!(fields[0].label(Value::Unsigned(2)), None);
    assert_eq!(fields[1].labels().count(), 0);
}

#[test]
fn payloads_decode_to_their_values() {
    let marker = Marker::parse(&sample()).unwrap();
    let payload = [1, 2, 0, b'h', b'i', 1, 0xfe, 0xff, 0xff, 0xff];
    let values: Vec<_> = marker
        .decode(&payload)
        .map(|item| item.unwrap().1)
        .collect();
    assert_eq!(
        values,
        [
            Value::Unsigned(1),
            Value::Str(b"hi"),
            Value::Bool(true),
            Value::Signed(-2)
        ]
    );

    for len in 0..payload.len() {
        assert_eq!(
            marker.check(&payload[..len]),
            Err(PayloadError::Truncated),
            "{len} octets"
        );
    }
    assert_eq!(
        marker.check(&[payload.as_slice(), &[0]].concat()),
        Err(PayloadError::Trailing(1))
    );
    let mut wrong = payload;
    wrong[5] = 2;
    assert_eq!(marker.check(&wrong), Err(PayloadError::Bool(2)));
    wrong = payload;
    wrong[2] = 0x10;
    assert_eq!(marker.check(&wrong), Err(PayloadError::TooLong(0x1002)));
}

#[test]
fn each_defect_has_its_own_words() {
    let with = |offset: usize, octet: u8| {
        let mut octets = sample();
        octets[offset] = octet;
        Marker::parse(&octets).unwrap_err()
    };
    assert_eq!(
        Marker::parse(&sample()[..255]),
        Err(DescriptorError::Truncated(255))
    );
    assert_eq!(with(1, 0), DescriptorError::Size(0));
    assert_eq!(with(2, 2), DescriptorError::UnsupportedAbi(2, 0));
    assert_eq!(
        with(2, 2).to_string(),
        "descriptor has ABI 2.0, this program reads 1.x"
    );
    assert_eq!(with(4, 0), DescriptorError::Kind(0));
    assert_eq!(with(5, 8), DescriptorError::Level(8));
    assert_eq!(with(6, 9), DescriptorError::FieldCount(9));
    assert_eq!(with(7, 1), DescriptorError::Flags(1));
    assert_eq!(with(9, 1), DescriptorError::State(0x100));
    assert_eq!(with(16, 0), DescriptorError::Provider);
    assert_eq!(with(39, b'x'), DescriptorError::Provider);
    assert_eq!(with(40, b':'), DescriptorError::Name);
    assert_eq!(
        with(80, 99),
        DescriptorError::Field(0, FieldError::Type(99))
    );
    assert_eq!(
        with(81, 99),
        DescriptorError::Field(0, FieldError::Hint(99))
    );
    assert_eq!(
        with(85, abi::HINT_HEX),
        DescriptorError::Field(1, FieldError::HintType(1))
    );
    assert_eq!(with(82, 140), DescriptorError::Field(0, FieldError::Bounds));
    assert_eq!(with(112, b'1'), DescriptorError::Field(0, FieldError::Name));
    assert_eq!(
        with(112 + 6, 0xff),
        DescriptorError::Field(0, FieldError::Labels)
    );
    assert_eq!(with(96, 1), DescriptorError::UnusedField);
    let mut twice = sample();
    // The fourth field takes the name of the third.
    twice.copy_within(90..92, 94);
    assert_eq!(
        Marker::parse(&twice),
        Err(DescriptorError::Field(3, FieldError::Duplicate))
    );
}

#[test]
fn a_newer_minor_version_is_read_as_far_as_it_is_known() {
    let mut octets = sample().to_vec();
    octets[0..2].copy_from_slice(&320_u16.to_le_bytes());
    octets[3] = 1;
    octets[93] = 77;
    octets.extend([0xaa; 64]);
    let marker = Marker::parse(&octets).unwrap();
    assert_eq!((marker.abi_minor(), marker.fields().len()), (1, 4));
    octets[80] = 77;
    assert_eq!(
        Marker::parse(&octets),
        Err(DescriptorError::Field(0, FieldError::Type(77)))
    );
}

proptest! {
    #[test]
    fn arbitrary_octets_are_errors_or_markers(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Marker::parse(&octets);
    }

    #[test]
    fn changed_descriptors_and_payloads_never_panic(
        changes in proptest::collection::vec((0..abi::DESC_SIZE, any::<u8>()), 1..4),
        payload in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut octets = sample();
        for (offset, octet) in changes {
            octets[offset] = octet;
        }
        if let Ok(marker) = Marker::parse(&octets) {
            for field in marker.fields() {
                prop_assert!(!field.name.is_empty());
            }
            let items: Vec<_> = marker.decode(&payload).collect();
            prop_assert!(items.len() <= abi::MAX_FIELDS + 1);
            prop_assert_eq!(marker.check(&payload).is_ok(), items.iter().all(Result::is_ok));
        }
    }
}
