// SPDX-License-Identifier: Apache-2.0
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/topology.hpp"

namespace ringspan::comm {
namespace {

template <typename Handle, void (*release)(Handle)>
struct Release {
  void operator()(Handle handle) const { release(handle); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>,
                                 Release<hwloc_topology_t, hwloc_topology_destroy>>;
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>,
                               Release<hwloc_bitmap_t, hwloc_bitmap_free>>;

/// This machine's, with its network adapters; null if it cannot be read.
Topology load() {
  hwloc_topology_t loaded = nullptr;
  if (hwloc_topology_init(&loaded) != 0) return nullptr;
  Topology topology(loaded);
  hwloc_topology_set_io_types_filter(loaded, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  return hwloc_topology_load(loaded) == 0 ? std::move(topology) : nullptr;
}

/// PCI devices that hold a network adapter, in the order of the bus; virtual ones have no place.
std::vector<hwloc_obj_t> adapters(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> devices;
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(topology, device));) {
    const auto type = device->attr->osdev.type;
    if (type != HWLOC_OBJ_OSDEV_NETWORK && type != HWLOC_OBJ_OSDEV_OPENFABRICS) continue;
    const hwloc_obj_t bus = device->parent;
    if (bus->type != HWLOC_OBJ_PCI_DEVICE) continue;
    if (std::find(devices.begin(), devices.end(), bus) == devices.end()) devices.push_back(bus);
  }
  return devices;
}

}  // namespace

Nearby nearby() {
  // The machine stays as it is; reading it takes milliseconds, and each launch asks.
  static const Topology topology = load();
  Nearby result;
  if (!topology) return result;
  const Bitmap cores(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology.get(), cores.get(), HWLOC_CPUBIND_THREAD) != 0) return result;

  const Bitmap domains(hwloc_bitmap_alloc());
  hwloc_cpuset_to_nodeset(topology.get(), cores.get(), domains.get());
  if (hwloc_bitmap_weight(domains.get()) == 1) {
    const hwloc_obj_t domain = hwloc_get_numanode_obj_by_os_index(
        topology.get(), static_cast<unsigned>(hwloc_bitmap_first(domains.get())));
    if (domain) result.numa_domain = static_cast<int>(domain->logical_index);
  }

  const std::vector<hwloc_obj_t> all = adapters(topology.get());
  if (all.size() == 1) return result;
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 64); ++i) {
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology.get(), all[i]);
    if (hwloc_bitmap_isincluded(cores.get(), place->cpuset)) {
      result.adapters |= std::uint64_t{1} << i;
    }
  }
  return result;
}

}  // namespace ringspan::comm
