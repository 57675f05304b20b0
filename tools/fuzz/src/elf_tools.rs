//! Target `elf-tools`: files for `bootmark list` and `bootmark verify`.

use markers::decode::Marker;
use markers::elf;

/// Reads the markers of a file; their number.
///
/// # Panics
/// When a marker is not what stands in the file at its place.
pub fn run(data: &[u8]) -> u64 {
    let module = match elf::read(data) {
        Ok(Some(module)) => module,
        Ok(None) => return 0,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 0;
        }
    };
    let stride = module.stride as usize;
    for (index, marker) in module.markers.iter().enumerate() {
        let at = module.offset as usize + index * stride;
        assert_eq!(Marker::parse(&data[at..at + stride]).as_ref(), Ok(marker));
        show(marker, data);
    }
    module.markers.len() as u64
}

/// Everything that is shown of a marker, and a payload of it that is anything.
fn show(marker: &Marker, payload: &[u8]) {
    assert_eq!(
        marker.to_string(),
        format!("{}:{}", marker.provider(), marker.name())
    );
    assert!(marker.level() <= 7);
    for field in marker.fields() {
        assert!(!field.name.is_empty());
        assert!(field.labels().all(|label| !label.contains('\0')));
    }
    let payload = &payload[..payload.len().min(4096)];
    if marker.check(payload).is_ok() {
        assert!(marker.decode(payload).all(|field| field.is_ok()));
    }
}
