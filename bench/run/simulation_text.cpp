// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulation_text.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/ask/cluster_file.hpp"

namespace ringspan::bench {
namespace {

using Json = nlohmann::json;

/// Calls visit(name, member) for all that a point is made of.
template <typename Point, typename Visit>
void visit_members(Point& point, const Visit& visit) {
  visit("transport", point.transport);
  visit("device", point.device);
  visit("cluster", point.cluster);
  visit("kernel", point.kernel);
  visit("schedule", point.schedule);
  visit("layout", point.layout);
  visit("pass", point.pass);
  visit("dtype", point.dtype);
  visit("ranks", point.ranks);
  visit("ranks_per_node", point.ranks_per_node);
  visit("ulysses_degree", point.ulysses_degree);
  visit("ring_degree", point.ring_degree);
  visit("inner_ring", point.inner_ring);
  visit("pretended_ranks_per_node", point.pretended_ranks_per_node);
  visit("placement", point.placement);
  visit("all_to_all", point.all_to_all);
  visit("hop", point.hop);
  visit("backward", point.backward);
  visit("sequence_length", point.sequence_length);
  visit("tokens_per_rank", point.tokens_per_rank);
  visit("batch", point.batch);
  visit("heads", point.heads);
  visit("kv_heads", point.kv_heads);
  visit("head_dim", point.head_dim);
  visit("value_dim", point.value_dim);
  visit("mask", point.mask);
}

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

Json json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> optional_number(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

}  // namespace

std::string text(const SimulationTask& task) {
  Json point = Json::object();
  visit_members(task.point, [&](const char* name, const auto& value) { point[name] = value; });
  return Json{{"point", point},
              {"cluster", cluster_text(task.cluster, "")},
              {"cluster_name", task.cluster.name},
              {"softmax_scale", json(task.options.softmax_scale)},
              {"softcap", json(task.options.softcap)},
              {"sinks", task.options.sinks},
              {"seed", task.options.seed},
              {"modes", static_cast<int>(task.modes)}}
      .dump();
}

SimulationTask simulation_task(const std::string& text) {
  const Json json = Json::parse(text);
  SimulationTask task;
  visit_members(task.point,
                [&](const char* name, auto& value) { json.at("point").at(name).get_to(value); });
  task.cluster = parse_cluster(json.at("cluster"), json.at("cluster_name"));
  task.options.softmax_scale = optional_number(json.at("softmax_scale"));
  task.options.softcap = optional_number(json.at("softcap"));
  task.options.sinks = json.at("sinks");
  task.options.seed = json.at("seed");
  task.modes = static_cast<ModePair>(json.at("modes").get<int>());
  return task;
}

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
