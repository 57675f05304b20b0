//! Names of fields and labels share 144 octets.

fn main() {
    markers::marker!("ui", "long", a_field_whose_name_takes_exactly_forty_8: u8 = 1, another_field_of_forty_octets_in_its_name: u8 = 2, and_a_third_one_whose_name_has_so_many_as: u8 = 3, one_that_no_longer_fits_with_others: u8 = 4);
}
