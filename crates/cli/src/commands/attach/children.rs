//! The collector's thread that attaches to the children of attached processes.

use super::older::OlderFound;
use super::order::{LiveOrder, hand_over};
use crate::attaching::AttachedProcess;
use crate::descendants::{Descendant, Descendants, LOOK_EVERY, PAUSE_PER_LOOK, StartTime};
use crate::new_children::{ChildAttempt, NewChild};
use highwater_collector::protocol::ChildOrders;
use highwater_collector::{CollectorClient, CollectorServer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Children that wait until they can be attached to, at most: a program that starts more at once has many that end soon.
const MOST_PENDING: usize = 1024;

/// How often it is examined whether children execute another program.
const LOOK_FOR_EXEC_EVERY: Duration = Duration::from_millis(200);

/// A child that was attached to.
struct AttachedChild {
    process: Descendant,
    orders: ChildOrders,
}

/// Attaches to the children of attached processes, until `stop` is set.
pub(crate) fn attach_to_children(server: &CollectorServer, stop: &AtomicBool, log: &(dyn Fn(&str) + Sync)) {
    let (mut family, mut pending) = (Descendants::default(), Vec::new());
    let (mut children, mut looked): (Vec<AttachedChild>, Instant) = (Vec::new(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let attached = server.attached();
        let orders_of = |root: u32| attached.iter().find(|one| one.0 == root)?.1;
        family.retain_roots(|root| orders_of(root).is_some());
        for (pid, orders) in &attached {
            if let Some(orders) = orders {
                family.add_root(*pid, StartTime(orders.since));
            }
        }
        if !family.is_empty() {
            let new = family.look();
            pending.extend(new.into_iter().filter_map(|one| Some((NewChild::new(one), orders_of(one.root)?))));
        }
        if looked.elapsed() >= LOOK_FOR_EXEC_EVERY {
            looked = Instant::now();
            children.retain(|child| {
                let is_there = StartTime::of(child.process.pid) == Some(child.process.began);
                match server.has_left(child.process.pid).filter(|_| is_there) {
                    Some(true) => pending.push((NewChild::new(child.process), child.orders)),
                    Some(false) => return true,
                    None => {}
                }
                false
            });
        }
        let took = began.elapsed();
        pending.truncate(MOST_PENDING);
        for (child, orders) in std::mem::take(&mut pending) {
            let process = child.process;
            let (pid, root) = (process.pid, process.root);
            let order = LiveOrder::from(orders);
            match child.try_to_attach(&LiveOrder::layouts(), &mut order.configure()) {
                ChildAttempt::Later(child) => pending.push((child, orders)),
                ChildAttempt::Ended => server.note_lost_child(root),
                ChildAttempt::Refused(error) => {
                    server.note_lost_child(root);
                    log(&format!("child {pid} of process {root} is not attached to: {error}"));
                }
                ChildAttempt::Attached(attached, _) => match take_over(server, &attached, root, orders) {
                    Ok(()) => children.push(AttachedChild { process, orders }),
                    Err(problem) => {
                        server.note_lost_child(root);
                        log(&format!("child {pid} of process {root} is not attached to: {problem}"));
                    }
                },
            }
        }
        thread::park_timeout(LOOK_EVERY.max(took * PAUSE_PER_LOOK));
    }
}

/// Registers a child, and reads its older blocks.
fn take_over(
    server: &CollectorServer,
    attached: &AttachedProcess,
    root: u32,
    orders: ChildOrders,
) -> Result<(), String> {
    let undo = |problem: String| {
        let _ = attached.detach();
        Err(problem)
    };
    let orders = ChildOrders { since: StartTime::now().0, ..orders };
    if let Err(problem) = hand_over(attached, Some(orders), server.socket()) {
        return undo(problem.to_string());
    }
    // Its parent may have been detached from meanwhile.
    let is_wanted = StartTime::of(root).is_none() || server.attached().iter().any(|one| one.0 == root);
    if !is_wanted {
        let _ = CollectorClient::connect(server.socket()).and_then(|mut client| client.detach(attached.pid()));
        return undo("its parent was detached from".to_owned());
    }
    OlderFound::read(attached, &LiveOrder::from(orders), server.socket());
    Ok(())
}
