//! How much load to move (`calculate_imbalance()`, `fix_small_imbalance()`).

use super::LOAD_SCALE;
use super::stats::{DomainLoad, Search};

/// What the sums come to once the domain is out of balance.
struct Sums {
    max_load: u64,
    this_load: u64,
    busiest_power: u64,
    this_power: u64,
    /// Load of one task in the busiest group.
    busiest_per_task: u64,
}

impl Search<'_> {
    /// How much load to pull from the busiest group; 0 is none.
    pub(super) fn amount(&self, sums: &DomainLoad<'_>) -> u64 {
        let Some((busiest_group, busiest)) = sums.busiest else { return 0 };
        let (this_group, this) = sums.this;
        let avg_load = LOAD_SCALE * sums.total_load / sums.total_power.max(1);
        let mut busiest_per_task = busiest.sum_weighted_load / busiest.sum_nr_running.max(1);
        if busiest.imbalanced {
            busiest_per_task = busiest_per_task.min(avg_load);
        }
        let known = Sums {
            max_load: busiest.avg_load,
            this_load: this.avg_load,
            busiest_power: busiest_group.capacity.max(1),
            this_power: this_group.capacity.max(1),
            busiest_per_task,
        };
        if known.max_load < avg_load {
            return self.small_amount(sums, &known, 0);
        }
        // Not so much that the busiest group has fewer tasks than power.
        let above_capacity = if busiest.imbalanced {
            u64::MAX
        } else {
            let above = busiest.sum_nr_running.wrapping_sub(busiest.capacity);
            above.wrapping_mul(LOAD_SCALE * LOAD_SCALE) / known.busiest_power
        };
        let most = (known.max_load - avg_load).min(above_capacity);
        let there = most.wrapping_mul(known.busiest_power);
        let here = avg_load.wrapping_sub(known.this_load).wrapping_mul(known.this_power);
        let amount = there.min(here) / LOAD_SCALE;
        if amount < busiest_per_task { self.small_amount(sums, &known, amount) } else { amount }
    }

    /// Less than a task is out of balance: one is moved if that makes a difference of two, or else
    /// if it increases what the groups achieve together.
    fn small_amount(&self, sums: &DomainLoad<'_>, known: &Sums, amount: u64) -> u64 {
        let Sums { max_load, this_load, busiest_power, this_power, busiest_per_task } = *known;
        let this = sums.this.1;
        let this_per_task = match this.sum_nr_running {
            0 => self.cpu(self.this_cpu).load_per_task(),
            running => this.sum_weighted_load / running,
        };
        let heavier = this.sum_nr_running > 0 && busiest_per_task > this_per_task;
        let times = if heavier { 1 } else { 2 };
        let scaled = busiest_per_task * LOAD_SCALE / busiest_power;
        if max_load.wrapping_sub(this_load).wrapping_add(scaled) >= scaled * times {
            return busiest_per_task;
        }
        let now = busiest_power * busiest_per_task.min(max_load)
            + this_power * this_per_task.min(this_load);
        let mut moved = 0;
        if max_load > scaled {
            moved += busiest_power * busiest_per_task.min(max_load - scaled);
        }
        let added = if max_load * busiest_power < busiest_per_task * LOAD_SCALE {
            max_load * busiest_power / this_power
        } else {
            busiest_per_task * LOAD_SCALE / this_power
        };
        moved += this_power * this_per_task.min(this_load + added);
        if moved / LOAD_SCALE > now / LOAD_SCALE { busiest_per_task } else { amount }
    }
}
