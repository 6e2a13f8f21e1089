//! Tables of `perf c2c` as published, in three versions of its columns. Sources: [spr]
//! linux-fsdevel, 28 June 2023, "fs/address_space: add alignment padding for i_map and i_mmap_rwsem"
//! (message 20230628105624.150352-1); [peer] linux-perf-users, 2022, "perf c2c: Support data source
//! peer snooping" (its cover letter's x86 example); [report] the series "per-node masks" for cpupri,
//! March 2026, as its mail cuts the table.

use schedlab_trace::c2c::parse;

const SPR: &str = "\
=================================================
      Shared Cache Line Distribution Pareto
=================================================
  -------------------------------------------------------------
      0    13642    19392     9012       63  0xff1ddd3f0c8a3b00
  -------------------------------------------------------------
    9.22%    7.37%    0.00%    0.00%    0x0     0       1  0xffffffffab344052       518       334       354     5490       160  [k] vma_interval_tree_remove    [kernel.kallsyms]  vma_interval_tree_remove+18      0  1
    0.56%    0.47%   26.39%    6.35%    0x8     0       1  0xffffffffabb9a5ec      1327      1037       587     8537       160  [k] down_write                  [kernel.kallsyms]  down_write+28                    0  1
   44.74%   49.78%    0.00%    0.00%   0x10     0       1  0xffffffffab170995       609       344       430    26841       160  [k] rwsem_spin_on_owner         [kernel.kallsyms]  rwsem_spin_on_owner+53           0  1
";

const PEER: &str = "\
  #   Num  RmtHitm  LclHitm     Peer   L1 Hit  L1 Miss  Any Lvl              Offset  Node  PA cnt        Code address  rmt hitm  lcl hitm      load      peer  records       cnt                  Symbol             Object              Source:Line  Node
  # .....  .......  .......  .......  .......  .......  .......  ..................  ....  ......  ..................  ........  ........  ........  ........  .......  ........  ......................  .................  .......................  ....
  #
    -------------------------------------------------------------------------------
        0        0      252        0     2024      470        0      0x55c8971f0080
    -------------------------------------------------------------------------------
             0.00%   12.30%    0.00%    0.00%    0.00%    0.00%                 0x0     0       1      0x55c8971ed3e9         0      1313       863         0     1222         3  [.] 0x00000000000013e9  false_sharing.exe  false_sharing.exe[13e9]   0
             0.00%    0.79%    0.00%   90.51%    0.00%    0.00%                 0x0     0       1      0x55c8971ed3e2         0      1800       878         0     3029         3  [.] 0x00000000000013e2  false_sharing.exe  false_sharing.exe[13e2]   0
             0.00%    0.00%    6.06%    0.00%    0.00%    0.00%                0x20   N/A       0      0xaaaac17c25ac         0         0        43       375    18469         2  [.] 0x00000000000025ac  memstress         memstress[25ac]   0
";

const REPORT: &str = "\
> 155   39   39   0xff14d52c4682d800
> 43.23%  43.59%  0.00%  0x0   3489  415  _find_first_and_bit
>  3.23%   0.00%  0.00%  0x0   2712   33  [k] _find_first_and_bit
>  1.94%   0.00%  7.69%  0x0   5992   33  cpupri_set
";

#[test]
fn a_server_s_table_is_read_column_by_column() {
    let table = parse(SPR);
    assert!(table.unread.is_empty(), "{:?}", table.unread);
    let line = &table.lines[0];
    assert_eq!(line.address, 0xff1d_dd3f_0c8a_3b00);
    assert_eq!((line.remote_hitm, line.local_hitm), (13642, 19392));
    assert_eq!((line.stores_l1_hit, line.stores_l1_miss), (9012, Some(63)));
    let place = &line.places[1];
    assert_eq!((place.remote_hitm_pct, place.stores_l1_hit_pct), (0.56, 26.39));
    assert_eq!((place.offset, place.code_address), (8, Some(0xffff_ffff_abb9_a5ec)));
    let cycles = (place.remote_hitm_cycles, place.local_hitm_cycles, place.load_cycles);
    assert_eq!(cycles, (Some(1327), Some(1037), Some(587)));
    assert_eq!((place.records, place.cpus), (8537, Some(160)));
    assert_eq!(place.symbol, "down_write");
    assert_eq!(place.object.as_deref(), Some("[kernel.kallsyms]"));
    assert_eq!(line.places.len(), 3);
}

#[test]
fn columns_of_peers_are_told_from_others() {
    let table = parse(PEER);
    assert!(table.unread.is_empty(), "{:?}", table.unread);
    let line = &table.lines[0];
    assert_eq!(
        (line.peer, line.stores_l1_miss, line.stores_unknown),
        (Some(0), Some(470), Some(0))
    );
    let place = &line.places[1];
    assert_eq!((place.stores_l1_hit_pct, place.stores_l1_miss_pct), (90.51, Some(0.0)));
    assert_eq!((place.records, place.cpus), (3029, Some(3)));
    // A page on no known node.
    assert_eq!((line.places[2].offset, line.places[2].records), (0x20, 18469));
}

#[test]
fn a_table_that_a_mail_cuts_and_quotes_is_read_all_the_same() {
    let table = parse(REPORT);
    assert!(table.unread.is_empty(), "{:?}", table.unread);
    let line = &table.lines[0];
    assert_eq!((line.remote_hitm, line.local_hitm, line.stores_l1_hit), (155, 39, 39));
    let symbols: Vec<&str> = line.places.iter().map(|place| place.symbol.as_str()).collect();
    assert_eq!(symbols, ["_find_first_and_bit", "_find_first_and_bit", "cpupri_set"]);
    assert_eq!((line.places[2].load_cycles, line.places[2].records), (Some(5992), 33));
}

#[test]
fn rows_that_are_none_are_told_of() {
    let table = parse("43.2% of loads\n 1.0% 2.0% 3.0% 0x0 1 2 late\n");
    assert!(table.lines.is_empty());
    let numbers: Vec<usize> = table.unread.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2]);
}
