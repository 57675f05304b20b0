//! Stands in for `bootbuf::writer` while that is being written.
pub struct Claim(u64);
#[inline(always)]
pub fn claim(_id: u32, _len: usize) -> Option<Claim> {
    None
}
impl Claim {
    pub fn payload(&mut self) -> *mut u8 {
        core::ptr::dangling_mut()
    }
    pub fn timestamp(&self) -> u64 {
        self.0
    }
    pub fn commit(self) {}
}
