//! Programs of the demo images.
