// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/cluster_file.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/ask/share_folder.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

namespace fs = std::filesystem;

/// Tells `visit` every key that a file may have, with the member behind it, table by table.
template <typename Cluster, typename Visit>
void visit_keys(Cluster& cluster, Visit& visit) {
  visit.table("");
  visit.key("nodes", cluster.nodes);
  visit.key("gpus_per_node", cluster.gpus_per_node);
  visit.key("issue_seconds", cluster.issue_seconds);
  visit.key("launch_queue", cluster.launch_queue);
  visit.key("kernel_noise", cluster.kernel_noise);
  visit.key("message_noise", cluster.message_noise);

  visit.table("gpu");
  visit.key("kind", cluster.gpu.kind);
  visit.key("multiprocessors", cluster.gpu.multiprocessors);
  visit.key("flops_per_second", cluster.gpu.flops_per_second);
  visit.key("memory_bytes", cluster.gpu.memory_bytes);
  visit.key("memory_bytes_per_second", cluster.gpu.memory_bytes_per_second);
  visit.key("attention_speed", cluster.gpu.attention_speed);

  const auto messages = [&visit](auto& rule) {
    visit.key("latency_seconds", rule.latency_seconds);
    visit.key("short_latency_seconds", rule.short_latency_seconds);
    visit.key("channels", rule.channels);
    visit.key("kernel_slowdown", rule.kernel_slowdown);
    visit.key("gap_seconds", rule.gap_seconds);
    visit.key("short_gap_seconds", rule.short_gap_seconds);
  };
  visit.table("fabric");
  messages(cluster.fabric.messages);
  visit.key("gpu_bytes_per_second", cluster.fabric.gpu_bytes_per_second);
  visit.key("gpus_per_switch", cluster.fabric.gpus_per_switch);
  visit.key("switch_bytes_per_second", cluster.fabric.switch_bytes_per_second);
  visit.key("numa_domains", cluster.fabric.numa_domains);
  visit.key("socket_bytes_per_second", cluster.fabric.socket_bytes_per_second);

  visit.table("network");
  messages(cluster.network.messages);
  visit.key("adapters_per_node", cluster.network.adapters_per_node);
  visit.key("adapter_bytes_per_second", cluster.network.adapter_bytes_per_second);
  visit.key("behind_gpu_port", cluster.network.behind_gpu_port);
  visit.key("nodes_per_leaf", cluster.network.nodes_per_leaf);
  visit.key("oversubscription", cluster.network.oversubscription);

  visit.table("channels");
  visit.key("bytes_per_second", cluster.channels.bytes_per_second);
  visit.key("slots_in_node", cluster.channels.slots_in_node);
  visit.key("slots_between_nodes", cluster.channels.slots_between_nodes);
  visit.key("largest_part_bytes", cluster.channels.largest_part_bytes);
  visit.key("short_part_bytes", cluster.channels.short_part_bytes);
  visit.key("short_bandwidth_share", cluster.channels.short_bandwidth_share);
}

/// "fabric.channels", or "nodes" at the top.
std::string path_of(std::string_view table, std::string_view key) {
  return table.empty() ? std::string(key) : concat(table, '.', key);
}

std::string where(const std::string& file, const toml::source_region& source) {
  return concat("--cluster: ", file, ", line ", source.begin.line, ": ");
}

/// Fills members from what a file has, and remembers which keys there can be.
class Reader {
 public:
  Reader(const toml::table& root, const std::string& file) : root_(root), file_(file) {}

  void table(std::string_view name) {
    name_ = name;
    tables_.emplace_back(name);
    table_ = name.empty() ? &root_ : root_[name].as_table();
    RINGSPAN_REQUIRE(name.empty() || table_ || !root_.contains(name),
                     where(file_, root_.get(name)->source()), "'", name, "' is a table");
  }

  template <typename Value>
  void key(std::string_view name, Value& value) {
    known_.push_back(path_of(name_, name));
    const toml::node* node = table_ ? table_->get(name) : nullptr;
    if (node) read(*node, value);
  }

  /// Throws for the first key of the file that is none.
  void require_known() const {
    for (const auto& [key, node] : root_) {
      if (key.str() == "like" || is_table(key.str())) continue;
      require_known("", key.str(), node);
    }
    for (const std::string& table : tables_) {
      const toml::table* keys = table.empty() ? nullptr : root_[table].as_table();
      if (!keys) continue;
      for (const auto& [key, node] : *keys) require_known(table, key.str(), node);
    }
  }

 private:
  bool is_table(std::string_view name) const {
    return !name.empty() && std::find(tables_.begin(), tables_.end(), name) != tables_.end();
  }

  void require_known(std::string_view table, std::string_view key, const toml::node& node) const {
    const std::string path = path_of(table, key);
    std::string known;
    for (const std::string& other : known_) known += concat(known.empty() ? "" : ", ", other);
    RINGSPAN_REQUIRE(std::find(known_.begin(), known_.end(), path) != known_.end(),
                     where(file_, node.source()), "unknown key '", path, "'; known are like, ",
                     known);
  }

