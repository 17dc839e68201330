// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulation_text.hpp"

#include <nlohmann/json.hpp>
#include <vector>

namespace ringspan::bench {
namespace {

using Json = nlohmann::json;

/// Calls visit(name, values) for what a simulation times.
template <typename Times, typename Visit>
void visit_times(Times& times, const Visit& visit) {
  visit("compute", times.compute);
  visit("synchronised", times.synchronised);
  visit("communication", times.communication);
  visit("overlapped", times.overlapped);
  visit("kernel_compute", times.kernel_compute);
  visit("kernel_overlapped", times.kernel_overlapped);
  visit("hideable", times.hideable);
}

}  // namespace

std::string text(const Measurement& measurement) {
  Json sent = Json::array(), due = Json::array(), times = Json::object();
  for (const comm::Traffic& rank : measurement.sent) {
    sent.push_back({rank.bytes_sent, rank.inter_node_bytes_sent, rank.messages_sent});
  }
  for (const attention::Traffic& rank : measurement.closed_form) {
    due.push_back({rank.bytes, rank.inter_node_bytes, rank.messages});
  }
  visit_times(measurement.times,
              [&](const char* name, const auto& values) { times[name] = values; });
  return Json{{"times", times},
              {"sent", sent},
              {"closed_form", due},
              {"peak_bytes", measurement.peak_bytes}}
      .dump();
}

std::string text(const Error& failure) {
  return Json{{"failure", failure.what()}, {"kind", static_cast<int>(failure.kind())}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Measurement measurement(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.contains("failure")) {
    throw Error(static_cast<ErrorKind>(json.at("kind").get<int>()),
                json.at("failure").get<std::string>());
  }
  Measurement result;
  result.times.exact = true;
  visit_times(result.times,
              [&](const char* name, auto& values) { json.at("times").at(name).get_to(values); });
  for (const Json& rank : json.at("sent")) {
    comm::Traffic& sent = result.sent.emplace_back();
    sent.bytes_sent = rank[0];
    sent.inter_node_bytes_sent = rank[1];
    sent.messages_sent = rank[2];
  }
  for (const Json& rank : json.at("closed_form")) {
    attention::Traffic& due = result.closed_form.emplace_back();
    due.bytes = rank[0];
    due.inter_node_bytes = rank[1];
    due.messages = rank[2];
  }
  json.at("peak_bytes").get_to(result.peak_bytes);
  return result;
}

}  // namespace ringspan::bench
