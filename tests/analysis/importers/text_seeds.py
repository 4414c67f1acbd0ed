# SPDX-License-Identifier: BSD-2-Clause
"""Lines of every kind that the text reader knows, for tests that change them at random."""

from __future__ import annotations

EVENTS = """# tracer: nop
cpus=2
          <idle>-0     [001] d.h2. 12.000001: block_bio_queue: 8,0 WS 800 + 16 [jbd2/sda1-8]
              dd-77 (     70) [000] .....    12.000002: block_getrq: 8,0 WS 800 + 16 [dd]
   my dd  70/77   [001]    12.000003000:          1 block:block_split: 8,0 WS 800 / 808 [my dd]
\t    ffffffff81af1cd9 submit_bio+0x1 ([kernel.kallsyms])
dd 77 [001] 12.000004: block:block_bio_remap: 8,0 R 900 + 8 <- (8,1) 100
dd 77 12.000005: block:block_rq_insert: 8,0 WS 4096 () 800 + 8 be,0,4 [dd]
dd 77 12.000006: block:block_rq_issue: 8,0 WS 4096 () 800 + 8 0x2,0,4 [dd]
dd 77 12.000007: block:block_rq_requeue: 8,0 WS () 800 + 8 [0]
dd 77 12.000008: block:block_rq_complete: 8,0 WS () 800 + 8 [-5]
dd 77 12.000009: block:block_rq_issue: 8,0 N 512 (12 00) 0 + 0 [smartd]
dd 77 12.000010: block:block_rq_complete: 8,0 N () 18446744073709551615 + 1 [0]
dd-77 [001] 12.000011: block_plug: [dd]
dd-77 [001] 12.000012: block_unplug: [dd] 3
CPU:1 [LOST 5 EVENTS]
CPU:0 [7 EVENTS DROPPED]
swapper 0 [001] 12.5: PERF_RECORD_LOST lost 11
dd-77 [001] 12.000013:   8,0    Q  WS 1000 + 8 [dd]
dd-77 [001] 12.000014:   8,0    A  WS 1000 + 8 <- (8,1) 10
dd-77 [001] 12.000015:   8,0    X  WS 1000 / 1004 [dd]
dd-77 [001] 12.000016:   8,0    C  WS 1000 + 8 [0]
dd-77 [001] 12.000017:   8,0    D   N 252 (12 00 fc) [smartd]
dd-77 [001] 12.000018:   8,0    m   N words of a driver
  8,0    1        1     0.000000000   100  D   R 8 + 8 (  123) [fio]
  8,0    1        2     0.000100000   100  C   R 8 + 8 [0]
  8,0    1        3     0.000200000   100  U   N [fio] 1
"""
