// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/mask_text.hpp"

#include <string>

#include "bench/ask/axes.hpp"
#include "bench/ask/document_sampling.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

MaskText parse_mask_text(std::string_view text) {
  constexpr std::string_view kDocuments = "documents";
  MaskText parsed;
  std::string plain(text);  // without the lengths it is what attention::parse_mask understands
  while (true) {
    const std::size_t colon = plain.find("documents:");
    if (colon == std::string::npos) break;
    const std::size_t first = colon + kDocuments.size() + 1;
    const std::string lengths = plain.substr(first, plain.find('+', first) - first);
    RINGSPAN_REQUIRE(parsed.documents.empty() && !parsed.sampled, "'", text,
                     "' gives documents twice");
    parsed.sampled = lengths == "sampled";
    if (!parsed.sampled) parsed.documents = integers("documents", lengths, 0);
    plain.erase(first - 1, lengths.size() + 1);
  }
  parsed.mask = attention::parse_mask(plain);
  RINGSPAN_REQUIRE(!parsed.mask.documents || parsed.sampled || !parsed.documents.empty(), "'", text,
                   "' gives no lengths; write documents:N,N,... or documents:sampled");
  return parsed;
}

attention::Sequence sequence(const MaskText& mask, std::int64_t length, std::uint64_t seed) {
  return {length, mask.sampled ? sample_documents(length, seed) : mask.documents};
}

}  // namespace ringspan::bench
