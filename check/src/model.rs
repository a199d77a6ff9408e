use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

use crate::world::{Action, Bounds, World};

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Number of distinct states.
    pub states: usize,
    /// Number of steps between states.
    pub steps: usize,
    /// Length of the longest path from the initial state.
    pub depth: usize,
    /// Violated properties, each with the actions that lead to the violation.
    pub broken: Vec<(&'static str, Vec<Action>)>,
}

/// Tries every order of the actions within the bounds, on `threads` threads.
#[must_use]
pub fn check(bounds: Bounds, threads: usize) -> Report {
    let checker = Search(bounds).checker().threads(threads).spawn_bfs().join();
    let broken = checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| (property, path.into_actions()))
        .collect();
    Report {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        broken,
    }
}

struct Search(Bounds);

impl Model for Search {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.0)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        actions.extend(state.actions());
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        Some(state.after(action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let holds: [fn(&Self, &World) -> bool; World::PROPERTIES.len()] = [
            |_, world| world.holds(0),
            |_, world| world.holds(1),
            |_, world| world.holds(2),
            |_, world| world.holds(3),
            |_, world| world.holds(4),
            |_, world| world.holds(5),
            |_, world| world.holds(6),
            |_, world| world.holds(7),
            |_, world| world.holds(8),
        ];
        let named = World::PROPERTIES.into_iter().zip(holds);
        let always = named.map(|(name, holds)| Property::always(name, holds));
        always.chain([Property::always(ENDS_WELL, |_, world: &World| world.ends_well())]).collect()
    }
}

/// Name of the property that [`World::ends_well`] checks.
const ENDS_WELL: &str = "both have the context or neither, once losses stop";

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for World {}
