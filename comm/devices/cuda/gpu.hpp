// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "comm/devices/cuda/api.hpp"

namespace ringspan::comm::cuda {

/// One GPU of this process, by its primary context, which CUDA's runtime and NCCL use as well.
/// Shared by all that was made on it. Safe to use from any thread.
class Gpu {
 public:
  Gpu(std::shared_ptr<const Api> api, Ordinal ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Api& api() const { return *api_; }
  Ordinal ordinal() const { return ordinal_; }
  /// Which one it is, alike in all processes, whatever GPUs they see.
  Uuid uuid() const { return uuid_of(*api_, ordinal_); }

  /// Memory of this GPU's pool stays its own instead of going back at each synchronisation, and may
  /// be reached by all others that can.
  void open_pool() const;

  void check(Status status, const char* call) const { cuda::check(*api_, status, call); }

 private:
  friend class Current;

  const std::shared_ptr<const Api> api_;
  const Ordinal ordinal_;
  ContextHandle context_ = nullptr;
};

/// Makes a GPU the calling thread's for as long as this lives.
class Current {
 public:
  explicit Current(const Gpu& gpu);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Gpu& gpu_;
};

/// Something that has happened once all that was queued before it has run.
class Event {
 public:
  /// `timed`: for seconds_since(); it costs the GPU a little.
  explicit Event(std::shared_ptr<const Gpu> gpu, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventHandle handle() const { return handle_; }

  /// Throws system if what came before it has failed.
  bool done() const;
  /// How much later it has happened; both are timed, and done.
  double seconds_since(const Event& earlier) const;

 private:
  const std::shared_ptr<const Gpu> gpu_;
  EventHandle handle_ = nullptr;
};

/// A queue of work that runs in order: this process's own, or a caller's, which stays the caller's.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(std::shared_ptr<const Gpu> gpu, StreamHandle borrowed = nullptr);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Gpu& gpu() const { return *gpu_; }
  const std::shared_ptr<const Gpu>& shared_gpu() const { return gpu_; }
  StreamHandle handle() const { return handle_; }

  void record(const Event& event) const;
  void wait(const Event& event) const;
  /// Until the value at that address of the GPU is not before this one, in 32 bits that wrap.
  void wait_value(Address address, std::uint32_t value) const;
  /// Writes it behind all that was queued before, as whoever reads it sees it.
  void write_value(Address address, std::uint32_t value) const;
  /// What is queued does not run, but becomes part of a Graph.
  bool capturing() const;
  /// Everything queued so far has run. Throws system if some of it has failed.
  bool idle() const;

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const bool owned_;
  StreamHandle handle_;
};

/// Whether all has run that was queued on a stream by when this was first asked: a caller's stream,
/// on which others queue on, need not become idle. Safe to use from any thread.
class End {
 public:
  explicit End(const Stream& stream) : stream_(stream) {}

  /// Throws system if some of it has failed.
  bool reached();
  /// What has been queued since counts, too.
  void renew();

 private:
  const Stream& stream_;
  std::mutex mutex_;
  std::unique_ptr<const Event> event_;  // none: the stream was idle, or this was not asked yet
};

}  // namespace ringspan::comm::cuda
