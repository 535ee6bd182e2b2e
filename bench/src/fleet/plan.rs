//! Who runs where, in which version and for how long, and what leaks.
//!
//! A process draws one instant of its recording for each minute, the same for all its sites: live figures are those of that instant, and the counters of allocations advance
//! by what they advanced there. Nothing grows by itself: what grows in a straight line is a leak of this plan.

use crate::recorded::{RecordedService, RecordedState};
use highwater_lake::identity::{FrameIdentity, process_id, stack_id};
use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, StackRow};
use std::sync::Arc;

const PER_HOST: u32 = 8;
const REGIONS: [&str; 4] = ["eu-west-1", "us-east-1", "us-west-2", "ap-south-1"];
/// The bytes of a leaked block.
const LEAKED_BLOCK: i64 = 256;

/// The fleet.
pub struct FleetPlan<'a> {
    /// Processes at a time.
    pub processes: u32,
    /// Minutes that it runs.
    pub minutes: u32,
    /// What it runs.
    pub services: &'a [RecordedService],
}

/// A place for a process on a host. At about half time its process is replaced by one of the next version.
pub struct Seat<'a> {
    service: &'a RecordedService,
    number: usize,
    id: u64,
    change: u32,
    process: Arc<LakeProcess>,
    stack_ids: Vec<i64>,
    born: u32,
    minute: u32,
    instant: usize,
    allocated: Vec<(i64, i64)>,
}

/// What a site has in a minute.
pub struct PlayedState {
    /// The identity of the stack in this version.
    pub stack_id: i64,
    /// The identity of its names.
    pub site_id: i64,
    /// Live bytes.
    pub live_bytes: i64,
    /// Live blocks.
    pub live_blocks: i64,
    /// Bytes allocated since the start.
    pub alloc_bytes: i64,
    /// Blocks allocated since the start.
    pub alloc_blocks: i64,
}

/// A number that depends on nothing but its arguments: the fleet is the same in every run.
fn drawn(seed: u64, step: u64) -> u64 {
    let mut value = (seed << 32 ^ step).wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

impl<'a> FleetPlan<'a> {
    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.processes.div_ceil(PER_HOST)
    }

    /// The name of a host.
    pub fn host_name(&self, host: u32) -> String {
        format!("host-{host:05}")
    }

    /// The places of a host: two services.
    pub fn seats(&self, host: u32) -> Vec<Seat<'a>> {
        let of_host = PER_HOST.min(self.processes - host * PER_HOST);
        (0..of_host)
            .map(|place| {
                let number = (host + place % 2) as usize % self.services.len();
                let id = host * PER_HOST + place;
                let mut seat = Seat {
                    service: &self.services[number],
                    number,
                    id: id.into(),
                    change: (self.minutes / 2).saturating_sub(3) + id % 7,
                    process: Arc::default(),
                    stack_ids: Vec::new(),
                    born: 0,
                    minute: 0,
                    instant: 0,
                    allocated: Vec::new(),
                };
                let region = REGIONS[(host / 2) as usize % REGIONS.len()];
                seat.start(0, &self.host_name(host), region);
                seat
            })
            .collect()
    }
}

