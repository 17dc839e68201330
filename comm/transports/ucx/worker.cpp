// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/ucx/worker.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/error.hpp"

namespace ringspan::comm::ucx {
namespace {

// Whether UCX_TLS lets one of these take part; UCX warns of a setting that no transport reads.
bool allows(std::initializer_list<const char*> transports) {
  const char* allowed = std::getenv("UCX_TLS");
  if (!allowed) return true;
  const bool negated = *allowed == '^';
  const std::string list = concat(',', negated ? allowed + 1 : allowed, ',');
  for (const char* transport : transports)
    if (list.find(concat(',', transport, ',')) != list.npos) return !negated;
  return negated || list == ",all,";
}

// Unless one of these variables of the environment says otherwise.
void set_default(ucp_config_t* config, const char* name, const char* value,
                 std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (std::getenv(variable)) return;
  require_ok(ucp_config_modify(config, name, value), name);
}

bool is_at_least(unsigned major, unsigned minor) {
  unsigned own_major = 0, own_minor = 0, release = 0;
  ucp_get_version(&own_major, &own_minor, &release);
  return std::pair(own_major, own_minor) >= std::pair(major, minor);
}

ucp_context_h make_context(int ranks) {
  ucp_config_t* settings = nullptr;
  require_ok(ucp_config_read(nullptr, nullptr, &settings), "reading its environment");
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> config(settings,
                                                                            ucp_config_release);
  // A death is noticed after one interval; UCX's own is 20 seconds.
  set_default(config.get(), "KEEPALIVE_INTERVAL", "1s", {"UCX_KEEPALIVE_INTERVAL"});
  // Without these, endpoints that report dead peers get no shared memory, or copy twice in it.
  if (allows({"sm", "shm", "mm", "posix", "sysv"}))
    set_default(config.get(), "MM_ERROR_HANDLING", "y",
                {"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"});
  const char* invalidate = is_at_least(1, 17) ? "CMA_MEMORY_INVALIDATE" : "MEMORY_INVALIDATE";
  set_default(config.get(), invalidate, "y", {"UCX_CMA_MEMORY_INVALIDATE"});
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM;
  params.estimated_num_eps = static_cast<std::size_t>(ranks);
  ucp_context_h context = nullptr;
  require_ok(ucp_init(&params, config.get(), &context), "starting");
  return context;
}

ucp_worker_h make_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  require_ok(ucp_worker_create(context, &params, &worker), "creating a worker");
  return worker;
}

/// Holds signals back: a process that ends while UCX makes shared memory leaves a file behind, and
/// a launcher ends all when one has failed.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

struct Retired {
  struct Kept {
    Worker worker;
    std::vector<processes::ProcessIdentity> launched;
  };
  std::mutex mutex;
  std::vector<Kept> workers;
};

// Of the process, as what UCX does is; and not destroyed with it, for UCX might then abort.
Retired& retired() {
  static auto& of_process = *new Retired;
  return of_process;
}

}  // namespace

void require_ok(ucs_status_t status, std::string_view what) {
  if (status != UCS_OK)
    throw Error(ErrorKind::system, concat("UCX: ", what, ": ", ucs_status_string(status)));
}

Worker::Worker(int ranks) {
  const SignalsHeld held;
  context_.reset(make_context(ranks));
  worker_.reset(make_worker(context_.get()));
}

bool Worker::reaches_gpus() const {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require_ok(ucp_context_query(context_.get(), &attributes), "asking for kinds of memory");
  return (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

void retire(Worker worker, std::vector<processes::ProcessIdentity> launched) {
  const std::lock_guard lock(retired().mutex);
  retired().workers.push_back({std::move(worker), std::move(launched)});
}

std::size_t destroy_retired(std::span<const Address> present) {
  const auto left = [&](const processes::ProcessIdentity& process) {
    const auto is_here = [&](const Address& address) { return address.process == process; };
    return std::any_of(present.begin(), present.end(), is_here) ||
           processes::WatchedProcess(process).ended();
  };
  const std::lock_guard lock(retired().mutex);
  std::erase_if(retired().workers, [&](const Retired::Kept& kept) {
    return std::all_of(kept.launched.begin(), kept.launched.end(), left);
  });
  return retired().workers.size();
}

std::vector<std::byte> Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  require_ok(ucp_worker_get_address(get(), &address, &bytes), "asking for its address");
  const auto* first = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(first, first + bytes);
  ucp_worker_release_address(get(), address);
  return copy;
}

}  // namespace ringspan::comm::ucx
