//! What is offered, from the snapshot and never by asking: order and bytes are those of the registry.

use toolcrib::Turn;
use toolcrib_wire::{ObjectWriter, Raw, method};

/// The lists that a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    pub(super) fn of(called: &str) -> Option<Self> {
        Some(match called {
            method::TOOLS_LIST => Self::Tools,
            method::PROMPTS_LIST => Self::Prompts,
            method::RESOURCES_LIST => Self::Resources,
            method::RESOURCE_TEMPLATES_LIST => Self::Templates,
            _ => return None,
        })
    }

    pub(super) fn result(self, turn: &Turn) -> Raw {
        let (key, items): (_, Vec<Raw>) = match self {
            Self::Tools => {
                ("tools", turn.tools().iter().map(|it| it.definition().clone()).collect())
            }
            Self::Prompts => ("prompts", turn.prompts().iter().map(|it| it.definition()).collect()),
            Self::Resources => {
                ("resources", turn.resources().iter().map(|it| it.definition()).collect())
            }
            Self::Templates => {
                ("resourceTemplates", turn.templates().iter().map(|it| it.definition()).collect())
            }
        };
        ObjectWriter::new().array(key, items).finish()
    }
}
