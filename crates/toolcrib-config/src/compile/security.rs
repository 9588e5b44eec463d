//! Security sections of all files together.

use std::path::Path;
use std::sync::Arc;

use super::Compiler;
use crate::dialect::Dialect;
use crate::model::Config;
use crate::model::security::{self, SecuritySection};
use crate::source_location::SourceLocation;

impl Compiler<'_> {
    /// Closes the sections that an unreadable file may have set. The grants of a Dominds workspace are in a separate
    /// file and still apply.
    pub(super) fn handle_unreadable(&mut self, path: &Path, label: &Arc<str>, dialect: Dialect) {
        self.close_unreadable(label, dialect);
        if dialect == Dialect::Dominds {
            self.read_dominds_team(path);
        }
    }

    /// Closes sections with unknown content: all sections of an unreadable native file, and the grants of an unreadable
    /// Minion file.
    pub(super) fn close_unreadable(&mut self, label: &Arc<str>, dialect: Dialect) {
        match dialect {
            Dialect::Native => {
                self.config.security.mark_invalid(
                    SecuritySection::UNREADABLE,
                    label,
                    SourceLocation::START,
                );
            }
            Dialect::Minion => {
                self.config.security.mark_invalid(
                    [SecuritySection::Grants],
                    label,
                    SourceLocation::START,
                );
            }
            _ => {}
        }
    }

    /// Decides the gateway's protection and closes invalid sections.
    pub(super) fn apply_security(&mut self) {
        let Config { host, gateway, security, problems, user_settings, .. } = &mut self.config;
        security.protection = security::required_protection(gateway);
        security::close_invalid_sections(security, host);
        problems.extend(security::closed_problems(&security.invalid));
        if let Some(user) = user_settings {
            user.security.protection = security::required_protection(&user.gateway);
            security::close_invalid_sections(&mut user.security, &mut user.host);
        }
    }
}
