//! CPU sets against ordered sets of numbers.

use std::collections::BTreeSet;

use proptest::prelude::*;
use schedlab_machine::{CPUS_MAX, CpuId, CpuSet};

fn numbers() -> impl Strategy<Value = BTreeSet<u32>> {
    let anywhere = prop::collection::btree_set(0..CPUS_MAX as u32, 0..60);
    let low = prop::collection::btree_set(0..130_u32, 0..60);
    let edges = prop::collection::btree_set(
        prop::sample::select(vec![0, 63, 64, 65, 127, 128, 2046, 2047]),
        0..8,
    );
    prop_oneof![anywhere, low, edges]
}

fn set(numbers: &BTreeSet<u32>) -> CpuSet {
    numbers.iter().copied().map(CpuId).collect()
}

fn back(set: CpuSet) -> BTreeSet<u32> {
    set.into_iter().map(|cpu| cpu.0).collect()
}

proptest! {
    #[test]
    fn algebra_is_that_of_sets(a in numbers(), b in numbers()) {
        let (x, y) = (set(&a), set(&b));
        prop_assert_eq!(back(x & y), &a & &b);
        prop_assert_eq!(back(x | y), &a | &b);
        prop_assert_eq!(back(x - y), &a - &b);
        prop_assert_eq!((!x).weight(), CPUS_MAX - a.len());
        prop_assert_eq!(x.weight(), a.len());
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.weight_and(&y), (&a & &b).len());
        prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.first_and(&y).map(|cpu| cpu.0), (&a & &b).first().copied());
        prop_assert_eq!(x == y, a == b);
    }

    #[test]
    fn searches_find_what_sets_find(a in numbers(), from in 0..CPUS_MAX as u32 + 100) {
        let x = set(&a);
        let next = a.range(from..).next().copied();
        prop_assert_eq!(x.first().map(|cpu| cpu.0), a.first().copied());
        prop_assert_eq!(x.last().map(|cpu| cpu.0), a.last().copied());
        prop_assert_eq!(x.next(CpuId(from)).map(|cpu| cpu.0), next);
        prop_assert_eq!(
            x.next_wrapping(CpuId(from)).map(|cpu| cpu.0),
            next.or(a.first().copied())
        );
        let wrapped: Vec<u32> = x.iter_wrapping(CpuId(from)).map(|cpu| cpu.0).collect();
        let expected: Vec<u32> = a.range(from..).chain(a.range(..from)).copied().collect();
        prop_assert_eq!(wrapped, expected);
        prop_assert_eq!(x.contains(CpuId(from)), a.contains(&from));
    }

    #[test]
    fn insertion_and_removal_tell_what_changed(a in numbers(), cpu in 0..CPUS_MAX as u32) {
        let mut x = set(&a);
        prop_assert_eq!(x.insert(CpuId(cpu)), !a.contains(&cpu));
        prop_assert!(x.contains(CpuId(cpu)));
        prop_assert!(x.remove(CpuId(cpu)));
        prop_assert!(!x.remove(CpuId(cpu)));
        prop_assert_eq!(x, set(&a) - CpuSet::of(CpuId(cpu)));
    }

    #[test]
    fn both_ways_of_writing_read_back(a in numbers()) {
        let x = set(&a);
        prop_assert_eq!(x.to_string().parse::<CpuSet>().unwrap(), x);
        prop_assert_eq!(CpuSet::parse_mask(&x.to_mask()).unwrap(), x);
    }

    #[test]
    fn any_text_is_a_set_or_an_error(text in "[-0-9,:/ xa-f]{0,40}") {
        let _ = text.parse::<CpuSet>();
        let _ = CpuSet::parse_mask(&text);
    }

    #[test]
    fn the_first_so_many(count in 0..=CPUS_MAX) {
        prop_assert_eq!(CpuSet::first_n(count).weight(), count);
        prop_assert_eq!(CpuSet::first_n(count).next(CpuId(count as u32)), None);
    }
}
