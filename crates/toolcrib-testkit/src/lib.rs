//! Fixtures and hygiene checks that every crate's tests share.
