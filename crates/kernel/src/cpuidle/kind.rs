//! The governors by name, and where each comes from.

use std::{fmt, str::FromStr};

/// A governor and its variant.
///
/// Each has one full name. The plain names `menu`, `teo`, `ladder` and `haltpoll` are understood as
/// those of 6.12, and `teo_util` as the v2 that the published report measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GovernorKind {
    /// `menu-6.1`.
    Menu6_1,
    /// `menu-6.12`.
    Menu6_12,
    /// `teo-6.1`.
    Teo6_1,
    /// `teo-6.12`.
    Teo6_12,
    /// `ladder-6.1`.
    Ladder6_1,
    /// `ladder-6.12`.
    Ladder6_12,
    /// `haltpoll-6.1`.
    Haltpoll6_1,
    /// `haltpoll-6.12`.
    Haltpoll6_12,
    /// `teo_util-v2`.
    TeoUtilV2,
    /// `teo_util-v6`.
    TeoUtilV6,
    /// `idleutil`.
    Idleutil,
}

impl GovernorKind {
    /// Every governor, in the order in which they are listed to people.
    pub const ALL: [Self; 11] = [
        Self::Menu6_1,
        Self::Menu6_12,
        Self::Teo6_1,
        Self::Teo6_12,
        Self::Ladder6_1,
        Self::Ladder6_12,
        Self::Haltpoll6_1,
        Self::Haltpoll6_12,
        Self::TeoUtilV2,
        Self::TeoUtilV6,
        Self::Idleutil,
    ];

    /// Short names and the variant that each stands for.
    pub const ALIASES: [(&'static str, Self); 5] = [
        ("menu", Self::Menu6_12),
        ("teo", Self::Teo6_12),
        ("ladder", Self::Ladder6_12),
        ("haltpoll", Self::Haltpoll6_12),
        ("teo_util", Self::TeoUtilV2),
    ];

    /// The full name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Menu6_1 => "menu-6.1",
            Self::Menu6_12 => "menu-6.12",
            Self::Teo6_1 => "teo-6.1",
            Self::Teo6_12 => "teo-6.12",
            Self::Ladder6_1 => "ladder-6.1",
            Self::Ladder6_12 => "ladder-6.12",
            Self::Haltpoll6_1 => "haltpoll-6.1",
            Self::Haltpoll6_12 => "haltpoll-6.12",
            Self::TeoUtilV2 => "teo_util-v2",
            Self::TeoUtilV6 => "teo_util-v6",
            Self::Idleutil => "idleutil",
        }
    }

    /// How it decides, in a sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Menu6_1 => {
                "next timer times a learnt correction, or a repeating interval; \
                 shallower while tasks wait for I/O"
            }
            Self::Menu6_12 => {
                "next timer times a learnt correction, or a repeating interval, \
                 which is looked for first"
            }
            Self::Teo6_1 => "next timer, unless most wake-ups or the recent ones came before it",
            Self::Teo6_12 => "next timer, unless most wake-ups came before it",
            Self::Ladder6_1 | Self::Ladder6_12 => {
                "one state deeper after four long sleeps, one shallower after a short one"
            }
            Self::Haltpoll6_1 => "poll before halting, for a time that adapts",
            Self::Haltpoll6_12 => {
                "poll before halting, for a time that adapts and falls to 0 when short"
            }
            Self::TeoUtilV2 => {
                "teo-6.1; one state shallower on a utilized CPU, whose sleeps teach nothing"
            }
            Self::TeoUtilV6 => "teo-6.1; the next shallower non-polling state on a utilized CPU",
            Self::Idleutil => {
                "next timer alone; the next shallower non-polling state on a utilized CPU"
            }
        }
    }

    /// The code that it follows, or that there is none.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Menu6_1 => "Linux 6.1.192, drivers/cpuidle/governors/menu.c",
            Self::Menu6_12 => "Linux 6.12.117, drivers/cpuidle/governors/menu.c",
            Self::Teo6_1 => "Linux 6.1.192, drivers/cpuidle/governors/teo.c",
            Self::Teo6_12 => "Linux 6.12.117, drivers/cpuidle/governors/teo.c",
            Self::Ladder6_1 => "Linux 6.1.192, drivers/cpuidle/governors/ladder.c",
            Self::Ladder6_12 => "Linux 6.12.117, drivers/cpuidle/governors/ladder.c",
            Self::Haltpoll6_1 => "Linux 6.1.192, drivers/cpuidle/governors/haltpoll.c",
            Self::Haltpoll6_12 => "Linux 6.12.117, drivers/cpuidle/governors/haltpoll.c",
            Self::TeoUtilV2 => {
                "patch of 3 October 2022, Message-ID 20221003144914.160547-2, on teo of Linux 6.1"
            }
            Self::TeoUtilV6 => "commit 9ce0f7c4bc64 (Linux 6.3), on teo of Linux 6.1",
            Self::Idleutil => {
                "reconstruction from its published description; no code was published"
            }
        }
    }
}

impl fmt::Display for GovernorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that no governor has. Its message lists those that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownGovernor(String);

impl fmt::Display for UnknownGovernor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no idle governor is called `{}`; there are ", self.0)?;
        for kind in GovernorKind::ALL {
            write!(formatter, "{kind}, ")?;
        }
        formatter.write_str("and for short ")?;
        for (place, (alias, _)) in GovernorKind::ALIASES.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(formatter, "{separator}{alias}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownGovernor {}

impl FromStr for GovernorKind {
    type Err = UnknownGovernor;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let full = Self::ALL.into_iter().find(|kind| kind.name() == name);
        let alias = || Self::ALIASES.into_iter().find(|(alias, _)| *alias == name);
        full.or_else(|| alias().map(|(_, kind)| kind))
            .ok_or_else(|| UnknownGovernor(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for kind in GovernorKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("teo_util".parse(), Ok(GovernorKind::TeoUtilV2));
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let message = "meno".parse::<GovernorKind>().unwrap_err().to_string();
        assert!(message.starts_with("no idle governor is called `meno`; there are menu-6.1, "));
        assert!(message.ends_with("and for short menu, teo, ladder, haltpoll, teo_util"));
    }
}
