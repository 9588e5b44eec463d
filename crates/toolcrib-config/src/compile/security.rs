//! Security sections of all files together.

use std::path::Path;
use std::sync::Arc;

use super::Compiler;
use crate::dialect::Dialect;
use crate::model::Config;
use crate::model::security::{self, Section};
use crate::place::Place;

impl Compiler<'_> {
    /// A file that cannot be read closes what it may have said. The grants of a Dominds workspace stand in a file of
    /// their own, which counts all the same.
    pub(super) fn unreadable(&mut self, path: &Path, label: &Arc<str>, dialect: Dialect) {
        self.close_unreadable(label, dialect);
        if dialect == Dialect::Dominds {
            self.team(path);
        }
    }

    /// Nothing is known of the security settings in a native file that cannot be read, nor of the agents in a Minion
    /// file.
    pub(super) fn close_unreadable(&mut self, label: &Arc<str>, dialect: Dialect) {
        match dialect {
            Dialect::Native => {
                self.config.security.mark(Section::UNREADABLE, label, Place::START);
            }
            Dialect::Minion => {
                self.config.security.mark([Section::Grants], label, Place::START);
            }
            _ => {}
        }
    }

    /// Decides who may come in, and closes invalid sections.
    pub(super) fn settle_security(&mut self) {
        let Config { host, gateway, security, problems, own, .. } = &mut self.config;
        security.protection = security::protection(gateway);
        security::close(security, host);
        problems.extend(security::closed(&security.invalid));
        if let Some(own) = own {
            own.security.protection = security::protection(&own.gateway);
            security::close(&mut own.security, &mut own.host);
        }
    }
}
