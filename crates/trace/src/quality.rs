//! Data quality: what is missing or doubtful in a trace, as rows that a user can query.

use schedlab_machine::CpuId;

/// How far a finding touches the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; no figure suffers.
    Info,
    /// Some figures are incomplete or estimated.
    Warning,
    /// Part of the file could not be used.
    Error,
}

impl Severity {
    /// The lower-case word that tables print.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One finding about the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable snake_case name of the kind of finding, such as `lost_events`.
    pub code: &'static str,
    /// The CPU it concerns, or `None` for the whole file.
    pub cpu: Option<CpuId>,
    /// How many events, bytes or places it concerns.
    pub count: u64,
    /// What happened and which figure suffers, in one sentence.
    pub message: String,
}

/// The findings of one trace. Findings of one kind on one CPU are added up, so a hostile file
/// cannot grow the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    findings: Vec<Finding>,
}

impl Quality {
    /// Adds a finding, or adds `count` to the earlier one of the same code and CPU (whose message
    /// stays).
    pub fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        cpu: Option<CpuId>,
        count: u64,
        message: impl Into<String>,
    ) {
        match self.findings.iter_mut().find(|f| f.code == code && f.cpu == cpu) {
            Some(known) => {
                known.count = known.count.saturating_add(count);
                known.severity = known.severity.max(severity);
            }
            None => {
                self.findings.push(Finding { severity, code, cpu, count, message: message.into() })
            }
        }
    }

    /// All findings, in the order in which their kinds were first seen.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}
