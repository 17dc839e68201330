// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/tables/tables.hpp"

#include "bench/validate/table.hpp"

namespace ringspan::bench {
namespace {

constexpr TableEntry kTables[] = {
    {"ring-flash-attention", "README of ring-flash-attention, 8 A100 and 8 H800; anchors: one GPU",
     has_ring_flash_attention, read_ring_flash_attention},
    {"usp-paper", "USP, table 4, 8 A100; anchors: Ulysses alone", has_usp_paper,
     read_attention_operator},
    {"usp-long", "README of USP, 8 A100, 32Ki tokens and more; anchors: Ulysses alone",
     has_usp_long, read_attention_operator},
    {"usp-short", "the same below 32Ki tokens, where launching takes most of the time",
     has_usp_short, read_attention_operator},
    {"usp-gqa", "USP, media/gqa.png, 8 A100; anchors: Ulysses alone", has_usp_gqa, read_usp_gqa},
    {"striped-gpu", "Striped Attention, table 3, training steps on 8 A100; anchor: the last row",
     has_striped_gpu, read_striped, false, true},
    {"striped-tpu", "Striped Attention, table 4, training steps on 16 TPUv4; anchor: the last row",
     has_striped_tpu, read_striped, false, true},
    {"ring-attention-blocks", "Ring Attention, table 2, sequences that hide messages",
     has_ring_attention_blocks, read_ring_attention_blocks, true},
    {"ring-attention-contexts", "Ring Attention, table 3, longest sequences; anchors: one device",
     has_ring_attention_contexts, read_ring_attention_contexts, true},
    {"operators", "attention by others, in the columns of USP's; anchors: Ulysses alone",
     has_attention_operator, read_attention_operator},
};

}  // namespace

std::string_view name(Mark mark) {
  constexpr std::string_view kNames[] = {"calibration", "fit", "prediction"};
  return kNames[static_cast<int>(mark)];
}

std::span<const TableEntry> tables() { return kTables; }

}  // namespace ringspan::bench
