//! Text in, one model out.
