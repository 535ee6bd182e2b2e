//! The sites of recorded programs, at several instants of each.

use highwater_lake::identity::site_id;

/// What a site had at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedState {
    /// Live bytes.
    pub live_bytes: i64,
    /// Live blocks.
    pub live_blocks: i64,
    /// Bytes ever allocated.
    pub alloc_bytes: i64,
    /// Blocks ever allocated.
    pub alloc_blocks: i64,
}

/// A call site of a recording.
#[derive(Clone, Debug)]
pub struct RecordedSite {
    /// The function that names it.
    pub function: String,
    /// The module of its innermost frame.
    pub module: String,
    /// The functions, innermost first.
    pub functions: Vec<String>,
    /// The identity of these names.
    pub site_id: i64,
    /// At each instant.
    pub states: Vec<RecordedState>,
}

/// A recorded program, which the fleet runs as a service.
#[derive(Debug)]
pub struct RecordedService {
    /// Its name.
    pub name: String,
    /// Its sites: those of the recording, then copies of them if it has fewer than the fleet wants.
    pub sites: Vec<RecordedSite>,
    /// How many are no copies.
    pub recorded: usize,
    /// A site that has the same blocks at all instants: the one that leaks.
    pub steady: usize,
}

impl RecordedSite {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let (function, module) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let functions: Vec<String> = fields.next()?.rsplit(';').map(str::to_owned).collect();
        let state = |text: &str| {
            let numbers: Vec<i64> = text.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
            let [live_bytes, live_blocks, alloc_bytes, alloc_blocks] = numbers[..] else { return None };
            Some(RecordedState { live_bytes, live_blocks, alloc_bytes, alloc_blocks })
        };
        let states = fields.map(state).collect::<Option<Vec<_>>>()?;
        let site_id = site_id(functions.iter().map(String::as_str));
        Some(Self { function, module, functions, site_id, states })
    }

    /// Whether it has the same live blocks, more than none, at all instants.
    fn is_steady(&self) -> bool {
        let first = self.states[0];
        first.live_blocks > 0 && self.states.iter().all(|state| state.live_blocks == first.live_blocks)
    }

    /// The same site in another thread: its states are those of other instants.
    fn copy(&self, number: usize) -> Self {
        let mut copy = self.clone();
        copy.functions.push(format!("thread-{number}"));
        copy.site_id = site_id(copy.functions.iter().map(String::as_str));
        copy.states.rotate_left(number % self.states.len());
        copy
    }
}

impl RecordedService {
    /// How much of it varies, for the report.
    pub fn json(&self) -> serde_json::Value {
        let steady = self.sites.iter().filter(|site| site.is_steady()).count();
        serde_json::json!({ "name": self.name, "recorded": self.recorded, "sites": self.sites.len(), "steady": steady })
    }
}

/// Reads services and their sites: `service NAME`, then its sites. Each gets exactly `wanted` sites.
pub fn read_services(text: &str, wanted: usize) -> Result<Vec<RecordedService>, String> {
    let mut services: Vec<RecordedService> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("service\t") {
            services.push(RecordedService { name: name.to_owned(), sites: Vec::new(), recorded: 0, steady: 0 });
            continue;
        }
        let site = RecordedSite::parse(line).filter(|site| site.states.len() > 1);
        let site = site.ok_or_else(|| format!("no site: {line}"))?;
        services.last_mut().ok_or("a site before the first service")?.sites.push(site);
    }
    for service in &mut services {
        let recorded = std::mem::take(&mut service.sites);
        if recorded.is_empty() || wanted == 0 {
            return Err(format!("{} has no sites", service.name));
        }
        // Evenly over the whole list, which is sorted by size: large and small ones in their proportion.
        let chosen = recorded.len().min(wanted);
        service.recorded = chosen;
        service.sites = (0..chosen).map(|at| recorded[at * recorded.len() / chosen].clone()).collect();
        for at in chosen..wanted {
            let copy = service.sites[at % chosen].copy(at / chosen);
            service.sites.push(copy);
        }
        let steady = service.sites.iter().position(RecordedSite::is_steady);
        service.steady = steady.ok_or_else(|| format!("no site of {} is steady", service.name))?;
    }
    Ok(services)
}
