// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/cluster.hpp"

namespace ringspan::bench {

/// Clusters described in TOML. A key is a member of comm::Cluster by name, in the table of the
/// struct that it belongs to; `like = "h800"` takes everything else from another file.

/// `given`: the name of a cluster that comes with the program, or a file (with a slash or .toml in
/// it). Throws invalid_argument with one line: the file, the line and the rule that is broken.
comm::Cluster read_cluster(const std::string& given);

/// Clusters by what --cluster calls them.
using Clusters = std::map<std::string, comm::Cluster>;

/// Those that come with the program, by name.
std::vector<std::string> known_clusters();

/// What --cluster may be, for a message: "known are ..., and files", or that the share folder is
/// gone.
std::string cluster_choice();

/// A file that reads as this cluster; `heading` becomes comments at its top.
std::string cluster_text(const comm::Cluster& cluster, const std::string& heading);

/// Back from such a text, every bit of it.
comm::Cluster parse_cluster(const std::string& text, const std::string& name);

}  // namespace ringspan::bench
