//! The tables of the intel_idle driver by processor.

use serde::Deserialize;

use super::survey::FoundState;

/// The file `machines/intel_idle.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    table: Vec<Table>,
    model: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    states: Vec<State>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    name: String,
    mwait: u32,
    exit_latency_us: u64,
    target_residency_us: u64,
    #[serde(default)]
    unusable: bool,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    family: u32,
    model: u32,
    table: String,
    #[serde(default = "yes")]
    arat: bool,
}

fn yes() -> bool {
    true
}

/// A processor that the driver knows.
pub struct Processor {
    name: String,
    table: String,
    arat: bool,
}

fn tables() -> Result<Tables, String> {
    toml::from_str(include_str!("../../../../machines/intel_idle.toml"))
        .map_err(|error| format!("machines/intel_idle.toml: {}", error.message()))
}

/// The processor of a family and model, if the driver knows it.
pub fn by_model((family, model): (u32, u32)) -> Option<Processor> {
    let models = tables().ok()?.model;
    let found = models.into_iter().find(|known| (known.family, known.model) == (family, model))?;
    Some(Processor { name: found.name, table: found.table, arat: found.arat })
}

/// The processor by family/model, by the kernel's name or by the name of its table.
pub fn by_name(name: &str) -> Result<Processor, String> {
    if let Some((family, model)) = name.split_once('/') {
        let number = |text: &str| match text.trim().strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.trim().parse().ok(),
        };
        let known = number(family).zip(number(model)).and_then(by_model);
        return known
            .ok_or_else(|| format!("{name} is not in intel_idle's list (family/model, as 6/85)"));
    }
    let tables = tables()?;
    let alike = |known: &str| known.eq_ignore_ascii_case(name.trim().trim_start_matches("INTEL_"));
    if let Some(found) = tables.model.iter().find(|known| alike(&known.name)) {
        return Ok(Processor {
            name: found.name.clone(),
            table: found.table.clone(),
            arat: found.arat,
        });
    }
    if let Some(table) = tables.table.iter().find(|known| alike(&known.name)) {
        let arat =
            tables.model.iter().filter(|known| known.table == table.name).all(|known| known.arat);
        return Ok(Processor { name: table.name.clone(), table: table.name.clone(), arat });
    }
    let names: Vec<&str> = tables.table.iter().map(|table| table.name.as_str()).collect();
    Err(format!(
        "{name} is not in intel_idle's list; write family/model as 6/85, a name as SKYLAKE_X, or one of {}",
        names.join(", ")
    ))
}

impl Processor {
    /// The kernel's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its idle states on a machine of so many packages, the cpuidle core's POLL in front.
    /// Ivy Town alone has other tables beyond two and beyond four (`ivt_idle_state_table_update()`).
    pub fn states(&self, packages: usize) -> Vec<FoundState> {
        let table = match (self.table.as_str(), packages) {
            ("ivt", 3..=4) => "ivt_4s",
            ("ivt", 5..) => "ivt_8s",
            (table, _) => table,
        };
        let tables = tables().map_or_else(|_| Vec::new(), |tables| tables.table);
        let rows = tables
            .into_iter()
            .find(|known| known.name == table)
            .map_or_else(Vec::new, |found| found.states);
        let usable = rows.into_iter().filter(|state| !state.unusable).map(|state| FoundState {
            // Without ARAT a state deeper than C1 (the hint's upper digit) loses the local timer.
            local_timer_stop: !self.arat && state.mwait >> 4 != 0,
            ..FoundState::sleeping(&state.name, state.exit_latency_us, state.target_residency_us)
        });
        std::iter::once(FoundState::poll()).chain(usable).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_table() {
        let tables = tables().unwrap();
        assert_eq!(tables.table.len(), 28);
        for model in &tables.model {
            assert!(tables.table.iter().any(|table| table.name == model.table), "{}", model.name);
        }
    }

    #[test]
    fn processors_are_found_by_number_and_by_name() {
        for name in ["6/85", "6/0x55", "SKYLAKE_X", "skx", "INTEL_SKYLAKE_X"] {
            let states = by_name(name).unwrap().states(2);
            let rows: Vec<_> =
                states.iter().map(|s| (s.name.as_str(), s.exit_ns, s.residency_ns)).collect();
            assert_eq!(
                rows,
                [
                    ("POLL", 0, 0),
                    ("C1", 2_000, 2_000),
                    ("C1E", 10_000, 20_000),
                    ("C6", 133_000, 600_000)
                ]
            );
        }
        assert!(by_name("6/1").is_err());
        assert!(by_name("Pentium").is_err());
    }

    #[test]
    fn ivy_town_depends_on_the_packages_and_alder_lake_skips_c1() {
        let residency_ns = |packages| by_name("ivt").unwrap().states(packages)[2].residency_ns;
        assert_eq!([residency_ns(2), residency_ns(4), residency_ns(8)], [80_000, 250_000, 500_000]);
        let names: Vec<_> = by_name("adl").unwrap().states(1).into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["POLL", "C1E", "C6", "C8", "C10"]);
    }

    #[test]
    fn local_timers_stop_without_arat() {
        let states = by_name("NEHALEM_EP").unwrap().states(2);
        let stops: Vec<bool> = states.iter().map(|state| state.local_timer_stop).collect();
        assert_eq!(stops, [false, false, false, true, true]);
        assert!(
            by_name("WESTMERE_EP").unwrap().states(2).iter().all(|state| !state.local_timer_stop)
        );
    }
}
