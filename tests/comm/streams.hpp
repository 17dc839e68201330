// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "comm/devices/cuda/device.hpp"
#include "comm/launch.hpp"
#include "tests/comm/pattern.hpp"

namespace ringspan::comm::test {

inline const cuda::Stream& compute_stream(const Communicator& comm) {
  return dynamic_cast<cuda::CudaDevice&>(comm.device()).compute();
}

/// Queues a kernel: what the function does, in the order of the compute stream.
inline void queue_kernel(const Communicator& comm, std::function<void()> kernel) {
  auto owned = std::make_unique<std::function<void()>>(std::move(kernel));
  const cuda::Stream& stream = compute_stream(comm);
  const auto run = [](void* data) {
    const std::unique_ptr<std::function<void()>> function(
        static_cast<std::function<void()>*>(data));
    (*function)();
  };
  stream.gpu().check(stream.gpu().api().launch_host_function(stream.handle(), run, owned.get()),
                     "kernel");
  owned.release();  // to the stream
}

/// The same memory, not held on to: a kernel holds no buffers.
inline Slice borrowed(const Slice& slice) {
  Slice same = slice;
  same.buffer = Buffer(slice.buffer.data(), slice.buffer.bytes(), {});
  return same;
}

inline void queue_write(const Communicator& comm, const Slice& to, int round) {
  queue_kernel(
      comm, [to = borrowed(to), rank = comm.rank(), round] { write_pattern(to, rank, 0, round); });
}

/// Whether the slice holds what `source` wrote in that round, once the kernel has run.
inline std::shared_ptr<bool> queue_check(const Communicator& comm, const Slice& slice, int source,
                                         int round) {
  const auto right = std::make_shared<bool>(false);
  queue_kernel(comm, [slice = borrowed(slice), right, source, round] {
    *right = static_cast<bool>(has_pattern(slice, source, 0, round));
  });
  return right;
}

inline void sleep_in_kernel(const Communicator& comm, std::chrono::microseconds time) {
  queue_kernel(comm, [time] { std::this_thread::sleep_for(time); });
}

/// A kernel that does not end before it is let, at the latest when this goes.
class Gate {
 public:
  explicit Gate(const Communicator& comm) {
    queue_kernel(comm, [open = open_] { open->wait(false); });
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  void open() {
    *open_ = true;
    open_->notify_all();
  }

 private:
  const std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

/// To the next rank, from the previous one.
inline Request pass_on(const Communicator& comm, const Slice& out, const Slice& in) {
  Send sends[] = {{comm.next(), out}};
  Recv recvs[] = {{comm.prev(), in}};
  return comm.post("pass_on", sends, recvs);
}

}  // namespace ringspan::comm::test
