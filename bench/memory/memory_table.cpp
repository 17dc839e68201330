// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/memory_table.hpp"

namespace ringspan::bench {
namespace {

constexpr MemoryTable kTables[] = {
    {"rsa-growth",
     "Ring Self-Attention, table 4: MB that a P100 allocates. Elements of an MLP and an attention "
     "block (tables 1 and 2 there); anchors: one rank",
     has_rsa_growth, read_rsa_growth},
    {"rsa-longest",
     "Ring Self-Attention, figures 3 and 5: BERT-Base, most that fits. The same elements, 12 "
     "layers, fp32, 16 GB; tensor parallelism on 12 ranks, one for each head; Linformer with 256 "
     "keys",
     has_rsa_longest, read_rsa_longest},
    {"megatron", "Megatron-SP, figure 7 and section 5: equations 1, 2 and 4 and table 2, 8 GPUs",
     has_megatron_memory, read_megatron_memory},
    {"blockwise",
     "Blockwise Parallel Transformer, abstract: the longest sequence whose largest activation "
     "(Ring Attention, table 1) is no larger",
     has_blockwise_ratios, read_blockwise_ratios},
    {"blockwise-contexts",
     "Ring Attention, table 3, longest sequences: the largest activation is 8bsh with blocks in "
     "attention alone, 2bsh with blocks in the MLP, and on a ring it knows tokens per device alone",
     has_blockwise_contexts, read_blockwise_contexts},
    {"bytes", "bytes of checkpoints (tokens x hidden x layers x 2), of squares, and MLP tiles",
     has_checkpoint_bytes, read_checkpoint_bytes},
    {"alst-longest",
     "ALST, table 1 and recipes, thousands of tokens on all GPUs: parameters / GPUs, checkpoints, "
     "one layer again with its gradients, logits; the optimizer on hosts of 1.9 TB",
     has_alst_longest, read_alst_longest},
};

}  // namespace

std::span<const MemoryTable> memory_tables() { return kTables; }

}  // namespace ringspan::bench
