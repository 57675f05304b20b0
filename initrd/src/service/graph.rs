//! Which service may start when. Only decides; somebody else starts and watches processes.

use super::table::{Kind, Service};

/// What has become of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its turn has not come.
    Waiting,
    /// A oneshot service is under way.
    Running,
    /// A simple service runs.
    Up,
    /// It ended as it should.
    Done,
    /// It did not start or did not end as it should.
    Failed(String),
    /// It was not tried, since something that it requires failed.
    Skipped(String),
}

impl State {
    /// Whether those that come after it can start.
    fn is_settled(&self) -> bool {
        !matches!(self, State::Waiting | State::Running)
    }

    /// Whether those that require it can start.
    fn is_good(&self) -> bool {
        matches!(self, State::Up | State::Done)
    }
}

/// All services with their states.
#[derive(Debug)]
pub struct Graph {
    services: Vec<Service>,
    states: Vec<State>,
}

impl Graph {
    /// Takes the services; those that can never start (they require what is not there, or wait for each
    /// other in a circle) have failed from the beginning. What `after` names need not exist.
    pub fn new(services: Vec<Service>) -> Graph {
        let states = services
            .iter()
            .map(|service| {
                let missing = service
                    .requires
                    .iter()
                    .find(|name| !services.iter().any(|s| s.name == **name));
                match missing {
                    Some(name) => State::Failed(format!("requires {name}, which does not exist")),
                    None => State::Waiting,
                }
            })
            .collect();
        let mut graph = Graph { services, states };
        graph.fail_circles();
        graph
    }

    /// The service with this number.
    pub fn service(&self, index: usize) -> &Service {
        &self.services[index]
    }

    /// All of them with their states.
    pub fn iter(&self) -> impl Iterator<Item = (&Service, &State)> {
        self.services.iter().zip(&self.states)
    }

    /// Whether nothing is waiting or under way.
    pub fn is_settled(&self) -> bool {
        self.states.iter().all(State::is_settled)
    }

    /// Sets what has become of a service.
    pub fn set(&mut self, index: usize, state: State) {
        self.states[index] = state;
    }

    /// What has become of a service.
    pub fn state(&self, index: usize) -> &State {
        &self.states[index]
    }

    /// Skips what cannot start any more, giving the numbers of those, and then the numbers of all that can
    /// start now.
    pub fn advance(&mut self) -> (Vec<usize>, Vec<usize>) {
        let mut skipped = Vec::new();
        loop {
            let before = skipped.len();
            for index in 0..self.services.len() {
                if self.states[index] != State::Waiting {
                    continue;
                }
                let bad = self.services[index].requires.iter().find(|name| {
                    self.find(name)
                        .is_some_and(|i| self.states[i].is_settled() && !self.states[i].is_good())
                });
                if let Some(name) = bad {
                    let why = format!("{name} failed");
                    self.states[index] = State::Skipped(why);
                    skipped.push(index);
                }
            }
            // One that is skipped may be required by one that was looked at before.
            if skipped.len() == before {
                break;
            }
        }
        let ready = (0..self.services.len())
            .filter(|index| {
                self.states[*index] == State::Waiting
                    && self
                        .waits_for(*index)
                        .all(|dependency| self.states[dependency].is_settled())
            })
            .collect();
        (skipped, ready)
    }

    /// The state of a service whose program has just started.
    pub fn started(&self, index: usize) -> State {
        match self.services[index].kind {
            Kind::Oneshot => State::Running,
            Kind::Simple => State::Up,
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|s| s.name == name)
    }

    fn waits_for(&self, index: usize) -> impl Iterator<Item = usize> {
        let service = &self.services[index];
        service
            .after
            .iter()
            .chain(&service.requires)
            .filter_map(|name| self.find(name))
    }

