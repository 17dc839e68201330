// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/tables/tables.hpp"

#include "bench/validate/table.hpp"

namespace ringspan::bench {
namespace {

constexpr TableEntry kTables[] = {
    {"ring-flash-attention", "README of ring-flash-attention, 8 A100 and 8 H800; anchors: one GPU",
     has_ring_flash_attention, read_ring_flash_attention},
    {"usp-paper", "USP, table 4, 8 A100; anchors: Ulysses alone", has_usp_paper, read_usp_paper},
    {"usp-long", "README of USP, 8 A100, 32Ki tokens and more; anchors: Ulysses alone",
     has_usp_long, read_usp_readme},
    {"usp-short", "the same below 32Ki tokens, where launching takes most of the time",
     has_usp_short, read_usp_readme},
    {"usp-gqa", "USP, media/gqa.png, 8 A100; anchors: Ulysses alone", has_usp_gqa, read_usp_gqa},
    {"striped-gpu", "Striped Attention, table 3, training steps on 8 A100; anchor: the last row",
     has_striped_gpu, read_striped, true, false},
    {"striped-tpu", "Striped Attention, table 4, training steps on 16 TPUv4; anchor: the last row",
     has_striped_tpu, read_striped, true, false},
    {"ring-attention-blocks", "Ring Attention, table 2, sequences that hide messages",
     has_ring_attention_blocks, read_ring_attention_blocks, false, false, false},
    {"ring-attention-contexts", "Ring Attention, table 3, longest sequences; anchors: one device",
     has_ring_attention_contexts, read_ring_attention_contexts, false, false, false},
    {"megatron-times", "Megatron-SP, tables 4 and 5: layers and steps of GPT on 8 to 2,240 A100",
     has_megatron_times, read_megatron},
    {"megatron-shares", "the same: MFU, HFU, and what recomputing costs", has_megatron_shares,
     read_megatron, true},
    {"usp-training", "USP, tables 5 and 6, figure 5: steps of Llama on 8 and 16 A800",
     has_usp_training, read_usp_training, true},
    {"alst", "ALST, steps of Llama on 1 to 32 H100, up to 15M tokens", has_alst, read_alst},
    {"fpdt", "FPDT, figure 4c, steps of Llama on 4 A100", has_fpdt, read_fpdt, true},
    {"easycontext", "README of EasyContext, steps of Llama on 8 A100", has_easycontext,
     read_easycontext},
    {"loongtrain", "LoongTrain, steps of Llama on 32 A100, second-hand", has_loongtrain,
     read_loongtrain},
    {"llama3", "Llama 3, table 4, steps on 8,192 and 16,384 H100", has_llama3, read_llama3, true},
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
