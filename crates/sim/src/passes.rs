//! Tasks that go through blocks of memory.

use crate::cpu::FULL_SPEED;
use crate::engine::Engine;
use crate::interpret::Step;
use crate::observe::Observer;
use schedlab_kernel::fair::TaskId;
use schedlab_machine::CpuId;
use schedlab_workload::program::{MetricId, ObjectId, ObjectKind, Op, Which};

/// A stream through memory is counted at least this often of its own time, ns.
const STREAM_PART_NS: u64 = 1_000_000_000;

impl<O: Observer> Engine<'_, O> {
    /// Goes through a block. What is long is done, and counted, in parts.
    pub(crate) fn stream(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        block: Which,
        (passes, amount): (u64, u64),
        metric: MetricId,
    ) -> Step {
        let now_ns = self.platform.clock_ns;
        let object = match self.progress[task.index()].stream.take() {
            Some(object) => object,
            None => self.choose(task, block, cpu),
        };
        let mut done = self.progress[task.index()].moved;
        let mut part = self.stream_part(object, passes - done);
        if self.progress[task.index()].stage > 0 {
            done += part.0;
            self.figures.count(metric, part.0.saturating_mul(amount), now_ns);
            part = self.stream_part(object, passes - done);
        } else {
            self.figures.count(metric, 0, now_ns);
        }
        let progress = &mut self.progress[task.index()];
        if done == passes {
            progress.moved = 0;
            return Step::Done;
        }
        progress.moved = done;
        progress.stream = Some(object);
        self.compute(task, part.1, false)
    }

    /// How many of these passes are done in one go, and what they take while nothing slows them
    /// down, ns.
    fn stream_part(&self, block: ObjectId, passes: u64) -> (u64, u64) {
        let pass_ps = match self.workload.objects[block.0 as usize] {
            ObjectKind::Block(block) => block.pass_ps.max(1),
            _ => 1,
        };
        let part = passes.min((STREAM_PART_NS * 1000 / pass_ps).max(1));
        let work_ns = u128::from(pass_ps) * u128::from(part) / 1000;
        (part, work_ns.clamp(1, u128::from(u64::MAX / FULL_SPEED)) as u64)
    }

    /// Counts the passes of those whom the end of the run cuts short.
    pub(crate) fn count_streams(&mut self, end_ns: u64) {
        for cpu in self.platform.machine.cpu_ids() {
            self.platform.cpus[cpu.index()].progress(end_ns);
            self.pause(cpu);
        }
        for index in 0..self.progress.len() {
            let progress = &self.progress[index];
            let (Some(object), true) = (progress.stream, progress.computing) else { continue };
            let program = &self.workload.programs[progress.program.0 as usize];
            let Some(&Op::Stream { passes, metric, amount, .. }) =
                program.ops.get(progress.at as usize)
            else {
                continue;
            };
            let (part, work_ns) = self.stream_part(object, passes - progress.moved);
            let work = u128::from(work_ns) * u128::from(FULL_SPEED);
            let done = work.saturating_sub(u128::from(progress.work_left));
            // A pass that is not complete counts, too, as far as it went.
            let counted = u128::from(part) * u128::from(amount) * done / work;
            self.figures.count(metric, u64::try_from(counted).unwrap_or(u64::MAX), end_ns);
        }
    }
}