impl Seat<'_> {
    /// The process that runs now.
    pub fn process(&self) -> &Arc<LakeProcess> {
        &self.process
    }

    /// Goes to a minute.
    pub fn advance(&mut self, minute: u32) {
        if minute == self.change && minute > 0 {
            let labels = self.process.labels.clone();
            self.start(minute, &labels.host, &labels.region);
        }
        self.minute = minute;
        let instants = self.service.sites[0].states.len();
        self.instant = (drawn(self.id, minute.into()) % (instants as u64 - 1)) as usize;
        for (site, allocated) in self.service.sites.iter().zip(&mut self.allocated) {
            let [before, after] = [site.states[self.instant], site.states[self.instant + 1]];
            allocated.0 += (after.alloc_bytes - before.alloc_bytes).max(0);
            allocated.1 += (after.alloc_blocks - before.alloc_blocks).max(0);
        }
    }

    fn start(&mut self, minute: u32, host: &str, region: &str) {
        let version = if minute == 0 { "1.42.0" } else { "1.43.0" };
        let start_us = (crate::START + 60 * i64::from(minute)) * 1_000_000 - self.id as i64;
        let pid = 1000 + self.id as i32 * 2 + i32::from(minute > 0);
        let labels = Labels {
            service: self.service.name.clone(),
            version: version.into(),
            region: region.into(),
            host: host.into(),
            container: format!("{}-{}-{minute}", self.service.name, self.id),
        };
        self.process =
            Arc::new(LakeProcess { labels, pid, start_us, process_id: process_id(host, "boot", pid, start_us) });
        self.born = minute;
        // The counters of sites begin where the recording's first instant left them.
        let first = |state: RecordedState| (state.alloc_bytes, state.alloc_blocks);
        self.allocated = self.service.sites.iter().map(|site| first(site.states[0])).collect();
        let identity = |function| FrameIdentity::Named { function, file: version, line: 0 };
        let ids = self.service.sites.iter().map(|site| stack_id(site.functions.iter().map(|name| identity(name))));
        self.stack_ids = ids.collect();
    }

    /// The site that leaks, and its blocks an hour.
    pub fn leak(&self) -> Option<(i64, i64)> {
        let is_new = self.process.labels.version == "1.43.0";
        let rate = match self.number {
            0 if is_new => 180,
            1 if self.process.labels.region == REGIONS[0] => 720,
            2 => 90,
            _ => return None,
        };
        Some((self.service.sites[self.service.steady].site_id, rate))
    }

    /// Blocks at the steady site beyond the recorded ones: a leak, or what looks like one at first (a step, a sawtooth).
    fn added(&self) -> i64 {
        let age = i64::from(self.minute - self.born);
        match self.leak() {
            Some((_, rate)) => age * rate / 60,
            None if self.number == 3 => 400 * i64::from(age >= 20),
            None if self.number == 4 => 30 * (age % 12),
            None => 0,
        }
    }

    /// The sites with live blocks.
    pub fn states(&self) -> impl Iterator<Item = PlayedState> {
        let added = self.added();
        let sites = self.service.sites.iter().enumerate().zip(&self.stack_ids).zip(&self.allocated);
        sites.filter_map(move |(((at, site), &stack_id), &(alloc_bytes, alloc_blocks))| {
            let added = if at == self.service.steady { added } else { 0 };
            let state = site.states[self.instant];
            let live_blocks = state.live_blocks + added;
            let live_bytes = state.live_bytes + added * LEAKED_BLOCK;
            let [alloc_bytes, alloc_blocks] = [alloc_bytes.max(live_bytes), alloc_blocks.max(live_blocks)];
            let played =
                PlayedState { stack_id, site_id: site.site_id, live_bytes, live_blocks, alloc_bytes, alloc_blocks };
            (live_blocks > 0).then_some(played)
        })
    }

    /// Adds the names of all its stacks.
    pub fn add_names(&self, batch: &mut Batch) {
        let Labels { service, version, .. } = &self.process.labels;
        for (site, &stack_id) in self.service.sites.iter().zip(&self.stack_ids) {
            let outermost_first: Vec<&str> = site.functions.iter().rev().map(String::as_str).collect();
            batch.stacks.push(StackRow {
                stack_id,
                site_id: site.site_id,
                service: service.clone(),
                function: site.function.clone(),
                type_name: String::new(),
                stack: outermost_first.join(";"),
            });
            let frame = |(depth, function): (i32, &String)| FrameRow {
                stack_id,
                site_id: site.site_id,
                depth,
                function: function.clone(),
                module: site.module.clone(),
                build_id: format!("{service}-{version}"),
                ..FrameRow::default()
            };
            batch.frames.extend((0..).zip(&site.functions).map(frame));
        }
    }
}
