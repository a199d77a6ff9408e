use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

use crate::world::{Action, Bounds, World};

/// What a search has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// States that were found, each counted once.
    pub states: usize,
    /// Steps between states that were taken.
    pub steps: usize,
    /// The longest way from the beginning.
    pub depth: usize,
    /// Properties that do not hold, each with the actions that lead there.
    pub broken: Vec<(&'static str, Vec<Action>)>,
}

/// Tries every order of what these bounds allow, on so many threads.
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
        ];
        let named = World::PROPERTIES.into_iter().zip(holds);
        let always = named.map(|(name, holds)| Property::always(name, holds));
        always.chain([Property::always(ENDS_WELL, |_, world: &World| world.ends_well())]).collect()
    }
}

/// See [`World::ends_well`].
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
