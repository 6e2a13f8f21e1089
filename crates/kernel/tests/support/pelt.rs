//! Drives load tracking by the commands of the `pelt` vectors.

use schedlab_kernel::pelt::{Avg, EntityActivity, RqClock, decay_load};

#[derive(Clone, Copy, Default)]
struct Entity {
    avg: Avg,
    weight: u64,
    is_group: bool,
}

/// One run queue and sixteen entities.
#[derive(Default)]
pub struct Driver {
    entities: [Entity; 16],
    cfs: Avg,
    rt: Avg,
    dl: Avg,
    hw: Avg,
    irq: Avg,
    clock: RqClock,
}

fn printed(result: u32, avg: &Avg) -> String {
    format!(
        "{result} {} {} {} {} {} {} {} {}",
        avg.last_update_time,
        avg.load_sum,
        avg.runnable_sum,
        avg.util_sum,
        avg.period_contrib,
        avg.load_avg,
        avg.runnable_avg,
        avg.util_avg
    )
}

impl Driver {
    /// Carries out one command; the line that it prints, if it prints one.
    pub fn command(&mut self, line: &str) -> Option<String> {
        let mut fields = line.split(' ');
        let name = fields.next().unwrap_or_default();
        let numbers: Vec<u64> =
            fields.map(|field| field.parse().expect("a decimal number")).collect();
        let result = match (name, numbers.as_slice()) {
            ("R", []) => {
                *self = Self::default();
                return None;
            }
            ("E", &[id, weight, is_group]) => {
                let is_group = is_group != 0;
                self.entities[id as usize] = Entity { weight, is_group, ..Entity::default() };
                return None;
            }
            ("W", &[id, weight]) => {
                self.entities[id as usize].weight = weight;
                return None;
            }
            ("e", &[now, id, on_rq, running, delayed, runnable_weight]) => {
                let entity = &mut self.entities[id as usize];
                let runnable = match (delayed != 0, entity.is_group) {
                    (true, _) => 0,
                    (false, true) => runnable_weight,
                    (false, false) => u64::from(on_rq != 0),
                };
                let activity =
                    EntityActivity { on_rq: on_rq != 0, runnable, running: running != 0 };
                let changed = entity.avg.update_entity(now, entity.weight, activity);
                printed(changed.into(), &entity.avg)
            }
            ("b", &[now, id]) => {
                let entity = &mut self.entities[id as usize];
                let changed = entity.avg.update_blocked_entity(now, entity.weight);
                printed(changed.into(), &entity.avg)
            }
            ("c", &[now, weight, queued, delayed, has_current]) => {
                let runnable = (queued as u32).wrapping_sub(delayed as u32).into();
                let changed = self.cfs.update_cfs_rq(now, weight, runnable, has_current != 0);
                printed(changed.into(), &self.cfs)
            }
            ("r", &[now, running]) => {
                let changed = self.rt.update_class_rq(now, running != 0);
                printed(changed.into(), &self.rt)
            }
            ("d", &[now, running]) => {
                let changed = self.dl.update_class_rq(now, running != 0);
                printed(changed.into(), &self.dl)
            }
            ("h", &[now, capacity]) => {
                let changed = self.hw.update_hw(now, capacity);
                printed(changed.into(), &self.hw)
            }
            ("i", &[clock, running_ns, frequency, capacity]) => {
                self.clock.clock = clock;
                let crossed = self.irq.update_irq(clock, running_ns, frequency, capacity);
                printed(crossed, &self.irq)
            }
            ("k", &[delta_ns, idle, frequency, capacity]) => {
                self.clock.advance(delta_ns, 0, idle != 0, frequency, capacity);
                self.printed_clock()
            }
            ("K", []) => {
                self.clock.enter_idle(&self.cfs, &self.rt, &self.dl);
                self.printed_clock()
            }
            ("D", &[value, periods]) => decay_load(value, periods).to_string(),
            _ => panic!("unknown command {line}"),
        };
        Some(result)
    }

    fn printed_clock(&self) -> String {
        let RqClock { clock, clock_task, clock_pelt, lost_idle_time } = self.clock;
        format!("{clock} {clock_task} {clock_pelt} {lost_idle_time} {}", self.clock.pelt())
    }
}