  template <typename... Parts>
  void require(bool kept, const toml::node& node, const Parts&... rule) const {
    RINGSPAN_REQUIRE(kept, where(file_, node.source()), known_.back(), rule...);
  }

  void read(const toml::node& node, std::string& value) const {
    require(node.is_string(), node, " is a string");
    value = node.as_string()->get();
  }
  void read(const toml::node& node, bool& value) const {
    require(node.is_boolean(), node, " is true or false");
    value = node.as_boolean()->get();
  }
  void read(const toml::node& node, double& value) const {
    require(node.is_number(), node, " is a number");
    value = *node.value<double>();
  }
  template <std::signed_integral Integer>
  void read(const toml::node& node, Integer& value) const {
    require(node.is_integer(), node, " is a whole number");
    const std::int64_t given = node.as_integer()->get();
    require(std::in_range<Integer>(given), node, " is ", given, "; the most is ",
            std::numeric_limits<Integer>::max());
    value = static_cast<Integer>(given);
  }

  const toml::table& root_;
  const std::string& file_;
  const toml::table* table_ = nullptr;
  std::string name_;
  std::vector<std::string> tables_, known_;
};

class Writer {
 public:
  void table(std::string_view name) {
    if (!name.empty()) text_ << "\n[" << name << "]\n";
  }
  void key(std::string_view name, const auto& value) {
    text_ << name << " = " << toml::value(value) << '\n';
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

fs::path folder() { return share_folder() / "clusters"; }

fs::path file_of(const std::string& given) {
  if (given.find('/') != std::string::npos || given.ends_with(".toml")) return given;
  const std::vector<std::string> known = known_clusters();
  RINGSPAN_REQUIRE(std::find(known.begin(), known.end(), given) != known.end(),
                   "--cluster: unknown cluster '", given, "'; ", cluster_choice());
  return folder() / (given + ".toml");
}

toml::table parse(const std::string& file) {
  std::error_code ignored;  // what cannot be looked at cannot be read either
  RINGSPAN_REQUIRE(!fs::is_directory(file, ignored), "--cluster: cannot read ", file,
                   ": it is a directory");
  try {
    return toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    RINGSPAN_REQUIRE(error.source().begin.line > 0, "--cluster: cannot read ", file);
    RINGSPAN_REQUIRE(false, where(file, error.source()), error.description());
  }
  return {};
}

/// Of the key that a broken rule begins with, if this file has it.
std::string place_of(const toml::table& root, const std::string& rule) {
  const toml::node* node = root.at_path(rule.substr(0, rule.find(' '))).node();
  return node ? concat(", line ", node->source().begin.line) : "";
}

comm::Cluster read(const fs::path& path, int depth);

comm::Cluster cluster_of(const toml::table& root, const std::string& file, int depth) {
  comm::Cluster cluster;
  if (const toml::node* like = root.get("like")) {
    const std::string at = where(file, like->source());
    constexpr int kDeepest = 8;
    RINGSPAN_REQUIRE(like->is_string(), at, "like is the name of a cluster, or a file");
    RINGSPAN_REQUIRE(depth < kDeepest, at, "like: files refer to each other in a circle");
    cluster = read(file_of(like->as_string()->get()), depth + 1);
  }
  cluster.name = fs::path(file).stem().string();
  Reader reader(root, file);
  visit_keys(cluster, reader);
  reader.require_known();
  const std::vector<std::string> broken = comm::broken_rules(cluster);
  RINGSPAN_REQUIRE(broken.empty(), "--cluster: ", file, place_of(root, broken.front()), ": ",
                   broken.front());
  return cluster;
}

comm::Cluster read(const fs::path& path, int depth) {
  return cluster_of(parse(path.string()), path.string(), depth);
}

}  // namespace

comm::Cluster read_cluster(const std::string& given) { return read(file_of(given), 0); }

comm::Cluster parse_cluster(const std::string& text, const std::string& name) {
  comm::Cluster cluster = cluster_of(toml::parse(text), name, 0);
  cluster.name = name;
  return cluster;
}

std::string cluster_choice() {
  const std::vector<std::string> known = known_clusters();
  if (known.empty())
    return concat("those that come with the program are not in ", folder().string(),
                  "; move share with bin, or give a file");
  return concat("known are ", name_list(known), ", and files (with a slash or .toml in the name)");
}

std::vector<std::string> known_clusters() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder(), none)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string cluster_text(const comm::Cluster& cluster, const std::string& heading) {
  std::string text;
  std::istringstream lines(heading);
  for (std::string line; std::getline(lines, line);) text += "# " + line + '\n';
  Writer writer;
  visit_keys(cluster, writer);
  return text + writer.text();
}

}  // namespace ringspan::bench
