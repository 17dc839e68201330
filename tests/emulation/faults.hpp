// SPDX-License-Identifier: Apache-2.0
#pragma once

// What goes wrong in the emulation, for this process.
extern "C" {
/// Lets `times` calls of that name return `status` without doing anything, after `skip` that work.
/// Names are those of the driver and of NCCL. Besides,
///   ncclKernel        a group of messages that never ends unless it is aborted (status: any)
///   asyncError        what ncclCommGetAsyncError tells of a communicator
///   killed            the process is killed as it asks for that
///   eventClock        the time between two events is longer by that many percent
///   streamDelay       whatever is queued begins up to that many microseconds late, on every stream
///   peerAccess        a GPU does not reach another's memory (status: any)
///   ncclVersion       what ncclGetVersion tells, driverVersion likewise
void emulation_fail(const char* call, int skip, int times, int status);

/// The status that the next call of that name is to return; 0: none.
int emulation_injected(const char* call);

/// Of device memory, by cuMemAllocAsync, that has not been released yet.
long emulation_allocations();
/// Likewise of memory of the host, by cuMemHostAlloc.
long emulation_host_allocations();

/// Streams that have not been destroyed.
long emulation_streams();

/// Of device memory, by cuMemAlloc, that has not been released; allocations of other processes that
/// are open here.
long emulation_exportable();
long emulation_imports();
/// Whether there is a handle of what the address lies in, by cuIpcGetMemHandle.
bool emulation_handed_out(const void* address);

/// Memory as cuMemCreate gives it, exportable by handles of those kinds; how much of such memory,
/// also of other processes, is mapped here.
int emulation_create(unsigned long long* handle, unsigned long bytes, int kinds);
long emulation_mappings();
}