    /// Takes services away whose dependencies are gone, until none can be; the rest waits for itself.
    fn fail_circles(&mut self) {
        let mut left: Vec<usize> = (0..self.services.len())
            .filter(|i| self.states[*i] == State::Waiting)
            .collect();
        loop {
            let before = left.len();
            let now = left.clone();
            left.retain(|i| self.waits_for(*i).any(|d| now.contains(&d)));
            if left.len() == before {
                break;
            }
        }
        let names: Vec<_> = left
            .iter()
            .map(|i| self.services[*i].name.clone())
            .collect();
        for index in left {
            self.states[index] = State::Failed(format!(
                "its dependencies lead in a circle, among: {}",
                names.join(" ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::parse;
    use super::*;
    use proptest::prelude::*;

    fn graph(services: &[(&str, &str)]) -> Graph {
        Graph::new(
            services
                .iter()
                .map(|(name, text)| parse(name, &format!("exec=/bin/x\n{text}")).unwrap())
                .collect(),
        )
    }

    fn names(graph: &Graph, indices: &[usize]) -> Vec<String> {
        indices
            .iter()
            .map(|i| graph.service(*i).name.clone())
            .collect()
    }

    fn start_all(graph: &mut Graph) -> Vec<String> {
        let (_, ready) = graph.advance();
        for i in &ready {
            let state = graph.started(*i);
            graph.set(*i, state);
        }
        names(graph, &ready)
    }

    #[test]
    fn in_parallel_and_in_order() {
        let mut g = graph(&[
            ("a", ""),
            ("b", "after=a"),
            ("c", "after=a daemon"),
            ("d", ""),
            ("daemon", "kind=simple"),
            ("e", "after=nobody"),
        ]);
        assert_eq!(start_all(&mut g), ["a", "d", "daemon", "e"]);
        assert_eq!(start_all(&mut g), [""; 0]);
        g.set(0, State::Failed("status 1".into()));
        assert_eq!(start_all(&mut g), ["b", "c"]);
        assert!(!g.is_settled());
    }

    #[test]
    fn what_requires_a_failed_one_is_skipped_to_the_end() {
        let mut g = graph(&[
            ("a", "requires=b"),
            ("b", "requires=c"),
            ("c", ""),
            ("d", "after=a"),
        ]);
        assert_eq!(start_all(&mut g), ["c"]);
        g.set(2, State::Failed("status 3".into()));
        let (skipped, ready) = g.advance();
        assert_eq!(names(&g, &skipped), ["b", "a"]);
        assert_eq!(names(&g, &ready), ["d"]);
    }

    #[test]
    fn circles_and_missing_ones_fail_at_once() {
        let mut g = graph(&[
            ("a", "after=b"),
            ("b", "after=a"),
            ("c", "after=b"),
            ("d", "requires=nobody"),
            ("e", ""),
        ]);
        assert_eq!(start_all(&mut g), ["e"]);
        assert!(matches!(g.state(0), State::Failed(why) if why.ends_with("a b c")));
        assert!(matches!(g.state(3), State::Failed(why) if why.contains("nobody")));
    }

    proptest! {
        /// However services depend on each other, all end up settled, and none starts before its
        /// dependencies.
        #[test]
        fn every_graph_ends(
            edges in proptest::collection::vec((0..8_usize, 0..8_usize, any::<bool>()), 0..20),
            failing in 0..256_u32,
        ) {
            let texts: Vec<(String, String)> = (0..8)
                .map(|i| {
                    let of = |hard| {
                        edges
                            .iter()
                            .filter(|(from, _, h)| *from == i && *h == hard)
                            .map(|(_, to, _)| format!(" s{to}"))
                            .collect::<String>()
                    };
                    (format!("s{i}"), format!("after={}\nrequires={}", of(false), of(true)))
                })
                .collect();
            let refs: Vec<_> = texts.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            let mut g = graph(&refs);
            for _ in 0..=8 {
                let (_, ready) = g.advance();
                for i in ready {
                    prop_assert!(g.waits_for(i).all(|d| g.state(d).is_settled()));
                    g.set(i, if failing >> i & 1 == 1 { State::Failed("x".into()) } else { State::Done });
                }
            }
            prop_assert!(g.is_settled());
        }
    }
}
