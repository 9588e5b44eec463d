//! `toolcrib import`: other clients' servers become a `toolcrib.yaml`.

use crate::Exit;
use crate::args::Import;
use crate::out::Out;
use crate::settings::Settings;

pub(crate) fn run(_settings: &Settings, _out: &Out, _args: &Import) -> Exit {
    Exit::Failed
}
