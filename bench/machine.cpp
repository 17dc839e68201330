// SPDX-License-Identifier: Apache-2.0
#include "bench/machine.hpp"

#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <type_traits>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz" without what is no name.
std::string shortened(std::string name) {
  name.erase(std::min(name.find(" @"), name.size()));
  for (const std::string_view noise : {"(R)", "(TM)", "(r)", "(tm)", " CPU", " Processor"}) {
    for (std::size_t at = 0; (at = name.find(noise)) != std::string::npos;) {
      name.erase(at, noise.size());
    }
  }
  return name;
}

}  // namespace

std::string Machine::name() const {
  return concat(processor, " (", cores, cores == 1 ? " core)" : " cores)");
}

Machine this_machine(Cores cores) {
  hwloc_topology_t topology = nullptr;
  hwloc_topology_init(&topology);
  const std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, void (*)(hwloc_topology_t)> owner(
      topology, hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) {
    throw Error(ErrorKind::system, "hwloc cannot read this machine's topology");
  }
  hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  if (cores == Cores::bound && hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_topology_restrict(topology, bound, 0);
  }
  hwloc_bitmap_free(bound);

  const auto count = [topology](hwloc_obj_type_t type) {
    return std::max(hwloc_get_nbobjs_by_type(topology, type), 1);
  };
  const hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr);
  const char* model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;

  Machine machine;
  machine.processor = shortened(model ? model : "unknown processor");
  machine.cores = count(HWLOC_OBJ_CORE);
  machine.hardware_threads = count(HWLOC_OBJ_PU);
  machine.numa_domains = count(HWLOC_OBJ_NUMANODE);
  machine.memory_bytes = static_cast<std::int64_t>(hwloc_get_root_obj(topology)->total_memory);
  int level = 1;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    const hwloc_obj_t cache = hwloc_get_next_obj_by_type(topology, type, nullptr);
    if (cache) {
      machine.caches.push_back({level, hwloc_get_nbobjs_by_type(topology, type),
                                static_cast<std::int64_t>(cache->attr->cache.size)});
    }
    ++level;
  }
  return machine;
}

}  // namespace ringspan::bench
