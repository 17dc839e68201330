// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/diagnosis/ledger.hpp"

#include <algorithm>

namespace ringspan::comm::diagnosis {
namespace {

Error report(const Half& sender, const Half& receiver, const std::string& message) {
  return Error(ErrorKind::peer_failed, message,
               {receiver.rank, sender.rank, receiver.operation, receiver.sequence});
}

}  // namespace

std::string title(const Half& half) {
  return concat("operation ", half.sequence, ", ", half.operation);
}

std::optional<Error> disagreement(const Half& sender, const Half& receiver) {
  if (sender.bytes == receiver.bytes && sender.operation == receiver.operation) return {};
  return report(sender, receiver,
                concat("rank ", sender.rank, " sends ", sender.bytes, " bytes in ", title(sender),
                       ", where rank ", receiver.rank, " expects ", receiver.bytes, " bytes in ",
                       title(receiver)));
}

std::optional<Error> disorder(const Half& sender, const Half& receiver,
                              const std::function<std::optional<Half>()>& expecting) {
  if (sender.number != receiver.number) {
    const std::optional<Half> other = expecting();
    return report(
        sender, receiver,
        concat("ledger: rank ", sender.rank, " and rank ", receiver.rank,
               " post in different orders: message ", sender.number,
               " of the one to the other belongs to ", title(sender), ", at the sender, and to ",
               other ? title(*other) : "no operation yet", ", at the receiver"));
  }
  if (sender.sequence == receiver.sequence) return {};
  return report(sender, receiver,
                concat("ledger: what rank ", sender.rank, " sends in ", title(sender), ", rank ",
                       receiver.rank, " expects in ", title(receiver),
                       "; it must be the same operation of their group"));
}

std::optional<Error> unequal_counts(const std::vector<int>& ranks,
                                    const std::vector<std::int64_t>& posted) {
  const auto fewest = std::min_element(posted.begin(), posted.end());
  const auto most = std::max_element(posted.begin(), posted.end());
  if (posted.empty() || *fewest == *most) return {};
  const int lacking = ranks[fewest - posted.begin()];
  return Error(ErrorKind::peer_failed,
               concat("ledger: rank ", lacking, " posted ", *fewest, " operations in a group in ",
                      "which rank ", ranks[most - posted.begin()], " posted ", *most,
                      "; every rank of a group posts every operation"),
               {lacking, lacking});
}

}  // namespace ringspan::comm::diagnosis
